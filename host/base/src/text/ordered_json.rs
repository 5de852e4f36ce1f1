//! JSON whose objects keep the order of their fields. Models write the fields of an object in the
//! order of its schema, so the order in a schema is part of what its author asks for. Elsewhere
//! documents are sorted, so that equal ones have equal text.

use std::collections::hash_map::RandomState;
use std::fmt;

use indexmap::IndexMap;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use strata_core::record::json::lenient::{self, NonFinite};
use strata_core::record::json::{JsonError, check_limits};

/// A JSON value in the order of its text.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderedJson {
    /// Anything but a list or an object.
    Scalar(Value),
    /// A list.
    List(Vec<OrderedJson>),
    /// An object.
    Object(Fields),
}

/// The fields of an object, in their order.
pub type Fields = IndexMap<String, OrderedJson, RandomState>;

impl OrderedJson {
    /// Parses a text from any source, within the same limits and as leniently as other documents.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        check_limits(text)?;
        lenient::parse(text, NonFinite::Refused, |text| serde_json::from_str(text))
    }

    /// Returns an object without fields.
    pub fn empty_object() -> Self {
        Self::Object(Fields::default())
    }

    /// Returns the value of a field. Returns `None` if there is none, or if this is no object.
    pub fn get(&self, field: &str) -> Option<&Self> {
        self.as_object()?.get(field)
    }

    /// Returns the fields of an object.
    pub fn as_object(&self) -> Option<&Fields> {
        match self {
            Self::Object(fields) => Some(fields),
            Self::Scalar(_) | Self::List(_) => None,
        }
    }

    /// Returns the items of a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            Self::Scalar(_) | Self::Object(_) => None,
        }
    }

    /// Returns a text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Scalar(value) => value.as_str(),
            Self::List(_) | Self::Object(_) => None,
        }
    }

    /// Returns whether this is the boolean `value`.
    pub fn is_bool(&self, value: bool) -> bool {
        matches!(self, Self::Scalar(Value::Bool(own)) if *own == value)
    }

    /// Returns the value without an order.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(fields) => fields
                .iter()
                .map(|(name, value)| (name.clone(), value.to_value()))
                .collect(),
        }
    }
}

impl From<&Value> for OrderedJson {
    fn from(value: &Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(fields) => Self::Object(
                fields
                    .iter()
                    .map(|(name, value)| (name.clone(), Self::from(value)))
                    .collect(),
            ),
            scalar => Self::Scalar(scalar.clone()),
        }
    }
}

impl fmt::Display for OrderedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for OrderedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(value) => value.serialize(serializer),
            Self::List(items) => items.serialize(serializer),
            Self::Object(fields) => serializer.collect_map(fields),
        }
    }
}

impl<'de> Deserialize<'de> for OrderedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderedVisitor)
    }
}

struct OrderedVisitor;

impl<'de> Visitor<'de> for OrderedVisitor {
    type Value = OrderedJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OrderedJson, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(OrderedJson::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<OrderedJson, A::Error> {
        let mut object = Fields::default();
        while let Some((name, value)) = fields.next_entry()? {
            object.insert(name, value);
        }
        Ok(OrderedJson::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order() {
        let text = r#"{"b":[1,-2,0.5,null,true,"x",{"z":{},"a":[]}],"a":{"d":1,"c":2}}"#;
        let parsed = OrderedJson::parse(text).expect("a document");
        assert_eq!(parsed.to_string(), text);
        let sorted: Value = serde_json::from_str(text).expect("a document");
        assert_eq!(parsed.to_value(), sorted);
        assert_eq!(OrderedJson::from(&sorted).to_string(), sorted.to_string());
    }

    #[test]
    fn a_text_is_read_like_other_documents() {
        let check = |text: &str, expected: Option<&str>| {
            let parsed = OrderedJson::parse(text)
                .ok()
                .map(|parsed| parsed.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        };
        check("\u{feff} {\"a\": 1}", Some(r#"{"a":1}"#));
        check(r#""\ud83d""#, Some("\"\u{fffd}\""));
        check(r#"{"b":1,"a":2,"b":3}"#, Some(r#"{"b":3,"a":2}"#));
        check("NaN", None);
        check(&"[".repeat(200), None);
    }
}
