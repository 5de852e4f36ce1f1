//! Reads the tables of a team file, value by value, with the position of each. What the keys mean
//! is up to the callers.
//!
//! A table records which keys were looked up. When it is dropped, it reports every other key as
//! unknown. So no list of keys must be kept in step with the code that reads them, and none can be
//! forgotten. The same calls describe the keys; see `key`.

mod item;
mod key;

use std::cell::{Cell, RefCell};
use std::ops::Range;

use serde_json::Value;
use strata_base::text::suggest::{closest, closest_typo, suggest};
use toml::de::{DeArray, DeTable, DeValue};

pub(super) use self::item::TomlItem;
pub(super) use self::key::TomlKey;
use super::diagnostic::Problems;
use super::schema::TableSchema;
use super::schema::table_index::{ANY_NAME, TableIndex, child_path, table_index};

/// A value with its span in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// Keys of other programs, with what to do instead.
const EXPLAINED_KEYS: [(&str, &str); 1] = [(
    "n_round",
    "there is no count of rounds: a run ends when no message is left; `max_steps` under `[run]` is a safety stop",
)];

/// Synonyms of keys. The hint for a synonym names the key, if the key is possible in that table.
const SYNONYMS: [(&str, &str); 6] = [
    ("condition", "when"),
    ("else", "default"),
    ("id", "name"),
    ("if", "when"),
    ("name", "id"),
    ("otherwise", "default"),
];

/// A table being read.
pub(super) struct TomlTable<'a> {
    description: String,
    /// Its path in the file, as in `schema::table_index`.
    path: String,
    pub(super) span: Range<usize>,
    entries: &'a DeTable<'a>,
    known_keys: RefCell<Vec<&'static str>>,
    /// Keys that exclude others that are present.
    excluded_keys: RefCell<Vec<&'static str>>,
    missing: RefCell<Vec<MissingKeys>>,
    key_owner: Cell<KeyOwner>,
    /// The description of the table, if it is described instead of read.
    described: Option<RefCell<TableSchema>>,
    pub(super) problems: &'a Problems,
}

/// Missing keys, one of which is required, and the lines to add.
struct MissingKeys {
    keys: Vec<&'static str>,
    lines: Vec<String>,
}

/// Who determines the keys of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyOwner {
    Schema,
    Author,
}

impl<'a> TomlTable<'a> {
    /// Creates the root table of a file.
    pub(super) fn root(entries: &'a DeTable<'a>, problems: &'a Problems) -> Self {
        Self::new(
            format!("a {} file", problems.file.word()),
            String::new(),
            0..0,
            entries,
            problems,
        )
    }

    /// Creates a table that is not read but described: readers find it empty, and it collects the
    /// descriptions of the keys that they look up. `entries` is empty.
    pub(super) fn described(entries: &'a DeTable<'a>, problems: &'a Problems) -> Self {
        let mut table = Self::new(String::new(), String::new(), 0..0, entries, problems);
        table.described = Some(RefCell::default());
        table
    }

    fn new(
        description: String,
        path: String,
        span: Range<usize>,
        entries: &'a DeTable<'a>,
        problems: &'a Problems,
    ) -> Self {
        Self {
            description,
            path,
            span,
            entries,
            known_keys: RefCell::default(),
            excluded_keys: RefCell::default(),
            missing: RefCell::default(),
            key_owner: Cell::new(KeyOwner::Schema),
            described: None,
            problems,
        }
    }

    /// Returns a key, of which `about` says what it is for.
    pub(super) fn key(&self, name: &'static str, about: &'static str) -> TomlKey<'_, 'a> {
        TomlKey::new(self, name, about)
    }

    /// Adds a rule about several keys to the description: a keyword of JSON Schema. The caller
    /// checks it.
    pub(super) fn rule(&self, keyword: &'static str, schema: impl FnOnce() -> Value) {
        if let Some(described) = &self.described {
            described.borrow_mut().add_rule(keyword, schema());
        }
    }

    /// Gives the description a name, under which it stands in the definitions of the schema.
    pub(super) fn define_as(&self, name: &'static str) {
        if let Some(described) = &self.described {
            described.borrow_mut().definition = Some(name);
        }
    }

    /// Returns the description of the table. Returns `None` if the table is read.
    pub(super) fn schema(&self) -> Option<Value> {
        Some(self.described.as_ref()?.take().into_schema())
    }

    /// Returns the description of a table below this one.
    pub(super) fn describe_nested<T>(&self, read: impl FnOnce(&TomlTable<'a>) -> T) -> Value {
        let nested = Self::described(self.entries, self.problems);
        read(&nested);
        nested.schema().unwrap_or_default()
    }

    /// Returns the value of a key.
    fn item(&self, key: &'static str) -> Option<TomlItem<'a>> {
        self.known_keys.borrow_mut().push(key);
        let (name, value) = self.entries.get_key_value(key)?;
        let at = child_path(&self.path, key);
        let item = TomlItem::new(key, name.span(), at, value, self.problems);
        Some(if self.misspelling_of(key).is_some() {
            item.into_split()
        } else {
            item
        })
    }

    /// Returns an unknown key that is a misspelling of this one, if both are present: a list
    /// `[[roles]]`, and the table that `[role.think]` below it implies.
    fn misspelling_of(&self, key: &str) -> Option<&str> {
        let is_tables = |value: &DeValue<'_>| value.as_array().is_some_and(is_list_of_tables);
        let is_torn = !self.entries.get(key)?.get_ref().is_array();
        let lists = self
            .entries
            .iter()
            .filter(|(_, value)| is_torn && is_tables(value.get_ref()));
        let mut names = lists.map(|(name, _)| name.get_ref().as_ref());
        // The index is consulted last: building it takes as long as reading a short file.
        names.find(|name| {
            closest(name, [key]).is_some()
                && self.index().is_list(&child_path(&self.path, key))
                && !self.index().has(&self.path, name)
                && closest(name, self.index().keys(&self.path)) == Some(key)
        })
    }

    /// Reports that none of these keys is present, one of which is required.
    pub(super) fn report_missing_one_of(&self, keys: &[&'static str]) {
        self.report_missing(keys, keys.iter().map(|key| format!("{key} = …")).collect());
    }

    /// Reports that none of these keys is present, one of which is required, with the lines to add.
    fn report_missing(&self, keys: &[&'static str], lines: Vec<String>) {
        self.missing.borrow_mut().push(MissingKeys {
            keys: keys.to_vec(),
            lines,
        });
    }

    /// Excludes keys from suggestions, because they conflict with keys that are present.
    pub(super) fn exclude(&self, keys: &[&'static str]) {
        self.excluded_keys.borrow_mut().extend(keys);
    }

    /// Returns all entries of a table whose keys are names that the author chose.
    pub(super) fn entries(&self) -> impl Iterator<Item = TomlItem<'a>> {
        self.key_owner.set(KeyOwner::Author);
        let problems = self.problems;
        let at = child_path(&self.path, ANY_NAME);
        self.entries.iter().map(move |(name, value)| {
            let key: &str = name.get_ref();
            TomlItem::new(key, name.span(), at.clone(), value, problems)
        })
    }

    /// Returns the index of the tables of the file.
    fn index(&self) -> &'static TableIndex {
        table_index(self.problems.file)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns the keys that could be added.
    fn available_keys(&self) -> Vec<&'static str> {
        let barred = self.excluded_keys.borrow();
        let known_keys = self.known_keys.borrow();
        known_keys
            .iter()
            .copied()
            .filter(|key| !self.has(key) && !barred.contains(key))
            .collect()
    }

    /// Returns the hint for an unknown key. It never suggests a key that is present already or that
    /// conflicts with one.
    fn unknown_key_hint(&self, key: &str, free: &[&str]) -> String {
        if self.problems.has_many() {
            // It would not be shown, and computing it means comparing all keys.
            return String::new();
        }
        if let Some((_, text)) = EXPLAINED_KEYS.iter().find(|(known, _)| *known == key) {
            return (*text).to_owned();
        }
        let mut torn = self.known_keys.borrow().clone();
        torn.retain(|known| self.misspelling_of(known) == Some(key));
        if let Some(meant) = torn.first() {
            let meant = child_path(&self.path, meant);
            return format!("write {}", self.index().quoted_header(&meant));
        }
        let can_be = |table: &str| !self.excluded_keys.borrow().contains(&table);
        self.index()
            .nearby_hint(&self.path, key, can_be)
            .or_else(|| intended_key(key, free).map(|meant| format!("did you mean `{meant}`?")))
            .or_else(|| self.index().unique_table_hint(&self.path, key))
            .or_else(|| {
                self.duplicated_key(key)
                    .map(|meant| format!("`{meant}` is there already; remove one of the two"))
            })
            .or_else(|| suggest(key, free))
            .unwrap_or_else(|| "remove it".into())
    }

    /// Returns the key that was most likely meant, if that key is present as well.
    fn duplicated_key(&self, key: &str) -> Option<&'static str> {
        closest_typo(
            key,
            self.known_keys
                .borrow()
                .iter()
                .copied()
                .filter(|known| self.has(known)),
        )
    }

    /// Records the path of the value of an unknown key as unread, since other keys may seem to be
    /// missing because of it.
    fn mark_unread(&self, key: &str, meant: Option<&str>) {
        let at = &self.path;
        let value = self.entries.get(key).map(|value| value.get_ref());
        let holds_more = value.is_some_and(|value| value.is_table() || value.is_array());
        match meant {
            // At the root it may have been meant as any of the tables.
            _ if at.is_empty() && holds_more => self.problems.mark_unread(String::new()),
            Some(meant) => self.problems.mark_unread(child_path(at, meant)),
            None if holds_more => self.problems.mark_unread(child_path(at, key)),
            None => {}
        }
    }
}

/// Returns the key that was most likely meant by a word.
fn intended_key<'k>(word: &str, free: &[&'k str]) -> Option<&'k str> {
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

fn is_list_of_tables(array: &DeArray<'_>) -> bool {
    !array.is_empty() && array.iter().all(|item| item.get_ref().is_table())
}

/// Joins alternatives, each quoted: `` `a`, `b` or `c` ``.
fn join_alternatives<T: std::fmt::Display>(codes: &[T]) -> String {
    let codes: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
    match codes.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => codes.concat(),
    }
}

impl Drop for TomlTable<'_> {
    fn drop(&mut self) {
        if self.key_owner.get() == KeyOwner::Author || self.described.is_some() {
            return;
        }
        let known_keys = self.known_keys.borrow();
        let unknown = self.entries.keys().filter(|name| {
            let key: &str = name.get_ref();
            !known_keys.contains(&key)
        });
        let free = self.available_keys();
        let mut missing = self.missing.take();
        for name in unknown {
            let key: &str = name.get_ref();
            // A misspelt key is reported once, not as an unknown key and a missing one.
            let meant = intended_key(key, &free);
            missing.retain(|missing| !missing.keys.iter().any(|key| Some(*key) == meant));
            self.mark_unread(key, meant);
            let hint = self.unknown_key_hint(key, &free);
            let message = format!("{} has no key `{key}`", self.description);
            let problem = self.problems.at(&name.span(), message);
            self.problems.add(problem.hint(hint));
        }
        for MissingKeys { keys, lines } in missing {
            let problem = self.problems.at(
                &self.span,
                format!("{} needs {}", self.description, join_alternatives(&keys)),
            );
            self.problems
                .add(problem.hint(format!("add {}", join_alternatives(&lines))));
        }
    }
}
