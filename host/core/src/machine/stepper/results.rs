//! Results of calls: kept in their activation until the commit, with the messages that they make.

use alloc::format;

use super::role_calls::message_id_prefix;
use super::team_state::{ApplyResult, IllegalEvent, TeamState};
use crate::record::message::{Draft, Instruct, Message, TO_ALL};
use crate::record::scope_write::Write;
use crate::record::work::{CallKey, Work};
use crate::state::activation::{Addressing, FinishedCall, UncommittedMessage};

/// Returns those emissions of a call that are published. A called role publishes nothing.
pub(super) fn published_emissions(call: CallKey, emissions: &[Draft]) -> &[Draft] {
    if call.via.is_empty() { emissions } else { &[] }
}

/// Keeps the result of a call until the commit.
pub(super) fn keep_result(
    state: &mut TeamState,
    call: CallKey,
    output: &Draft,
    emissions: &[Draft],
    writes: &[Write],
) -> ApplyResult {
    let emissions = published_emissions(call, emissions)
        .iter()
        .map(|draft| make_next_message(state, call, draft))
        .collect::<Result<_, _>>()?;
    let output = make_next_message(state, call, output)?;
    let activation = state.activation_mut(call.activation())?;
    let tried = core::mem::take(&mut activation.current_call);
    activation.done.push(FinishedCall {
        work: call.work,
        output,
        emissions,
        writes: writes.to_vec(),
        progress: tried,
    });
    Ok(())
}

/// Makes a message from a draft. Its id is derived from how many messages the activation made
/// before, so that it is the same when the run is repeated.
fn make_next_message(
    state: &mut TeamState,
    call: CallKey,
    draft: &Draft,
) -> Result<UncommittedMessage, IllegalEvent> {
    let activation = state.activation_mut(call.activation())?;
    let number = activation.message_count;
    activation.message_count += 1;
    let id = format!(
        "{}-{number}",
        message_id_prefix(&state.env, call.activation())
    );
    Ok(make_message(state, call, draft, &id))
}

/// Makes a message with this id from a draft.
pub(super) fn make_message(
    state: &mut TeamState,
    call: CallKey,
    draft: &Draft,
    id: &str,
) -> UncommittedMessage {
    let role = state.team.role(call.role);
    let label = match call.work {
        Work::Act { action, .. } => &role.action(action).name,
        Work::Plan | Work::Think { .. } => &role.actions[0].name,
        // The actions of a tools role are no labels.
        Work::Answer | Work::Turn { .. } | Work::Summary { .. } | Work::ToolCall { .. } => {
            &role.name
        }
    };
    let addressed = if draft.to.is_empty() {
        Addressing::ByEnvironment
    } else {
        Addressing::Explicit
    };
    let message = Message {
        id: id.into(),
        content: draft.content.clone(),
        instruct: draft.data.clone().map(Instruct::untyped),
        parts: draft.parts.clone(),
        role: role.speaker_name(),
        cause_by: draft.cause_by.clone().unwrap_or_else(|| label.clone()),
        sent_from: role.name.clone(),
        send_to: if draft.to.is_empty() {
            alloc::vec![TO_ALL.into()]
        } else {
            draft.to.clone()
        },
        meta: Default::default(),
        route: draft.route.clone(),
    };
    UncommittedMessage {
        message: state.env.add_message(message),
        addressing: addressed,
    }
}
