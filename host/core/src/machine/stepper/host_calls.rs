//! Host calls: their start and answer; what the operator decides about calls in doubt; and external
//! writes that a later attempt did not repeat.

use alloc::string::String;

use super::nested_calls::release_outer_calls;
use super::team_state::{ApplyResult, TeamState, ensure};
use crate::record::event::{AttemptEvent, DoubtSettled, HostCalled, MoneyReserved};
use crate::record::host_call::{
    AnswerSource, CallOutcome, DoubtResolution, ExternalWrite, HostCall, WriteResult,
};

use crate::record::money::Usd;
use crate::record::work::CallKey;
use crate::state::activation::Phase;
use crate::state::budget::charged_slot;

/// Applies an event about host calls.
pub(super) fn apply_host_call_event(
    state: &mut TeamState,
    call: CallKey,
    event: &AttemptEvent,
) -> ApplyResult {
    match event {
        AttemptEvent::HostCallBegun(write) => state
            .running_call_mut(call)?
            .progress
            .begin_write(&write.intent),
        AttemptEvent::HostCalled(called) => apply_host_called(state, call, called)?,
        AttemptEvent::MoneyReserved(MoneyReserved { reserved }) => {
            state
                .running_call_mut(call)?
                .progress
                .reservations
                .push(reserved.clone());
        }
        AttemptEvent::DoubtSettled(settled) => apply_doubt_settled(state, call, settled)?,
        AttemptEvent::WritesUnclaimed(unclaimed) => {
            apply_writes_unclaimed(state, call, &unclaimed.writes)?;
        }
        _ => {}
    }
    Ok(())
}

fn apply_host_called(state: &mut TeamState, call: CallKey, called: &HostCalled) -> ApplyResult {
    let HostCalled {
        call: host_call,
        source,
        ..
    } = called;
    let open = state.running_call_mut(call)?;
    if *source == AnswerSource::Live {
        open.progress.record_answer(host_call);
        open.progress.release_reservation(&host_call.request);
        state.env.spent += host_call.cost;
        for id in host_call
            .model
            .iter()
            .flat_map(|used| &used.limited_replies)
        {
            *state.env.reply_uses.entry(id.clone()).or_default() += 1;
        }
    }
    let spending = state
        .env
        .ledger
        .entry(charged_slot(call.role, call.work))
        .or_default();
    match source {
        AnswerSource::Live => spending.add_made_call(host_call),
        AnswerSource::Recorded => spending.add_served_call(host_call),
    }
    Ok(())
}

/// Applies the decision of the operator about a call in doubt. After the last one, the action
/// can continue.
fn apply_doubt_settled(
    state: &mut TeamState,
    call: CallKey,
    settled: &DoubtSettled,
) -> ApplyResult {
    let DoubtSettled {
        index, resolution, ..
    } = settled;
    let index = *index as usize;
    state.ensure_running()?;
    let open = state.open_call_mut(call)?;
    let doubtful = matches!(open.phase, Phase::Failed(_))
        && open
            .progress
            .external_writes
            .get(index)
            .is_some_and(ExternalWrite::may_be_in_doubt);
    ensure(doubtful, "a doubt about a call that is in none")?;
    let current = open.progress;
    match resolution {
        DoubtResolution::Redo => {
            current.external_writes.remove(index);
        }
        DoubtResolution::Answer(response) => {
            let write = &mut current.external_writes[index];
            write.result = WriteResult::Recorded;
            let (kind, request) = (write.intent.kind, write.intent.request.clone());
            let (response, cost, outcome) = (response.clone(), Usd::ZERO, CallOutcome::Answered);
            current.recorded_calls.push(HostCall {
                kind,
                request,
                response,
                cost,
                outcome,
                model: None,
            });
        }
    }
    current.keeps_calls = true;
    if !current.leaves_writes_in_doubt() {
        *open.phase = Phase::Ready;
    }
    release_outer_calls(state, call)
}

/// Forgets external writes of earlier attempts that the attempt which succeeds did not repeat.
fn apply_writes_unclaimed(
    state: &mut TeamState,
    call: CallKey,
    writes: &[(u32, String)],
) -> ApplyResult {
    let external_writes = &mut state.running_call_mut(call)?.progress.external_writes;
    ensure(
        !writes.is_empty() && writes.is_sorted_by(|a, b| a.0 < b.0),
        "unclaimed calls that are not in order",
    )?;
    let known = writes
        .last()
        .is_some_and(|(last, _)| (*last as usize) < external_writes.len());
    ensure(known, "an unclaimed call that was not begun")?;
    for (place, _) in writes.iter().rev() {
        external_writes.remove(*place as usize);
    }
    Ok(())
}
