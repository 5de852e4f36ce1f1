//! Replacements in the conversations of tools roles: how they take effect, and what remains of them
//! for the next activation.
//!
//! What is replaced is decided by `state::memory_plan`, from sizes that the host knows. A turn whose
//! request exceeds its bounds ends with `CallResult::Replaced` if nothing has to be summarised, or
//! else with `CallResult::SummaryDue`; then `Work::Summary` follows and ends with the replacement.
//! After that the same turn is attempted again.

use alloc::format;

use super::team_state::{ApplyResult, TeamState, advance_to_next, ensure};
use crate::record::fault::{Fault, FaultKind};
use crate::record::host_call::{CallOutcome, HostCall};
use crate::record::id::RoleId;
use crate::record::memory::{MemoryReplacement, MemoryRequest, PlannedReplacement};
use crate::record::money::Usd;
use crate::record::work::{CallKey, CallResult, Work};
use crate::state::activation::Activation;
use crate::state::environment::{Environment, RoleSummary};

/// Fails unless a plan or a replacement belongs to a turn and its conversation can have it.
pub(super) fn ensure_fits_conversation(
    state: &TeamState,
    call: CallKey,
    result: &CallResult,
) -> ApplyResult {
    let (turn, range) = match result {
        CallResult::SummaryDue(planned) => (planned.turn, planned.range),
        CallResult::Replaced(replacement) => (replacement.turn, replacement.range),
        _ => return Ok(()),
    };
    let activation = state.env.activation(call.activation());
    let fits = activation.is_some_and(|activation| {
        activation.can_replace(range) && !activation.memory.was_replaced_for(turn)
    });
    let is_due = match (call.work, result) {
        (Work::Turn { turn: at }, _) => at == turn,
        (Work::Summary { turn: at }, CallResult::Replaced(_)) => at == turn,
        _ => false,
    };
    ensure(
        fits && is_due,
        "a replacement that does not fit the conversation",
    )
}

/// Plans a summary, which is written next.
pub(super) fn plan_summary(
    state: &mut TeamState,
    call: CallKey,
    planned: &PlannedReplacement,
) -> ApplyResult {
    let activation = state.activation_mut(call.activation())?;
    activation.memory.planned = Some(planned.clone());
    advance_to_next(state, call.activation())
}

/// Applies a replacement. The turn that it was made for is attempted next.
pub(super) fn apply_replacement(
    state: &mut TeamState,
    call: CallKey,
    replacement: &MemoryReplacement,
) -> ApplyResult {
    let activation = state.activation_mut(call.activation())?;
    activation.replace_in_memory(replacement.clone());
    advance_to_next(state, call.activation())
}

/// Keeps what a tool call that succeeds asks to replace.
pub(super) fn apply_memory_requested(
    state: &mut TeamState,
    call: CallKey,
    request: &MemoryRequest,
) -> ApplyResult {
    ensure(
        matches!(call.work, Work::ToolCall { .. }),
        "a replacement that no tool call asks for",
    )?;
    state.running_call_mut(call)?.progress.memory = Some(request.clone());
    Ok(())
}

/// Returns the result of an attempt at a summary with what its recorded calls say: what it cost and
/// which model wrote it. If it failed for good, the turn is requested with what was only cleared.
pub(super) fn conclude_summary(
    planned: &PlannedReplacement,
    result: Result<CallResult, Fault>,
    calls: &[HostCall],
) -> Result<CallResult, Fault> {
    let mut replacement = match result {
        Ok(CallResult::Replaced(replacement)) => replacement,
        Ok(other) => return Ok(other),
        Err(fault) if fault.kind == FaultKind::Interrupted => return Err(fault),
        Err(fault) => planned.without_summary(format!("{}: {}", fault.kind, fault.message)),
    };
    let of_models = calls.iter().filter(|call| call.model.is_some());
    replacement.cost = of_models
        .clone()
        .fold(Usd::ZERO, |sum, call| sum + call.cost);
    let mut answered = of_models.rev();
    let wrote = answered.find(|call| call.outcome == CallOutcome::Answered);
    let model = wrote.and_then(|call| call.model.as_ref());
    replacement.model = model.map(|model| model.name.clone());
    Ok(CallResult::Replaced(replacement))
}

/// Keeps the summary of an activation that ends as the beginning of the next conversation of its
/// role. `memory_count` is the size of the role's memory before the messages of the activation were
/// added.
pub(super) fn keep_summary(
    env: &mut Environment,
    id: RoleId,
    activation: &Activation,
    memory_count: usize,
) {
    let Some(replaced) = activation.memory.summarised() else {
        return;
    };
    let (Some(text), Some(first_news)) = (&replaced.summary, activation.news.first()) else {
        return;
    };
    // The news before the cut are the first ones of the activation. One that was in the memory
    // already was not added again, so fewer may have been.
    let cut = activation.memory.range().cut.news as usize;
    let replaced_news = &activation.news[..cut.min(activation.news.len())];
    let memory = &env.role(id).memory;
    let added = memory[memory_count..].iter();
    let replaced = added.take_while(|message| replaced_news.contains(message));
    let memory_count = memory_count + replaced.count();
    env.roles[id.index()].summary = Some(RoleSummary {
        first_news: *first_news,
        text: text.clone(),
        memory_count: memory_count as u32,
    });
}
