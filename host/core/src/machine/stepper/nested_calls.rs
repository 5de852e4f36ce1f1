//! Tools for code: calls that an attempt at a tool call makes of other tools of its role.
//!
//! Such a call is an attempt of its own, with its own faults, approval and recorded host calls, and is
//! started by the same decisions as the calls of a model. The attempt that made it waits for it. If it
//! can only go on once a human has answered, the waiting attempt ends, and another one is made
//! afterwards, which is served what had ended. If it fails and that is a fault of the run, the waiting
//! attempt fails, too.

use alloc::format;
use alloc::string::String;

use super::call_limits::exceeded_number;
use super::team_state::{ApplyResult, IllegalEvent, TeamState, ensure};
use super::tool_calls::{can_be_called, is_known_tool, startable_tool_calls};
use crate::record::event::{
    AttemptEvent, CallFailed, CallSuspended, Event, NestedCallMade, NestedCallPlan, SuspendReason,
};
use crate::record::fault::{Fault, FaultCause, FaultHandling, Retryability};
use crate::record::id::RoleId;
use crate::record::nested_path::MAX_NESTED_LEVELS;
use crate::record::turn::CallDecision;
use crate::record::work::{CallKey, Work};
use crate::state::activation::{Activation, CallProgress, NestedCall, Phase, TurnCall, is_made_in};
use crate::state::environment::Environment;

/// How many tools one tool call may call. The number of a call is part of its key, which has a fixed size.
pub const MAX_NESTED_CALLS: usize = u16::MAX as usize;

/// Returns why an open call cannot make a call within it, if it cannot: there would be too many
/// levels.
pub(super) fn nesting_refusal(call: CallKey) -> Option<String> {
    let Work::ToolCall { nested, .. } = call.work else {
        return Some("only a tool can call tools".into());
    };
    nested.with(0).is_none().then(|| {
        format!("calls of tools are nested {MAX_NESTED_LEVELS} levels deep here, and no deeper")
    })
}

/// Returns the event that the current attempt of a call makes a call for the first time, or `None` if
/// it is not running. A call beyond a limit is rejected.
pub(super) fn nested_call_made_event(
    state: &TeamState,
    outer: CallKey,
    mut plan: NestedCallPlan,
) -> Option<Event> {
    let open = state.env.open_call(&state.team, outer)?;
    if *open.phase != Phase::Running {
        return None;
    }
    let number = u16::try_from(open.progress.nested.len()).ok()?;
    if let CallDecision::Make(target) | CallDecision::AskFirst(target, _) = &plan.decision {
        let tools = state.team.role(outer.role).tool_loop()?;
        let made_calls = open.activation.turns.made_calls();
        let called = (plan.tool.as_str(), target.tool.definition());
        let exceeded = exceeded_number(tools, open.activation, &made_calls, called);
        if !can_be_called(outer.activation(), target.tool) {
            let tool = &plan.tool;
            plan.decision = CallDecision::Reject(format!(
                "`{tool}` cannot be called here: calls of roles led here from it, or are too many"
            ));
        } else if let Some(reason) = exceeded {
            plan.decision = CallDecision::Reject(reason);
        }
    }
    let plan = Some(plan);
    let event = AttemptEvent::NestedCallMade(NestedCallMade { number, plan });
    Some(Event::Attempt(outer, event))
}

pub(super) fn apply_nested_call_made(
    state: &mut TeamState,
    outer: CallKey,
    nested_call: &NestedCallMade,
) -> ApplyResult {
    ensure(
        nesting_refusal(outer).is_none(),
        "a call of a tool where none can be made",
    )?;
    if let Some(plan) = &nested_call.plan {
        let is_known = match &plan.decision {
            CallDecision::Make(target) | CallDecision::AskFirst(target, _) => {
                is_known_tool(state, outer.activation(), target)
            }
            CallDecision::Reject(_) => true,
        };
        ensure(is_known, "a call of a tool that does not exist")?;
    }
    let open = state.running_call_mut(outer)?;
    let attempt = open.progress.attempts;
    let nested = &mut open.progress.nested;
    let next = nested.len();
    let known = nested.get_mut(usize::from(nested_call.number));
    match (&nested_call.plan, known) {
        (None, Some(known)) if known.made_by != attempt => known.made_again(attempt),
        (Some(plan), None) if usize::from(nested_call.number) == next => {
            nested.push(NestedCall::new(plan, attempt));
        }
        _ => return Err(IllegalEvent("a call of a tool out of turn".into())),
    }
    Ok(())
}

/// Returns the next event that ends an attempt, within the activation of a role, because the calls that
/// it waits for cannot go on, and nothing that is in progress can change that.
pub(super) fn blocked_attempt_event(state: &TeamState, root: RoleId) -> Option<Event> {
    find_waiting(&state.env, root, |progress| {
        let mut awaited = progress.awaited();
        awaited.all(|(_, nested)| is_blocked(&nested.call))
    })
    .and_then(|call| end_of_waiting(state, call))
}

/// Returns the event that ends the next attempt that waits for calls, when nothing else can be done.
pub(super) fn stalled_attempt_event(state: &TeamState) -> Option<Event> {
    let mut roots = state.env.mail_activations().map(|(root, _)| root);
    let call = roots.find_map(|root| find_waiting(&state.env, root, |_| true))?;
    end_of_waiting(state, call)
}

/// Returns whether only something outside can make a call go on. Calls within it are examined first, so
/// an attempt that waits for them is still running.
fn is_blocked(call: &TurnCall) -> bool {
    matches!(
        call.phase,
        Phase::Failed(_) | Phase::WaitingForHuman(_) | Phase::CallingTools
    )
}

/// Returns the innermost call, within the activation of a role, whose attempt waits for calls for which
/// `is_due` holds.
fn find_waiting(
    env: &Environment,
    root: RoleId,
    is_due: impl Fn(&CallProgress) -> bool,
) -> Option<CallKey> {
    let waiting = env.activations_of(root).flat_map(|(key, activation)| {
        let calls = activation.unsettled_tool_calls();
        calls
            .filter(|(_, call)| call.awaits_nested())
            .map(move |(work, call)| (CallKey::in_activation(key, work), call))
    });
    let due = waiting.filter(|(_, call)| is_due(&call.progress));
    let innermost =
        due.max_by_key(|(key, _)| key.work.nested().map_or(0, |path| path.numbers().len()));
    innermost.map(|(key, _)| key)
}

/// Returns the event that ends an attempt because calls that it waits for cannot go on.
fn end_of_waiting(state: &TeamState, call: CallKey) -> Option<Event> {
    let open = state.env.open_call(&state.team, call)?;
    let attempt = open.progress.attempts;
    let mut awaited = open.progress.awaited();
    let failed = awaited.find_map(|(number, nested)| match &nested.call.phase {
        Phase::Failed(fault) => Some((number, &nested.call.tool, fault)),
        _ => None,
    });
    let Some((number, tool, fault)) = failed else {
        let tools = state.team.role(call.role).tool_loop();
        let can_start = tools.is_some_and(|tools| {
            let mut startable = startable_tool_calls(tools, open.activation);
            startable.any(|work| is_made_in(work, call.work))
        });
        let reason = if open.progress.waits_for_nested() || !can_start {
            SuspendReason::NestedCall
        } else {
            SuspendReason::Budget
        };
        let suspended = AttemptEvent::CallSuspended(CallSuspended { attempt, reason });
        return Some(Event::Attempt(call, suspended));
    };
    let outer = open
        .activation
        .tool_call(call.work)
        .map(|call| call.tool.as_str());
    let fault = Fault {
        kind: fault.kind,
        retryability: Retryability::Final,
        cause: FaultCause::NestedCall,
        message: format!(
            "`{tool}`, called by `{}` as its call {number}, failed: {}",
            outer.unwrap_or_default(),
            fault.message
        ),
        backtrace: fault.backtrace.clone(),
        log: fault.log.clone(),
    };
    let failed = AttemptEvent::CallFailed(CallFailed {
        attempt,
        digest: state.component(call.role, call.work).cloned(),
        fault,
        retry_ms: None,
        handling: FaultHandling::Stops,
    });
    Some(Event::Attempt(call, failed))
}

/// Returns whether something within an activation is blocked, so that `blocked_attempt_event` returns an
/// event.
pub(super) fn has_blocked_attempt(activation: &Activation) -> bool {
    activation.unsettled_tool_calls().any(|(_, call)| {
        call.awaits_nested()
            && call
                .progress
                .awaited()
                .all(|(_, nested)| is_blocked(&nested.call))
    })
}

/// Lets the calls go on that wait because of a call within them, which can go on now.
pub(super) fn wake_outer_calls(state: &mut TeamState, call: CallKey) -> ApplyResult {
    for_each_outer_call(state, call, |waiting| {
        if waiting.phase == Phase::CallingTools {
            waiting.phase = waiting.progress.ready_or_in_doubt();
        }
    })
}

/// Lets the calls go on that failed because a write was in doubt within them, if none is any more.
pub(super) fn release_outer_calls(state: &mut TeamState, call: CallKey) -> ApplyResult {
    for_each_outer_call(state, call, |failed| {
        if matches!(failed.phase, Phase::Failed(_)) && !failed.progress.leaves_writes_in_doubt() {
            failed.progress.keeps_calls = true;
            failed.phase = Phase::Ready;
        }
    })
}

/// Visits the calls that a call was made in, the innermost first.
fn for_each_outer_call(
    state: &mut TeamState,
    call: CallKey,
    visit: impl Fn(&mut TurnCall),
) -> ApplyResult {
    let activation = state.activation_mut(call.activation())?;
    let mut outer = activation.outer_call(call.work).map(|(work, _)| work);
    while let Some(work) = outer {
        if let Some(call) = activation.tool_call_mut(work) {
            visit(call);
        }
        outer = activation.outer_call(work).map(|(work, _)| work);
    }
    Ok(())
}
