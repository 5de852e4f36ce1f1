//! The error of JSON that cannot be converted to a WIT type.

use std::fmt;

use serde_json::Value;
use strata_core::record::json::JsonError;

/// The maximum length of a value in an error.
const MAX_VALUE_BYTES: usize = 60;

/// JSON that does not fit a type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonMismatch {
    /// The location in the document, as a JSON pointer.
    pointer: String,
    reason: MismatchReason,
}

#[derive(Debug, PartialEq, Eq)]
enum MismatchReason {
    Unexpected {
        expected: String,
        found: String,
    },
    /// It may fit, but the converted value would be too large.
    TooLarge(JsonError),
}

impl JsonMismatch {
    pub(super) fn new(expected: &str, found: &Value) -> Self {
        let mut found = found.to_string();
        if found.len() > MAX_VALUE_BYTES {
            found.truncate(found.floor_char_boundary(MAX_VALUE_BYTES));
            found.push('…');
        }
        Self {
            pointer: String::new(),
            reason: MismatchReason::Unexpected {
                expected: expected.to_owned(),
                found,
            },
        }
    }

    pub(super) fn in_key(mut self, key: &str) -> Self {
        self.pointer.insert_str(0, &format!("/{key}"));
        self
    }

    pub(super) fn at_index(self, index: usize) -> Self {
        self.in_key(&index.to_string())
    }
}

impl From<JsonError> for JsonMismatch {
    fn from(error: JsonError) -> Self {
        Self {
            pointer: String::new(),
            reason: MismatchReason::TooLarge(error),
        }
    }
}

impl fmt::Display for JsonMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            MismatchReason::Unexpected { expected, found } => {
                write!(f, "expected {expected}, found `{found}`")?
            }
            // The location where the size limit was reached is not meaningful.
            MismatchReason::TooLarge(error) => {
                return write!(f, "as a value of its type it is {error}");
            }
        }
        if self.pointer.is_empty() {
            Ok(())
        } else {
            write!(f, " (at `{}`)", self.pointer)
        }
    }
}
