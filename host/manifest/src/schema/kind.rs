//! Schemas of the kinds of values in team files. Each has its counterpart in `table::item`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};

use strata_base::text::units::{
    AMOUNTS, duration_pattern, format_duration, format_size, size_pattern, token_count_pattern,
};

/// The longest name, in characters. Longer ones would not fit on a screen.
pub(crate) const MAX_NAME_CHARS: usize = 200;

/// A regular expression prefix that requires a digit other than zero.
const NOT_ZERO: &str = "(?=.*[1-9])";

pub(crate) fn text() -> Value {
    json!({ "type": "string" })
}

/// A path relative to the team file.
pub(crate) fn path() -> Value {
    non_empty_text()
}

/// The name of a role, an action or the like.
pub(crate) fn name() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS })
}

/// A list of distinct strings.
pub(crate) fn unique_texts() -> Value {
    json!({ "type": "array", "items": text(), "uniqueItems": true })
}

/// A list of distinct strings that is not empty.
pub(crate) fn non_empty_texts() -> Value {
    json!({ "type": "array", "items": text(), "uniqueItems": true, "minItems": 1 })
}

/// The name of an environment variable.
pub(crate) fn variable() -> Value {
    matching("^[^=]+$")
}

/// A list of names of environment variables.
pub(crate) fn variables() -> Value {
    json!({ "type": "array", "items": variable(), "uniqueItems": true })
}

pub(crate) fn boolean(default: bool) -> Value {
    json!({ "type": "boolean", "default": default })
}

pub(crate) fn integer(range: RangeInclusive<u64>) -> Value {
    let mut schema = json!({ "type": "integer", "minimum": range.start() });
    // TOML has no larger integers.
    if *range.end() <= i64::MAX as u64 {
        schema["maximum"] = (*range.end()).into();
    }
    schema
}

/// An amount of USD.
pub(crate) fn amount() -> Value {
    json!({ "type": "number", "minimum": AMOUNTS.start(), "maximum": AMOUNTS.end() })
}

/// One of a few words.
pub(crate) fn word_enum<'w>(words: impl Iterator<Item = &'w str>) -> Value {
    json!({ "type": "string", "enum": words.collect::<Vec<_>>() })
}

/// A string that matches a regular expression.
pub(crate) fn matching(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

/// A string that is not empty.
pub(crate) fn non_empty_text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

/// The address of a service.
pub(crate) fn url() -> Value {
    matching("^[Hh][Tt][Tt][Pp][Ss]?:")
}

/// A number of bytes. `least` is 0 if it may be zero, and 1 otherwise.
pub(crate) fn size(least: u64) -> Value {
    let zero = if least == 0 { "" } else { NOT_ZERO };
    json!({ "anyOf": [
        { "type": "string", "pattern": format!("^{zero}{}$", size_pattern()) },
        { "type": "integer", "minimum": least },
    ], "examples": ["64MiB"] })
}

/// A number of tokens.
pub(crate) fn token_count(range: RangeInclusive<u64>) -> Value {
    json!({ "anyOf": [
        { "type": "string", "pattern": format!("^{NOT_ZERO}{}$", token_count_pattern()) },
        integer(range),
    ], "examples": ["100k"] })
}

/// A duration. `least` is zero if it may be zero.
pub(crate) fn duration(least: Duration) -> Value {
    let zero = if least.is_zero() { "" } else { NOT_ZERO };
    let pattern = format!("^{zero}{}$", duration_pattern());
    json!({ "type": "string", "pattern": pattern, "examples": ["1.5s"] })
}

/// The shortest duration that is not zero.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

/// Returns a size as it is written in a file.
pub(crate) fn written_size(bytes: u64) -> String {
    format_size(bytes).replace(' ', "")
}

/// Returns a duration as it is written in a file.
pub(crate) fn written_duration(duration: Duration) -> String {
    format_duration(duration).replace(' ', "")
}
