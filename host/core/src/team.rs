//! The definition of a team: static, complete, valid. How it is parsed and validated is in the
//! host's `manifest`.

pub mod condition;
mod rules;
mod shape;
pub mod tools;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::record::edit::EditedScope;
use crate::record::human_request::AnswerForm;
use crate::record::id::{ActionId, JoinId, RoleId, Slot, SlotKind};
use crate::record::money::Usd;
use crate::record::rules::{Reducer, Thinker};
use crate::record::shape::{DeliveryMode, JoinMode};
use crate::record::spending::Spending;
use crate::record::turn::ToolRef;

use condition::Condition;
use tools::ToolLoop;

/// A team.
#[derive(Clone, Debug)]
pub struct Team {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub desc: String,
    /// Its roles, in the order of declaration. At most 65,535.
    pub roles: Vec<Role>,
    /// Named sets of roles.
    pub groups: BTreeMap<String, Vec<RoleId>>,
    /// Routes. A sender that has routes is not routed by watched labels.
    pub routes: Vec<Route>,
    /// Its joins, in the order of declaration. At most 65,535.
    pub joins: Vec<Join>,
    /// Shared scopes by name, each with the reducer of concurrent writes.
    pub scopes: BTreeMap<String, Option<Reducer>>,
    /// Whether names that nobody in the team has may belong to an external environment.
    pub external: ExternalEnvironment,
    /// How the team is run.
    pub policy: Policy,
}

/// How a team is run. Unlike the rest of the definition, this may change from one resume to the
/// next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What happens to the other roles after a fault.
    pub on_fault: OnFault,
    /// How many steps may be made in total; `None` for no limit.
    pub max_steps: Option<u64>,
    /// How many calls may run concurrently; at least 1.
    pub max_parallel: usize,
    /// The budget in dollars in total; `None` for no limit.
    pub budget: Option<Usd>,
    /// Further budgets.
    pub scoped_budgets: ScopedBudgets,
    /// How many bytes of memory the messages, the values of scopes and the results of a run may take.
    pub state_bytes: u64,
    /// The limits that an operator has lowered.
    pub lowered: LoweredLimits,
}

/// The limits of a team that an operator has lowered, with a note about each for the fault of what
/// reaches it: raising the limit in the team does not help then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoweredLimits {
    /// About `Policy::state_bytes`.
    pub state_bytes: Option<String>,
    /// About `Policy::max_steps`.
    pub max_steps: Option<String>,
    /// About `ToolLoop::max_turns`, by role.
    pub max_turns: BTreeMap<RoleId, String>,
}

impl LoweredLimits {
    /// Returns a note as it follows the name of a limit: in parentheses, or nothing if there is none.
    pub(crate) fn remark(note: Option<&String>) -> String {
        note.map(|note| format!(" ({note})")).unwrap_or_default()
    }
}

/// The default of `Policy::state_bytes`: enough for a million short messages, and small enough that a
/// machine has room for several runs.
pub const DEFAULT_STATE_BYTES: u64 = 128 << 20;

/// The most that may be used in total, across all resumes; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Money.
    pub usd: Option<Usd>,
    /// Tokens of language models, counting requests and replies together.
    pub tokens: Option<u64>,
}

impl BudgetLimits {
    /// Returns whether this spending has reached one of the limits.
    pub(crate) fn is_reached_by(&self, spending: &Spending) -> bool {
        self.usd.is_some_and(|max| spending.usd >= max)
            || self.tokens.is_some_and(|max| spending.tokens >= max)
    }
}

/// Limits in addition to the budget of the team in dollars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopedBudgets {
    /// Tokens of the whole team.
    pub tokens: Option<u64>,
    /// The limits of roles.
    pub roles: BTreeMap<RoleId, BudgetLimits>,
    /// The limits of single actions. An action gets an error when its own budget is used up, and
    /// can handle that.
    pub actions: BTreeMap<Slot, BudgetLimits>,
}

impl ScopedBudgets {
    /// Returns whether tokens are limited anywhere.
    pub fn has_token_limit(&self) -> bool {
        let others = self.roles.values().chain(self.actions.values());
        self.tokens.is_some() || others.into_iter().any(|caps| caps.tokens.is_some())
    }
}

/// Whether there is an external environment to which messages can be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalEnvironment {
    /// There is none. A message to a name that nobody has becomes a dead letter.
    Absent,
    /// There is one.
    Present,
}

/// What happens to the rest of the team after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// The other roles of the step finish, then the run stops.
    Stop,
    /// The other roles continue until nothing is left to do.
    Park,
}

/// A role.
#[derive(Clone, Debug)]
pub struct Role {
    /// Unique in the team.
    pub name: String,
    /// Its job title.
    pub profile: String,
    /// What it should achieve.
    pub goal: String,
    /// What it must observe.
    pub constraints: String,
    /// A free description.
    pub desc: String,
    /// The labels of the messages it receives.
    pub watch: BTreeSet<String>,
    /// Its aliases.
    pub addresses: Vec<String>,
    /// The name of the model that answers its requests that name none; `None` for the team's.
    pub model: Option<String>,
    /// Whether it handles all its mail in one activation, or each message in one of its own. Messages
    /// of a join that delivers each are always handled alone.
    pub deliver: DeliveryMode,
    /// How it chooses its next action.
    pub react: React,
    /// Its actions; at most 65,535.
    pub actions: Vec<Action>,
    /// What its answers must be like, if a human answers for it.
    pub answer_form: AnswerForm,
}

/// How a role chooses its next action.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// It has no actions: a human answers its mail.
    Human,
    /// Its model works in a loop with tools, among them its actions.
    Tools(Box<ToolLoop>),
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name, unique in the role. It is the label of what the action publishes.
    pub name: String,
    /// How often a failed call is retried.
    pub retry: RetryPolicy,
}

/// When a failed call is retried automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many further attempts are made.
    pub retries: u32,
    /// The pause before the first retry, in milliseconds. It is doubled each time.
    pub backoff_ms: u32,
}

impl RetryPolicy {
    /// The policy of calls that are never retried.
    pub(crate) const NEVER: Self = Self {
        retries: 0,
        backoff_ms: 0,
    };
}

/// A route for the messages of a role.
#[derive(Clone, Debug)]
pub struct Route {
    /// The sending role.
    pub from: RoleId,
    /// A text for people.
    pub label: String,
    /// The arms. The first whose condition holds is taken; the last may have no condition.
    pub arms: Vec<RouteArm>,
}

/// One possible path of a route.
#[derive(Clone, Debug)]
pub struct RouteArm {
    /// The condition; without one the arm always holds.
    pub when: Option<Condition>,
    /// The names of roles, groups, joins, or `<self>`, `<all>`. If there are none, nobody receives what
    /// takes this path. Aliases are not allowed: the targets are part of the shape of a team, and an alias may become that of another role.
    pub to: Vec<String>,
}

/// A join, where messages of several roles wait for each other.
#[derive(Clone, Debug)]
pub struct Join {
    /// Its name, unique among all names of the team.
    pub id: String,
    /// The roles whose messages it takes, without duplicates.
    pub from: Vec<RoleId>,
    /// The name of a role, a group, or another join that takes the messages of all of `from`. Joins
    /// do not form cycles. Aliases are not allowed, as in `RouteArm::to`.
    pub to: String,
    /// When it fires.
    pub mode: JoinMode,
    /// How the messages it releases are handled.
    pub deliver: DeliveryMode,
}

/// The name of the component that chooses the next action of a role.
pub const THINK: &str = "think";

/// The beginning of the names of tools that hand over to another role.
pub const HANDOFF_PREFIX: &str = "transfer_to_";

/// The name under which the costs of a tools role's model appear.
pub const TURN: &str = "turn";

/// The name of what writes the summaries of a tools role.
pub const SUMMARY: &str = "summary";

/// Returns the name under which an action is saved.
pub fn saved_action_name(role: &str, action: &str) -> String {
    alloc::format!("{role}/{action}")
}

/// Returns the name under which something of a role is saved that is not an action: what chooses
/// its actions (`think`) or its model (`turn`). It is distinct from the saved names of the actions,
/// one of which may have the same name.
pub fn saved_part_name<'a>(
    role: &str,
    part: &str,
    mut actions: impl Iterator<Item = &'a str>,
) -> String {
    if actions.any(|action| action == part) {
        alloc::format!("{role}/<{part}>")
    } else {
        alloc::format!("{role}/{part}")
    }
}

impl Team {
    /// Returns a role. Panics if the id belongs to another team: ids are checked where they enter.
    pub fn role(&self, id: RoleId) -> &Role {
        &self.roles[id.index()]
    }

    /// Returns the ids of all roles, in order.
    pub fn role_ids(&self) -> impl DoubleEndedIterator<Item = RoleId> + use<> {
        (0..self.roles.len()).map(|i| RoleId(i as u16))
    }

    /// Returns a join. Panics if the id belongs to another team.
    pub fn join(&self, id: JoinId) -> &Join {
        &self.joins[id.index()]
    }

    /// Returns the ids of all joins, in order.
    pub fn join_ids(&self) -> impl Iterator<Item = JoinId> + use<> {
        (0..self.joins.len()).map(|i| JoinId(i as u16))
    }

    /// Returns whether the team has this scope.
    pub(crate) fn has_scope(&self, scope: &EditedScope) -> bool {
        match scope {
            EditedScope::Shared(name) => self.scopes.contains_key(name),
            EditedScope::Role(id) => id.index() < self.roles.len(),
        }
    }

    /// Returns the name of a slot: `ROLE.ACTION` or `ROLE.think`.
    pub fn slot_name(&self, slot: Slot) -> String {
        let role = self.role(slot.role);
        alloc::format!("{}.{}", role.name, role.component_name(slot.kind))
    }

    /// Returns the names of all roles, then their aliases. If a name occurs several times, the
    /// first one counts.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, RoleId)> {
        let names = self.role_ids().map(|id| (self.role(id).name.as_str(), id));
        let aliases = self.role_ids().flat_map(|id| {
            self.role(id)
                .addresses
                .iter()
                .map(move |alias| (alias.as_str(), id))
        });
        names.chain(aliases)
    }

    /// Returns the role with this name, or else this alias.
    pub fn find_role(&self, name: &str) -> Option<RoleId> {
        self.names()
            .find(|(calling, _)| *calling == name)
            .map(|(_, id)| id)
    }
}

impl Join {
    /// Returns the index of a role among the sources, by looking at all of them.
    pub fn source_index(&self, role: RoleId) -> Option<usize> {
        self.from.iter().position(|source| *source == role)
    }
}

impl Role {
    /// Returns an action. Panics if the id belongs to another role.
    pub fn action(&self, id: ActionId) -> &Action {
        &self.actions[id.index()]
    }

    /// Returns the name of one of its components: the name of an action, or `think`.
    pub fn component_name(&self, part: SlotKind) -> &str {
        match part {
            SlotKind::Think => THINK,
            SlotKind::Action(action) => &self.action(action).name,
            SlotKind::Turn => TURN,
            SlotKind::Guard(moment) => moment.name(),
            SlotKind::SkillScript(language) => language.component_name(),
            SlotKind::Summary => SUMMARY,
        }
    }

    /// Returns the name of one of its tools. It is empty for a tool of a server, whose name is that of
    /// the tool call.
    pub fn tool_name(&self, tool: ToolRef) -> &str {
        let defined = self.tool_loop().and_then(|tools| tools.tool(tool));
        match (defined, tool) {
            (Some(tool), _) => &tool.name,
            (None, ToolRef::Action(action)) => &self.action(action).name,
            (None, ToolRef::Host(tool)) => tool.name(),
            (None, ToolRef::Handoff(_) | ToolRef::Role(_) | ToolRef::Server { .. }) => "",
        }
    }

    /// Returns how its model works with tools, if it does.
    pub fn tool_loop(&self) -> Option<&ToolLoop> {
        match &self.react {
            React::Tools(tools) => Some(tools),
            _ => None,
        }
    }

    /// Returns the labels of the messages that it publishes, unless an action chooses others: the
    /// names of its actions, or its own name if its model or a human answers.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let own_label = match self.react {
            React::Tools(_) | React::Human => Some(self.name.as_str()),
            React::ByOrder | React::Choose { .. } | React::PlanAndAct => None,
        };
        let actions = self.actions.iter().filter(move |_| own_label.is_none());
        let names = actions.map(|action| action.name.as_str());
        own_label.into_iter().chain(names)
    }

    /// Returns the texts that describe the role to a component or a model.
    pub fn to_profile(&self) -> RoleProfile {
        RoleProfile {
            name: self.name.clone(),
            profile: self.profile.clone(),
            goal: self.goal.clone(),
            constraints: self.constraints.clone(),
            desc: self.desc.clone(),
        }
    }

    /// Returns the text for `Message::role`: the name and the job title.
    pub fn speaker_name(&self) -> String {
        if self.profile.is_empty() {
            self.name.clone()
        } else {
            alloc::format!("{}({})", self.name, self.profile)
        }
    }
}

/// The acting role, as it is described to a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleProfile {
    /// The role's name.
    pub name: String,
    /// Its job title.
    pub profile: String,
    /// What it should achieve.
    pub goal: String,
    /// What it must observe.
    pub constraints: String,
    /// A free description.
    pub desc: String,
}

/// An action that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its description of itself; empty if there is none.
    pub description: String,
}
