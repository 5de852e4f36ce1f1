//! Reading tables of a team file, value by value, with the place of each. What the keys mean is the readers' business.
//!
//! A table remembers which keys it was asked for; when it is dropped, it reports every other key as unknown. So no
//! list of keys has to be kept beside the code that reads them, and none can be forgotten.

mod item;

use std::cell::{Cell, RefCell};
use std::ops::Range;

use toml::de::DeTable;

pub(super) use self::item::Item;
use super::diagnostic::{Problems, closest, suggest};

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

/// A table being read.
pub(super) struct Table<'a> {
    what: String,
    pub(super) span: Range<usize>,
    entries: &'a DeTable<'a>,
    asked: RefCell<Vec<&'static str>>,
    missing: RefCell<Vec<(&'static str, String)>>,
    names: Cell<Names>,
    pub(super) problems: &'a Problems,
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
        Self::root_of("a team file", entries, problems)
    }

    /// The whole document, of another kind of file.
    pub(super) fn root_of(what: &str, entries: &'a DeTable<'a>, problems: &'a Problems) -> Self {
        Self::new(what.into(), 0..0, entries, problems)
    }

    fn new(what: String, span: Range<usize>, entries: &'a DeTable<'a>, problems: &'a Problems) -> Self {
        Self {
            what,
            span,
            entries,
            asked: RefCell::default(),
            missing: RefCell::default(),
            names: Cell::new(Names::Ours),
            problems,
        }
    }

    /// What is written under a key.
    pub(super) fn item(&self, key: &'static str) -> Option<Item<'a>> {
        self.asked.borrow_mut().push(key);
        let (name, value) = self.entries.get_key_value(key)?;
        Some(Item::new(key, name.span(), value, self.problems))
    }

    /// As `item`, and a problem if there is none.
    pub(super) fn required(&self, key: &'static str) -> Option<Item<'a>> {
        self.required_as(key, &format!("{key} = …"))
    }

    /// As `required`, with the line that is missing if there is none.
    pub(super) fn required_as(&self, key: &'static str, line: &str) -> Option<Item<'a>> {
        let item = self.item(key);
        if item.is_none() {
            self.missing.borrow_mut().push((key, line.to_owned()));
        }
        item
    }

    /// All entries of a table whose keys are names that the author chose.
    pub(super) fn entries(&self) -> impl Iterator<Item = Item<'a>> {
        self.names.set(Names::Theirs);
        let problems = self.problems;
        self.entries.iter().map(move |(name, value)| Item::new(name.get_ref(), name.span(), value, problems))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// What to write in place of an unknown key.
    fn hint(&self, key: &str, meant: Option<&str>) -> Option<String> {
        if let Some((_, text)) = EXPLAINED.iter().find(|(known, _)| *known == key) {
            return Some((*text).to_owned());
        }
        if let Some(meant) = meant.filter(|meant| self.has(meant)) {
            return Some(format!("did you mean `{meant}`? That is there already"));
        }
        let asked = self.asked.borrow();
        let free: Vec<&str> = asked.iter().copied().filter(|k| !self.has(k)).collect();
        suggest(key, &free)
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
        let mut missing = self.missing.take();
        for name in unknown {
            let key: &str = name.get_ref();
            // A slip of the pen is one problem, not an unknown key and a missing one.
            let meant = closest(key, asked.iter().copied());
            missing.retain(|(key, _)| Some(*key) != meant);
            let hint = self.hint(key, meant);
            let message = format!("{} has no key `{key}`", self.what);
            let problem = self.problems.at(&name.span(), message);
            self.problems.add(match hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            });
        }
        for (key, line) in missing {
            let message = format!("{} needs `{key}`", self.what);
            let problem = self.problems.at(&self.span, message);
            self.problems.add(problem.hint(format!("add `{line}`")));
        }
    }
}
