//! The rules of a team, and a team under the rules of recorded events.

use alloc::sync::Arc;

use super::{React, Role, Team};
use crate::record::rules::{RoleRules, Rules};

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
            role.deliver = rules.deliver;
            role.answer_form = rules.answer_form.clone();
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
            React::ByOrder | React::PlanAndAct | React::Human | React::Tools(_) => (None, None),
        };
        Self {
            profile: role.profile.clone(),
            max_loop,
            thinker,
            deliver: role.deliver,
            answer_form: role.answer_form.clone(),
        }
    }
}
