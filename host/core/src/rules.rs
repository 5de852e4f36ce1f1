//! The rules: what a team's file may change from one resume to the next although the meaning of recorded events
//! depends on it. They are recorded with every start and resume, so that the past is read back under the rules it
//! was made under. What may not change at all is in `shape`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::team::{React, Reducer, Role, Team};

/// What recorded events depend on and may yet change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Of each role, in order.
    pub roles: Vec<RoleRules>,
    /// The shared scopes, with what unites concurrent writes.
    pub scopes: BTreeMap<String, Option<Reducer>>,
}

/// What recorded events of a role depend on and may yet change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRules {
    /// Its job, which its messages name.
    pub profile: String,
    /// How many actions one activation may run, where it chooses them.
    pub max_loop: Option<u32>,
}

impl Rules {
    /// The rules of a team.
    pub fn of(team: &Team) -> Self {
        Self { roles: team.roles.iter().map(RoleRules::of).collect(), scopes: team.scopes.clone() }
    }

    /// The team under these rules instead of its own.
    pub(crate) fn over(&self, team: &Arc<Team>) -> Arc<Team> {
        if *self == Self::of(team) {
            return team.clone();
        }
        let mut changed = Team::clone(team);
        changed.scopes = self.scopes.clone();
        for (role, rules) in changed.roles.iter_mut().zip(&self.roles) {
            role.profile = rules.profile.clone();
            if let (React::Choose { max_loop, .. }, Some(limit)) = (&mut role.react, rules.max_loop) {
                *max_loop = limit;
            }
        }
        Arc::new(changed)
    }
}

impl RoleRules {
    fn of(role: &Role) -> Self {
        let max_loop = match role.react {
            React::Choose { max_loop, .. } => Some(max_loop),
            React::ByOrder | React::PlanAndAct | React::Human => None,
        };
        Self { profile: role.profile.clone(), max_loop }
    }
}
