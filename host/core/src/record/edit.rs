//! Edits: values that an operator changes in a saved state when another lineage starts from it.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::record::id::RoleId;
use crate::record::json::Json;
use crate::record::scope_write::{ROLE_SCOPE, Write};

/// A new value for a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The scope.
    pub scope: EditedScope,
    /// The key.
    pub key: String,
    /// The new value. It replaces the old one, whatever the reducer of the scope is.
    pub value: Json,
}

impl Edit {
    /// Returns whether a write of this role is to the same key.
    pub fn is_written_by(&self, role: RoleId, write: &Write) -> bool {
        let is_same_scope = match &self.scope {
            EditedScope::Shared(name) => write.scope == *name,
            EditedScope::Role(id) => write.scope == ROLE_SCOPE && *id == role,
        };
        is_same_scope && write.key == self.key
    }
}

/// A scope as an operator sees it, including the private scopes of roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EditedScope {
    /// A shared scope.
    Shared(String),
    /// The private scope of a role.
    Role(RoleId),
}
