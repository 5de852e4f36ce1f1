//! Reads one value of a team file: checks its type and range and parses its unit. Which keys exist
//! is handled in `table`.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use strata_base::advice::Hint;
use strata_base::text::suggest::closest;
use strata_base::text::units;
use toml::Spanned;
use toml::de::DeValue;

use super::{Located, TomlTable};
use crate::diagnostic::{Diagnostic, Problems};
use crate::json;
use crate::names::check_legible;
use crate::schema::table_index::table_index;

/// A key with its value.
pub(crate) struct TomlItem<'a> {
    pub(crate) key: &'a str,
    pub(crate) key_span: Range<usize>,
    /// Its path in the file, as in `schema::table_index`.
    path: String,
    value: &'a Spanned<DeValue<'a>>,
    extent: ItemExtent,
    problems: &'a Problems,
}

/// Which part of a key's value an item is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemExtent {
    Whole,
    /// The rest is under a misspelt key, which is reported there.
    Split,
    Element,
}

impl<'a> TomlItem<'a> {
    /// Returns whether files that are named are checked.
    pub(crate) fn checks_files(&self) -> bool {
        self.problems.checks_files()
    }

    /// Creates an item with the whole value of a key.
    pub(super) fn new(
        key: &'a str,
        key_span: Range<usize>,
        path: String,
        value: &'a Spanned<DeValue<'a>>,
        problems: &'a Problems,
    ) -> Self {
        Self {
            key,
            key_span,
            path,
            value,
            extent: ItemExtent::Whole,
            problems,
        }
    }

    /// Marks the item as incomplete, because the rest of the value is under a misspelt key.
    pub(super) fn into_split(self) -> Self {
        Self {
            extent: ItemExtent::Split,
            ..self
        }
    }

    /// Returns the span of the value.
    pub(crate) fn span(&self) -> Range<usize> {
        self.value.span()
    }

    /// Returns the directory that relative paths are relative to.
    pub(crate) fn base_dir(&self) -> &Path {
        &self.problems.source.base
    }

    /// Adds a problem that is elsewhere, in a file that the value names.
    pub(crate) fn add_problem(&self, problem: Diagnostic) {
        self.problems.add(problem);
    }

    /// Records a file that the value names.
    pub(crate) fn add_file(&self, file: &Path) {
        self.problems.add_file(file.to_owned());
    }

    /// Returns whether the value is a string.
    pub(crate) fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// Returns whether the value is a table.
    pub(crate) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// Reports a problem with the value.
    pub(crate) fn reject(&self, message: impl Into<String>, hint: impl Into<Hint>) {
        let problem = self.problems.at(&self.span(), message);
        self.problems.add(problem.hint(hint));
    }

    /// Reports a problem with the value without showing it, since it may be a secret.
    pub(crate) fn reject_secret(&self, message: impl Into<String>, hint: impl Into<Hint>) {
        self.problems.mark_secret(self.span());
        self.reject(message, hint);
    }

    /// Returns whether it is a table only because a table below it is written:
    /// `[role.action.allow]` without `[[role.action]]`.
    fn is_implied(&self) -> bool {
        // The span of such a table is that of its name in the header of the other.
        !self.problems.text(&self.span()).starts_with(['[', '{'])
    }

    /// Returns the header of the table that the value should be, quoted.
    fn quoted_header(&self) -> String {
        table_index(self.problems.file).quoted_header(&self.path)
    }

    fn mark_unread(&self) {
        self.problems.mark_unread(self.path.clone());
    }

    fn report_type(&self, expected: &str) {
        self.mark_unread();
        let found = match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let message = match self.extent {
            ItemExtent::Whole | ItemExtent::Split => format!("`{}` is {found}", self.key),
            ItemExtent::Element => format!("an element of `{}` is {found}", self.key),
        };
        self.reject(message, format!("expected {expected}"));
    }

    /// Reads a string.
    pub(crate) fn text(&self) -> Option<Located<String>> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.report_type("a string: `\"…\"`");
        }
        let span = self.span();
        text.map(|text| Located {
            value: text.to_owned(),
            span,
        })
    }

    /// Reads a string that is a name or refers to one, so it must not contain invisible characters.
    pub(crate) fn legible_text(&self) -> Option<Located<String>> {
        self.text()
            .filter(|text| check_legible(text, self.problems))
    }

    /// Reads a list of strings.
    pub(crate) fn strings(&self) -> Vec<Located<String>> {
        let items = self.elements("a list of strings: `[\"…\"]`");
        items.filter_map(|item| item.text()).collect()
    }

    /// Reads a list of distinct strings.
    pub(crate) fn unique_strings(&self) -> Vec<Located<String>> {
        let mut seen: BTreeMap<String, Range<usize>> = BTreeMap::new();
        let mut texts = self.strings();
        texts.retain(|text| {
            let Some(first) = seen.insert(text.value.clone(), text.span.clone()) else {
                return true;
            };
            let message = format!("`{}` is listed twice in `{}`", text.value, self.key);
            let problem = self.problems.at(&text.span, message);
            self.problems.add(
                problem
                    .also(first, "already here")
                    .hint("remove one of them"),
            );
            false
        });
        texts
    }

    /// Returns whether the value is an empty list.
    pub(crate) fn is_empty_list(&self) -> bool {
        let array = self.value.get_ref().as_array();
        array.is_some_and(|array| array.is_empty())
    }

    /// Returns the key, for tables whose keys are names that the author chose.
    pub(crate) fn key_name(&self) -> Located<String> {
        Located {
            value: self.key.to_owned(),
            span: self.key_span.clone(),
        }
    }

    pub(crate) fn elements(&self, expected: &str) -> impl Iterator<Item = TomlItem<'a>> {
        let array = self.value.get_ref().as_array();
        if array.is_none() {
            self.report_type(expected);
        }
        let (key, key_span, at, problems) = (
            self.key,
            self.key_span.clone(),
            self.path.clone(),
            self.problems,
        );
        let values = array.into_iter().flat_map(|array| array.iter());
        values.map(move |value| {
            let (key_span, at) = (key_span.clone(), at.clone());
            TomlItem {
                key,
                key_span,
                path: at,
                value,
                extent: ItemExtent::Element,
                problems,
            }
        })
    }

    /// Reads a boolean.
    pub(crate) fn boolean(&self) -> Option<bool> {
        let flag = self.value.get_ref().as_bool();
        if flag.is_none() {
            self.report_type("`true` or `false`");
        }
        flag
    }

    /// Reads an integer within a range.
    pub(crate) fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        // The maximum of a 64-bit field is not worth mentioning.
        let expected = match *range.end() {
            end if end > u64::from(u32::MAX) => format!("a whole number from {}", range.start()),
            end => format!("a whole number from {} to {end}", range.start()),
        };
        let DeValue::Integer(integer) = self.value.get_ref() else {
            self.report_type(&expected);
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|n| range.contains(n));
        if number.is_none() {
            let text = self.problems.text(&self.span());
            let message = format!("`{}` cannot be `{text}`", self.key);
            self.reject(message, format!("expected {expected}"));
        }
        number
    }

    /// Reads an amount in USD, which must not be negative.
    pub(crate) fn amount(&self) -> Option<f64> {
        let text = match self.value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => {
                self.report_type("an amount in USD: `1.5`");
                return None;
            }
        };
        let amount = text.parse().ok();
        let amount = amount.filter(|amount| units::AMOUNTS.contains(amount));
        if amount.is_none() {
            let message = format!("`{}` cannot be `{text}`", self.key);
            self.reject(
                message,
                "expected an amount in USD, not negative and at most 18 million: `1.5`",
            );
        }
        amount
    }

    /// Reads a number of bytes.
    pub(crate) fn size(&self) -> Option<u64> {
        match self.value.get_ref() {
            DeValue::Integer(_) => self.integer(0..=i64::MAX as u64),
            DeValue::String(text) => self.parse_quantity(text, "size", units::parse_size),
            _ => {
                self.report_type("a size: `\"64MiB\"`");
                None
            }
        }
    }

    /// Reads a number of tokens.
    pub(crate) fn token_count(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let count = match self.value.get_ref() {
            DeValue::Integer(_) => return self.integer(range),
            DeValue::String(text) => {
                self.parse_quantity(text, "number of tokens", units::parse_token_count)?
            }
            _ => {
                self.report_type("a number of tokens: `\"100k\"`");
                return None;
            }
        };
        if !range.contains(&count) {
            let (least, most) = (range.start(), range.end());
            self.reject(
                format!("`{}` cannot be {count}", self.key),
                format!("a number from {least} to {most}"),
            );
            return None;
        }
        Some(count)
    }

    /// Reads a duration.
    pub(crate) fn duration(&self) -> Option<Duration> {
        match self.value.get_ref() {
            DeValue::String(text) => self.parse_quantity(text, "duration", units::parse_duration),
            _ => {
                self.report_type("a duration with its unit: `\"10s\"`");
                None
            }
        }
    }

    fn parse_quantity<T>(
        &self,
        text: &str,
        kind: &str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(text) {
            Ok(value) => Some(value),
            Err(hint) => {
                let message = format!("`{}` cannot be the {kind} `{text}`", self.key);
                self.reject(message, hint);
                None
            }
        }
    }

    /// Reads one of a few words, and returns the value that belongs to it.
    pub(crate) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text.value);
        if found.is_none() {
            let allowed: Vec<String> = words.iter().map(|(w, _)| format!("`{w}`")).collect();
            let message = format!("`{}` cannot be `{}`", self.key, text.value);
            let meant = closest(&text.value, words.iter().map(|(word, _)| *word));
            let meant = meant
                .map(|meant| format!("did you mean `{meant}`? It is "))
                .unwrap_or_default();
            self.reject(message, format!("{meant}one of {}", allowed.join(", ")));
            self.mark_unread();
        }
        found.map(|(_, value)| *value)
    }

    /// Converts any value to JSON, for a recipient that problems name: "a component".
    pub(crate) fn json(&self, recipient: &str) -> Value {
        json::from_toml(self.value, recipient, self.problems)
    }

    /// Reads a table. `what` names it in messages.
    pub(crate) fn table(&self, what: impl Into<String>) -> Option<TomlTable<'a>> {
        let entries = self.value.get_ref().as_table();
        if let Some(only) = self
            .value
            .get_ref()
            .as_array()
            .filter(|array| array.len() == 1)
            .and_then(|a| a.first())
            && let Some(entries) = only.get_ref().as_table()
        {
            self.report_type(&format!("a table: write {}", self.quoted_header()));
            return Some(TomlTable::new(
                what.into(),
                self.path.clone(),
                only.span(),
                entries,
                self.problems,
            ));
        }
        if entries.is_none() {
            self.report_type("a table");
        }
        entries.map(|entries| {
            TomlTable::new(
                what.into(),
                self.path.clone(),
                self.span(),
                entries,
                self.problems,
            )
        })
    }

    /// Reads a list of tables. `what` names each of them in messages. A single table is reported
    /// but read as a list of one, so that other problems in it are found and its contents do not
    /// seem to be missing elsewhere.
    pub(crate) fn tables(&self, what: &str) -> Vec<TomlTable<'a>> {
        if self.extent == ItemExtent::Split {
            return Vec::new();
        }
        let Some(entries) = self.value.get_ref().as_table() else {
            return self
                .elements("a list of tables")
                .filter_map(|item| item.table(what))
                .collect();
        };
        if self.is_implied() {
            self.report_type(&format!(
                "a list of tables: write {} before what belongs to it",
                self.quoted_header()
            ));
            return Vec::new();
        }
        if self.problems.text(&self.span()).starts_with('{') {
            self.report_type("a list of tables");
        } else {
            let header = self.quoted_header();
            self.report_type(&format!("a list of tables: write {header}"));
        }
        vec![TomlTable::new(
            what.into(),
            self.path.clone(),
            self.span(),
            entries,
            self.problems,
        )]
    }
}
