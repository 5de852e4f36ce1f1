//! The shape of a team.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Join, React, Role, Route, Team};
use crate::record::id::RoleId;
use crate::record::rules::Thinker;
use crate::record::shape::{HUMAN_MODE, JoinShape, RoleShape, Shape, quoted_list};

impl Shape {
    /// Returns the shape of a team.
    pub fn from_team(team: &Team) -> Self {
        let name = |id: &RoleId| team.role(*id).name.clone();
        Self {
            roles: team.roles.iter().map(RoleShape::from_role).collect(),
            groups: team
                .groups
                .iter()
                .map(|(group, members)| (group.clone(), members.iter().map(name).collect()))
                .collect(),
            routes: team
                .routes
                .iter()
                .map(|route| route_text(team, route))
                .collect(),
            joins: team
                .joins
                .iter()
                .map(|join| JoinShape::from_join(team, join))
                .collect(),
        }
    }
}

impl JoinShape {
    fn from_join(team: &Team, join: &Join) -> Self {
        Self {
            id: join.id.clone(),
            from: join
                .from
                .iter()
                .map(|id| team.role(*id).name.clone())
                .collect(),
            to: join.to.clone(),
            mode: join.mode,
            deliver: join.deliver,
        }
    }
}

impl RoleShape {
    fn from_role(role: &Role) -> Self {
        Self {
            name: role.name.clone(),
            actions: role
                .actions
                .iter()
                .map(|action| action.name.clone())
                .collect(),
            watch: role.watch.iter().cloned().collect(),
            react: react_text(&role.react),
            tools: match &role.react {
                React::Tools(tools) => tools.tools.iter().map(|tool| tool.name.clone()).collect(),
                _ => Vec::new(),
            },
        }
    }
}

/// Returns the react mode in the words of the team file. The loop limit may change and is not
/// included.
fn react_text(react: &React) -> String {
    match react {
        React::ByOrder => "by_order".to_string(),
        React::Choose {
            thinker: Thinker::Component,
            ..
        } => "react (think by a component)".to_string(),
        // What chooses may change with the loop limit and the model.
        React::Choose {
            thinker: Thinker::Model | Thinker::OnlyAction,
            ..
        } => "react (think by the host)".to_string(),
        React::PlanAndAct => "plan_and_act".to_string(),
        React::Human => HUMAN_MODE.to_string(),
        React::Tools(_) => "tools".to_string(),
    }
}

fn route_text(team: &Team, route: &Route) -> String {
    let arms: Vec<String> = route
        .arms
        .iter()
        .map(|arm| match &arm.when {
            Some(when) => format!("{} when {}", quoted_list(&arm.to), when.source()),
            None => quoted_list(&arm.to),
        })
        .collect();
    format!(
        "from `{}` to {}",
        team.role(route.from).name,
        arms.join(", else ")
    )
}
