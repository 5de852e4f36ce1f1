//! The rules: what a team's file may change from one resume to the next although the meaning of recorded events
//! depends on it. They are recorded with every start and resume, so that the past is read back under the rules it
//! was made under. What may not change at all is in `shape`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::team::{React, Reducer, Role, Team, Thinker};

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
    /// What chooses them.
    pub thinker: Option<Thinker>,
}

impl Rules {
    /// The rules of a team.
    pub fn of(team: &Team) -> Self {
        Self {
            roles: team.roles.iter().map(RoleRules::of).collect(),
            scopes: team.scopes.clone(),
        }
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
            if let React::Choose { max_loop, thinker } = &mut role.react {
                *max_loop = rules.max_loop.unwrap_or(*max_loop);
                *thinker = rules.thinker.unwrap_or(*thinker);
            }
        }
        Arc::new(changed)
    }
}

impl RoleRules {
    fn of(role: &Role) -> Self {
        let (max_loop, thinker) = match role.react {
            React::Choose { max_loop, thinker } => (Some(max_loop), Some(thinker)),
            React::ByOrder | React::PlanAndAct | React::Human => (None, None),
        };
        Self {
            profile: role.profile.clone(),
            max_loop,
            thinker,
        }
    }
}
