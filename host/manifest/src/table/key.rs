//! A key of a table: its name, its description and its value.
//!
//! A key is described where it is read, so neither can be forgotten or differ from the other. To
//! describe a table, `schema` calls the function that reads it, with an empty table that collects
//! the descriptions. So such a function looks up all keys, whatever their values are.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::Value;

use super::{Located, TomlItem, TomlTable};
use crate::schema::{KeyPresence, kind, list_schema, map_schema};

/// A key that is looked up and described by the method that returns its value.
pub(crate) struct TomlKey<'t, 'a> {
    table: &'t TomlTable<'a>,
    name: &'static str,
    about: &'static str,
    presence: KeyPresence,
    /// The line to add if the key is required and missing. `None` if the caller reports that.
    line: Option<String>,
    /// Further keywords of its schema.
    keywords: Vec<(&'static str, Value)>,
}

impl<'t, 'a> TomlKey<'t, 'a> {
    pub(super) fn new(table: &'t TomlTable<'a>, name: &'static str, about: &'static str) -> Self {
        Self {
            table,
            name,
            about,
            presence: KeyPresence::Optional,
            line: None,
            keywords: Vec::new(),
        }
    }

    /// Makes the key required.
    pub(crate) fn required(self) -> Self {
        let line = format!("{} = …", self.name);
        self.required_with_line(&line)
    }

    /// Makes the key required. `line` is what to add if it is missing.
    pub(crate) fn required_with_line(mut self, line: &str) -> Self {
        self.line = Some(line.to_owned());
        self.described_as_required()
    }

    /// Describes the key as required. The caller reports it if it is missing.
    pub(crate) fn described_as_required(mut self) -> Self {
        self.presence = KeyPresence::Required;
        self
    }

    /// Describes the default. The caller uses it if the key is missing.
    pub(crate) fn default(self, default: impl Into<Value>) -> Self {
        self.keyword("default", default)
    }

    /// Adds a keyword to the schema of the value.
    pub(crate) fn keyword(mut self, keyword: &'static str, value: impl Into<Value>) -> Self {
        if self.table.described.is_some() {
            self.keywords.push((keyword, value.into()));
        }
        self
    }

    /// Returns the value, whose kind `schema` describes.
    pub(crate) fn value(self, schema: impl FnOnce() -> Value) -> Option<TomlItem<'a>> {
        if let Some(described) = &self.table.described {
            let mut schema = schema();
            schema["description"] = self.about.into();
            for (keyword, value) in self.keywords {
                schema[keyword] = value;
            }
            described
                .borrow_mut()
                .add_key(self.name, schema, self.presence);
        }
        let item = self.table.item(self.name);
        if let (None, Some(line)) = (&item, self.line) {
            self.table.report_missing(&[self.name], vec![line]);
        }
        item
    }

    /// Returns the value, a table that `read` reads.
    pub(crate) fn table_item<T>(
        self,
        read: impl FnOnce(&TomlTable<'a>) -> T,
    ) -> Option<TomlItem<'a>> {
        let table = self.table;
        self.value(|| table.describe_nested(read))
    }

    /// Returns the value, a list of tables that `read` reads.
    pub(crate) fn list_item<T>(
        self,
        read: impl FnOnce(&TomlTable<'a>) -> T,
    ) -> Option<TomlItem<'a>> {
        let table = self.table;
        self.value(|| list_schema(table.describe_nested(read)))
    }

    /// Returns the value, a table with names as keys, and a table that `read` reads for each.
    pub(crate) fn map_item<T>(
        self,
        read: impl FnOnce(&TomlTable<'a>) -> T,
    ) -> Option<TomlItem<'a>> {
        let table = self.table;
        self.value(|| map_schema(table.describe_nested(read)))
    }

    /// Reads a table. `what` names it in messages.
    pub(crate) fn table<T>(self, what: &str, read: impl Fn(&TomlTable<'a>) -> T) -> Option<T> {
        let item = self.table_item(&read)?;
        item.table(what).map(|table| read(&table))
    }

    /// Reads a list of tables. `what` names each of them in messages.
    pub(crate) fn tables<T>(self, what: &str, read: impl Fn(&TomlTable<'a>) -> T) -> Vec<T> {
        let item = self.list_item(&read);
        let tables = item.map(|item| item.tables(what)).unwrap_or_default();
        tables.iter().map(read).collect()
    }

    /// Reads a string.
    pub(crate) fn text(self) -> Option<Located<String>> {
        self.value(kind::text)?.text()
    }

    /// Reads the name of a role, an action or the like. Whether it is valid is checked in `names`.
    pub(crate) fn name(self) -> Option<Located<String>> {
        self.value(kind::name)?.text()
    }

    /// Reads a string that matches a regular expression, which the caller checks.
    pub(crate) fn matching(self, pattern: &str) -> Option<TomlItem<'a>> {
        self.value(|| kind::matching(pattern))
    }

    /// Reads a list of distinct strings.
    pub(crate) fn unique_texts(self) -> Vec<Located<String>> {
        let item = self.value(kind::unique_texts);
        item.map(|item| item.unique_strings()).unwrap_or_default()
    }

    /// Reads a boolean. Returns `default` if it is missing or invalid.
    pub(crate) fn boolean(self, default: bool) -> bool {
        let item = self.value(|| kind::boolean(default));
        item.and_then(|item| item.boolean()).unwrap_or(default)
    }

    /// Reads an integer within a range.
    pub(crate) fn integer(self, range: RangeInclusive<u64>) -> Option<u64> {
        self.value(|| kind::integer(range.clone()))?.integer(range)
    }

    /// Reads an amount in USD.
    pub(crate) fn amount(self) -> Option<f64> {
        self.value(kind::amount)?.amount()
    }

    /// Reads a duration, which may be zero.
    pub(crate) fn duration(self) -> Option<Duration> {
        self.value(|| kind::duration(Duration::ZERO))?.duration()
    }

    /// Returns the value, which is one of a few words.
    pub(crate) fn one_of<T>(self, words: &[(&str, T)]) -> Option<TomlItem<'a>> {
        self.value(|| kind::word_enum(words.iter().map(|(word, _)| *word)))
    }

    /// Reads one of a few words, and returns the value that belongs to it.
    pub(crate) fn choice<T: Copy>(self, words: &[(&str, T)]) -> Option<T> {
        self.one_of(words)?.choice(words)
    }
}
