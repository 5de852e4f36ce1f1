//! Parses bytes into JSON values, within limits. Their meaning is read elsewhere.

use std::cell::RefCell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use strata_core::record::json::JsonError;
use strata_core::record::json::lenient::{self, NonFinite};
use strata_core::record::json::size_budget::SizeBudget;

use super::{ImportError, MAX_BYTES};

/// The limit for the memory that the values of a file take, however short their text is. The
/// largest file that this program writes takes half of it.
const MAX_VALUE_BYTES: usize = 3 << 30;

/// Parses a file, leniently. Keys that appear twice are refused, since readers would disagree on which one counts;
/// nesting is limited by the parser (128 levels). `NaN`, `Infinity` and `-Infinity`, which Python writes, are read as
/// `null`: nothing that a team continues from can be one of them.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, ImportError> {
    parse_with(bytes, NonFinite::Null)
}

/// Parses a file in which a team is saved: an object. Fails if it holds anything else.
pub(super) fn parse_saved(bytes: &[u8]) -> Result<Value, ImportError> {
    let document = parse(bytes)?;
    let what = match &document {
        Value::Object(_) => return Ok(document),
        Value::Null => "it is `null`, where a saved team is an object",
        Value::Bool(_) => "it is `true` or `false`, where a saved team is an object",
        Value::Number(_) => "it is a number, where a saved team is an object",
        Value::String(_) => "it is a string, where a saved team is an object",
        Value::Array(_) => "it is a list, where a saved team is an object",
    };
    Err(ImportError::NoTeam(what))
}

/// Parses a message from outside in the same way, but refuses numbers that JSON does not have.
pub(super) fn parse_strict(text: &str) -> Result<Value, ImportError> {
    parse_with(text.as_bytes(), NonFinite::Refused)
}

fn parse_with(bytes: &[u8], non_finite: NonFinite) -> Result<Value, ImportError> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ImportError::TooLarge {
            bytes: bytes.len() as u64,
        });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| ImportError::Syntax(format!("it is no text in UTF-8: {e}")))?;
    let parsed = lenient::parse(text, non_finite, |text| {
        let room = RefCell::new(SizeBudget::with_bytes(MAX_VALUE_BYTES));
        let mut parser = serde_json::Deserializer::from_str(text);
        let value = BoundedValue { room: &room }.deserialize(&mut parser)?;
        parser.end().map(|()| value)
    });
    parsed.map_err(|error| match error {
        JsonError::Syntax(why) => ImportError::Syntax(why),
        other => ImportError::Syntax(format!("it is {other}")),
    })
}

/// Builds a value, and charges the memory that it takes to a budget.
#[derive(Clone, Copy)]
struct BoundedValue<'a> {
    room: &'a RefCell<SizeBudget>,
}

impl BoundedValue<'_> {
    fn charge<E: Error>(
        self,
        part: impl FnOnce(&mut SizeBudget) -> Result<(), JsonError>,
    ) -> Result<(), E> {
        let large = |_| {
            E::custom(format_args!(
                "its values would take more than {} GiB",
                MAX_VALUE_BYTES >> 30
            ))
        };
        part(&mut self.room.borrow_mut()).map_err(large)
    }
}

impl<'de> DeserializeSeed<'de> for BoundedValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(self)? {
            self.charge(|room| room.take_item(list.len()))?;
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key `{key}` appears twice")));
            }
            self.charge(|room| room.take_entry(map.len(), &key))?;
            let value = access.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
