//! Types of fields of the file, which are written and read with serde.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, Unexpected};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use strata_base::clock::rfc3339;
use strata_core::record::event::Status;
use strata_core::record::fault::{FaultCause, FaultKind};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::json;
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_core::state::environment::routing::OwnMessages;

use super::located_value::WRAPPED_DEPTH;

/// A value with a name in the file.
pub(super) trait NamedValue: Copy + 'static {
    /// Returns all values.
    fn all() -> &'static [Self];
    /// Returns the name.
    fn file_name(self) -> &'static str;
}

impl NamedValue for FaultKind {
    fn all() -> &'static [Self] {
        &Self::ALL
    }

    fn file_name(self) -> &'static str {
        self.name()
    }
}

impl NamedValue for FaultCause {
    fn all() -> &'static [Self] {
        &Self::ALL
    }

    fn file_name(self) -> &'static str {
        self.name()
    }
}

impl NamedValue for Status {
    fn all() -> &'static [Self] {
        &Self::ALL
    }

    fn file_name(self) -> &'static str {
        self.name()
    }
}

impl NamedValue for CallPolicy {
    fn all() -> &'static [Self] {
        &[Self::Auto, Self::Reuse, Self::Fresh]
    }

    /// Returns the name of a policy, as `--calls` takes it.
    fn file_name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Reuse => "reuse",
            Self::Fresh => "fresh",
        }
    }
}

impl NamedValue for OwnMessages {
    fn all() -> &'static [Self] {
        &[Self::Delivered, Self::Withheld]
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Withheld => "withheld",
        }
    }
}

/// A field that holds the name of a value.
#[derive(Clone, Copy, Default)]
pub(super) struct Keyword<T>(pub T);

impl<T: NamedValue> Serialize for Keyword<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.file_name())
    }
}

impl<'de, T: NamedValue> Deserialize<'de> for Keyword<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        let mut known = T::all().iter().copied();
        if let Some(value) = known.find(|value| value.file_name() == name) {
            return Ok(Self(value));
        }
        let names: Vec<&str> = T::all().iter().map(|value| value.file_name()).collect();
        let expected = format!("one of `{}`", names.join("`, `"));
        Err(D::Error::invalid_value(
            Unexpected::Str(&name),
            &expected.as_str(),
        ))
    }
}

/// An amount of money in dollars. It is exact up to some thousands.
#[derive(Clone, Copy, Default)]
pub(super) struct Dollars(pub Usd);

impl Serialize for Dollars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.to_dollars())
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let amount = f64::deserialize(deserializer)?;
        if amount >= 0.0 {
            Ok(Self(Usd::from_dollars(amount)))
        } else {
            let found = Unexpected::Float(amount);
            Err(D::Error::invalid_value(found, &"an amount of money"))
        }
    }
}

/// A time, in milliseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct TimeText(pub i64);

impl Serialize for TimeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&rfc3339(self.0))
    }
}

/// A JSON document within the file, which is nested at most this deep.
#[derive(Clone)]
pub(super) struct NestedDocument<'a, const MAX_DEPTH: usize>(pub Cow<'a, Json>);

/// A document that a guest made. If it were nested deeper, it could not be written again.
pub(super) type JsonDocument<'a> = NestedDocument<'a, { json::MAX_DEPTH }>;

/// A document that the host may have wrapped after a guest nested it as deep as allowed.
pub(super) type WrappedDocument<'a> = NestedDocument<'a, WRAPPED_DEPTH>;

impl<'a, const MAX_DEPTH: usize> NestedDocument<'a, MAX_DEPTH> {
    /// Returns a document to be written.
    pub(super) fn of(json: &'a Json) -> Self {
        Self(Cow::Borrowed(json))
    }

    /// Returns the document.
    pub(super) fn into_json(self) -> Json {
        self.0.into_owned()
    }
}

impl<const MAX_DEPTH: usize> Default for NestedDocument<'_, MAX_DEPTH> {
    fn default() -> Self {
        Self(Cow::Owned(Json::null()))
    }
}

impl<const MAX_DEPTH: usize> Serialize for NestedDocument<'_, MAX_DEPTH> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value().serialize(serializer)
    }
}

impl<'de, const MAX_DEPTH: usize> Deserialize<'de> for NestedDocument<'_, MAX_DEPTH> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if json::depth(&value) > MAX_DEPTH {
            let what = format!("is nested deeper than {MAX_DEPTH} levels");
            return Err(D::Error::custom(what));
        }
        Ok(Self(Cow::Owned(Json::from(value))))
    }
}

/// A field that is written, but not decoded: for people and other programs, or because it is read
/// where it stands.
#[derive(Clone)]
pub(super) struct NotDecoded<T>(pub Option<T>);

impl<T> NotDecoded<T> {
    /// Returns whether there is nothing to be written.
    pub(super) fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl<T> From<T> for NotDecoded<T> {
    fn from(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> Default for NotDecoded<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Serialize> Serialize for NotDecoded<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for NotDecoded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer)?;
        Ok(Self(None))
    }
}

/// A list of strings. When it is read, a single string is a list of one.
#[derive(Clone, Default)]
pub(super) struct TextList<'a>(pub Cow<'a, [String]>);

impl<'a> From<&'a [String]> for TextList<'a> {
    fn from(texts: &'a [String]) -> Self {
        Self(Cow::Borrowed(texts))
    }
}

impl<T: Into<String>> FromIterator<T> for TextList<'_> {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        Self(texts.into_iter().map(Into::into).collect())
    }
}

impl Serialize for TextList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TextList<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut texts = Vec::new();
        let items = match Value::deserialize(deserializer)? {
            Value::Array(items) => items,
            other => vec![other],
        };
        for item in items {
            let Value::String(text) = item else {
                return Err(D::Error::custom("is neither a text nor a list of texts"));
            };
            texts.push(text);
        }
        Ok(Self(Cow::Owned(texts)))
    }
}

/// A reference to a message: its id. When it is read, there may be the message itself instead; then
/// `id` is `None`.
pub(super) struct MessageLink<'a> {
    pub id: Option<Cow<'a, str>>,
}

impl<'a> MessageLink<'a> {
    /// Returns the reference to a message.
    pub(super) fn to(id: &'a str) -> Self {
        Self {
            id: Some(Cow::Borrowed(id)),
        }
    }
}

impl Serialize for MessageLink<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MessageLink<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(id) => Ok(Self {
                id: Some(Cow::Owned(id)),
            }),
            Value::Object(_) => Ok(Self { id: None }),
            _ => Err(D::Error::custom("is neither a message nor the id of one")),
        }
    }
}

/// An object whose fields are written in the given order. When it is read, fields that are `null`
/// are the same as missing ones.
pub(super) struct OrderedObject<'a, T>(pub Vec<(Cow<'a, str>, T)>);

impl<T> Default for OrderedObject<'_, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, T> OrderedObject<'a, T> {
    /// Adds a field.
    pub(super) fn push(&mut self, name: &'a str, value: T) {
        self.0.push((Cow::Borrowed(name), value));
    }

    /// Returns whether there are no fields.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the fields by their names.
    pub(super) fn into_map(self) -> BTreeMap<Cow<'a, str>, T> {
        self.0.into_iter().collect()
    }
}

impl<T: Serialize> Serialize for OrderedObject<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedObject<'_, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Vec::new();
        for (name, value) in BTreeMap::<String, Option<T>>::deserialize(deserializer)? {
            if let Some(value) = value {
                fields.push((Cow::Owned(name), value));
            }
        }
        Ok(Self(fields))
    }
}
