//! The shape of a team: what must stay the same for a saved state to fit.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// The text for the react mode of human roles.
pub const HUMAN_MODE: &str = "human";

/// The properties of a team that must stay the same: roles, names and order of actions, react
/// modes, watched labels, routes, joins and groups. Components, limits, grants, budgets and
/// configuration are not among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The roles, in order.
    pub roles: Vec<RoleShape>,
    /// The members of groups, by name of the group.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Routes, as text.
    pub routes: Vec<String>,
    /// The joins, in order.
    pub joins: Vec<JoinShape>,
}

/// The properties of a join that must stay the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinShape {
    /// Its id.
    pub id: String,
    /// The names of its sources, in order.
    pub from: Vec<String>,
    /// The name of the target.
    pub to: String,
    /// When it fires.
    pub mode: JoinMode,
    /// How the messages it releases are handled.
    pub deliver: DeliveryMode,
}

/// The properties of a role that must stay the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleShape {
    /// Its name.
    pub name: String,
    /// The names of its actions, in order.
    pub actions: Vec<String>,
    /// The labels it watches, sorted.
    pub watch: Vec<String>,
    /// Its react mode, as text.
    pub react: String,
    /// The names of its tools, in order.
    pub tools: Vec<String>,
}

impl Shape {
    /// Returns the differences of `other`, one line each; empty if it fits.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        if self == other {
            return lines;
        }
        for role in &self.roles {
            match other.roles.iter().find(|o| o.name == role.name) {
                None => lines.push(format!("role `{}` is missing", role.name)),
                Some(found) => role.compare(found, &mut lines),
            }
        }
        for role in &other.roles {
            if !self.roles.iter().any(|r| r.name == role.name) {
                lines.push(format!("role `{}` is new", role.name));
            }
        }
        let order = |shape: &Self| {
            shape
                .roles
                .iter()
                .map(|r| r.name.clone())
                .collect::<Vec<_>>()
        };
        if lines.is_empty() && order(self) != order(other) {
            lines.push(format!(
                "roles are in the order {}, saved {}",
                quoted_list(&order(other)),
                quoted_list(&order(self))
            ));
        }
        compare_groups(&self.groups, &other.groups, &mut lines);
        for route in other.routes.iter().filter(|r| !self.routes.contains(r)) {
            lines.push(format!("route {route} is new"));
        }
        for route in self.routes.iter().filter(|r| !other.routes.contains(r)) {
            lines.push(format!("route {route} is missing"));
        }
        if lines.is_empty() && self.routes != other.routes {
            lines.push("routes are in another order".into());
        }
        self.compare_joins(other, &mut lines);
        lines
    }
}

/// When a join fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinMode {
    /// As soon as it has a message of every source, with one of each.
    All,
    /// On every message.
    Any,
    /// Only when the team is quiet, with all messages it has. The team is active until then.
    Active,
}

impl JoinMode {
    /// Returns the word for it in team files.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Any => "any",
            Self::Active => "active",
        }
    }
}

/// How a message in a mailbox is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryMode {
    /// In one activation together with the messages around it.
    #[default]
    Batch,
    /// In an activation of its own.
    Each,
}

impl DeliveryMode {
    /// Returns the word for it in team files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Each => "each",
        }
    }
}

impl Shape {
    fn compare_joins(&self, other: &Self, lines: &mut Vec<String>) {
        for join in &self.joins {
            match other.joins.iter().find(|found| found.id == join.id) {
                None => lines.push(format!("join `{}` is missing", join.id)),
                Some(found) if found != join => {
                    lines.push(format!(
                        "join `{}` is {}, saved {}",
                        join.id,
                        found.describe(),
                        join.describe()
                    ));
                }
                Some(_) => {}
            }
        }
        for join in other
            .joins
            .iter()
            .filter(|join| !self.joins.iter().any(|saved| saved.id == join.id))
        {
            lines.push(format!("join `{}` is new", join.id));
        }
        if lines.is_empty() && self.joins != other.joins {
            lines.push("joins are in another order".into());
        }
    }
}

impl JoinShape {
    /// Describes the join in the words of the team file.
    fn describe(&self) -> String {
        let (mode, deliver) = (self.mode.name(), self.deliver.name());
        format!(
            "{mode} from {} to `{}` by {deliver}",
            quoted_list(&self.from),
            self.to
        )
    }
}

impl RoleShape {
    fn compare(&self, other: &Self, lines: &mut Vec<String>) {
        let name = &self.name;
        if self.actions != other.actions {
            let (new, old) = (quoted_list(&other.actions), quoted_list(&self.actions));
            lines.push(format!("actions of `{name}` are {new}, saved {old}"));
        }
        if self.tools != other.tools {
            lines.push(format!(
                "tools of `{name}` are {}, saved {}",
                quoted_list(&other.tools),
                quoted_list(&self.tools)
            ));
        }
        if self.watch != other.watch {
            lines.push(format!(
                "watch of `{name}` is {}, saved {}",
                quoted_list(&other.watch),
                quoted_list(&self.watch)
            ));
        }
        if self.react != other.react {
            lines.push(format!(
                "react of `{name}` is {}, saved {}",
                other.react, self.react
            ));
        }
    }
}

fn compare_groups(
    saved: &BTreeMap<String, Vec<String>>,
    now: &BTreeMap<String, Vec<String>>,
    lines: &mut Vec<String>,
) {
    for (name, members) in saved {
        match now.get(name) {
            None => lines.push(format!("group `{name}` is missing")),
            Some(found) if found != members => {
                lines.push(format!(
                    "group `{name}` is {}, saved {}",
                    quoted_list(found),
                    quoted_list(members)
                ));
            }
            Some(_) => {}
        }
    }
    for name in now.keys().filter(|name| !saved.contains_key(*name)) {
        lines.push(format!("group `{name}` is new"));
    }
}

/// Returns names as a list for people, e.g. "[`a`, `b`]".
pub(crate) fn quoted_list(names: &[String]) -> String {
    format!(
        "[{}]",
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    )
}
