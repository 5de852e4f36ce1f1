//! Requests to humans: when they are opened, and what their answers do. A role that waits for a
//! human does not hold up others.
//!
//! An attempt that asks ends. Once there is an answer, another attempt is made, which is served the
//! answer like any recorded host call. A human role has no actions: it asks about its mail and
//! publishes the answer.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::nested_calls::{blocked_attempt_event, wake_outer_calls};
use super::ready_index::ReadyIndex;
use super::request_opening::{opening_event, request_with_id};
use super::results::keep_result;
use super::role_calls::{
    opening_step, request_id_prefix, role_returned_event, tool_call_request_name,
};
use super::team_state::{ApplyResult, IllegalEvent, TeamState, ensure};
use super::turns::{apply_approval, approval_request_event};
use crate::record::asking_call::{AskingCall, AskingProgress};
use crate::record::event::{AttemptEvent, CallAsks, Event, RequestAnswered};
use crate::record::host_call::{CallOutcome, HostCall, HostCallKind};
use crate::record::human_request::{AnswerForm, HumanAnswer, HumanRequest};
use crate::record::id::{RequestId, RoleId};
use crate::record::message::Draft;
use crate::record::money::Usd;
use crate::record::questions::first_id;
use crate::record::work::{ActivationKey, CallKey, Work};
use crate::state::activation::{Activation, OpenCallMut, Phase};
use crate::state::environment::Environment;
use crate::team::{React, Team};

/// Returns the id of the first request that an open call makes after `before` others.
pub(super) fn first_request_id(
    team: &Team,
    env: &Environment,
    call: CallKey,
    before: u32,
) -> Option<RequestId> {
    env.open_call(team, call)?;
    let activation = env.activation(call.activation())?;
    Some(request_id_in(env, call, activation, before))
}

/// Returns the event that ends the current attempt of a call because it asks a human, or `None`
/// if it is not running. The request gets the id that belongs to its question; the given id is that
/// of the first question asked in its place.
pub(super) fn request_opened_event(
    state: &TeamState,
    call: CallKey,
    request: HumanRequest,
) -> Option<Event> {
    let open = state.env.open_call(&state.team, call)?;
    let is_running = *open.phase == Phase::Running;
    is_running.then(|| opening_event(&state.env, call, request))
}

/// Returns the event with the answer to an open request, or `None` if there is no such request
/// or the answer is none that it can have. `person` is the name of the person who answered, if it is
/// known.
pub(super) fn request_answered_event(
    state: &TeamState,
    id: &RequestId,
    answer: HumanAnswer,
    person: Option<String>,
) -> Option<Event> {
    let mut open = state.env.open_calls(&state.team);
    let (call, open) = open.find(|(_, open)| open.requests().any(|open| open.id == *id))?;
    if matches!(open.phase, Phase::WaitingForHuman(request) if request.proposed.is_some()) {
        answer.verdict()?;
    }
    if call.work == Work::Answer {
        // A human role needs an answer from a human, so it waits until there is one.
        answer.value()?;
    }
    Some(Event::Attempt(
        call,
        AttemptEvent::RequestAnswered(RequestAnswered {
            request: id.clone(),
            answer,
            person,
            checkpoint: state.env.next_checkpoint_id(),
            parent: state.env.checkpoint.clone(),
        }),
    ))
}

/// Returns the next event that nothing outside has to happen for: the opening of a request, the end
/// of a tool call because the role that it called is done, or of an attempt because the calls that it
/// waits for cannot go on.
pub(super) fn due_event(state: &TeamState, ready_index: &ReadyIndex) -> Option<Event> {
    let root = ready_index.first_event_due()?;
    request_opening_event(state, root)
        .or_else(|| role_returned_event(&state.team, &state.env, root))
        .or_else(|| blocked_attempt_event(state, root))
}

/// Returns the event that opens the next request, within the activation of a role, that is not
/// about a running attempt: that of a human role which has taken its mail or was called, or
/// about a tool call that has to be approved.
fn request_opening_event(state: &TeamState, root: RoleId) -> Option<Event> {
    let mut activations = state.env.activations_of(root);
    activations.find_map(|(key, _)| match &state.team.role(key.role).react {
        React::Tools(_) => approval_request_event(state, key),
        React::Human => human_role_request_event(state, key),
        React::ByOrder | React::Choose { .. } | React::PlanAndAct => None,
    })
}

/// Returns the event that opens the request of a human role.
fn human_role_request_event(state: &TeamState, key: ActivationKey) -> Option<Event> {
    let activation = state.env.activation(key)?;
    if !activation.phase.is_ready() {
        return None;
    }
    let call = CallKey::in_activation(key, Work::Answer);
    let request = human_role_request(&state.team, &state.env, key)?;
    Some(opening_event(&state.env, call, request))
}

/// Returns the request of a human role that works on its mail.
pub(super) fn human_role_request(
    team: &Team,
    env: &Environment,
    key: ActivationKey,
) -> Option<HumanRequest> {
    let activation = env.activation(key)?;
    let call = CallKey::in_activation(key, Work::Answer);
    let AnswerForm { schema, choices } = team.role(key.role).answer_form.clone();
    Some(HumanRequest {
        id: request_id_in(env, call, activation, 0),
        question: question(env, activation),
        schema,
        choices,
        default: None,
        expires_ms: None,
        proposed: None,
        asked_by: None,
    })
}

/// Withdraws the open requests of human roles whose answers need another form now. They are opened
/// again.
pub(super) fn withdraw_outdated_requests(team: &Team, env: &mut Environment) {
    env.for_each_activation_mut(&mut |key, activation| {
        let role = team.role(key.role);
        if let (React::Human, Phase::WaitingForHuman(open)) = (&role.react, &activation.phase)
            && (&open.schema, &open.choices)
                != (&role.answer_form.schema, &role.answer_form.choices)
        {
            activation.phase = Phase::Ready;
        }
    });
}

/// Returns the mail as a question: the text of the message or, if there are several, each with
/// its sender.
fn question(env: &Environment, activation: &Activation) -> String {
    match env.resolve(&activation.news).as_slice() {
        [message] => message.content.clone(),
        several => {
            let lines: Vec<_> = several
                .iter()
                .map(|message| {
                    let sender = match message.sent_from.as_str() {
                        "" => "outside",
                        name => name,
                    };
                    format!("{sender}: {}", message.content)
                })
                .collect();
            lines.join("\n")
        }
    }
}

pub(super) fn apply_request_opened(
    state: &mut TeamState,
    ready_index: &ReadyIndex,
    call: CallKey,
    request: &HumanRequest,
) -> ApplyResult {
    if call.work == Work::Answer || request.proposed.is_some() {
        state.ensure_running()?;
        ensure(state.env.is_step_open, "a question outside of a step")?;
        ensure(
            due_event(state, ready_index)
                .as_ref()
                .is_some_and(|event| opens_request(event, call, request)),
            "a question of nobody's",
        )?;
    } else {
        state.running_call_mut(call)?;
        ensure(
            is_id_of_call(state, request, call),
            "a request under the name of another",
        )?;
    }
    let step = opening_step(&state.env, call.activation());
    let question = request.question_digest();
    state.env.questions.add(step, request.id.clone(), question);
    let open = state.open_call_mut(call)?;
    if request.proposed.is_none() {
        open.progress.keeps_calls = true;
    }
    *open.phase = Phase::WaitingForHuman(request.clone());
    Ok(())
}

/// Returns the event that ends the current attempt of a call because the receiver of a host call asks
/// humans, or `None` if it is not running. `before` is how many questions the attempt asked before.
pub(super) fn call_asks_event(
    state: &TeamState,
    call: CallKey,
    mut asking: AskingCall,
    before: u32,
) -> Option<Event> {
    let open = state.env.open_call(&state.team, call)?;
    if *open.phase != Phase::Running {
        return None;
    }
    for (question, number) in asking.questions.iter_mut().zip(before..) {
        question.request.id = first_request_id(&state.team, &state.env, call, number)?;
        question.request = request_with_id(&state.env, call, question.request.clone());
    }
    let asks = CallAsks { call: asking };
    Some(Event::Attempt(call, AttemptEvent::CallAsks(asks)))
}

/// Applies that the receiver of a host call asks humans.
pub(super) fn apply_call_asks(
    state: &mut TeamState,
    call: CallKey,
    asking: &AskingCall,
) -> ApplyResult {
    state.running_call_mut(call)?;
    let first = asking.open_requests().next().cloned();
    let first = first.ok_or_else(|| IllegalEvent("a call that asks nothing".into()))?;
    for request in asking.open_requests() {
        ensure(
            is_id_of_call(state, request, call),
            "a request under the name of another",
        )?;
    }
    let step = opening_step(&state.env, call.activation());
    for request in asking.open_requests() {
        let question = request.question_digest();
        state.env.questions.add(step, request.id.clone(), question);
    }
    let open = state.open_call_mut(call)?;
    open.progress.keeps_calls = true;
    if asking.progress == AskingProgress::Ended {
        open.progress
            .external_writes
            .retain(|write| !write.is_unanswered(asking.kind, &asking.request));
    }
    open.progress.asking = Some(asking.clone());
    *open.phase = Phase::WaitingForHuman(first);
    Ok(())
}

/// Keeps an answer to a question of the receiver of a host call. The call goes on after the last one.
fn keep_answer_to_call(
    waiting: OpenCallMut<'_>,
    request: &RequestId,
    answer: &HumanAnswer,
) -> ApplyResult {
    let missing = || IllegalEvent("an answer to a question that was not asked".into());
    let asking = waiting.progress.asking.as_mut().ok_or_else(missing)?;
    asking
        .open_question_mut(request)
        .ok_or_else(missing)?
        .answer = Some(answer.clone());
    let is_open = asking.progress == AskingProgress::Open;
    let next = asking.open_requests().next().cloned();
    *waiting.phase = match next {
        Some(next) => Phase::WaitingForHuman(next),
        None => {
            waiting.progress.was_suspended = true;
            if is_open {
                Phase::Ready
            } else {
                waiting.progress.ready_or_in_doubt()
            }
        }
    };
    Ok(())
}

pub(super) fn apply_request_answered(
    state: &mut TeamState,
    call: CallKey,
    answered: &RequestAnswered,
) -> ApplyResult {
    let RequestAnswered {
        request,
        answer,
        person,
        checkpoint,
        parent,
    } = answered;
    state.ensure_started()?;
    let team = state.team.clone();
    let waiting = state.open_call_mut(call)?;
    let open = waiting
        .requests()
        .find(|open| open.id == *request)
        .cloned()
        .ok_or_else(|| IllegalEvent("an answer to a request that is not open".into()))?;
    let is_of_person = matches!(answer, HumanAnswer::Given(_));
    ensure(
        is_of_person || *answer == open.outcome_when_expired(),
        "a default that was not agreed upon",
    )?;
    ensure(
        is_of_person || person.is_none(),
        "a default that a person gave",
    )?;
    if open.proposed.is_some() {
        apply_approval(state, call, answer, person.as_deref())?;
        wake_outer_calls(state, call)?;
        state.set_checkpoint(checkpoint.clone(), parent.clone());
        return Ok(());
    }
    if open.asked_by.is_some() {
        keep_answer_to_call(waiting, request, answer)?;
        wake_outer_calls(state, call)?;
        state.set_checkpoint(checkpoint.clone(), parent.clone());
        return Ok(());
    }
    match (call.work, answer.value()) {
        (Work::Answer, Some(value)) => {
            let output = Draft {
                content: value.as_str().into(),
                data: Some(value.clone()),
                ..Draft::default()
            };
            keep_result(state, call, &output, &[], &[])?;
            state
                .activation_mut(call.activation())?
                .proceed(team.role(call.role));
        }
        (Work::Answer, None) => {
            return Err(IllegalEvent("a person who has nothing to say".into()));
        }
        _ => {
            let response = answer.to_record();
            let record = HostCall {
                kind: HostCallKind::Human,
                request: open.call_digest(),
                response,
                cost: Usd::ZERO,
                outcome: CallOutcome::Answered,
                model: None,
            };
            waiting.progress.recorded_calls.push(record);
            waiting.progress.was_suspended = true;
            *waiting.phase = waiting.progress.ready_or_in_doubt();
            wake_outer_calls(state, call)?;
        }
    }
    state.set_checkpoint(checkpoint.clone(), parent.clone());
    Ok(())
}

/// Returns whether the id of a request is the one that an open call gives to its question.
fn is_id_of_call(state: &TeamState, request: &HumanRequest, call: CallKey) -> bool {
    let first = first_id(&request.id);
    let before = first.rsplit_once('-');
    let before = before.and_then(|(_, before)| before.parse().ok());
    let first = before.and_then(|before| first_request_id(&state.team, &state.env, call, before));
    first.is_some_and(|first| {
        let step = opening_step(&state.env, call.activation());
        let question = request.question_digest();
        state.env.questions.id_for(step, first, question) == request.id
    })
}

/// Returns an id derived from the activation, the call in it, and the number of the request in
/// the call.
fn request_id_in(
    env: &Environment,
    call: CallKey,
    activation: &Activation,
    before: u32,
) -> RequestId {
    let prefix = request_id_prefix(env, call.activation());
    if let Some(name) = tool_call_request_name(call.work) {
        return RequestId(format!("{prefix}-{name}-{before}"));
    }
    let place =
        usize::from(activation.skipped_actions) + activation.done.len() + activation.choices.len();
    RequestId(format!("{prefix}-{place}-{before}"))
}

/// Returns whether an event opens this request of this call.
fn opens_request(event: &Event, call: CallKey, request: &HumanRequest) -> bool {
    matches!(
        event,
        Event::Attempt(asking, AttemptEvent::RequestOpened(opened))
            if *asking == call && opened.request == *request
    )
}

/// Returns whether a request that is no longer open may have had this id: the id contains a step and
/// a role that exist. To be certain, all recorded events would have to be read.
pub fn may_have_had_request(env: &Environment, id: &str) -> bool {
    if env.questions.contains(id) {
        return true;
    }
    let parts = id
        .strip_prefix("ask-")
        .into_iter()
        .flat_map(|parts| parts.split('-'));
    let parts: Option<Vec<u64>> = parts.map(|part| part.parse().ok()).collect();
    let Some(numbers) = parts else {
        return false;
    };
    let is_complete = numbers.len() >= 4;
    let exists = |(step, role): (u64, u64)| step <= env.step && role < env.roles.len() as u64;
    is_complete && exists((numbers[0], numbers[1]))
}
