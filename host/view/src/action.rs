//! One action of a saved state: its component, what it spent, its fault, its host calls and its last
//! output.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::{Fault, FaultCause, FaultKind};
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::message::Message;
use strata_core::record::money::Usd;
use strata_core::record::rules::Thinker;
use strata_core::record::turn::{HostTool, ToolRef};
use strata_core::record::work::{CallKey, Work};
use strata_core::state::activation::OpenCall;
use strata_core::state::budget::charged_slot;
use strata_core::team::tools::{Summariser, Tool};
use strata_core::team::{React, Role, Team};

use super::{
    CommandArgument, HostCallView, RoleActivity, RunOutput, SuggestedCommand,
    index_and_name_of_call,
};

/// What can be shown of a role's work: a part of the role, or one of its tools that is no part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionSubject {
    /// An action, or another part to which costs are charged: the choice of an action (`think`), the replies of a
    /// model (`turn`), the summaries of its conversation (`summary`).
    Slot(Slot),
    /// A tool without a component: one of an MCP server, another role, a handoff, or one of the host.
    Tool {
        /// The role that has it.
        role: RoleId,
        /// Its name.
        name: String,
    },
}

impl ActionSubject {
    /// Returns all that a state has, in the order of the roles: first the parts of a role, then its tools. Tools of
    /// MCP servers are not part of a team; the state has those that are called in open activations.
    pub fn all(stepper: &Stepper) -> Vec<Self> {
        let team = stepper.team();
        let mut subjects = Vec::new();
        for id in team.role_ids() {
            for kind in slot_kinds(stepper, id) {
                subjects.push(Self::Slot(Slot { role: id, kind }));
            }
            for name in tool_names(stepper, id) {
                subjects.push(Self::Tool { role: id, name });
            }
        }
        subjects
    }

    /// Returns what a call works on.
    pub fn from_call(stepper: &Stepper, call: CallKey) -> Self {
        match call.work {
            Work::ToolCall { tool, .. } if !has_component(tool) => Self::Tool {
                role: call.role,
                name: index_and_name_of_call(stepper, call).1.to_owned(),
            },
            work => Self::Slot(charged_slot(call.role, work)),
        }
    }

    /// Returns whether a call works on it.
    fn is_of_call(&self, stepper: &Stepper, call: CallKey) -> bool {
        match (self, call.work) {
            (Self::Tool { role, name }, Work::ToolCall { .. }) => {
                call.role == *role && index_and_name_of_call(stepper, call).1 == name
            }
            _ => Self::from_call(stepper, call) == *self,
        }
    }

    /// Returns its name: `ROLE.ACTION`, or `ROLE.TOOL`.
    pub fn name(&self, team: &Team) -> String {
        match self {
            Self::Slot(slot) => team.slot_name(*slot),
            Self::Tool { role, name } => format!("{}.{name}", team.role(*role).name),
        }
    }

    /// Returns the slot to which its costs are charged. A tool without a component has none of its own.
    pub fn slot(&self) -> Option<Slot> {
        match self {
            Self::Slot(slot) => Some(*slot),
            Self::Tool { .. } => None,
        }
    }

    fn role(&self) -> RoleId {
        match self {
            Self::Slot(slot) => slot.role,
            Self::Tool { role, .. } => *role,
        }
    }

    /// Returns the open call of it. If there are several, as with tool calls, it is the first that failed, or else
    /// the first.
    fn open_call<'a>(&self, stepper: &'a Stepper) -> Option<(CallKey, OpenCall<'a>)> {
        let calls = || {
            let open = stepper.env().open_calls(stepper.team());
            open.filter(|(call, _)| self.is_of_call(stepper, *call))
        };
        calls()
            .find(|(_, open)| open.phase.fault().is_some())
            .or_else(|| calls().next())
    }
}

/// Returns whether a component makes the calls of a tool.
fn has_component(tool: ToolRef) -> bool {
    matches!(
        tool,
        ToolRef::Action(_) | ToolRef::Host(HostTool::RunSkillScript(_))
    )
}

/// Returns the parts of a role to which costs are charged.
fn slot_kinds(stepper: &Stepper, id: RoleId) -> Vec<SlotKind> {
    let role = stepper.team().role(id);
    let actions = (0..).zip(&role.actions);
    let mut kinds: Vec<SlotKind> = actions
        .map(|(index, _)| SlotKind::Action(ActionId(index)))
        .collect();
    match &role.react {
        React::Choose {
            thinker: Thinker::Component | Thinker::Model,
            ..
        } => kinds.push(SlotKind::Think),
        React::Tools(_) => kinds.extend([SlotKind::Turn, SlotKind::Summary]),
        React::Choose { .. } | React::ByOrder | React::PlanAndAct | React::Human => {}
    }
    // Guards and the components for scripts of skills are known once they are called, cost something or were loaded.
    let env = stepper.env();
    let used = env.ledger.keys().chain(env.components.keys()).copied();
    let open = env.open_calls(stepper.team());
    let called = open.map(|(call, _)| charged_slot(call.role, call.work));
    for slot in used.chain(called).filter(|slot| slot.role == id) {
        if !kinds.contains(&slot.kind) {
            kinds.push(slot.kind);
        }
    }
    kinds
}

/// Returns the names of the tools of a role that have no component.
fn tool_names(stepper: &Stepper, id: RoleId) -> Vec<String> {
    let role = stepper.team().role(id);
    let Some(tools) = role.tool_loop() else {
        return Vec::new();
    };
    let is_no_action = |tool: &&Tool| !matches!(tool.target.tool, ToolRef::Action(_));
    let mut names: Vec<String> = tools
        .tools
        .iter()
        .filter(is_no_action)
        .map(|tool| tool.name.clone())
        .collect();
    for (key, activation) in stepper.env().activations() {
        let calls = activation.all_tool_calls();
        for (work, call) in calls.filter(|_| key.role == id) {
            if work.calls_server() && !names.contains(&call.tool) {
                names.push(call.tool.clone());
            }
        }
    }
    names
}

/// What does the work that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkPerformer {
    /// A component.
    Component,
    /// A model, which the host asks.
    Model,
    /// An MCP server, another role, or the host itself: it is a tool without a component.
    Tool,
}

/// An action, or another part of the work of a role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ActionView {
    /// The name of the role.
    pub role: String,
    /// The name of the action or the tool; `think` for the choice of an action, `turn` for the replies of a model,
    /// `summary` for the summaries of its conversation.
    pub action: String,
    /// The digest of its component; `None` if it was not loaded yet, or if there is none.
    pub digest: Option<String>,
    /// What does the work.
    pub performer: WorkPerformer,
    /// What the role is doing; `None` if it is idle.
    pub activity: Option<RoleActivity>,
    /// How many attempts were made at the current call; `None` if the role is not working on it.
    pub attempts: Option<u32>,
    /// The money that was spent, in US dollars. What tools without a component spend is charged to the role's model,
    /// so for them this and the following numbers are zero.
    #[serde(serialize_with = "super::serialize_usd")]
    pub spent: Usd,
    /// The part of that which is an estimate, because the answers to these calls were lost.
    #[serde(serialize_with = "super::serialize_usd")]
    pub lost: Usd,
    /// The tokens of language models.
    pub tokens: u64,
    /// The number of host calls that were made.
    pub calls: u64,
    /// The fault of the current call, if it has one.
    pub fault: Option<ActionFault>,
    /// The recorded host calls of the current call, oldest first.
    pub recorded_calls: Vec<HostCallView>,
    /// The command that shows the host calls completely; `None` if there are none.
    pub calls_command: Option<SuggestedCommand>,
    /// Its last output; `None` for `think`, which has no output.
    pub output: Option<RunOutput>,
    /// What it logged when it succeeded last, unless that is its output.
    pub log: Option<ActionLog>,
}

/// What an action logged, or wrote to its standard streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActionLog {
    /// The last lines.
    pub lines: Vec<String>,
    /// How many lines came before these.
    pub left_out: u64,
}

/// The fault of an action, or its interruption by the operator.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ActionFault {
    /// How it failed.
    #[serde(serialize_with = "strata_driver::serialize_name::fault_kind")]
    #[schemars(with = "String")]
    pub kind: FaultKind,
    /// Why it failed, as far as the host knows.
    #[serde(serialize_with = "strata_driver::serialize_name::fault_cause")]
    #[schemars(with = "String")]
    pub cause: FaultCause,
    /// What was attempted and why it failed.
    pub message: String,
    /// The stack frames of the guest, innermost first.
    pub backtrace: Vec<String>,
    /// The last lines that the guest logged or wrote to its standard streams.
    pub log: Vec<String>,
}

impl ActionView {
    /// Returns a part of the state that is saved at `path`, without its log. `is_cut_off` says whether the
    /// state is that of a host that ended without saving the end of the run.
    pub fn from_subject(
        stepper: &Stepper,
        subject: &ActionSubject,
        path: &Path,
        is_cut_off: bool,
    ) -> Self {
        let (team, env) = (stepper.team(), stepper.env());
        let (role, slot) = (team.role(subject.role()), subject.slot());
        let used = env.spending(|other| Some(other) == slot);
        let open = subject.open_call(stepper);
        let mut recorded_calls = Vec::new();
        if let Some((_, open)) = open {
            for call in &open.progress.recorded_calls {
                recorded_calls.push(HostCallView::from_call(call));
            }
        }
        let calls_command = open
            .filter(|_| !recorded_calls.is_empty())
            .map(|(call, _)| {
                let (_, name) = index_and_name_of_call(stepper, call);
                calls_command(path, Some(&format!("{}.{name}", role.name)))
            });
        let digest = slot.and_then(|slot| env.components.get(&slot));
        Self {
            role: role.name.clone(),
            action: match subject {
                ActionSubject::Slot(slot) => role.component_name(slot.kind).to_owned(),
                ActionSubject::Tool { name, .. } => name.clone(),
            },
            digest: digest.map(|digest| digest.0.clone()),
            performer: performer(role, slot),
            activity: match open {
                Some((call, _)) => RoleActivity::from_call(stepper, call, is_cut_off),
                None => RoleActivity::from_role(stepper, subject.role(), is_cut_off),
            },
            attempts: open.map(|(_, open)| open.progress.attempts),
            spent: used.usd,
            lost: used.lost,
            tokens: used.tokens,
            calls: used.calls,
            fault: open
                .and_then(|(_, open)| open.phase.fault())
                .map(ActionFault::from_fault),
            recorded_calls,
            calls_command,
            output: last_output(stepper, subject).map(RunOutput::from_message),
            log: None,
        }
    }

    /// Returns the view with the log of the action.
    pub fn with_log(self, log: Option<ActionLog>) -> Self {
        Self { log, ..self }
    }
}

impl ActionFault {
    /// Returns the view of a fault.
    pub(super) fn from_fault(fault: &Fault) -> Self {
        Self {
            kind: fault.kind,
            cause: fault.cause,
            message: fault.message.clone(),
            backtrace: fault.backtrace.clone(),
            log: fault.log.clone(),
        }
    }
}

/// Returns the last output of an action, or of a role's model; `None` for what has no output of its own, such as
/// `think`.
pub fn last_output<'a>(stepper: &'a Stepper, subject: &ActionSubject) -> Option<&'a Message> {
    let slot = subject.slot()?;
    let role = stepper.team().role(slot.role);
    let label = match slot.kind {
        SlotKind::Action(action) => &role.action(action).name,
        SlotKind::Turn => &role.name,
        SlotKind::Think | SlotKind::Guard(_) | SlotKind::SkillScript(_) | SlotKind::Summary => {
            return None;
        }
    };
    let mut messages = stepper.env().messages.iter().rev();
    messages
        .find(|message| message.sent_from == role.name && message.cause_by == *label)
        .map(|message| &**message)
}

/// Returns what does the work of a slot, or of a tool without one.
fn performer(role: &Role, slot: Option<Slot>) -> WorkPerformer {
    let Some(slot) = slot else {
        return WorkPerformer::Tool;
    };
    let is_by_model = match slot.kind {
        SlotKind::Think => matches!(
            role.react,
            React::Choose {
                thinker: Thinker::Model,
                ..
            }
        ),
        SlotKind::Turn => true,
        SlotKind::Summary => role
            .tool_loop()
            .is_some_and(|tools| tools.summariser == Summariser::Model),
        SlotKind::Action(_) | SlotKind::Guard(_) | SlotKind::SkillScript(_) => false,
    };
    if is_by_model {
        WorkPerformer::Model
    } else {
        WorkPerformer::Component
    }
}

/// Returns the command that prints the recorded calls of one action, or of all, as JSON.
pub fn calls_command(path: &Path, action: Option<&str>) -> SuggestedCommand {
    let mut words = vec!["--calls"];
    words.extend(action.iter().flat_map(|action| ["--action", *action]));
    words.push("--json");
    SuggestedCommand::from_subcommand("inspect", [CommandArgument::Path(path.to_owned())])
        .with(words.into_iter().map(CommandArgument::word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::{FixtureAttempt, RunFixture};

    #[test]
    fn an_action_has_its_fault_and_its_last_output() {
        let roles = "[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
                     [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n\
                     [[role.action]]\nname = \"Two\"\ncomponent = \"two.wasm\"\n";
        let mut is_first = true;
        let run = RunFixture::new(roles, |_, _| {
            if std::mem::take(&mut is_first) {
                FixtureAttempt::Return("hello")
            } else {
                FixtureAttempt::Fail(Fault::new(FaultKind::Trap, "boom"))
            }
        });
        let view = |action| {
            let slot = Slot {
                role: RoleId(0),
                kind: SlotKind::Action(ActionId(action)),
            };
            let subject = ActionSubject::Slot(slot);
            ActionView::from_subject(&run.stepper, &subject, Path::new("store"), false)
        };
        let (first, second) = (view(0), view(1));
        assert_eq!((first.action.as_str(), first.fault), ("One", None));
        assert_eq!(first.attempts, None);
        assert_eq!(second.attempts, Some(1));
        let fault = second.fault.expect("a fault");
        assert_eq!(
            (fault.kind, fault.message.as_str()),
            (FaultKind::Trap, "boom")
        );
        assert_eq!(second.calls_command, None);
    }
}
