//! Schemas of the kinds of values in team files. Each has its counterpart in `table::item`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};

use crate::manifest::units::{
    AMOUNTS, duration_pattern, format_duration, format_size, size_pattern,
};

/// A regular expression prefix that requires a digit other than zero.
const NOT_ZERO: &str = "(?=.*[1-9])";

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

/// A path relative to the team file.
pub(super) fn path() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

/// The name of a role, an action or the like.
pub(super) fn name() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": crate::manifest::names::MAX_NAME_CHARS })
}

/// A list of distinct strings.
pub(super) fn unique_texts() -> Value {
    json!({ "type": "array", "items": text(), "uniqueItems": true })
}

/// A list of distinct strings that is not empty.
pub(super) fn non_empty_texts() -> Value {
    json!({ "type": "array", "items": text(), "uniqueItems": true, "minItems": 1 })
}

/// The name of an environment variable.
pub(super) fn variable() -> Value {
    json!({ "type": "string", "pattern": "^[^=]+$" })
}

/// A list of names of environment variables.
pub(super) fn variables() -> Value {
    json!({ "type": "array", "items": variable(), "uniqueItems": true })
}

pub(super) fn boolean(default: bool) -> Value {
    json!({ "type": "boolean", "default": default })
}

pub(super) fn integer(range: RangeInclusive<u64>) -> Value {
    let mut schema = json!({ "type": "integer", "minimum": range.start() });
    // TOML has no larger integers.
    if *range.end() <= i64::MAX as u64 {
        schema["maximum"] = (*range.end()).into();
    }
    schema
}

/// An amount of USD.
pub(super) fn amount() -> Value {
    json!({ "type": "number", "minimum": AMOUNTS.start(), "maximum": AMOUNTS.end(), "default": 0 })
}

/// One of a few words. The first is the default.
pub(super) fn word_enum(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words, "default": words.first() })
}

/// A number of bytes. `least` is 0 if it may be zero, and 1 otherwise.
pub(super) fn size(default: Option<u64>, least: u64) -> Value {
    let zero = if least == 0 { "" } else { NOT_ZERO };
    let schema = json!({ "anyOf": [
        { "type": "string", "pattern": format!("^{zero}{}$", size_pattern()) },
        { "type": "integer", "minimum": least },
    ], "examples": ["64MiB"] });
    with_default(
        schema,
        default.map(|bytes| format_size(bytes).replace(' ', "").into()),
    )
}

/// A duration. `least` is zero if it may be zero.
pub(super) fn duration(default: Option<Duration>, least: Duration) -> Value {
    let zero = if least.is_zero() { "" } else { NOT_ZERO };
    let schema = json!({
        "type": "string", "pattern": format!("^{zero}{}$", duration_pattern()), "examples": ["1.5s"],
    });
    with_default(
        schema,
        default.map(|duration| format_duration(duration).replace(' ', "").into()),
    )
}

/// Removes the default from a schema.
pub(super) fn without_default(mut schema: Value) -> Value {
    if let Value::Object(map) = &mut schema {
        map.remove("default");
    }
    schema
}

/// Sets the default of a schema, if there is one.
pub(super) fn with_default(mut schema: Value, default: Option<Value>) -> Value {
    if let Some(default) = default {
        schema["default"] = default;
    }
    schema
}
