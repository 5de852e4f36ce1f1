//! Edits: what an operator changes about a saved state when another lineage is begun with it.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::environment::scope::{ROLE_SCOPE, Write};
use crate::id::RoleId;
use crate::json::Json;
use crate::team::Team;

/// One value that is put in place of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The scope.
    pub scope: Edited,
    /// The key.
    pub key: String,
    /// Its value from now on, whatever unites the writes of roles.
    pub value: Json,
}

impl Edit {
    /// Whether a role's write is to the same key.
    pub fn is_written_by(&self, role: RoleId, write: &Write) -> bool {
        let is_same_scope = match &self.scope {
            Edited::Shared(name) => write.scope == *name,
            Edited::Role(id) => write.scope == ROLE_SCOPE && *id == role,
        };
        is_same_scope && write.key == self.key
    }
}

/// A scope as an operator sees it, who sees all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edited {
    /// A shared one.
    Shared(String),
    /// The own one of a role.
    Role(RoleId),
}

impl Edited {
    /// Whether a team has this scope.
    pub(crate) fn is_in(&self, team: &Team) -> bool {
        match self {
            Self::Shared(name) => team.scopes.contains_key(name),
            Self::Role(id) => id.index() < team.roles.len(),
        }
    }
}
