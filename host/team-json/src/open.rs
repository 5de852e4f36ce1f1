//! Open activations in the file: `strata.open`. What a person can read there is derived, and not read
//! back; the activation is in its machine part.

use std::borrow::Cow;
use std::fmt::Display;

use strata_core::record::id::RoleId;
use strata_core::record::role_call::{RoleCall, RoleCallPath};
use strata_core::record::work::ActivationKey;
use strata_core::state::activation::{Activation, Phase, has_possible_calls, put_right};
use strata_core::state::environment::{Environment, RoleState};
use strata_core::state::messages::MessageRef;
use strata_core::team::Team;

use super::field::{Dollars, MessageLink, NotDecoded};
use super::layout::{CalledJson, OpenJson, RecordedCallJson, RoleCallJson};
use super::located_value::{ImportResult, LocatedValue};
use super::machine_part::{MachinePartReader, MachinePartWriter};
use super::messages::ImportedMessages;
use super::saved_names::work_name;

/// What can be done about a machine part that cannot be used.
const WITHOUT_IT: &str = "remove it, and the role starts again at its action";

/// Returns the activation in which a role handles mail, with those that it led to, and the messages
/// that they refer to.
pub(super) fn write<'a>(
    team: &'a Team,
    env: &'a Environment,
    id: RoleId,
    writer: &mut MachinePartWriter,
) -> Option<(OpenJson<'a>, Vec<MessageRef>)> {
    let state = env.role(id);
    let activation = state.activation.as_ref()?;
    let part = writer.write(id, activation, &state.called);
    let link = |message: &MessageRef| MessageLink::to(&env.message(*message).id.0);
    let links = |messages: &[MessageRef]| messages.iter().map(link).collect::<Vec<_>>();
    let called = state.called.iter();
    let called = called.map(|(key, called)| called_json(team, *key, called));
    let open = OpenJson {
        step: activation.opened_in_step.into(),
        phase: phase_name(&activation.phase).into(),
        news: links(&activation.news).into(),
        at: NotDecoded(activation.current_work(team.role(id)).map(work_name)),
        attempts: activation.current_call.attempts.into(),
        turns: NotDecoded(turn_count(activation)),
        recorded_calls: NotDecoded(recorded_calls(team, id, activation)),
        called: NotDecoded(Some(called.collect::<Vec<_>>()).filter(|all| !all.is_empty())),
        messages: links(&part.messages),
        machine: Some(Cow::Owned(part.text)),
    };
    Some((open, part.messages))
}

/// Returns what a person reads of an activation of a role that another one called.
fn called_json<'a>(team: &'a Team, key: ActivationKey, called: &Activation) -> CalledJson<'a> {
    let role = team.role(key.role);
    CalledJson {
        role: &role.name,
        via: write_path(team, &key.via),
        phase: phase_name(&called.phase),
        at: called.current_work(role).map(work_name),
        attempts: called.current_call.attempts,
        turns: turn_count(called),
        recorded_calls: recorded_calls(team, key.role, called),
    }
}

/// Returns the host calls that the open calls of an activation have recorded; `None` if there are none.
fn recorded_calls(
    team: &Team,
    role: RoleId,
    activation: &Activation,
) -> Option<Vec<RecordedCallJson>> {
    let mut all = Vec::new();
    for (work, open) in activation.open_calls(team.role(role)) {
        for call in &open.progress.recorded_calls {
            all.push(RecordedCallJson {
                at: work_name(work),
                kind: call.kind.name(),
                outcome: call.outcome.name(),
                cost: Dollars(call.cost),
            });
        }
    }
    Some(all).filter(|all| !all.is_empty())
}

/// Returns how often the model of an activation has replied; `None` if it has not.
fn turn_count(activation: &Activation) -> Option<usize> {
    Some(activation.turns.len()).filter(|count| *count > 0)
}

/// Returns the name of a phase.
fn phase_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Ready | Phase::ReadyAfterFault(_) => "ready",
        Phase::Running => "running",
        Phase::BackingOff => "resting",
        Phase::Failed(_) => "failed",
        Phase::Complete => "complete",
        Phase::WaitingForHuman(_) => "waiting",
        Phase::CallingTools => "calling-tools",
        Phase::CallingRole => "calling-role",
    }
}

/// Returns the calls of roles that led to an activation, the first one first.
pub(super) fn write_path<'a>(team: &'a Team, via: &RoleCallPath) -> Vec<RoleCallJson<'a>> {
    let call = |call: &RoleCall| RoleCallJson {
        role: &team.role(call.role).name,
        turn: call.turn,
        tool_call: call.call,
        nested: call.nested,
    };
    via.calls().iter().map(call).collect()
}

/// Reads the activations of a role. Returns `None` if they have no machine part, because somebody
/// removed it. `place` is the entry.
pub(super) fn read(
    team: &Team,
    id: RoleId,
    entry: &OpenJson<'_>,
    place: &LocatedValue<'_>,
    source: (&mut MachinePartReader, &mut ImportedMessages<'_>),
) -> ImportResult<Option<RoleState>> {
    let Some(text) = &entry.machine else {
        return Ok(None);
    };
    let (reader, messages) = source;
    let listed = messages.read_links(&entry.messages, &place.child("messages"))?;
    let machine = place.child("machine");
    let refuse = |why: String| machine.invalid(format!("{why}; {WITHOUT_IT}"));
    let misfit = |why: &dyn Display| refuse(format!("does not fit the team: {why}"));
    let read = reader.read(id, text, &listed);
    let mut state = read.map_err(|error| refuse(error.to_string()))?;
    let checked = state.check_activations(id, messages.shape());
    checked.map_err(|why| misfit(&why))?;
    for (key, activation) in state.activations_mut(id) {
        let role = team.role(key.role);
        if !has_possible_calls(activation, role) {
            let why = format!(
                "it has calls of tools that `{}` does not have, or calls without arguments",
                role.name
            );
            return Err(misfit(&why));
        }
        put_right(activation, role);
    }
    Ok(Some(state))
}
