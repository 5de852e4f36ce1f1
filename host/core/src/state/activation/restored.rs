//! Activations that were read from a file of somebody else: what does not go together is put right,
//! so that the team can go on from it.

use super::{Activation, CallProgress, Phase, TurnCall};
use crate::record::turn::ToolRef;
use crate::state::kept_bytes::replacement_bytes;
use crate::team::Role;

/// Makes an activation of a role consistent: the phases of its calls, and what follows from other parts
/// of it. A call to a receiver that asked humans is made again, and asks again.
pub fn put_right(activation: &mut Activation, role: &Role) {
    let done = activation.done.iter();
    let message_count: usize = done.map(|done| 1 + done.emissions.len()).sum();
    activation.message_count = activation.message_count.max(message_count as u32);
    count_memory(activation);
    forget_asking(&mut activation.current_call);
    for done in &mut activation.done {
        forget_asking(&mut done.progress);
    }
    for reverted in &mut activation.reverted {
        forget_asking(&mut reverted.progress);
    }
    let turns = activation.turns.reopen_all();
    for call in turns.flat_map(|turn| &mut turn.calls) {
        call.progress.for_each_nested_mut(&mut put_call_right);
        put_call_right(call);
    }
    if activation.current_work(role).is_none() {
        activation.phase = if activation.has_open_tool_calls() {
            Phase::CallingTools
        } else {
            Phase::Complete
        };
    } else if matches!(
        activation.phase,
        Phase::Complete | Phase::CallingTools | Phase::CallingRole
    ) {
        activation.phase = Phase::Ready;
    }
}

/// Computes what of the memory of a conversation follows from its replacements and the turns.
fn count_memory(activation: &mut Activation) {
    let kept = activation.memory.replacements.iter().map(replacement_bytes);
    activation.memory.kept_bytes = kept.sum();
    let cut = activation.memory.range().cut.turns;
    activation.memory.kept_results = activation.results_kept_in(0..cut);
}

fn put_call_right(call: &mut TurnCall) {
    forget_asking(&mut call.progress);
    if call.outcome.is_some() {
        call.phase = Phase::Complete;
        return;
    }
    let waits_for_none = call.phase == Phase::CallingTools && call.progress.nested.is_empty();
    if call.phase == Phase::Complete || waits_for_none {
        call.phase = Phase::Ready;
    }
}

fn forget_asking(progress: &mut CallProgress) {
    progress.asking = None;
}

/// Returns whether a role has the tools that its activation calls, as far as they are not those of
/// servers, and whether all calls that have not ended have arguments.
pub fn has_possible_calls(activation: &Activation, role: &Role) -> bool {
    let has_tool = |tool| match (role.tool_loop(), tool) {
        (None, _) => false,
        (Some(_), ToolRef::Server { .. }) => true,
        (Some(tools), tool) => tools.tool(tool).is_some(),
    };
    let mut all = activation.all_tool_calls();
    let mut open = activation.unsettled_tool_calls();
    all.all(|(_, call)| call.target.is_none_or(|target| has_tool(target.tool)))
        && open.all(|(work, _)| activation.arguments(work).is_some())
}
