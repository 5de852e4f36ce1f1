//! Reading tables of a team file, value by value, with the place of each. What the keys mean is the readers' business.
//!
//! A table remembers which keys it was asked for; when it is dropped, it reports every other key as unknown. So no
//! list of keys has to be kept beside the code that reads them, and none can be forgotten.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Problems, closest, suggest};
use super::{json, units};

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
    missing: RefCell<Vec<&'static str>>,
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
        Self {
            what: "a team file".into(),
            span: 0..0,
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
        Some(Item {
            key,
            key_span: name.span(),
            value,
            problems: self.problems,
        })
    }

    /// As `item`, and a problem if there is none.
    pub(super) fn required(&self, key: &'static str) -> Option<Item<'a>> {
        let item = self.item(key);
        if item.is_none() {
            self.missing.borrow_mut().push(key);
        }
        item
    }

    /// All entries of a table whose keys are names that the author chose.
    pub(super) fn entries(&self) -> impl Iterator<Item = Item<'a>> {
        self.names.set(Names::Theirs);
        let problems = self.problems;
        self.entries.iter().map(move |(name, value)| Item {
            key: name.get_ref().as_ref(),
            key_span: name.span(),
            value,
            problems,
        })
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
            missing.retain(|key| Some(*key) != meant);
            let hint = self.hint(key, meant);
            let message = format!("{} has no key `{key}`", self.what);
            let problem = self.problems.at(&name.span(), message);
            self.problems.add(match hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            });
        }
        for key in missing {
            let message = format!("{} needs `{key}`", self.what);
            let problem = self.problems.at(&self.span, message);
            self.problems
                .add(problem.hint(format!("add `{key} = …` here")));
        }
    }
}

/// A key with its value.
pub(super) struct Item<'a> {
    pub(super) key: &'a str,
    pub(super) key_span: Range<usize>,
    value: &'a Spanned<DeValue<'a>>,
    problems: &'a Problems,
}

impl<'a> Item<'a> {
    /// Where the value is.
    pub(super) fn span(&self) -> Range<usize> {
        self.value.span()
    }

    /// What relative paths are relative to.
    pub(super) fn base(&self) -> &Path {
        &self.problems.source.base
    }

    /// Whether it is a string.
    pub(super) fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// Reports the value.
    pub(super) fn refuse(&self, message: impl Into<String>, hint: impl Into<String>) {
        let problem = self.problems.at(&self.span(), message);
        self.problems.add(problem.hint(hint));
    }

    fn wrong_type(&self, expected: &str) {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let message = format!("`{}` is {found}", self.key);
        self.refuse(message, format!("expected {expected}"));
    }

    /// A string.
    pub(super) fn text(&self) -> Option<At<String>> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type("a string: `\"…\"`");
        }
        let span = self.span();
        text.map(|text| At {
            value: text.to_owned(),
            span,
        })
    }

    /// A list of strings.
    pub(super) fn strings(&self) -> Vec<At<String>> {
        let items = self.elements("a list of strings: `[\"…\"]`");
        items.filter_map(|item| item.text()).collect()
    }

    /// A list of strings, none of them twice.
    pub(super) fn texts(&self) -> Vec<At<String>> {
        let mut seen: BTreeMap<String, Range<usize>> = BTreeMap::new();
        let mut texts = self.strings();
        texts.retain(|text| {
            let Some(first) = seen.insert(text.value.clone(), text.span.clone()) else {
                return true;
            };
            let message = format!("`{}` is listed twice in `{}`", text.value, self.key);
            let problem = self.problems.at(&text.span, message);
            self.problems.add(problem.also(first, "already here"));
            false
        });
        texts
    }

    /// Whether it is a list without elements.
    pub(super) fn is_empty_list(&self) -> bool {
        let array = self.value.get_ref().as_array();
        array.is_some_and(|array| array.is_empty())
    }

    /// The key, where it is a name that the author chose.
    pub(super) fn name(&self) -> At<String> {
        At {
            value: self.key.to_owned(),
            span: self.key_span.clone(),
        }
    }

    fn elements(&self, expected: &str) -> impl Iterator<Item = Item<'a>> {
        let array = self.value.get_ref().as_array();
        if array.is_none() {
            self.wrong_type(expected);
        }
        let (key, key_span, problems) = (self.key, self.key_span.clone(), self.problems);
        let values = array.into_iter().flat_map(|array| array.iter());
        values.map(move |value| Item {
            key,
            key_span: key_span.clone(),
            value,
            problems,
        })
    }

    /// A boolean.
    pub(super) fn flag(&self) -> Option<bool> {
        let flag = self.value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type("`true` or `false`");
        }
        flag
    }

    /// A whole number within a range.
    pub(super) fn whole(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let DeValue::Integer(integer) = self.value.get_ref() else {
            self.wrong_type(&expected);
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|n| range.contains(n));
        if number.is_none() {
            let message = format!("`{}` cannot be `{}`", self.key, integer.as_str());
            self.refuse(message, format!("expected {expected}"));
        }
        number
    }

    /// An amount of money: a number, not negative.
    pub(super) fn amount(&self) -> Option<f64> {
        let text = match self.value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => {
                self.wrong_type("an amount in USD: `1.5`");
                return None;
            }
        };
        let amount = text.parse().ok();
        let amount = amount.filter(|amount: &f64| amount.is_finite() && *amount >= 0.0);
        if amount.is_none() {
            let message = format!("`{}` cannot be `{text}`", self.key);
            self.refuse(message, "expected an amount in USD, not negative: `1.5`");
        }
        amount
    }

    /// A number of bytes.
    pub(super) fn size(&self) -> Option<u64> {
        match self.value.get_ref() {
            DeValue::Integer(_) => self.whole(0..=i64::MAX as u64),
            DeValue::String(text) => self.unit(text, "size", units::parse_size),
            _ => {
                self.wrong_type("a size: `\"64MiB\"`");
                None
            }
        }
    }

    /// A duration.
    pub(super) fn duration(&self) -> Option<Duration> {
        match self.value.get_ref() {
            DeValue::String(text) => self.unit(text, "duration", units::parse_duration),
            _ => {
                self.wrong_type("a duration with its unit: `\"10s\"`");
                None
            }
        }
    }

    fn unit<T>(&self, text: &str, kind: &str, parse: fn(&str) -> Result<T, String>) -> Option<T> {
        match parse(text) {
            Ok(value) => Some(value),
            Err(hint) => {
                let message = format!("`{}` cannot be the {kind} `{text}`", self.key);
                self.refuse(message, hint);
                None
            }
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text.value);
        if found.is_none() {
            let allowed: Vec<String> = words.iter().map(|(w, _)| format!("`{w}`")).collect();
            let message = format!("`{}` cannot be `{}`", self.key, text.value);
            self.refuse(message, format!("one of {}", allowed.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    /// Any value, as JSON.
    pub(super) fn json(&self) -> Value {
        json::from_toml(self.value, self.problems)
    }

    /// A table; `what` names it in messages.
    pub(super) fn table(&self, what: impl Into<String>) -> Option<Table<'a>> {
        let entries = self.value.get_ref().as_table();
        if entries.is_none() {
            self.wrong_type("a table");
        }
        entries.map(|entries| Table {
            what: what.into(),
            span: self.span(),
            entries,
            asked: RefCell::default(),
            missing: RefCell::default(),
            names: Cell::new(Names::Ours),
            problems: self.problems,
        })
    }

    /// A list of tables; `what` names each in messages.
    pub(super) fn tables(&self, what: &str) -> Vec<Table<'a>> {
        self.elements("a list of tables")
            .filter_map(|item| item.table(what))
            .collect()
    }
}
