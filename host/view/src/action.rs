//! One action of a saved state: its component, what it spent, its fault, its host calls and its last
//! output.

use std::path::Path;

use serde::Serialize;
use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::{Fault, FaultCause, FaultKind};
use strata_core::record::id::{Slot, SlotKind};
use strata_core::record::message::Message;
use strata_core::record::money::Usd;
use strata_core::record::rules::Thinker;
use strata_core::record::work::CallKey;
use strata_core::state::activation::OpenCall;
use strata_core::state::budget::charged_slot;
use strata_core::team::React;

use super::{CommandArgument, HostCallView, RoleActivity, RunOutput, SuggestedCommand};

/// An action, or the choice of an action.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ActionView {
    /// The name of the role.
    pub role: String,
    /// The name of the action; `think` for the choice of an action.
    pub action: String,
    /// The digest of its component; `None` if it was not loaded yet, or if there is none.
    pub digest: Option<String>,
    /// Whether the host does the work itself, without a component.
    pub is_done_by_host: bool,
    /// What the role is doing; `None` if it is idle.
    pub activity: Option<RoleActivity>,
    /// How many attempts were made at the current call; `None` if the role is not working on it.
    pub attempts: Option<u32>,
    /// The money that was spent, in US dollars.
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ActionFault {
    /// How it failed.
    #[serde(serialize_with = "strata_driver::serialize_name::fault_kind")]
    pub kind: FaultKind,
    /// Why it failed, as far as the host knows.
    #[serde(serialize_with = "strata_driver::serialize_name::fault_cause")]
    pub cause: FaultCause,
    /// What was attempted and why it failed.
    pub message: String,
    /// The stack frames of the guest, innermost first.
    pub backtrace: Vec<String>,
    /// The last lines that the guest logged or wrote to its standard streams.
    pub log: Vec<String>,
}

impl ActionView {
    /// Returns the action in a slot of the state that is saved at `path`, without its log. `is_cut_off`
    /// says whether the state is that of a host that ended without saving the end of the run.
    pub fn from_slot(stepper: &Stepper, slot: Slot, path: &Path, is_cut_off: bool) -> Self {
        let (team, env) = (stepper.team(), stepper.env());
        let role = team.role(slot.role);
        let used = env.spending(|other| other == slot);
        let open = open_call(stepper, slot);
        let mut recorded_calls = Vec::new();
        if let Some((_, open)) = open {
            for call in &open.progress.recorded_calls {
                recorded_calls.push(HostCallView::from_call(call));
            }
        }
        let calls_command =
            (!recorded_calls.is_empty()).then(|| calls_command(path, Some(&team.slot_name(slot))));
        Self {
            role: role.name.clone(),
            action: role.component_name(slot.kind).to_owned(),
            digest: env.components.get(&slot).map(|digest| digest.0.clone()),
            is_done_by_host: is_done_by_host(stepper, slot),
            activity: match open {
                Some((call, _)) => RoleActivity::from_call(stepper, call, is_cut_off),
                None => RoleActivity::from_role(stepper, slot.role, is_cut_off),
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
            output: last_output(stepper, slot).map(RunOutput::from_message),
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

/// Returns the last output of the action in a slot; `None` for `think`, which has no output.
pub fn last_output(stepper: &Stepper, slot: Slot) -> Option<&Message> {
    if slot.kind == SlotKind::Think {
        return None;
    }
    let role = stepper.team().role(slot.role);
    let action = role.component_name(slot.kind);
    let mut messages = stepper.env().messages.iter().rev();
    messages
        .find(|message| message.sent_from == role.name && message.cause_by == action)
        .map(|message| &**message)
}

/// Returns the open call of a slot. If there are several, as with tool calls, it is the first that
/// failed, or else the first.
fn open_call(stepper: &Stepper, slot: Slot) -> Option<(CallKey, OpenCall<'_>)> {
    let calls = || {
        let open = stepper.env().open_calls(stepper.team());
        open.filter(|(call, _)| charged_slot(call.role, call.work) == slot)
    };
    calls()
        .find(|(_, open)| open.phase.fault().is_some())
        .or_else(|| calls().next())
}

/// Returns whether the host does the work of a slot itself.
fn is_done_by_host(stepper: &Stepper, slot: Slot) -> bool {
    let by_model = matches!(
        stepper.team().role(slot.role).react,
        React::Choose {
            thinker: Thinker::Model,
            ..
        }
    );
    slot.kind == SlotKind::Think && by_model
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
    use strata_core::record::id::{ActionId, RoleId};

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
            ActionView::from_slot(&run.stepper, slot, Path::new("store"), false)
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
