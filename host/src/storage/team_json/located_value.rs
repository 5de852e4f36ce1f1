//! A JSON value together with its location in the file, so that errors can name it.
//!
//! A missing value and `null` are equivalent: files of other programs, and edited ones, have
//! either.

use serde::Deserialize;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use strata_core::record::id::Digest;
use strata_core::record::json;
use strata_core::record::json::Json;
use strata_core::record::money::Usd;

use super::ImportError;

/// The largest count that is accepted. It is the largest integer that every JSON implementation
/// preserves, and leaves room for counting on.
pub(super) const MAX_COUNT: u64 = 1 << 53;
/// The largest number of attempts and the like.
pub(super) const MAX_SMALL_COUNT: u64 = 1 << 31;

/// The maximum depth of values that the host may have wrapped, always once: a value that is
/// appended to a scope becomes a list, and an answer is recorded beside the person who gave it.
pub(super) const WRAPPED_DEPTH: usize = json::MAX_DEPTH + 1;

/// A JSON value and its location.
#[derive(Clone, Copy)]
pub(super) struct LocatedValue<'a> {
    value: &'a Value,
    parent: Option<(&'a LocatedValue<'a>, JsonKey<'a>)>,
}

/// How a value is reached from its parent.
#[derive(Clone, Copy)]
enum JsonKey<'a> {
    Name(&'a str),
    Index(usize),
}

/// The result of reading a value.
pub(super) type ImportResult<T> = Result<T, ImportError>;

impl<'a> LocatedValue<'a> {
    /// Returns the root of a document.
    pub(super) fn root(value: &'a Value) -> Self {
        Self {
            value,
            parent: None,
        }
    }

    /// Returns its location as a JSON pointer.
    pub(super) fn pointer(&self) -> String {
        match &self.parent {
            None => String::new(),
            Some((above, JsonKey::Index(index))) => format!("{}/{index}", above.pointer()),
            Some((above, JsonKey::Name(name))) => child_pointer(&above.pointer(), name),
        }
    }

    /// Returns the error that the value is invalid.
    pub(super) fn invalid(&self, what: impl Into<String>) -> ImportError {
        ImportError::Invalid {
            pointer: self.pointer(),
            what: what.into(),
        }
    }

    /// Returns the error that a value is invalid that these names lead to from here.
    pub(super) fn invalid_below(&self, names: &[&str], what: impl Into<String>) -> ImportError {
        let mut pointer = self.pointer();
        for name in names {
            pointer = child_pointer(&pointer, name);
        }
        ImportError::Invalid {
            pointer,
            what: what.into(),
        }
    }

    /// Reads the value with serde. An error names the place in it.
    pub(super) fn decode<T: Deserialize<'a>>(&self) -> ImportResult<T> {
        serde_path_to_error::deserialize(self.value).map_err(|error| {
            let mut pointer = self.pointer();
            for segment in error.path() {
                match segment {
                    Segment::Seq { index } => pointer = format!("{pointer}/{index}"),
                    Segment::Map { key } => pointer = child_pointer(&pointer, key),
                    Segment::Enum { .. } | Segment::Unknown => {}
                }
            }
            ImportError::Invalid {
                pointer,
                what: format!("cannot be read: {}", error.inner()),
            }
        })
    }

    fn unexpected(&self, expected: &str) -> ImportError {
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

    /// Returns the value itself.
    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns the object that it is. Fails if it is none.
    pub(super) fn object(&self) -> ImportResult<&'a Map<String, Value>> {
        self.value
            .as_object()
            .ok_or_else(|| self.unexpected("an object"))
    }

    /// Returns a field, if this is an object that has it.
    pub(super) fn get<'b>(&'b self, name: &'b str) -> Option<LocatedValue<'b>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(LocatedValue {
            value,
            parent: Some((self, JsonKey::Name(name))),
        })
    }

    /// Returns a field, if this is an object that has it. Fails if the field is not an object.
    pub(super) fn get_object<'b>(
        &'b self,
        name: &'b str,
    ) -> ImportResult<Option<LocatedValue<'b>>> {
        self.get(name)
            .map(|place| place.object().map(|_| place))
            .transpose()
    }

    /// Returns all fields. Fails if this is not an object.
    pub(super) fn fields<'b>(
        &'b self,
    ) -> ImportResult<impl Iterator<Item = (&'b str, LocatedValue<'b>)>> {
        let field = |name: &'b String, value| {
            (
                name.as_str(),
                LocatedValue {
                    value,
                    parent: Some((self, JsonKey::Name(name))),
                },
            )
        };
        Ok(self
            .object()?
            .iter()
            .map(move |(name, value)| field(name, value)))
    }

    /// Returns all items. Fails if this is not a list.
    pub(super) fn items<'b>(&'b self) -> ImportResult<impl Iterator<Item = LocatedValue<'b>>> {
        let list = self
            .value
            .as_array()
            .ok_or_else(|| self.unexpected("a list"))?;
        Ok(list.iter().enumerate().map(move |(i, value)| LocatedValue {
            value,
            parent: Some((self, JsonKey::Index(i))),
        }))
    }

    /// Reads each item of a field that is a list. A missing field is an empty list.
    pub(super) fn read_items<T>(
        &self,
        name: &str,
        mut read: impl FnMut(LocatedValue<'_>) -> ImportResult<T>,
    ) -> ImportResult<Vec<T>> {
        match self.get(name) {
            Some(list) => list.items()?.map(&mut read).collect(),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the string that it is. Fails if it is none.
    pub(super) fn text(&self) -> ImportResult<&'a str> {
        self.value.as_str().ok_or_else(|| self.unexpected("a text"))
    }

    /// Returns a field that is a string. A missing field is an empty string.
    pub(super) fn get_text(&self, name: &str) -> ImportResult<String> {
        Ok(self
            .get(name)
            .map(|place| place.text().map(String::from))
            .transpose()?
            .unwrap_or_default())
    }

    /// Returns a field that is one of several keywords, as parsed by `known`.
    pub(super) fn keyword<T>(
        &self,
        name: &str,
        known: impl Fn(&str) -> Option<T>,
    ) -> ImportResult<Option<T>> {
        let read = |place: LocatedValue<'_>| {
            known(place.text()?).ok_or_else(|| place.unexpected("one of the words known here"))
        };
        self.get(name).map(read).transpose()
    }

    /// Returns a field that is a boolean. A missing field is `false`.
    pub(super) fn flag(&self, name: &str) -> ImportResult<bool> {
        let read = |place: LocatedValue<'_>| {
            place
                .value
                .as_bool()
                .ok_or_else(|| place.unexpected("true or false"))
        };
        Ok(self.get(name).map(read).transpose()?.unwrap_or(false))
    }

    /// Returns a field that is a count. A missing field is 0.
    pub(super) fn count(&self, name: &str) -> ImportResult<u64> {
        self.count_up_to(name, MAX_COUNT)
    }

    /// Returns a field that is a SHA-256. Fails if it is missing.
    pub(super) fn get_digest(&self, name: &str) -> ImportResult<Digest> {
        let digest = self.get_text(name)?;
        if !is_sha256(&digest) {
            return Err(self.invalid(format!("has no `{name}` of 64 hexadecimal digits")));
        }
        Ok(Digest(digest))
    }

    /// Returns a field that is a count of attempts and the like. A missing field is 0.
    pub(super) fn small_count(&self, name: &str) -> ImportResult<u32> {
        Ok(self.count_up_to(name, MAX_SMALL_COUNT)? as u32)
    }

    fn count_up_to(&self, name: &str, max: u64) -> ImportResult<u64> {
        let Some(place) = self.get(name) else {
            return Ok(0);
        };
        let number = place.value.as_u64().filter(|number| *number <= max);
        number.ok_or_else(|| place.unexpected(&format!("a whole number from 0 to {max}")))
    }

    /// Returns the integer that it is. Fails if it is none, or not within these bounds.
    pub(super) fn integer(&self, from: i64, to: i64) -> ImportResult<i64> {
        let number = self
            .value
            .as_i64()
            .filter(|number| (from..=to).contains(number));
        number.ok_or_else(|| self.unexpected(&format!("a whole number from {from} to {to}")))
    }

    /// Returns a field that is an amount of money in dollars. It is exact up to some thousands.
    pub(super) fn dollars(&self, name: &str) -> ImportResult<Option<Usd>> {
        let read = |place: LocatedValue<'_>| {
            let amount = place.value.as_f64().filter(|amount| *amount >= 0.0);
            amount
                .map(Usd::from_dollars)
                .ok_or_else(|| place.unexpected("an amount of money"))
        };
        self.get(name).map(read).transpose()
    }

    /// Returns the value as a document. Fails if it is nested deeper than guests may nest, since it
    /// could not be written again.
    pub(super) fn json(&self) -> ImportResult<Json> {
        self.json_up_to_depth(json::MAX_DEPTH)
    }

    /// The same, for a value that the host may have wrapped after a guest nested it as deep as
    /// allowed.
    pub(super) fn wrapped_json(&self) -> ImportResult<Json> {
        self.json_up_to_depth(WRAPPED_DEPTH)
    }

    fn json_up_to_depth(&self, levels: usize) -> ImportResult<Json> {
        if json::depth(self.value) > levels {
            return Err(self.invalid(format!("is nested deeper than {levels} levels")));
        }
        Ok(Json::from(self.value.clone()))
    }

    /// Returns a field that is a list of strings. A single string is accepted as a list of one.
    pub(super) fn get_texts(&self, name: &str) -> ImportResult<Option<Vec<String>>> {
        let read = |place: LocatedValue<'_>| match place.value {
            Value::String(text) => Ok(vec![text.clone()]),
            _ => place
                .items()?
                .map(|item| item.text().map(String::from))
                .collect(),
        };
        self.get(name).map(read).transpose()
    }
}

/// Whether a text is a SHA-256 in hexadecimal digits.
pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the JSON pointer of a field.
pub(super) fn child_pointer(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}
