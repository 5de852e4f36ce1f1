//! JSON as checked, compact text. Values are built only where something looks inside.

use alloc::string::{String, ToString};
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A valid JSON document in its compact form, keys sorted. Equal documents have equal text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Json(String);

/// Text that is not a JSON document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON document: {0}")]
pub struct JsonError(String);

/// How deep a document may be nested. Parsers stop at 128 levels, and a document must stay readable inside the files
/// that hold it.
pub const MAX_DEPTH: usize = 100;

/// How deep a document is nested; 0 for one that is neither a list nor an object.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

impl Json {
    /// Checks and normalises.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let value: Value = serde_json::from_str(text).map_err(|e| JsonError(e.to_string()))?;
        if depth(&value) > MAX_DEPTH {
            return Err(JsonError(alloc::format!("it is nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(Self::from(value))
    }

    /// `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The document as a value.
    pub fn value(&self) -> Value {
        // Text from a damaged store can be anything; it is then shown as what it is, a string.
        serde_json::from_str(&self.0).unwrap_or_else(|_| Value::String(self.0.clone()))
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(value.to_string())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
