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

impl Json {
    /// Checks and normalises. Nesting is limited by the parser (128 levels).
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let value: Value = serde_json::from_str(text).map_err(|e| JsonError(e.to_string()))?;
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
