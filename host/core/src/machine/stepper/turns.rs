//! Roles whose model works in a loop with tools.
//!
//! An activation of such a role alternates between turns and tool calls. A turn is a call of the
//! activation like any other, made by the host: it sends the conversation to the role's model. Its
//! result says which tools the model calls. Each tool call is then a call of its own, with its own
//! attempts, faults and recorded host calls, and several of them may run at the same time. When all
//! have ended, the next turn follows, or the activation has its output.
//!
//! What the driver does:
//!
//! - `Work::Turn`: send the role's texts and instructions, the history, the news and
//!   `Activation::turns` (each reply with the results of its calls, in their order) to the model,
//!   record the host call, and end the attempt with `CallResult::Replied`. The reply has one plan
//!   for each call that the model asks for. The host decides what depends on schemas: whether the
//!   tool exists, whether the arguments fit, how a human is asked. `call_ended_event` rejects calls
//!   beyond the limit, and further calls that would end the activation.
//! - `Work::Summary`: see `memory`.
//! - `Work::ToolCall` of an action: run its component with `Invocation::arguments`.
//! - `Work::ToolCall` of a role: pass `Stepper::role_result` to the guard. Without a guard that sees
//!   results there is no such attempt; `role_calls` decides all of it.
//! - `Work::ToolCall` of a handoff: end the attempt at once; the content of its output is the
//!   argument `message`.
//! - A request with `HumanRequest::proposed` is about a call that was not made yet, and is opened
//!   by an event that the stepper returns.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::json;

use super::call_limits::repetition_beyond_limit;
use super::files::record_nested_files;
use super::nested_calls::wake_outer_calls;
use super::request_opening::opening_event;
use super::results::{keep_result, make_message, published_emissions};
use super::role_calls::{
    end_of_role_call, message_argument, message_id_prefix, request_id_prefix,
    tool_call_message_name, tool_call_request_name,
};
use super::team_state::{ApplyResult, IllegalEvent, TeamState, ensure};
use super::tool_calls::is_known_tool;
use crate::record::conversation::{AssistantPart, reply_text, tool_calls};
use crate::record::event::{AttemptEvent, CallFailed, CallFinished, Event};
use crate::record::fault::{Fault, FaultHandling, FaultKind};
use crate::record::host_call::HostCall;
use crate::record::human_request::{ApprovalVerdict, HumanAnswer, HumanRequest, ProposedCall};
use crate::record::id::{RequestId, RoleId};
use crate::record::json::Json;
use crate::record::message::Draft;
use crate::record::scope_write::Write;
use crate::record::turn::{
    CallDecision, CallRevision, CallTarget, ToolRef, TurnOutcome, TurnReply, last_model_call,
};
use crate::record::work::{ActivationKey, CallKey, CallResult, Work};
use crate::state::activation::{
    Activation, Consent, MAX_TOKENS, OpenCall, Phase, ToolOutcome, ToolReturn, Turn, TurnCall,
    is_made_in,
};
use crate::state::environment::Environment;
use crate::state::environment::activations::called_key;
use crate::team::{LoweredLimits, Team};

/// Returns the event that opens the request for the next tool call of a role that a human has
/// to approve.
pub(super) fn approval_request_event(state: &TeamState, key: ActivationKey) -> Option<Event> {
    let activation = state.env.activation(key)?;
    let (work, _) = activation
        .unsettled_tool_calls()
        .find(|(work, call)| call.needs_request() && activation.is_awaited(*work))?;
    let call = CallKey::in_activation(key, work);
    let request = approval_request(&state.team, &state.env, call)?;
    Some(opening_event(&state.env, call, request))
}

/// Returns the event that a turn fails because the model has replied as often as it may, or repeats
/// itself.
pub(super) fn turn_limit_event(team: &Team, call: CallKey, open: OpenCall<'_>) -> Option<Event> {
    let Work::Turn { turn } = call.work else {
        return None;
    };
    let tools = team.role(call.role).tool_loop()?;
    let message = if turn >= tools.max_turns {
        let lowered = team.policy.lowered.max_turns.get(&call.role);
        format!(
            "no answer after {turn} {}; raise `max_turns` to go on{}",
            if turn == 1 { "turn" } else { "turns" },
            LoweredLimits::remark(lowered)
        )
    } else {
        repetition_beyond_limit(tools, open.activation)?
    };
    Some(Event::Attempt(
        call,
        AttemptEvent::CallFailed(CallFailed {
            attempt: open.progress.attempts + 1,
            digest: None,
            fault: Fault::new(FaultKind::Turns, message),
            retry_ms: None,
            handling: FaultHandling::Stops,
        }),
    ))
}

pub(super) fn apply_turn_limit(
    state: &mut TeamState,
    call: CallKey,
    failed: &CallFailed,
) -> ApplyResult {
    state.ensure_running()?;
    ensure(state.env.is_step_open, "a turn outside of a step")?;
    ensure(
        matches!(call.work, Work::Turn { .. }) && failed.retry_ms.is_none(),
        "a limit of turns for something else",
    )?;
    let open = state.open_call_mut(call)?;
    ensure(open.phase.is_ready(), "a turn that is not ready")?;
    ensure(
        failed.attempt == open.progress.attempts + 1,
        "an attempt out of turn",
    )?;
    open.progress.attempts = failed.attempt;
    *open.phase = Phase::Failed(failed.fault.clone());
    Ok(())
}

/// Fails unless a reply is recorded, and its plans fit its calls and name tools that exist.
pub(super) fn ensure_valid_reply(
    state: &TeamState,
    call: CallKey,
    reply: &TurnReply,
) -> ApplyResult {
    let key = call.activation();
    let parts = reply_parts(state, call, reply)?;
    let TurnOutcome::Calls(plans) = &reply.outcome else {
        return Ok(());
    };
    ensure(
        !plans.is_empty() && plans.len() == tool_calls(&parts).count(),
        "plans for other calls than those of the reply",
    )?;
    let exist = plans.iter().all(|plan| match &plan.decision {
        CallDecision::Make(target) | CallDecision::AskFirst(target, _) => {
            is_known_tool(state, key, target)
        }
        CallDecision::Reject(_) => true,
    });
    ensure(exist, "a call of a tool that does not exist")
}

/// Returns the parts of a reply. Fails if they are not recorded.
fn reply_parts<'a>(
    state: &TeamState,
    call: CallKey,
    reply: &'a TurnReply,
) -> Result<Cow<'a, [AssistantPart]>, IllegalEvent> {
    let open = state.env.open_call(&state.team, call);
    let calls = open.map_or(&[][..], |open| &open.progress.recorded_calls);
    let parts = reply.message.resolve(calls);
    parts.ok_or_else(|| IllegalEvent("a reply that was not recorded".into()))
}

/// Applies a reply of the model: its calls are open, or the activation has its output.
pub(super) fn begin_turn(state: &mut TeamState, call: CallKey, reply: &TurnReply) -> ApplyResult {
    let parts = reply_parts(state, call, reply)?.into_owned();
    let open = state.env.open_call(&state.team, call);
    let recorded = open.and_then(|open| last_model_call(&open.progress.recorded_calls));
    let input_tokens = recorded.and_then(HostCall::reply_input_tokens);
    let activation = state.activation_mut(call.activation())?;
    activation.memory.last_input_tokens = input_tokens.unwrap_or(0).min(MAX_TOKENS);
    activation.turns.push(Turn::from_reply(reply, parts));
    if let TurnOutcome::Answer(answer) = &reply.outcome {
        keep_result(state, call, answer, &[], &[])?;
    }
    advance(state, call.activation())
}

/// Ends a tool call with the result that it returned.
pub(super) fn end_tool_call_with(
    state: &mut TeamState,
    call: CallKey,
    output: &Draft,
    emissions: &[Draft],
    writes: &[Write],
) -> ApplyResult {
    let Work::ToolCall {
        turn,
        call: index,
        nested,
        ..
    } = call.work
    else {
        return Err(IllegalEvent("a result of another kind of call".into()));
    };
    let prefix = message_id_prefix(&state.env, call.activation());
    let name = tool_call_message_name(turn, index, nested);
    let mut returned = ToolReturn {
        output: output.clone(),
        emissions: Vec::new(),
        writes: Vec::new(),
        is_error: false,
    };
    let activation = state.activation_mut(call.activation())?;
    let tool_call = activation.tool_call(call.work).into_iter();
    for within in tool_call.flat_map(TurnCall::nested_returns) {
        returned.emissions.extend_from_slice(&within.emissions);
        returned.writes.extend_from_slice(&within.writes);
    }
    for (number, draft) in published_emissions(call, emissions).iter().enumerate() {
        // Tool calls end in any order, so the ids do not depend on what ended before.
        let id = format!("{prefix}-{name}.{number}");
        let message = make_message(state, call, draft, &id);
        returned.emissions.push(message);
    }
    returned.writes.extend_from_slice(writes);
    record_nested_files(state, call)?;
    end_tool_call(state, call, ToolOutcome::Returned(returned))
}

/// Ends a tool call with a result that says that the call failed.
pub(super) fn end_tool_call_with_error(
    state: &mut TeamState,
    call: CallKey,
    output: &Draft,
) -> ApplyResult {
    let returned = ToolReturn {
        output: output.clone(),
        emissions: Vec::new(),
        writes: Vec::new(),
        is_error: true,
    };
    end_tool_call(state, call, ToolOutcome::Returned(returned))
}

/// Ends a tool call. After the last one of a turn the activation goes on.
pub(super) fn end_tool_call(
    state: &mut TeamState,
    call: CallKey,
    outcome: ToolOutcome,
) -> ApplyResult {
    discard_nested_roles(state, call)?;
    state
        .activation_mut(call.activation())?
        .tool_call_mut(call.work)
        .ok_or_else(|| IllegalEvent("a tool call that does not exist".into()))?
        .end(outcome);
    wake_outer_calls(state, call)?;
    advance(state, call.activation())
}

/// Discards what roles have done for calls within a tool call that ends without them.
fn discard_nested_roles(state: &mut TeamState, call: CallKey) -> ApplyResult {
    let activation = state.activation_mut(call.activation())?;
    let ended = activation.tool_call(call.work).into_iter();
    let is_open = ended
        .flat_map(TurnCall::with_nested)
        .any(|(_, within)| within.outcome.is_none() && within.called_role().is_some());
    if !is_open {
        return Ok(());
    }
    let open = activation.unsettled_tool_calls();
    let open: Vec<Work> = open
        .filter(|(work, within)| within.called_role().is_some() && is_made_in(*work, call.work))
        .map(|(work, _)| work)
        .collect();
    for work in open {
        discard_called_role(state, CallKey::in_activation(call.activation(), work));
    }
    Ok(())
}

/// Begins the activation that a tool call of a role leads to; other calls lead to none. Its only
/// news is the message in the arguments.
pub(super) fn begin_role_call(state: &mut TeamState, call: CallKey) -> ApplyResult {
    let caller = call.activation();
    let Some(called) = called_key(caller, call.work) else {
        return Ok(());
    };
    let arguments = state.activation_mut(caller)?.arguments(call.work);
    let team = state.team.clone();
    let draft = Draft {
        content: arguments.as_ref().map(message_argument).unwrap_or_default(),
        to: alloc::vec![team.role(called.role).name.clone()],
        ..Draft::default()
    };
    let id = message_id_prefix(&state.env, called);
    let news = alloc::vec![make_message(state, call, &draft, &id).message];
    let activation = Activation::new(state.env.step, news, team.role(called.role));
    *state.open_call_mut(call)?.phase = Phase::CallingRole;
    let root = &mut state.env.roles[called.root().index()];
    root.called.insert(called, activation);
    Ok(())
}

/// Ends a tool call because the role that it called is done.
pub(super) fn apply_role_returned(
    state: &mut TeamState,
    call: CallKey,
    finished: &CallFinished,
) -> ApplyResult {
    state.ensure_running()?;
    ensure(
        state.env.is_step_open,
        "the end of a call outside of a step",
    )?;
    ensure(
        end_of_role_call(&state.team, &state.env, call).as_ref() == Some(finished),
        "the end of a call of a role that works, or another result",
    )?;
    match &finished.result {
        CallResult::Returned { output, .. } => end_tool_call_with(state, call, output, &[], &[]),
        _ => Ok(()),
    }
}

/// Opens the calls of roles again that led to an activation, because a call of it has to be made
/// again.
pub(super) fn reopen_role_calls(env: &mut Environment, mut key: ActivationKey) {
    while let (Some(caller), Some(call)) = (key.caller(), key.via.last()) {
        if let Some(caller) = env.activation_mut(caller) {
            caller.reopen_role_call(call.turn, call.call, call.nested);
        }
        key = caller;
    }
}

/// Moves on to what follows the tool calls that have ended.
fn advance(state: &mut TeamState, key: ActivationKey) -> ApplyResult {
    let team = state.team.clone();
    let activation = state.activation_mut(key)?;
    if !activation.has_open_tool_calls()
        && activation.done.is_empty()
        && let Some(turn) = activation.turns.last()
        && let Some((target, returned)) = turn.ending()
    {
        let output = ending_output(turn, target, returned, |to| &team.role(to).name);
        let turn = activation.turns.len() as u32 - 1;
        let call = CallKey::in_activation(key, Work::Turn { turn });
        keep_result(state, call, &output, &[], &[])?;
    }
    state.activation_mut(key)?.proceed(team.role(key.role));
    Ok(())
}

/// Applies the answer of a human to the question whether a tool call may be made.
pub(super) fn apply_approval(
    state: &mut TeamState,
    call: CallKey,
    answer: &HumanAnswer,
    person: Option<&str>,
) -> ApplyResult {
    let verdict = answer
        .verdict()
        .ok_or_else(|| IllegalEvent("an answer that neither approves nor declines".into()))?;
    let tool_call = state
        .activation_mut(call.activation())?
        .tool_call_mut(call.work)
        .ok_or_else(|| IllegalEvent("an answer about no tool call".into()))?;
    tool_call.decided_by = person.map(String::from);
    match verdict {
        ApprovalVerdict::Approved(edited) => {
            tool_call.consent = Consent::Given;
            tool_call.edited_arguments = edited;
            tool_call.phase = Phase::Ready;
            Ok(())
        }
        ApprovalVerdict::Declined(reason) => {
            end_tool_call(state, call, ToolOutcome::Declined(reason))
        }
    }
}

/// Applies a later decision about a tool call that has not ended, because its tool has changed, or
/// because somebody else may have written what was decided about it. A call that a role works on is
/// taken back.
pub(super) fn apply_call_revised(
    state: &mut TeamState,
    call: CallKey,
    revision: &CallRevision,
) -> ApplyResult {
    state.ensure_started()?;
    state.ensure_running()?;
    let tool_call = state
        .activation_mut(call.activation())?
        .tool_call_mut(call.work)
        .filter(|tool_call| {
            let is_given_up =
                tool_call.is_attempted() && matches!(revision, CallRevision::Reject(_));
            tool_call.can_be_revised() || tool_call.is_worked_on() || is_given_up
        })
        .ok_or_else(|| IllegalEvent("a decision about a call that cannot change".into()))?;
    ensure(
        matches!(revision, CallRevision::Reject(_)) || tool_call.consent != Consent::Given,
        "a question whether an approved call may be made",
    )?;
    if tool_call.is_worked_on() {
        tool_call.phase = Phase::Ready;
    }
    discard_called_role(state, call);
    let revised = state
        .activation_mut(call.activation())?
        .tool_call_mut(call.work)
        .ok_or_else(|| IllegalEvent("a decision about no tool call".into()))?;
    match revision {
        CallRevision::AskFirst(approval) => {
            revised.ask_first(approval.clone());
            Ok(())
        }
        CallRevision::Reject(reason) => {
            revised.reject(reason.clone());
            advance(state, call.activation())
        }
    }
}

/// Discards what the role that a tool call leads to has done for it, with what roles that it called
/// have done.
fn discard_called_role(state: &mut TeamState, call: CallKey) {
    let root = &mut state.env.roles[call.activation().root().index()];
    if let Some(called) = called_key(call.activation(), call.work) {
        root.called.retain(|key, _| !key.continues(&called));
    }
}

/// Returns the output of an activation that a tool call ends. A handoff passes on the text of the
/// turn and its own message.
fn ending_output<'a>(
    turn: &Turn,
    target: CallTarget,
    returned: &ToolReturn,
    name: impl Fn(RoleId) -> &'a String,
) -> Draft {
    let ToolRef::Handoff(to) = target.tool else {
        return returned.output.clone();
    };
    let text = reply_text(&turn.message);
    let message = &returned.output.content;
    let separator = if text.is_empty() || message.is_empty() {
        ""
    } else {
        "\n"
    };
    Draft {
        content: format!("{text}{separator}{message}"),
        to: alloc::vec![name(to).clone()],
        ..Draft::default()
    }
}

/// Returns the request to approve a tool call, if it needs approval.
pub(super) fn approval_request(
    team: &Team,
    env: &Environment,
    call: CallKey,
) -> Option<HumanRequest> {
    let name = tool_call_request_name(call.work)?;
    let activation = env.activation(call.activation())?;
    let tool_call = activation.tool_call(call.work)?;
    let Consent::Needed(approval) = &tool_call.consent else {
        return None;
    };
    let tool = tool_call.tool.clone();
    let prefix = request_id_prefix(env, call.activation());
    Some(HumanRequest {
        id: RequestId(format!("{prefix}-{name}")),
        question: format!("may `{}` call `{tool}`?", team.role(call.role).name),
        schema: Some(approval_answer_schema()),
        choices: Vec::new(),
        default: approval.default.clone(),
        expires_ms: approval.expires_ms,
        proposed: Some(ProposedCall {
            tool,
            arguments: activation.arguments(call.work)?,
            input_schema: approval.input_schema.clone(),
        }),
        asked_by: None,
    })
}

/// Returns the JSON Schema of the answer to a request to approve a tool call. Arguments in it must
/// also conform to the schema of the tool, which is not copied into this one: it can refer to
/// itself by names that mean something else here.
fn approval_answer_schema() -> Json {
    Json::from(json!({
        "type": "object",
        "properties": {
            "approve": { "type": "boolean" },
            "reason": { "type": "string" },
            "arguments": { "type": "object" },
        },
        "required": ["approve"],
        "additionalProperties": false,
    }))
}
