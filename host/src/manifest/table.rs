//! Reading tables of a team file, value by value, with the place of each. What the keys mean is the readers' business.
//!
//! A table remembers which keys it was asked for; when it is dropped, it reports every other key as unknown. So no
//! list of keys has to be kept beside the code that reads them, and none can be forgotten.

mod item;

use std::cell::{Cell, RefCell};
use std::ops::Range;

use toml::de::{DeArray, DeTable, DeValue};

pub(super) use self::item::Item;
use super::diagnostic::Problems;
use super::schema::places::{ANY, below, places};
use crate::suggest::{almost, closest, suggest};

/// A value with the place it was written at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// Keys that people bring from elsewhere, with what to do instead.
const EXPLAINED: [(&str, &str); 1] = [(
    "n_round",
    "there is no count of rounds: a run ends when no message is left; `max_steps` under `[run]` is a safety stop",
)];

/// Words that people have for keys of ours. They are told where that key can stand.
const SYNONYMS: [(&str, &str); 6] = [
    ("condition", "when"),
    ("else", "default"),
    ("id", "name"),
    ("if", "when"),
    ("name", "id"),
    ("otherwise", "default"),
];

/// A table being read.
pub(super) struct Table<'a> {
    what: String,
    /// Its place in a team file, as `schema::places` names it; none in other files.
    at: Option<String>,
    pub(super) span: Range<usize>,
    entries: &'a DeTable<'a>,
    asked: RefCell<Vec<&'static str>>,
    /// Keys that cannot stand beside what is there.
    barred: RefCell<Vec<&'static str>>,
    missing: RefCell<Vec<Missing>>,
    names: Cell<Names>,
    pub(super) problems: &'a Problems,
}

/// Keys one of which has to be there, and the lines to add.
struct Missing {
    keys: Vec<&'static str>,
    lines: Vec<String>,
}

/// Who chooses the keys of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Ours,
    Theirs,
}

impl<'a> Table<'a> {
    /// The whole document.
    pub(super) fn root(entries: &'a DeTable<'a>, problems: &'a Problems) -> Self {
        Self::new(
            "a team file".into(),
            Some(String::new()),
            0..0,
            entries,
            problems,
        )
    }

    /// The whole document, of another kind of file.
    pub(super) fn root_of(what: &str, entries: &'a DeTable<'a>, problems: &'a Problems) -> Self {
        Self::new(what.into(), None, 0..0, entries, problems)
    }

    fn new(
        what: String,
        at: Option<String>,
        span: Range<usize>,
        entries: &'a DeTable<'a>,
        problems: &'a Problems,
    ) -> Self {
        Self {
            what,
            at,
            span,
            entries,
            asked: RefCell::default(),
            barred: RefCell::default(),
            missing: RefCell::default(),
            names: Cell::new(Names::Ours),
            problems,
        }
    }

    /// What is written under a key.
    pub(super) fn item(&self, key: &'static str) -> Option<Item<'a>> {
        self.asked.borrow_mut().push(key);
        let (name, value) = self.entries.get_key_value(key)?;
        let at = self.at.as_ref().map(|at| below(at, key));
        let item = Item::new((key, at), name.span(), value, self.problems);
        Some(if self.slip_for(key).is_some() {
            item.torn()
        } else {
            item
        })
    }

    /// An unknown key that was meant to be this one, where both are there: `[[roles]]`, with `[role.think]` below it.
    fn slip_for(&self, key: &str) -> Option<&str> {
        let (at, is_tables) = (self.at.as_ref()?, |value: &DeValue<'_>| {
            value.as_array().is_some_and(is_of_tables)
        });
        let is_torn = !self.entries.get(key)?.get_ref().is_array();
        let lists = self
            .entries
            .iter()
            .filter(|(_, value)| is_torn && is_tables(value.get_ref()));
        let mut names = lists.map(|(name, _)| name.get_ref().as_ref());
        // What may stand where is asked last: to find that out takes as long as to read a short file.
        names.find(|name| {
            closest(name, [key]).is_some()
                && places().is_list(&below(at, key))
                && !places().has(at, name)
                && closest(name, places().keys(at)) == Some(key)
        })
    }

    /// As `item`, and a problem if there is none.
    pub(super) fn required(&self, key: &'static str) -> Option<Item<'a>> {
        self.required_as(key, &format!("{key} = …"))
    }

    /// As `required`, with the line that is missing if there is none.
    pub(super) fn required_as(&self, key: &'static str, line: &str) -> Option<Item<'a>> {
        let item = self.item(key);
        if item.is_none() {
            self.missing.borrow_mut().push(Missing {
                keys: vec![key],
                lines: vec![line.to_owned()],
            });
        }
        item
    }

    /// Reports that none of these keys is there.
    pub(super) fn lacks(&self, keys: &[&'static str]) {
        let lines = keys.iter().map(|key| format!("{key} = …")).collect();
        self.missing.borrow_mut().push(Missing {
            keys: keys.to_vec(),
            lines,
        });
    }

    /// Keys that cannot stand beside what is there: nobody is advised to write them.
    pub(super) fn bar(&self, keys: &[&'static str]) {
        self.barred.borrow_mut().extend(keys);
    }

    /// All entries of a table whose keys are names that the author chose.
    pub(super) fn entries(&self) -> impl Iterator<Item = Item<'a>> {
        self.names.set(Names::Theirs);
        let problems = self.problems;
        let at = self.at.as_ref().map(|at| below(at, ANY));
        self.entries.iter().map(move |(name, value)| {
            let key: &str = name.get_ref();
            Item::new((key, at.clone()), name.span(), value, problems)
        })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The keys that could be added.
    fn free(&self) -> Vec<&'static str> {
        let barred = self.barred.borrow();
        let asked = self.asked.borrow();
        asked
            .iter()
            .copied()
            .filter(|key| !self.has(key) && !barred.contains(key))
            .collect()
    }

    /// What to write in place of an unknown key. Nothing that is there already, or cannot be there.
    fn hint(&self, key: &str, free: &[&str]) -> String {
        if self.problems.are_many() {
            // It is not shown, and each costs a look at all that is there.
            return String::new();
        }
        if let Some((_, text)) = EXPLAINED.iter().find(|(known, _)| *known == key) {
            return (*text).to_owned();
        }
        let mut torn = self.asked.borrow().clone();
        torn.retain(|asked| self.slip_for(asked) == Some(key));
        if let (Some(at), Some(meant)) = (&self.at, torn.first()) {
            return format!("write {}", places().head(&below(at, meant)));
        }
        let can_be = |table: &str| !self.barred.borrow().contains(&table);
        let near = self
            .at
            .as_ref()
            .and_then(|at| places().near(at, key, can_be));
        near.or_else(|| meant(key, free).map(|meant| format!("did you mean `{meant}`?")))
            .or_else(|| self.at.as_ref().and_then(|at| places().elsewhere(at, key)))
            .or_else(|| {
                self.written(key)
                    .map(|meant| format!("`{meant}` is there already; remove one of the two"))
            })
            .or_else(|| suggest(key, free))
            .unwrap_or_else(|| "remove it".into())
    }

    /// The key that was most likely meant, where that is there as well.
    fn written(&self, key: &str) -> Option<&'static str> {
        almost(
            key,
            self.asked
                .borrow()
                .iter()
                .copied()
                .filter(|asked| self.has(asked)),
        )
    }

    /// Remembers what may be in an unknown key.
    fn unread(&self, key: &str, meant: Option<&str>) {
        let Some(at) = &self.at else { return };
        let value = self.entries.get(key).map(|value| value.get_ref());
        let holds_more = value.is_some_and(|value| value.is_table() || value.is_array());
        match meant {
            // It may be any of the tables.
            _ if at.is_empty() && holds_more => self.problems.unread(String::new()),
            Some(meant) => self.problems.unread(below(at, meant)),
            None if holds_more => self.problems.unread(below(at, key)),
            None => {}
        }
    }
}

/// The key that was most likely meant by a word.
fn meant<'k>(word: &str, free: &[&'k str]) -> Option<&'k str> {
    let ours = SYNONYMS
        .iter()
        .filter(|(known, _)| *known == word)
        .map(|(_, ours)| *ours);
    let synonym = free
        .iter()
        .copied()
        .find(|key| ours.clone().any(|ours| ours == *key));
    synonym.or_else(|| closest(word, free.iter().copied()))
}

fn is_of_tables(array: &DeArray<'_>) -> bool {
    !array.is_empty() && array.iter().all(|item| item.get_ref().is_table())
}

/// Codes, one of which is enough.
fn one_of<T: std::fmt::Display>(codes: &[T]) -> String {
    let codes: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
    match codes.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => codes.concat(),
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        if self.names.get() == Names::Theirs {
            return;
        }
        let asked = self.asked.borrow();
        let unknown = self.entries.keys().filter(|name| {
            let key: &str = name.get_ref();
            !asked.contains(&key)
        });
        let free = self.free();
        let mut missing = self.missing.take();
        for name in unknown {
            let key: &str = name.get_ref();
            // A slip of the pen is one problem, not an unknown key and a missing one.
            let meant = meant(key, &free);
            missing.retain(|missing| !missing.keys.iter().any(|key| Some(*key) == meant));
            self.unread(key, meant);
            let hint = self.hint(key, &free);
            let message = format!("{} has no key `{key}`", self.what);
            let problem = self.problems.at(&name.span(), message);
            self.problems.add(problem.hint(hint));
        }
        for Missing { keys, lines } in missing {
            let problem = self
                .problems
                .at(&self.span, format!("{} needs {}", self.what, one_of(&keys)));
            self.problems
                .add(problem.hint(format!("add {}", one_of(&lines))));
        }
    }
}
