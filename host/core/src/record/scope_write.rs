//! Writes to scopes, as attempts return them. How they become values is in `environment::scope`.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::record::json::Json;

/// The name of the scope that is private to the acting role.
pub const ROLE_SCOPE: &str = "role";

/// A change of a key. Writes are kept in the order in which the guest made them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// `role` or the name of a shared scope.
    pub scope: String,
    /// The key.
    pub key: String,
    /// The change.
    pub change: ScopeChange,
}

/// A change of the value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScopeChange {
    /// Sets the value, or passes it to the reducer of the scope.
    Set(Json),
    /// Removes the key.
    Delete,
}
