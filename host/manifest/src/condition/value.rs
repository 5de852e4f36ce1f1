//! The values of conditions. Those of a message are borrowed from it.

use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::Value as Json;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
}

/// A text.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Built(Rc<str>),
}

/// A list.
#[derive(Clone, Debug)]
pub(super) enum List<'a> {
    Json(&'a [Json]),
    Built(Rc<Vec<Value<'a>>>),
}

/// A map. The keys of a JSON object are texts.
#[derive(Clone, Debug)]
pub(super) enum Map<'a> {
    Json(&'a serde_json::Map<String, Json>),
    Built(Rc<Vec<[Value<'a>; 2]>>),
}

impl<'a> Value<'a> {
    /// Returns a text.
    pub(super) fn text(text: &'a str) -> Self {
        Self::Text(Text::Borrowed(text))
    }

    /// Returns the value of JSON. Integers are signed if they fit, like the literals of CEL, so that the two can
    /// be used in one expression.
    pub(super) fn from_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(signed), _) => Self::Int(signed),
                (None, Some(unsigned)) => Self::UInt(unsigned),
                (None, None) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::text(text),
            Json::Array(items) => Self::List(List::Json(items)),
            Json::Object(entries) => Self::Map(Map::Json(entries)),
        }
    }

    /// Returns the name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::UInt(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }

    /// Returns the order of two values, or `None` if they are not ordered, as with NaN. Returns `Err` if their
    /// types cannot be compared.
    pub(super) fn compare(&self, other: &Self) -> Result<Option<Ordering>, ()> {
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => Ok(Some(left.cmp(right))),
            (Self::Text(left), Self::Text(right)) => Ok(Some(left.as_str().cmp(right.as_str()))),
            _ => match (self.number(), other.number()) {
                (Some(left), Some(right)) => Ok(left.compare(right)),
                _ => Err(()),
            },
        }
    }

    /// Returns the number, if it is one.
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Self::Int(value) => Some(Number::Integer((*value).into())),
            Self::UInt(value) => Some(Number::Integer((*value).into())),
            Self::Double(value) => Some(Number::Double(*value)),
            _ => None,
        }
    }
}

/// A number, independent of its type.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Integer(i128),
    Double(f64),
}

impl Number {
    /// Compares two numbers. An integer is converted for a comparison with a double, so large ones lose digits.
    /// Returns `None` if one is NaN.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => Some(left.cmp(&right)),
            _ => self.to_double().partial_cmp(&other.to_double()),
        }
    }

    fn to_double(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Double(value) => value,
        }
    }
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Built(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Json(items) => items.len(),
            Self::Built(items) => items.len(),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Json(items) => items.get(index).map(Value::from_json),
            Self::Built(items) => items.get(index).cloned(),
        }
    }
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Json(entries) => entries.len(),
            Self::Built(entries) => entries.len(),
        }
    }

    /// Returns all entries.
    pub(super) fn entries(&self) -> Vec<[Value<'a>; 2]> {
        match self {
            Self::Json(entries) => entries
                .iter()
                .map(|(key, value)| [Value::text(key), Value::from_json(value)])
                .collect(),
            Self::Built(entries) => entries.to_vec(),
        }
    }

    /// Returns the keys of all entries.
    pub(super) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Json(entries) => entries.keys().map(|key| Value::text(key)).collect(),
            Self::Built(entries) => entries.iter().map(|[key, _]| key.clone()).collect(),
        }
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match (self, key) {
            (Self::Json(entries), Value::Text(key)) => {
                entries.get(key.as_str()).map(Value::from_json)
            }
            (Self::Json(_), _) => None,
            (Self::Built(entries), _) => entries
                .iter()
                .find(|[other, _]| other.compare(key) == Ok(Some(Ordering::Equal)))
                .map(|[_, value]| value.clone()),
        }
    }
}
