//! The error of JSON that cannot be converted to a WIT type.

use std::fmt;

use serde_json::Value;
use strata_core::json::JsonError;

/// The maximum length of a value in an error.
const SHOWN_BYTES: usize = 60;

/// JSON that does not fit a type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// The location in the document, as a JSON pointer.
    place: String,
    why: Why,
}

#[derive(Debug, PartialEq, Eq)]
enum Why {
    Other {
        expected: String,
        found: String,
    },
    /// It may fit, but the converted value would be too large.
    Room(JsonError),
}

impl Mismatch {
    pub(super) fn new(expected: &str, found: &Value) -> Self {
        let mut found = found.to_string();
        if found.len() > SHOWN_BYTES {
            found.truncate(found.floor_char_boundary(SHOWN_BYTES));
            found.push('…');
        }
        Self {
            place: String::new(),
            why: Why::Other {
                expected: expected.to_owned(),
                found,
            },
        }
    }

    pub(super) fn under(mut self, key: &str) -> Self {
        self.place.insert_str(0, &format!("/{key}"));
        self
    }

    pub(super) fn at(self, index: usize) -> Self {
        self.under(&index.to_string())
    }
}

impl From<JsonError> for Mismatch {
    fn from(error: JsonError) -> Self {
        Self {
            place: String::new(),
            why: Why::Room(error),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Other { expected, found } => write!(f, "expected {expected}, found `{found}`")?,
            // The location where the size limit was reached is not meaningful.
            Why::Room(error) => return write!(f, "as a value of its type it is {error}"),
        }
        if self.place.is_empty() {
            Ok(())
        } else {
            write!(f, " (at `{}`)", self.place)
        }
    }
}
