//! Decodes records of the file with serde. An error names the location of the value that caused it,
//! what is there, and what was expected.
//!
//! In a record `null` is the same as a missing field, since files that somebody has edited have
//! either. Whole numbers are counts, and limited as such.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Number, Value, map};
use strata_core::record::json::Json;

use super::ImportError;
use super::field::JsonDocument;
use super::located_value::{ImportResult, LocatedValue, MAX_COUNT, MAX_SMALL_COUNT};

impl LocatedValue<'_> {
    /// Reads the value as a record.
    pub(super) fn decode<T: DeserializeOwned>(&self) -> ImportResult<T> {
        T::deserialize(*self).map_err(|error| error.locate(self))
    }

    /// Returns the value as a document. Fails if it is nested deeper than guests may nest.
    pub(super) fn json(&self) -> ImportResult<Json> {
        self.decode::<JsonDocument<'_>>()
            .map(JsonDocument::into_json)
    }
}

/// Returns the names of the fields of a record.
pub(super) fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    match T::deserialize(FieldNameProbe) {
        Ok(_) => &[],
        Err(FieldNames(names)) => names,
    }
}

/// Why a value cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    /// The value at hand is not what was expected.
    #[error("it is not {expected}")]
    Unexpected {
        /// What was expected.
        expected: String,
    },
    /// The value at hand is invalid for another reason.
    #[error("it {what}")]
    Invalid {
        /// A sentence whose subject is the value.
        what: String,
    },
    /// A value is invalid whose location is known.
    #[error(transparent)]
    Located(#[from] ImportError),
}

impl ValueError {
    /// Adds the location of the value at hand.
    fn locate(self, place: &LocatedValue<'_>) -> ImportError {
        match self {
            Self::Unexpected { expected } => place.unexpected(&expected),
            Self::Invalid { what } => place.invalid(what),
            Self::Located(error) => error,
        }
    }
}

impl Error for ValueError {
    fn custom<T: std::fmt::Display>(what: T) -> Self {
        Self::Invalid {
            what: what.to_string(),
        }
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Unexpected {
            expected: expected.to_string(),
        }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::Unexpected {
            expected: format!("one of {}", known.join(", ")),
        }
    }

    fn missing_field(name: &'static str) -> Self {
        Self::Invalid {
            what: format!("has no `{name}`"),
        }
    }
}

impl<'de> Deserializer<'de> for LocatedValue<'_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.value() {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => visit_number(number, visitor),
            Value::String(text) => visitor.visit_str(text),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let flag = self.value().as_bool();
        visitor.visit_bool(flag.ok_or_else(|| self.unexpected("true or false"))?)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_u64(self.whole_number(u16::MAX.into())?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_u64(self.whole_number(MAX_SMALL_COUNT)?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_u64(self.whole_number(MAX_COUNT)?)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_i64(self.integer(i32::MIN.into(), i32::MAX.into())?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_i64(self.integer(i64::MIN, i64::MAX)?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let number = self.value().as_f64();
        visitor.visit_f64(number.ok_or_else(|| self.unexpected("a number"))?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        if self.value().is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_seq(ItemAccess {
            list: &self,
            next: 0,
            count: self.list()?.len(),
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_map(FieldAccess {
            object: &self,
            fields: self.object()?.iter(),
            nulls: NullFields::Kept,
            current: None,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_map(FieldAccess {
            object: &self,
            fields: self.object()?.iter(),
            nulls: NullFields::Skipped,
            current: None,
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_enum(self.text()?.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, ValueError> {
    if let Some(number) = number.as_u64() {
        return visitor.visit_u64(number);
    }
    if let Some(number) = number.as_i64() {
        return visitor.visit_i64(number);
    }
    visitor.visit_f64(number.as_f64().unwrap_or_default())
}

/// The items of a list.
struct ItemAccess<'a> {
    list: &'a LocatedValue<'a>,
    next: usize,
    count: usize,
}

impl<'de> SeqAccess<'de> for ItemAccess<'_> {
    type Error = ValueError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ValueError> {
        if self.next == self.count {
            return Ok(None);
        }
        let item = self.list.item(self.next);
        self.next += 1;
        let decoded = seed.deserialize(item);
        Ok(Some(decoded.map_err(|error| error.locate(&item))?))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.count - self.next)
    }
}

/// What becomes of fields that are `null`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NullFields {
    /// They are fields like others, in an object whose names are data.
    Kept,
    /// They are the same as missing ones, in a record.
    Skipped,
}

/// The fields of an object.
struct FieldAccess<'a> {
    object: &'a LocatedValue<'a>,
    fields: map::Iter<'a>,
    nulls: NullFields,
    current: Option<&'a str>,
}

impl<'de> MapAccess<'de> for FieldAccess<'_> {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ValueError> {
        for (name, value) in self.fields.by_ref() {
            if value.is_null() && self.nulls == NullFields::Skipped {
                continue;
            }
            self.current = Some(name);
            return seed
                .deserialize(name.as_str().into_deserializer())
                .map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<T::Value, ValueError> {
        let name = self.current.unwrap_or_default();
        let field = self.object.child(name);
        let decoded = seed.deserialize(field);
        decoded.map_err(|error| error.locate(&field).into())
    }
}

/// A deserializer that only learns which fields a record has.
struct FieldNameProbe;

/// The names of the fields of a record, as the error of the probe.
#[derive(Debug, thiserror::Error)]
#[error("the record has the fields {0:?}")]
struct FieldNames(&'static [&'static str]);

impl Error for FieldNames {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for FieldNameProbe {
    type Error = FieldNames;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, FieldNames> {
        Err(FieldNames(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, FieldNames> {
        Err(FieldNames(names))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
