//! Calls and their attempts: how they start, and what their ends do. What a turn, a tool call, a host
//! call or a question to a human adds to that is in the modules of these names.

use alloc::string::String;
use alloc::vec::Vec;

use super::files::apply_files_written;
use super::host_calls::apply_host_call_event;
use super::human_requests::{apply_call_asks, apply_request_answered, apply_request_opened};
use super::memory::{
    apply_memory_requested, apply_replacement, ensure_fits_conversation, plan_summary,
};
use super::nested_calls::apply_nested_call_made;
use super::ready_index::ReadyIndex;
use super::results::keep_result;
use super::role_calls::{apply_role_done, begins_role};
use super::team_state::{ApplyResult, TeamState, advance_to_next, ensure};
use super::tool_calls::can_be_called;
use super::turns::{
    apply_call_revised, apply_role_returned, apply_turn_limit, begin_role_call, begin_turn,
    end_tool_call, end_tool_call_with, end_tool_call_with_error, ensure_valid_reply,
};
use crate::record::event::{
    AttemptEvent, CallFailed, CallStarted, Logged, LookupsDenied, SuspendReason, ToolsListed,
};
use crate::record::fault::{FaultHandling, FaultKind};
use crate::record::host_call::RecordedCallUse;
use crate::record::message::Draft;
use crate::record::work::{CallKey, CallResult, Task, Work};
use crate::state::activation::{Phase, ToolOutcome, TurnCall};
use crate::team::Role;

/// Applies an event about a call.
pub(super) fn apply_attempt_event(
    state: &mut TeamState,
    ready_index: &ReadyIndex,
    call: CallKey,
    event: &AttemptEvent,
) -> ApplyResult {
    match event {
        AttemptEvent::CallStarted(started) => apply_call_started(state, call, started),
        AttemptEvent::CallSuspended(suspended) if suspended.reason == SuspendReason::Review => {
            apply_role_done(state, call, suspended.attempt)
        }
        AttemptEvent::CallSuspended(suspended) => {
            state.ensure_current_attempt(call, suspended.attempt)?;
            apply_call_suspended(state, call)
        }
        AttemptEvent::CallFinished(finished) if works_on_call(state, call) => {
            apply_role_returned(state, call, finished)
        }
        AttemptEvent::CallFinished(finished) => {
            state.ensure_current_attempt(call, finished.attempt)?;
            apply_call_finished(state, call, &finished.result)
        }
        AttemptEvent::CallFailed(failed) => apply_call_failed(state, call, failed),
        AttemptEvent::RetryDue => apply_retry_due(state, call),
        AttemptEvent::HostCallBegun(_)
        | AttemptEvent::HostCalled(_)
        | AttemptEvent::MoneyReserved(_)
        | AttemptEvent::DoubtSettled(_)
        | AttemptEvent::WritesUnclaimed(_) => apply_host_call_event(state, call, event),
        AttemptEvent::RequestOpened(opened) => {
            apply_request_opened(state, ready_index, call, &opened.request)
        }
        AttemptEvent::RequestAnswered(answered) => apply_request_answered(state, call, answered),
        AttemptEvent::CallRevised(revised) => apply_call_revised(state, call, &revised.revision),
        AttemptEvent::FilesWritten(written) => apply_files_written(state, call, &written.files),
        AttemptEvent::Logged(Logged { lines: noted, .. })
        | AttemptEvent::LookupsDenied(LookupsDenied { paths: noted }) => {
            ensure_noted(state, call, noted)
        }
        AttemptEvent::SkillLoaded(loaded) => {
            ensure_noted(state, call, core::slice::from_ref(&loaded.skill))
        }
        AttemptEvent::MemoryRequested(request) => apply_memory_requested(state, call, request),
        AttemptEvent::NestedCallMade(nested_call) => {
            apply_nested_call_made(state, call, nested_call)
        }
        AttemptEvent::CallAsks(asks) => apply_call_asks(state, call, &asks.call),
        AttemptEvent::ToolsListed(listed) => apply_tools_listed(state, call, listed),
    }
}

/// Returns whether a role works on a call, or is done and its result is not taken yet.
fn works_on_call(state: &TeamState, call: CallKey) -> bool {
    let open = state.env.open_call(&state.team, call);
    open.is_some_and(|open| *open.phase == Phase::CallingRole)
}

/// Fails unless this may be noted about a running attempt. It is kept in the journal only: nothing
/// depends on it.
fn ensure_noted(state: &mut TeamState, call: CallKey, noted: &[String]) -> ApplyResult {
    ensure(!noted.is_empty(), "a note about nothing")?;
    state.running_call_mut(call).map(|_| ())
}

/// Keeps the tools of servers that an activation works with.
fn apply_tools_listed(state: &mut TeamState, call: CallKey, listed: &ToolsListed) -> ApplyResult {
    state.running_call_mut(call)?;
    ensure(
        matches!(call.work, Work::Turn { .. }),
        "a list of tools for something else than a turn",
    )?;
    let activation = state.activation_mut(call.activation())?;
    ensure(
        activation.server_tools.is_none(),
        "a second list of tools in one activation",
    )?;
    activation.server_tools = Some(listed.lists.clone());
    Ok(())
}

fn apply_retry_due(state: &mut TeamState, call: CallKey) -> ApplyResult {
    state.ensure_running()?;
    let open = state.open_call_mut(call)?;
    ensure(
        *open.phase == Phase::BackingOff,
        "a retry of a call that is not waiting for one",
    )?;
    *open.phase = Phase::Ready;
    Ok(())
}

fn apply_call_started(state: &mut TeamState, call: CallKey, started: &CallStarted) -> ApplyResult {
    let (attempt, call_reuse) = (started.attempt, started.call_reuse);
    state.ensure_running()?;
    ensure(state.env.is_step_open, "a call outside of a step")?;
    let activation = state.activation_mut(call.activation())?;
    ensure(
        activation
            .tool_call(call.work)
            .is_none_or(TurnCall::is_ready),
        "a call that is not approved",
    )?;
    ensure(
        activation.is_awaited(call.work),
        "a call of code that does not wait for it",
    )?;
    if let Work::ToolCall { tool, .. } = call.work {
        let can_be_called = can_be_called(call.activation(), tool);
        ensure(can_be_called, "a call of a role that led to it")?;
    }
    let open = state.open_call_mut(call)?;
    ensure(open.phase.is_ready(), "a call that is not ready")?;
    ensure(
        attempt == open.progress.attempts + 1,
        "an attempt out of turn",
    )?;
    open.progress.attempts = attempt;
    open.progress.was_suspended = false;
    if call_reuse == RecordedCallUse::Fresh {
        open.progress.recorded_calls.clear();
        open.progress.external_writes.clear();
        open.progress.nested.clear();
        open.progress.asking = None;
    }
    *open.phase = Phase::Running;
    if begins_role(&state.env, call) {
        begin_role_call(state, call)
    } else {
        Ok(())
    }
}

fn apply_call_finished(state: &mut TeamState, call: CallKey, result: &CallResult) -> ApplyResult {
    let (id, work, key) = (call.role, call.work, call.activation());
    let fits = match result {
        CallResult::Chosen(choice) => {
            let known = -1..state.team.role(id).actions.len() as i32;
            ensure(known.contains(choice), "a choice of an action that is none")?;
            matches!(work, Work::Think { .. })
        }
        CallResult::Planned { tasks, .. } => {
            ensure(
                unassignable_task(state.team.role(id), tasks).is_none(),
                "a plan that nobody can carry out",
            )?;
            work == Work::Plan
        }
        CallResult::Returned { .. } => matches!(work, Work::Act { .. } | Work::ToolCall { .. }),
        CallResult::Reported { .. } => matches!(work, Work::ToolCall { .. }),
        CallResult::Replied(reply) => {
            ensure_valid_reply(state, call, reply)?;
            matches!(work, Work::Turn { .. })
        }
        CallResult::SummaryDue(_) | CallResult::Replaced(_) => {
            ensure_fits_conversation(state, call, result)?;
            true
        }
    };
    ensure(fits, "a result of another kind of call")?;
    state.env.charge_reservations(&state.team, call);
    match result {
        CallResult::Chosen(choice) => state.activation_mut(key)?.record_choice(work, *choice),
        CallResult::Planned {
            tasks,
            emissions,
            writes,
        } => {
            let texts: Vec<&str> = tasks.iter().map(|task| task.text.as_str()).collect();
            let output = Draft {
                content: texts.join("\n"),
                ..Draft::default()
            };
            keep_result(state, call, &output, emissions, writes)?;
            state.activation_mut(key)?.tasks = tasks.clone();
        }
        CallResult::Returned {
            output,
            emissions,
            writes,
        } if matches!(work, Work::ToolCall { .. }) => {
            return end_tool_call_with(state, call, output, emissions, writes);
        }
        CallResult::Reported { output } => return end_tool_call_with_error(state, call, output),
        CallResult::Returned {
            output,
            emissions,
            writes,
        } => keep_result(state, call, output, emissions, writes)?,
        CallResult::Replied(reply) => return begin_turn(state, call, reply),
        CallResult::SummaryDue(planned) => return plan_summary(state, call, planned),
        CallResult::Replaced(replacement) => return apply_replacement(state, call, replacement),
    }
    advance_to_next(state, key)
}

fn apply_call_suspended(state: &mut TeamState, call: CallKey) -> ApplyResult {
    state.env.charge_reservations(&state.team, call);
    let open = state.open_call_mut(call)?;
    (open.progress.keeps_calls, open.progress.was_suspended) = (true, true);
    *open.phase = if open.progress.waits_for_nested() {
        Phase::CallingTools
    } else {
        open.progress.ready_or_in_doubt()
    };
    Ok(())
}

fn apply_call_failed(state: &mut TeamState, call: CallKey, failed: &CallFailed) -> ApplyResult {
    let CallFailed {
        attempt,
        fault,
        retry_ms,
        handling,
        ..
    } = failed;
    let open = state.env.open_call(&state.team, call);
    if fault.kind == FaultKind::Turns && open.is_some_and(|open| open.phase.is_ready()) {
        return apply_turn_limit(state, call, failed);
    }
    state.ensure_current_attempt(call, *attempt)?;
    let is_returned = *handling == FaultHandling::Returned;
    ensure(
        !is_returned || retry_ms.is_none() && matches!(call.work, Work::ToolCall { .. }),
        "a fault that cannot be returned to a model",
    )?;
    state.env.charge_reservations(&state.team, call);
    let open = state.running_call_mut(call)?;
    open.progress.failures += 1;
    open.progress.keeps_calls = fault.keeps_recorded_calls();
    *open.phase = match retry_ms {
        Some(_) => Phase::BackingOff,
        None => Phase::Failed(fault.as_reported(call.work).into_owned()),
    };
    if is_returned {
        end_tool_call(state, call, ToolOutcome::Failed(fault.clone()))?;
    }
    Ok(())
}

/// Returns the first task that no worker of the role can carry out.
pub(super) fn unassignable_task<'a>(role: &Role, tasks: &'a [Task]) -> Option<&'a Task> {
    let workers = || role.actions.iter().skip(1);
    let done = |task: &Task| match &task.action {
        Some(name) => workers().any(|action| action.name == *name),
        None => workers().next().is_some(),
    };
    tasks.iter().find(|task| !done(task))
}
