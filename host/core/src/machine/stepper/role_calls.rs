//! Roles as tools: a tool call that leads to an activation of another role.
//!
//! Such a call has no attempts outside: when it starts, the activation of the role begins within the
//! same step, and when that is complete, the call ends with its output. Both events are decided by
//! the stepper. In between, the calls of the activation are made like any others. What fails, is
//! asked or is paid there concerns the called role; the call waits.
//!
//! If a guard of the calling role sees results, the call does not end by itself: it is suspended, and its
//! next attempt is made outside, which passes the output to the guard.
//!
//! The called role sees its committed memory and scopes, what earlier turns of the same caller had
//! it do, and nothing that its other activations do in the step. Nothing of it is published.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::nested_calls::wake_outer_calls;
use super::ready_index::OpenWork;
use super::team_state::{ApplyResult, TeamState, ensure};
use crate::record::event::{AttemptEvent, CallFinished, CallSuspended, Event, SuspendReason};
use crate::record::id::RoleId;
use crate::record::json::Json;
use crate::record::message::Draft;
use crate::record::nested_path::NestedPath;
use crate::record::role_call::RoleCall;
use crate::record::work::{ActivationKey, CallKey, CallResult, Work};
use crate::state::activation::{Activation, Phase, escape_in_key, idempotency_base};
use crate::state::environment::Environment;
use crate::state::environment::activations::called_key;
use crate::team::Team;

/// Returns whether a role works on the call of another activation, so that a further call of it has
/// to wait. A role that can only wait for something outside does not hold up other callers.
pub(super) fn is_role_busy(team: &Team, env: &Environment, id: RoleId) -> bool {
    let mut called = env.activations().filter(|(key, called)| {
        key.role == id && !key.via.is_empty() && called.phase != Phase::Complete
    });
    called.any(|(key, _)| OpenWork::count(team, env, key).can_go_on())
}

/// Returns the event that ends a tool call because the role that it called is done, or lets a guard see
/// the result, for the first such call within the activation of a role.
pub(super) fn role_returned_event(team: &Team, env: &Environment, root: RoleId) -> Option<Event> {
    env.activations_of(root).find_map(|(key, activation)| {
        let tools = team.role(key.role).tool_loop()?;
        let mut calls = activation.unsettled_tool_calls();
        calls.find_map(|(work, _)| {
            let call = CallKey::in_activation(key, work);
            let CallFinished { attempt, result } = end_of_role_call(team, env, call)?;
            let event = if tools.reviews_results {
                AttemptEvent::CallSuspended(CallSuspended {
                    attempt,
                    reason: SuspendReason::Review,
                })
            } else {
                AttemptEvent::CallFinished(CallFinished { attempt, result })
            };
            Some(Event::Attempt(call, event))
        })
    })
}

/// Applies that a guard is to see the result of a role that is done.
pub(super) fn apply_role_done(state: &mut TeamState, call: CallKey, attempt: u32) -> ApplyResult {
    state.ensure_running()?;
    ensure(state.env.is_step_open, "a result outside of a step")?;
    let end = end_of_role_call(&state.team, &state.env, call);
    ensure(
        end.is_some_and(|end| end.attempt == attempt),
        "the result of a role that works",
    )?;
    let open = state.open_call_mut(call)?;
    (open.progress.keeps_calls, open.progress.was_suspended) = (true, true);
    *open.phase = open.progress.ready_or_in_doubt();
    wake_outer_calls(state, call)
}

/// Returns whether a call begins the activation of a role when it is started: it calls a role that has
/// not answered it yet.
pub(super) fn begins_role(env: &Environment, call: CallKey) -> bool {
    called_key(call.activation(), call.work).is_some() && role_result(env, call).is_none()
}

/// Returns what the role answered that a tool call called, if it is done.
pub(super) fn role_result(env: &Environment, call: CallKey) -> Option<Draft> {
    let called = env.activation(called_key(call.activation(), call.work)?)?;
    (called.phase == Phase::Complete).then(|| result_of(env, called))
}

/// Returns the end of a tool call if the role that it called is done.
pub(super) fn end_of_role_call(
    team: &Team,
    env: &Environment,
    call: CallKey,
) -> Option<CallFinished> {
    let open = env.open_call(team, call)?;
    if *open.phase != Phase::CallingRole {
        return None;
    }
    Some(CallFinished {
        attempt: open.progress.attempts,
        result: CallResult::Returned {
            output: role_result(env, call)?,
            emissions: Vec::new(),
            writes: Vec::new(),
        },
    })
}

/// Returns the result of the activation of a called role: its output, without its recipients. It is
/// empty if the role decided to do nothing.
fn result_of(env: &Environment, called: &Activation) -> Draft {
    let Some(output) = called.output() else {
        return Draft::default();
    };
    let message = env.message(output.message);
    Draft {
        content: message.content.clone(),
        data: message.instruct.as_ref().map(|data| data.value.clone()),
        parts: message.parts.clone(),
        ..Draft::default()
    }
}

/// Returns the message in the arguments of a call of a role. The host checks arguments against a
/// schema that requires it.
pub(super) fn message_argument(arguments: &Json) -> String {
    let value = arguments.value();
    let message = value.get("message").and_then(serde_json::Value::as_str);
    message.map_or_else(|| arguments.as_str().into(), String::from)
}

/// Returns the beginning of the ids of the messages that an activation makes: the step in which the
/// mail was taken, and the way from there. It is the same when the run is repeated.
pub(super) fn message_id_prefix(env: &Environment, key: ActivationKey) -> String {
    let mut prefix = format!("{}-{}", opening_step(env, key), key.root().0);
    for call in key.via.calls() {
        let RoleCall {
            turn, call, nested, ..
        } = *call;
        prefix += &format!("-{}", tool_call_message_name(turn, call, nested));
    }
    prefix
}

/// Returns the part of the ids of messages that stands for a tool call.
pub(super) fn tool_call_message_name(turn: u32, call: u32, nested: NestedPath) -> String {
    let mut name = format!("{turn}.{call}");
    // Another separator than that of the number of an emission.
    for number in nested.numbers() {
        name += &format!("_{number}");
    }
    name
}

/// Returns the part of the ids of requests that stands for a tool call; `None` for other calls.
pub(super) fn tool_call_request_name(work: Work) -> Option<String> {
    let Work::ToolCall {
        turn, call, nested, ..
    } = work
    else {
        return None;
    };
    let mut name = format!("{turn}-{call}");
    for number in nested.numbers() {
        name += &format!("-{number}");
    }
    Some(name)
}

/// Returns the beginning of the idempotency keys of an activation: `run/step/role`, followed, for
/// each call of a role that led to it, by the turn, the call and the role.
pub(super) fn idempotency_prefix(
    team: &Team,
    env: &Environment,
    run: &str,
    key: ActivationKey,
) -> String {
    let name = |id: RoleId| &team.role(id).name;
    let mut prefix = idempotency_base(run, opening_step(env, key), name(key.root()));
    for (call, to) in key.steps() {
        let RoleCall {
            turn, call, nested, ..
        } = call;
        prefix += &format!("/{turn}/{call}{nested}/{}", escape_in_key(name(to)));
    }
    prefix
}

/// Returns the beginning of the ids of the requests of an activation.
pub(super) fn request_id_prefix(env: &Environment, key: ActivationKey) -> String {
    let mut prefix = format!("ask-{}-{}", opening_step(env, key), key.root().0);
    for (call, to) in key.steps() {
        prefix += &format!("-{}-{}", call.turn, call.call);
        for number in call.nested.numbers() {
            prefix += &format!("-{number}");
        }
        prefix += &format!("-{}", to.0);
    }
    prefix
}

/// Returns the step in which the mail was taken that led to an activation.
pub(super) fn opening_step(env: &Environment, key: ActivationKey) -> u64 {
    let root = env.role(key.root()).activation.as_ref();
    root.map_or(env.step, |root| root.opened_in_step)
}
