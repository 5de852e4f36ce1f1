//! A value in the file together with where it is, so that what is wrong with it can be said.
//!
//! A missing value and `null` are the same here: files of other programs and edited ones have either.

use serde_json::{Map, Value};

use strata_core::json::{self, Json};
use strata_core::money::Usd;

use super::ImportError;

/// The largest count that is read: the largest whole number that every JSON program keeps. Counting on from there
/// cannot overflow.
const MAX_COUNT: u64 = 1 << 53;
/// The largest number of attempts and the like.
const MAX_SMALL: u64 = 1 << 31;

/// How deep values are nested that the host wraps, always once: a value that is appended to a scope becomes a list, an
/// answer is recorded beside who gave it.
const WRAPPED_DEPTH: usize = json::MAX_DEPTH + 1;

/// A value and its place.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    value: &'a Value,
    above: Option<(&'a Place<'a>, Key<'a>)>,
}

/// How a place is reached from the one above it.
#[derive(Clone, Copy)]
enum Key<'a> {
    Name(&'a str),
    Index(usize),
}

type Read<T> = Result<T, ImportError>;

impl<'a> Place<'a> {
    /// The place of a whole document.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, above: None }
    }

    /// Where it is, as a JSON pointer.
    pub(super) fn pointer(&self) -> String {
        match &self.above {
            None => String::new(),
            Some((above, Key::Index(index))) => format!("{}/{index}", above.pointer()),
            Some((above, Key::Name(name))) => child(&above.pointer(), name),
        }
    }

    /// What is wrong here.
    pub(super) fn invalid(&self, what: impl Into<String>) -> ImportError {
        ImportError::Invalid {
            pointer: self.pointer(),
            what: what.into(),
        }
    }

    fn wrong(&self, expected: &str) -> ImportError {
        let found = match self.value {
            Value::Null => "is null".into(),
            Value::Bool(value) => format!("is {value}"),
            Value::Number(value) => format!("is {value}"),
            Value::String(text) => format!(
                "is the text `{}`",
                text.chars().take(40).collect::<String>()
            ),
            Value::Array(_) => "is a list".into(),
            Value::Object(_) => "is an object".into(),
        };
        self.invalid(format!("{found}, expected {expected}"))
    }

    /// The value itself.
    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// What it holds, if it is an object.
    pub(super) fn object(&self) -> Read<&'a Map<String, Value>> {
        self.value
            .as_object()
            .ok_or_else(|| self.wrong("an object"))
    }

    /// A field of an object that is there; none of anything else.
    pub(super) fn get<'b>(&'b self, name: &'b str) -> Option<Place<'b>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Place {
            value,
            above: Some((self, Key::Name(name))),
        })
    }

    /// A field that is an object, or missing.
    pub(super) fn get_object<'b>(&'b self, name: &'b str) -> Read<Option<Place<'b>>> {
        self.get(name)
            .map(|place| place.object().map(|_| place))
            .transpose()
    }

    /// All fields of an object.
    pub(super) fn fields<'b>(&'b self) -> Read<impl Iterator<Item = (&'b str, Place<'b>)>> {
        let field = |name: &'b String, value| {
            (
                name.as_str(),
                Place {
                    value,
                    above: Some((self, Key::Name(name))),
                },
            )
        };
        Ok(self
            .object()?
            .iter()
            .map(move |(name, value)| field(name, value)))
    }

    /// All items of a list.
    pub(super) fn items<'b>(&'b self) -> Read<impl Iterator<Item = Place<'b>>> {
        let list = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        Ok(list.iter().enumerate().map(move |(i, value)| Place {
            value,
            above: Some((self, Key::Index(i))),
        }))
    }

    /// Something of each item of a field that is a list; nothing when it is missing.
    pub(super) fn each<T>(
        &self,
        name: &str,
        mut read: impl FnMut(Place<'_>) -> Read<T>,
    ) -> Read<Vec<T>> {
        match self.get(name) {
            Some(list) => list.items()?.map(&mut read).collect(),
            None => Ok(Vec::new()),
        }
    }

    /// The text it is.
    pub(super) fn text(&self) -> Read<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    /// A field that is a text; empty when it is missing.
    pub(super) fn get_text(&self, name: &str) -> Read<String> {
        Ok(self
            .get(name)
            .map(|place| place.text().map(String::from))
            .transpose()?
            .unwrap_or_default())
    }

    /// A field that is one of several words.
    pub(super) fn word<T>(&self, name: &str, known: impl Fn(&str) -> Option<T>) -> Read<Option<T>> {
        let read = |place: Place<'_>| {
            known(place.text()?).ok_or_else(|| place.wrong("one of the words known here"))
        };
        self.get(name).map(read).transpose()
    }

    /// A field that is `true` or `false`; `false` when it is missing.
    pub(super) fn flag(&self, name: &str) -> Read<bool> {
        let read = |place: Place<'_>| {
            place
                .value
                .as_bool()
                .ok_or_else(|| place.wrong("true or false"))
        };
        Ok(self.get(name).map(read).transpose()?.unwrap_or(false))
    }

    /// A field that counts something; 0 when it is missing.
    pub(super) fn count(&self, name: &str) -> Read<u64> {
        self.up_to(name, MAX_COUNT)
    }

    /// A field that counts attempts and the like; 0 when it is missing.
    pub(super) fn small(&self, name: &str) -> Read<u32> {
        Ok(self.up_to(name, MAX_SMALL)? as u32)
    }

    fn up_to(&self, name: &str, max: u64) -> Read<u64> {
        let Some(place) = self.get(name) else {
            return Ok(0);
        };
        let number = place.value.as_u64().filter(|number| *number <= max);
        number.ok_or_else(|| place.wrong(&format!("a whole number from 0 to {max}")))
    }

    /// The whole number it is, within these bounds.
    pub(super) fn whole(&self, from: i64, to: i64) -> Read<i64> {
        let number = self
            .value
            .as_i64()
            .filter(|number| (from..=to).contains(number));
        number.ok_or_else(|| self.wrong(&format!("a whole number from {from} to {to}")))
    }

    /// A field that is an amount of money in dollars, exact up to some thousands of them.
    pub(super) fn dollars(&self, name: &str) -> Read<Option<Usd>> {
        let read = |place: Place<'_>| {
            let amount = place.value.as_f64().filter(|amount| *amount >= 0.0);
            amount
                .map(Usd::from_dollars)
                .ok_or_else(|| place.wrong("an amount of money"))
        };
        self.get(name).map(read).transpose()
    }

    /// The document it is. What is nested deeper than a guest may nest could not be written again.
    pub(super) fn json(&self) -> Read<Json> {
        self.within(json::MAX_DEPTH)
    }

    /// The same, where the host may have wrapped what a guest nested as deep as it may.
    pub(super) fn wrapped(&self) -> Read<Json> {
        self.within(WRAPPED_DEPTH)
    }

    fn within(&self, levels: usize) -> Read<Json> {
        if json::depth(self.value) > levels {
            return Err(self.invalid(format!("is nested deeper than {levels} levels")));
        }
        Ok(Json::from(self.value.clone()))
    }

    /// A field as a list of texts, where a single text stands for a list of one.
    pub(super) fn texts(&self, name: &str) -> Read<Option<Vec<String>>> {
        let read = |place: Place<'_>| match place.value {
            Value::String(text) => Ok(vec![text.clone()]),
            _ => place
                .items()?
                .map(|item| item.text().map(String::from))
                .collect(),
        };
        self.get(name).map(read).transpose()
    }
}

/// The pointer to a field.
pub(super) fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}
