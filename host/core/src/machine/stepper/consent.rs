//! Consent in a state that somebody else may have written. What humans are said to have decided there
//! does not count, and what a human is shown is derived from the call that will be made.

use alloc::vec::Vec;

use super::human_requests::{first_request_id, human_role_request};
use super::request_opening::request_with_id;
use super::role_calls::opening_step;
use super::team_state::{ApplyResult, TeamState};
use super::turns::approval_request;
use crate::record::host_call::HostCallKind;
use crate::record::human_request::HumanRequest;
use crate::record::questions::first_id;
use crate::record::work::{ActivationKey, CallKey, Work};
use crate::state::activation::{Activation, CallProgress, Consent, Phase, TurnCall};
use crate::state::environment::Environment;
use crate::team::{React, Team};

/// Replaces the open requests of a state by those that follow from it. The question of a human role
/// is its mail, and the question about a tool call is the call. A request that cannot be one of its
/// call is withdrawn.
pub fn derive_requests(team: &Team, env: &mut Environment) {
    let waiting = env.open_calls(team).filter_map(|(call, open)| {
        let Phase::WaitingForHuman(request) = open.phase else {
            return None;
        };
        Some((call, request.clone()))
    });
    let waiting: Vec<(CallKey, HumanRequest)> = waiting.collect();
    for (call, saved) in waiting {
        let derived = derived_request(team, env, call, saved);
        if let Some(request) = &derived {
            let step = opening_step(env, call.activation());
            let question = request.question_digest();
            env.questions.add(step, request.id.clone(), question);
        }
        if let Some(open) = env.open_call_mut(team, call) {
            *open.phase = derived.map_or(Phase::Ready, Phase::WaitingForHuman);
        }
    }
}

/// Returns the request that a call waits for, if the saved one can be of this call.
fn derived_request(
    team: &Team,
    env: &Environment,
    call: CallKey,
    saved: HumanRequest,
) -> Option<HumanRequest> {
    let request = if call.work == Work::Answer {
        let mut request = human_role_request(team, env, call.activation())?;
        // The files of a team need not be there to answer it.
        if request.schema.is_none() {
            request.schema = saved.schema;
        }
        if request.choices.is_empty() {
            request.choices = saved.choices;
        }
        request
    } else if saved.asked_by.is_some() {
        // The call is made again, and its receiver asks again.
        return None;
    } else if saved.proposed.is_some() {
        approval_request(team, env, call)?
    } else {
        let before = first_id(&saved.id).rsplit_once('-')?.1.parse().ok()?;
        let first = first_request_id(team, env, call, before)?;
        (first_id(&saved.id) == first.0).then_some(HumanRequest { id: first, ..saved })?
    };
    Some(request_with_id(env, call, request))
}

/// Withdraws what humans decided about calls that are not committed, and the answers that would be
/// used without them.
pub(super) fn apply_consent_withdrawn(state: &mut TeamState) -> ApplyResult {
    state.ensure_started()?;
    let team = state.team.clone();
    for key in answered_by_humans(&team, &state.env) {
        let activation = state.activation_mut(key)?;
        activation.done.clear();
        activation.proceed(team.role(key.role));
    }
    state
        .env
        .for_each_activation_mut(&mut |_, activation| withdraw(activation));
    derive_requests(&team, &mut state.env);
    Ok(())
}

/// Returns the activations of human roles that have an answer of which nothing was used yet.
fn answered_by_humans(team: &Team, env: &Environment) -> Vec<ActivationKey> {
    let is_unused = |key: &ActivationKey| {
        let (Some(caller), Some(by)) = (key.caller(), key.via.last()) else {
            return true;
        };
        let turns = env.activation(caller).map(|caller| &caller.turns);
        let turn = turns.and_then(|turns| turns.get(by.turn as usize));
        let call = turn.and_then(|turn| turn.calls.get(by.call as usize));
        call.is_some_and(|call| call.outcome.is_none())
    };
    let answered = env.activations().filter(|(key, activation)| {
        team.role(key.role).react == React::Human && !activation.done.is_empty() && is_unused(key)
    });
    answered.map(|(key, _)| key).collect()
}

fn withdraw(activation: &mut Activation) {
    forget_answers(&mut activation.current_call, &mut activation.phase);
    for undone in &mut activation.reverted {
        forget_recorded_answers(&mut undone.progress);
    }
    for done in &mut activation.done {
        forget_recorded_answers(&mut done.progress);
    }
    for call in activation
        .turns
        .reopen_all()
        .flat_map(|turn| &mut turn.calls)
    {
        call.progress.for_each_nested_mut(&mut withdraw_from_call);
        withdraw_from_call(call);
    }
}

fn withdraw_from_call(call: &mut TurnCall) {
    if call.outcome.is_none() {
        if call.consent == Consent::Given {
            call.consent = Consent::NotNeeded;
        }
        call.edited_arguments = None;
        call.decided_by = None;
    }
    if let Consent::Needed(approval) = &mut call.consent {
        (approval.default, approval.expires_ms) = (None, None);
    }
    forget_answers(&mut call.progress, &mut call.phase);
}

/// Forgets the recorded answers of a call, and what its open request would be answered with if
/// nobody answers it.
fn forget_answers(progress: &mut CallProgress, phase: &mut Phase) {
    forget_recorded_answers(progress);
    if let Phase::WaitingForHuman(request) = phase {
        (request.default, request.expires_ms) = (None, None);
    }
}

fn forget_recorded_answers(progress: &mut CallProgress) {
    progress.asking = None;
    let calls = &mut progress.recorded_calls;
    calls.retain(|call| call.kind != HostCallKind::Human);
}
