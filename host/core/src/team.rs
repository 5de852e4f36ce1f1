//! A team as it is written down: static, complete, valid. How it is parsed and checked is the host's `manifest`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::budget::Purses;
use crate::condition::Condition;
use crate::id::{ActionId, JoinId, Part, RoleId, Slot};
use crate::money::Usd;

/// A team.
#[derive(Clone, Debug)]
pub struct Team {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub desc: String,
    /// Its roles, in the order in which they are declared. At most 65,535.
    pub roles: Vec<Role>,
    /// Named sets of roles.
    pub groups: BTreeMap<String, Vec<RoleId>>,
    /// Edges that replace watching for their senders.
    pub routes: Vec<Route>,
    /// Where messages wait for each other, in the order in which they are declared. At most 65,535.
    pub joins: Vec<Join>,
    /// Shared scopes of state by name, with what unites concurrent writes.
    pub scopes: BTreeMap<String, Option<Reducer>>,
    /// Whether names that stand for nobody here may stand for somebody outside.
    pub outside: Outside,
    /// How it is run.
    pub policy: Policy,
}

/// How a team is run. Unlike the rest it may change from one resume to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What a fault does to the others.
    pub on_fault: OnFault,
    /// How many steps may be made in all; none for no limit.
    pub max_steps: Option<u64>,
    /// How many calls may run at once; at least 1.
    pub max_parallel: usize,
    /// What may be spent in all; none for no limit.
    pub budget: Option<Usd>,
    /// What else is capped.
    pub purses: Purses,
}

/// Whether there is somebody outside of the team to whom messages can be handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Nobody: a name that stands for nobody here makes a dead letter.
    Nobody,
    /// Somebody, reached by an external environment.
    Somebody,
}

/// What a fault does to the rest of the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// The others of its step finish, then the run stops.
    Stop,
    /// The others go on until nothing is left to do.
    Park,
}

/// A role.
#[derive(Clone, Debug)]
pub struct Role {
    /// Unique in the team.
    pub name: String,
    /// Its job.
    pub profile: String,
    /// What it is to achieve.
    pub goal: String,
    /// What it has to respect.
    pub constraints: String,
    /// A free description.
    pub desc: String,
    /// The labels it hears of.
    pub watch: BTreeSet<String>,
    /// Other names it answers to.
    pub addresses: Vec<String>,
    /// How it goes from one action to the next.
    pub react: React,
    /// Its actions; at most 65,535.
    pub actions: Vec<Action>,
}

/// How a role goes from one action to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum React {
    /// All actions, in order.
    ByOrder,
    /// Something chooses the next action each time.
    Choose {
        /// How many actions one activation may run.
        max_loop: u32,
        /// What chooses.
        thinker: Thinker,
    },
    /// The first action plans tasks, the others carry them out.
    PlanAndAct,
    /// It has no actions: a person answers its mail.
    Human,
}

/// What chooses the next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Thinker {
    /// A component.
    Component,
    /// The team's language model.
    Model,
    /// Nothing: the role has one action, which is chosen without asking, as often as the loop limit says.
    OnlyAction,
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Unique in its role; the label of what it publishes.
    pub name: String,
    /// When it is tried again by itself.
    pub retry: Retry,
}

/// When a failed call is tried again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How many more tries it gets.
    pub retries: u32,
    /// How long to wait before the first of them; doubled each time.
    pub backoff_ms: u32,
}

/// An edge of the graph.
#[derive(Clone, Debug)]
pub struct Route {
    /// The sending role.
    pub from: RoleId,
    /// Text for people.
    pub label: String,
    /// The first arm whose condition holds is taken; the last may have none.
    pub arms: Vec<Arm>,
}

/// One possible way of a route.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Holds always when there is none.
    pub when: Option<Condition>,
    /// Names of roles, groups, joins, or `<self>`, `<all>`. Not aliases: what leads where is part of a team's shape, and
    /// an alias may become another role's.
    pub to: Vec<String>,
}

/// A place where the messages of several roles wait for each other.
#[derive(Clone, Debug)]
pub struct Join {
    /// Unique among all names of the team.
    pub id: String,
    /// The roles whose messages it takes, each once.
    pub from: Vec<RoleId>,
    /// The name of a role, a group, or of another join that takes the messages of all of `from`. No way over joins leads
    /// back to where it began. Not an alias, as in `Arm::to`.
    pub to: String,
    /// When it fires.
    pub mode: Mode,
    /// How what it releases is handled.
    pub deliver: Deliver,
}

/// When a join fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As soon as every source has a message in it, with one of each.
    All,
    /// With every message.
    Any,
    /// Once the team is quiet, with all messages that came.
    Active,
}

impl Mode {
    /// The word for it in team files.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Any => "any",
            Self::Active => "active",
        }
    }
}

/// How mail is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deliver {
    /// In one activation with the mail around it.
    Batch,
    /// In an activation of its own.
    Each,
}

impl Deliver {
    /// The word for it in team files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Each => "each",
        }
    }
}

/// What unites the values that several roles write to one key in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reducer {
    /// A list, in the order of the roles.
    Append,
    /// The sum.
    Add,
    /// The greatest.
    Max,
    /// One object with the keys of all.
    Merge,
    /// The last, in the order of the roles.
    Last,
}

/// What the component is called that a role chooses with.
pub const THINK: &str = "think";

/// Under which name an action is saved.
pub fn saved_action(role: &str, action: &str) -> String {
    alloc::format!("{role}/{action}")
}

/// Under which name the component is saved that a role chooses with. One of its actions may have its name, too.
pub fn saved_thinker<'a>(role: &str, mut actions: impl Iterator<Item = &'a str>) -> String {
    if actions.any(|action| action == THINK) {
        alloc::format!("{role}/<{THINK}>")
    } else {
        alloc::format!("{role}/{THINK}")
    }
}

impl Team {
    /// A role by its id. Panics on an id of another team: ids are checked where they enter.
    pub fn role(&self, id: RoleId) -> &Role {
        &self.roles[id.index()]
    }

    /// The ids of all roles, in order.
    pub fn role_ids(&self) -> impl DoubleEndedIterator<Item = RoleId> + use<> {
        (0..self.roles.len()).map(|i| RoleId(i as u16))
    }

    /// A join by its id. Panics on an id of another team.
    pub fn join(&self, id: JoinId) -> &Join {
        &self.joins[id.index()]
    }

    /// The ids of all joins, in order.
    pub fn join_ids(&self) -> impl Iterator<Item = JoinId> + use<> {
        (0..self.joins.len()).map(|i| JoinId(i as u16))
    }

    /// What a component's place is called: `ROLE.ACTION` or `ROLE.think`.
    pub fn slot_name(&self, slot: Slot) -> String {
        let role = self.role(slot.role);
        alloc::format!("{}.{}", role.name, role.part_name(slot.part))
    }

    /// What roles are called: their names, then their aliases. Of several with one name the first is meant.
    pub(crate) fn callings(&self) -> impl Iterator<Item = (&str, RoleId)> {
        let names = self.role_ids().map(|id| (self.role(id).name.as_str(), id));
        let aliases = self.role_ids().flat_map(|id| {
            self.role(id)
                .addresses
                .iter()
                .map(move |alias| (alias.as_str(), id))
        });
        names.chain(aliases)
    }

    /// The role with this name or, failing that, this alias.
    pub fn find(&self, name: &str) -> Option<RoleId> {
        self.callings()
            .find(|(calling, _)| *calling == name)
            .map(|(_, id)| id)
    }
}

impl Join {
    /// The place of a role among the sources.
    pub fn source(&self, role: RoleId) -> Option<usize> {
        self.from.iter().position(|source| *source == role)
    }
}

impl Role {
    /// An action by its id. Panics on an id of another role.
    pub fn action(&self, id: ActionId) -> &Action {
        &self.actions[id.index()]
    }

    /// What a part of it is called: an action by its name.
    pub fn part_name(&self, part: Part) -> &str {
        match part {
            Part::Think => THINK,
            Part::Action(action) => &self.action(action).name,
        }
    }

    /// What messages say of who speaks.
    pub fn speaker(&self) -> String {
        if self.profile.is_empty() {
            self.name.clone()
        } else {
            alloc::format!("{}({})", self.name, self.profile)
        }
    }
}

/// Who is acting, as a component is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The role's name.
    pub name: String,
    /// Its job.
    pub profile: String,
    /// What it is to achieve.
    pub goal: String,
    /// What it has to respect.
    pub constraints: String,
    /// A free description.
    pub desc: String,
}

/// An action as something to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// What it says of itself; empty when nothing.
    pub description: String,
}

/// One piece of planned work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What is to be done.
    pub text: String,
    /// The name of the action that shall do it.
    pub action: Option<String>,
}
