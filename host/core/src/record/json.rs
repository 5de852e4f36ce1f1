//! JSON as validated, compact text. Values are built only where something looks inside, and only
//! from text that is within the limits on depth and size.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use lenient::NonFinite;

/// A valid JSON document in compact form with sorted keys. Equal documents have equal text. Clones
/// share it: the answer of a host call is in an event, in the environment and on its way to the guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Json(Arc<String>);

/// How many bytes more than its text a document may occupy.
const MAX_UNUSED_BYTES: usize = 1024;

mod big_integers;
mod keys;
pub mod lenient;
pub mod size_budget;

/// Why a text is not accepted as a JSON document. The messages continue a sentence that begins with
/// "it is".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It is not JSON.
    #[error("not a JSON document: {0}")]
    Syntax(String),
    /// It contains a number that only other programs write as JSON.
    #[error("not a JSON document: `{0}` is not JSON; write a finite number, a text or `null`")]
    NonFinite(&'static str),
    /// It is nested too deeply.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// An object in it has two values for one key, so it is not certain which one is meant.
    #[error("ambiguous: it gives the key `{0}` twice")]
    RepeatedKey(String),
    /// Its values would take too much memory. A short text can stand for values ninety times its
    /// size.
    #[error("too large to be read: its values would take more than {} MiB; hand it over in parts", size_budget::MAX_VALUE_BYTES >> 20)]
    TooLarge,
}

/// How deeply a document may be nested. Parsers stop at 128 levels, and a document must stay
/// readable inside the files that contain it.
pub const MAX_DEPTH: usize = 100;

/// Returns how deeply a value is nested: 0 if it is neither a list nor an object.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Checks a text against the limits on depth and size without parsing it. Text that passes need not
/// be JSON.
pub fn check_limits(text: &str) -> Result<(), JsonError> {
    size_budget::check_text(text)
}

/// Parses a text from any source. The limits are checked before it is parsed. A byte order mark is
/// skipped, and an escaped unpaired surrogate becomes U+FFFD.
pub fn parse_untrusted(text: &str) -> Result<Value, JsonError> {
    check_limits(text)?;
    lenient::parse(text, NonFinite::Refused, |text| serde_json::from_str(text))
}

/// Parses a text that expresses a decision of a person or an operator. Does the same as
/// `parse_untrusted`, but fails if a key is repeated within an object: one of the values would be
/// dropped, and it may be the one that was meant.
pub fn parse_decision(text: &str) -> Result<Value, JsonError> {
    let value = parse_untrusted(text)?;
    match lenient::parse(text, NonFinite::Refused, keys::first_repeated)? {
        Some(key) => Err(JsonError::RepeatedKey(key)),
        None => Ok(value),
    }
}

/// Parses as `parse_untrusted` does, but returns the object of each field with one of these names as
/// its text if it contains integers that a value would round.
pub fn parse_with_exact_fields(text: &str, names: &[&str]) -> Result<Value, JsonError> {
    let mut value = parse_untrusted(text)?;
    if let Some(marked) = big_integers::mark(text, || value.to_string())
        && let Ok(with_marks) = parse_untrusted(&marked.text)
    {
        marked.keep_exact_fields(&mut value, &with_marks, names);
    }
    Ok(value)
}

impl Json {
    /// Parses as `parse_untrusted` does and returns the normalised document. Integers of any size are
    /// kept exactly.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let document = Self::from(parse_untrusted(text)?);
        Ok(document.with_exact_integers(text))
    }

    /// Parses as `parse_decision` does and returns the normalised document.
    pub fn parse_decision(text: &str) -> Result<Self, JsonError> {
        let document = Self::from(parse_decision(text)?);
        Ok(document.with_exact_integers(text))
    }

    /// Returns the document with its integers as they are in the text that it was parsed from.
    fn with_exact_integers(self, text: &str) -> Self {
        let Some(marked) = big_integers::mark(text, || self.0.to_string()) else {
            return self;
        };
        match parse_untrusted(&marked.text) {
            Ok(value) => Self::from_text(marked.restore(Self::from(value).as_str())),
            // The marks take more memory than the numbers.
            Err(_) => self,
        }
    }

    /// Returns `null`.
    pub fn null() -> Self {
        Self::from_text("null".into())
    }

    fn from_text(mut text: String) -> Self {
        if text.capacity() - text.len() > MAX_UNUSED_BYTES {
            text.shrink_to_fit();
        }
        Self(Arc::new(text))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a list as it is, and any other value as a list with one item.
    pub(crate) fn into_list(self) -> Self {
        if self.0.starts_with('[') {
            self
        } else {
            Self::from_text(alloc::format!("[{}]", self.0))
        }
    }

    /// Concatenates two lists. This is done on the text, so that the cost does not grow with the
    /// list that is appended to.
    pub(crate) fn concat(mut self, other: &Self) -> Self {
        // Text from a damaged store may not be a list; it is then left unchanged.
        let items = other
            .0
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
            .unwrap_or_default();
        if !items.is_empty() {
            let text = Arc::make_mut(&mut self.0);
            if text.pop().is_some() {
                let first = text.ends_with('[');
                text.push_str(if first { "" } else { "," });
                text.push_str(items);
                text.push(']');
            }
        }
        self
    }

    /// Returns the value of a field. Returns `None` if there is none, or if this is no object.
    pub fn field(&self, name: &str) -> Option<Self> {
        let rounded = self.value().get(name)?.clone();
        let exact = || {
            let marked = big_integers::mark(&self.0, || self.0.to_string())?;
            let with_marks = parse_untrusted(&marked.text).ok()?;
            Some(marked.restore(&with_marks.get(name)?.to_string()))
        };
        Some(exact().map_or_else(|| Self::from(rounded), Self::from_text))
    }

    /// Returns the document as a value. Integers that do not fit into 64 bits are rounded.
    pub fn value(&self) -> Value {
        // Text from a damaged store can be anything; it is then returned as a string.
        serde_json::from_str(&self.0).unwrap_or_else(|_| Value::String(self.0.to_string()))
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        // `Display` writes the same text, but passes each piece of it through a formatter.
        let text = serde_json::to_string(&value);
        Self::from_text(text.unwrap_or_else(|_| value.to_string()))
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(Json::parse(text).expect("a document").as_str(), expected);
    }

    #[test]
    fn equal_documents_have_equal_text() {
        check(
            " { \"b\" : [ 1 , 2 ] , \"a\" : null } ",
            r#"{"a":null,"b":[1,2]}"#,
        );
        check(r#"{"a":1,"a":2}"#, r#"{"a":2}"#);
        check(r#""\u0041\/""#, r#""A/""#);
        check("18446744073709551615", "18446744073709551615");
        check("1.50", "1.5");
    }

    #[test]
    fn integers_of_any_size_are_kept_exactly() {
        let kept = |text: &str| check(text, text);
        kept("123456789012345678901234567890");
        kept("-9223372036854775809");
        kept("[18446744073709551616,-123456789012345678901,18446744073709551615]");
        kept(r##"{"#":"#0","a":[123456789012345678901,"123456789012345678901"]}"##);
        check(
            r##"{ "b": 123456789012345678901, "a": "\u0023\u00230", "c": {"x": -123456789012345678901} }"##,
            r###"{"a":"##0","b":123456789012345678901,"c":{"x":-123456789012345678901}}"###,
        );
        check(r#"{"a":123456789012345678901,"a":1}"#, r#"{"a":1}"#);
        let document = Json::parse(r#"{"a":{"n":123456789012345678901},"b":[1]}"#).unwrap();
        assert_eq!(
            document.field("a").unwrap().as_str(),
            r#"{"n":123456789012345678901}"#
        );
        assert_eq!(document.field("b").unwrap().as_str(), "[1]");
        assert_eq!(document.field("c"), None);
        let text = r#"{"args":{"n":1},"parts":[{"args":{"n":[123456789012345678901]}}],"n":123456789012345678901}"#;
        let read = parse_with_exact_fields(text, &["args"]).unwrap();
        assert_eq!(read["args"]["n"], 1);
        assert_eq!(read["parts"][0]["args"], r#"{"n":[123456789012345678901]}"#);
        assert!(read["n"].is_f64());
        // Other numbers are those of the parser.
        for text in ["123456789012345678901.0", "1234567890123456789012e1"] {
            let parsed: Value = serde_json::from_str(text).unwrap();
            check(text, &parsed.to_string());
        }
        kept(r#"["\\\"",123456789012345678901]"#);
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "{]",
            "nul",
            "1 2",
            "'a'",
            "NaN",
            "[1,]",
            "[\u{feff}1]",
            r#""\ud8""#,
        ] {
            assert!(Json::parse(text).is_err(), "{text:?}");
        }
        assert!(Json::parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn damaged_text_is_shown_as_a_string() {
        assert_eq!(
            Json::from_text("{".into()).value(),
            Value::String("{".into())
        );
    }

    #[test]
    fn lists_are_joined_as_texts_and_damage_is_no_panic() {
        let check = |old: &str, new: &str, expected: &str| {
            let joined = Json::from_text(old.into())
                .into_list()
                .concat(&Json::from_text(new.into()).into_list());
            assert_eq!(joined.as_str(), expected);
        };
        check("[]", "[]", "[]");
        check("[]", "1", "[1]");
        check("[1]", "[]", "[1]");
        check("[[]]", "[2,3]", "[[],2,3]");
        check("{}", "null", "[{},null]");
        for (old, new) in [("[", "["), ("", ""), ("[\u{e9}", "[1]"), ("[1]", "[\u{e9}")] {
            let _ = Json::from_text(old.into())
                .into_list()
                .concat(&Json::from_text(new.into()).into_list());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_number_is_read_back_as_it_was(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
            let once = Json::from(Value::from(number));
            prop_assert_eq!(once.value().as_f64(), Some(number));
            prop_assert_eq!(Json::parse(once.as_str()), Ok(once));
        }
    }
}
