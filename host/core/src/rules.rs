//! The rules: those properties of a team that may change from one resume to the next although the
//! meaning of recorded events depends on them. They are recorded with every start and resume, so
//! that older events are applied under the rules that held when they were recorded. Properties that
//! may not change at all are in `shape`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::team::{React, Reducer, Role, Team, Thinker};

/// The properties of a team that recorded events depend on and that may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The rules of each role, in the order of the team.
    pub roles: Vec<RoleRules>,
    /// The shared scopes, each with the reducer of concurrent writes.
    pub scopes: BTreeMap<String, Option<Reducer>>,
}

/// The properties of a role that recorded events depend on and that may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRules {
    /// Its job title, which its messages contain.
    pub profile: String,
    /// How many actions one activation may run, if the role chooses its actions.
    pub max_loop: Option<u32>,
    /// What chooses the actions.
    pub thinker: Option<Thinker>,
}

impl Rules {
    /// Returns the rules of a team.
    pub fn from_team(team: &Team) -> Self {
        Self {
            roles: team.roles.iter().map(RoleRules::from_role).collect(),
            scopes: team.scopes.clone(),
        }
    }

    /// Returns the team with these rules instead of its own.
    pub(crate) fn apply_to(&self, team: &Arc<Team>) -> Arc<Team> {
        if *self == Self::from_team(team) {
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
    fn from_role(role: &Role) -> Self {
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
