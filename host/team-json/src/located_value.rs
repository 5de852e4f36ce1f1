//! A JSON value together with its location in the file, so that errors can name it.
//!
//! A missing value and `null` are equivalent: files of other programs, and edited ones, have
//! either.

use serde_json::{Map, Value};

use strata_core::record::json;

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

    /// Returns the error that the value is not what was expected.
    pub(super) fn unexpected(&self, expected: &str) -> ImportError {
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
        let names = self.object()?.keys();
        Ok(names.map(|name| (name.as_str(), self.child(name))))
    }

    /// Returns a field with its location. A missing field is `null`.
    pub(super) fn child<'b>(&'b self, name: &'b str) -> LocatedValue<'b> {
        LocatedValue {
            value: self.value.get(name).unwrap_or(&Value::Null),
            parent: Some((self, JsonKey::Name(name))),
        }
    }

    /// Returns an item with its location. A missing item is `null`.
    pub(super) fn item(&self, index: usize) -> LocatedValue<'_> {
        LocatedValue {
            value: self.value.get(index).unwrap_or(&Value::Null),
            parent: Some((self, JsonKey::Index(index))),
        }
    }

    /// Returns the list that it is. Fails if it is none.
    pub(super) fn list(&self) -> ImportResult<&'a [Value]> {
        let list = self.value.as_array();
        list.map(Vec::as_slice)
            .ok_or_else(|| self.unexpected("a list"))
    }

    /// Returns all items. Fails if this is not a list.
    pub(super) fn items<'b>(&'b self) -> ImportResult<impl Iterator<Item = LocatedValue<'b>>> {
        let count = self.list()?.len();
        Ok((0..count).map(|index| self.item(index)))
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

    /// Returns the whole number that it is, from 0 to `max`. Fails if it is none.
    pub(super) fn whole_number(&self, max: u64) -> ImportResult<u64> {
        let number = self.value.as_u64().filter(|number| *number <= max);
        number.ok_or_else(|| self.unexpected(&format!("a whole number from 0 to {max}")))
    }

    /// Returns the integer that it is. Fails if it is none, or not within these bounds.
    pub(super) fn integer(&self, from: i64, to: i64) -> ImportResult<i64> {
        let number = self
            .value
            .as_i64()
            .filter(|number| (from..=to).contains(number));
        number.ok_or_else(|| self.unexpected(&format!("a whole number from {from} to {to}")))
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

/// Returns the JSON pointer of a field.
pub(super) fn child_pointer(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}
