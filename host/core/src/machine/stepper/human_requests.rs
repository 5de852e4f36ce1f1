//! Requests to humans: when they are opened, and what their answers do. A role that waits for a
//! human does not hold up others.
//!
//! An attempt that asks ends. Once there is an answer, another attempt is made, which is served the
//! answer like any recorded host call. A human role has no actions: it asks about its mail and
//! publishes the answer.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Stepper;
use super::checks::{ApplyResult, IllegalEvent, ensure};
use super::ready_index::RoleStatus;
use super::role_calls::{request_id_prefix, role_returned_event};
use crate::record::event::{AttemptEvent, Event, RequestAnswered, RequestOpened};
use crate::record::host_call::{CallOutcome, HostCall, HostCallKind};
use crate::record::id::{RequestId, RoleId};
use crate::record::message::Draft;
use crate::record::money::Usd;
use crate::record::request::{HumanAnswer, HumanRequest};
use crate::record::work::{ActivationKey, CallKey, Work};
use crate::state::activation::{Activation, Phase};
use crate::state::environment::Environment;
use crate::team::React;

impl Stepper {
    /// Returns the id of the request that an open call makes after `before` others.
    pub fn request_id(&self, call: CallKey, before: u32) -> Option<RequestId> {
        self.env.open_call(&self.team, call)?;
        let activation = self.env.activation(call.activation())?;
        Some(self.request_id_in(call, activation, before))
    }

    /// Returns the event that ends the current attempt of a call because it asks a human, or `None`
    /// if it is not running.
    pub fn request_opened_event(&self, call: CallKey, request: HumanRequest) -> Option<Event> {
        let open = self.env.open_call(&self.team, call)?;
        (*open.phase == Phase::Running).then_some(Event::Attempt(
            call,
            AttemptEvent::RequestOpened(RequestOpened { request }),
        ))
    }

    /// Returns the event with the answer to an open request, or `None` if there is no such request
    /// or the answer is none that it can have.
    pub fn request_answered_event(&self, id: &RequestId, answer: HumanAnswer) -> Option<Event> {
        let is_asked =
            |phase: &Phase| matches!(phase, Phase::WaitingForHuman(open) if open.id == *id);
        let mut open = self.env.open_calls(&self.team);
        let (call, open) = open.find(|(_, open)| is_asked(open.phase))?;
        let is_about_call = |phase: &Phase| matches!(phase, Phase::WaitingForHuman(open) if open.proposed.is_some());
        if is_about_call(open.phase) {
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
                checkpoint: self.env.next_checkpoint_id(),
                parent: self.env.checkpoint.clone(),
            }),
        ))
    }

    /// Returns the next event that nothing outside has to happen for: the opening of a request, or
    /// the end of a tool call because the role that it called is done.
    pub(super) fn due_event(&self) -> Option<Event> {
        let root = self.ready_index.first_event_due()?;
        self.request_opening_event(root)
            .or_else(|| role_returned_event(&self.team, &self.env, root))
    }

    /// Returns the event that opens the next request, within the activation of a role, that is not
    /// about a running attempt: that of a human role which has taken its mail or was called, or
    /// about a tool call that has to be approved.
    fn request_opening_event(&self, root: RoleId) -> Option<Event> {
        let mut activations = self.env.activations_of(root);
        activations.find_map(|(key, _)| match &self.team.role(key.role).react {
            React::Tools(_) => self.approval_request_event(key),
            React::Human => self.human_role_request_event(key),
            React::ByOrder | React::Choose { .. } | React::PlanAndAct => None,
        })
    }

    /// Returns the event that opens the request of a human role.
    fn human_role_request_event(&self, key: ActivationKey) -> Option<Event> {
        let activation = self.env.activation(key)?;
        if !activation.phase.is_ready() {
            return None;
        }
        let call = CallKey::in_activation(key, Work::Answer);
        let request = HumanRequest {
            id: self.request_id_in(call, activation, 0),
            question: self.question(activation),
            schema: None,
            choices: Vec::new(),
            default: None,
            expires_ms: None,
            call_digest: String::new(),
            proposed: None,
        };
        Some(Event::Attempt(
            call,
            AttemptEvent::RequestOpened(RequestOpened { request }),
        ))
    }

    /// Returns the mail as a question: the text of the message or, if there are several, each with
    /// its sender.
    fn question(&self, activation: &Activation) -> String {
        match self.env.resolve(&activation.news).as_slice() {
            [message] => message.content.clone(),
            several => {
                let line = |sender: &str, text: &str| format!("{sender}: {text}");
                let sender = |name: &str| {
                    if name.is_empty() {
                        "outside".into()
                    } else {
                        String::from(name)
                    }
                };
                let lines: Vec<_> = several
                    .iter()
                    .map(|m| line(&sender(&m.sent_from), &m.content))
                    .collect();
                lines.join("\n")
            }
        }
    }

    /// Returns whether only answers of humans can advance the open step.
    pub(super) fn waits_for_humans(&self) -> bool {
        let (open, waiting) = (
            self.ready_index.open_count(),
            self.ready_index.count(RoleStatus::WaitingForHuman),
        );
        // If an idle role has mail, the step has to end so that the next one can start.
        open > 0 && open == waiting && self.ready_index.count(RoleStatus::HasMail) == 0
    }

    pub(super) fn apply_request_opened(
        &mut self,
        call: CallKey,
        request: &HumanRequest,
    ) -> ApplyResult {
        if call.work == Work::Answer || request.proposed.is_some() {
            self.ensure_running()?;
            ensure(self.env.is_step_open, "a question outside of a step")?;
            ensure(
                self.due_event()
                    .as_ref()
                    .is_some_and(|event| opens_request(event, call, request)),
                "a question of nobody's",
            )?;
        } else {
            self.running_call_mut(call)?;
            ensure(
                self.is_id_of_call(&request.id, call),
                "a request under the name of another",
            )?;
        }
        let open = self.open_call_mut(call)?;
        open.progress.keeps_calls = true;
        *open.phase = Phase::WaitingForHuman(request.clone());
        Ok(())
    }

    pub(super) fn apply_request_answered(
        &mut self,
        call: CallKey,
        answered: &RequestAnswered,
    ) -> ApplyResult {
        let RequestAnswered {
            request,
            answer,
            checkpoint,
            parent,
        } = answered;
        self.ensure_started()?;
        let team = self.team.clone();
        let waiting = self.open_call_mut(call)?;
        let open = match &*waiting.phase {
            Phase::WaitingForHuman(open) if open.id == *request => open.clone(),
            _ => {
                return Err(IllegalEvent(
                    "an answer to a request that is not open".into(),
                ));
            }
        };
        ensure(
            matches!(answer, HumanAnswer::Given(_)) || *answer == open.outcome_when_expired(),
            "a default that was not agreed upon",
        )?;
        if open.proposed.is_some() {
            self.apply_approval(call, answer)?;
            self.set_checkpoint(checkpoint.clone(), parent.clone());
            return Ok(());
        }
        match (call.work, answer.value()) {
            (Work::Answer, Some(value)) => {
                let output = Draft {
                    content: value.as_str().into(),
                    data: Some(value.clone()),
                    ..Draft::default()
                };
                self.keep_result(call, &output, &[], &[])?;
                self.activation_mut(call.activation())?
                    .proceed(team.role(call.role));
            }
            (Work::Answer, None) => {
                return Err(IllegalEvent("a person who has nothing to say".into()));
            }
            _ => {
                let response = answer.to_record();
                let record = HostCall {
                    kind: HostCallKind::Human,
                    request: open.call_digest,
                    response,
                    cost: Usd::ZERO,
                    outcome: CallOutcome::Answered,
                    model: None,
                };
                waiting.progress.recorded_calls.push(record);
                waiting.progress.was_suspended = true;
                *waiting.phase = waiting.progress.ready_or_in_doubt();
            }
        }
        self.set_checkpoint(checkpoint.clone(), parent.clone());
        Ok(())
    }

    /// Returns whether an id is one that an open call can give to a request.
    fn is_id_of_call(&self, request: &RequestId, call: CallKey) -> bool {
        let before = request
            .0
            .rsplit_once('-')
            .and_then(|(_, before)| before.parse().ok());
        before.is_some_and(|before| self.request_id(call, before).as_ref() == Some(request))
    }

    /// Returns an id derived from the activation, the call in it, and the number of the request in
    /// the call.
    fn request_id_in(&self, call: CallKey, activation: &Activation, before: u32) -> RequestId {
        let prefix = request_id_prefix(&self.env, call.activation());
        if let Work::ToolCall {
            turn, call: index, ..
        } = call.work
        {
            return RequestId(format!("{prefix}-{turn}-{index}-{before}"));
        }
        let place = usize::from(activation.skipped_actions)
            + activation.done.len()
            + activation.choices.len();
        RequestId(format!("{prefix}-{place}-{before}"))
    }
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
    let parts = id
        .strip_prefix("ask-")
        .into_iter()
        .flat_map(|parts| parts.split('-'));
    let parts: Option<Vec<u64>> = parts.map(|part| part.parse().ok()).collect();
    let Some(numbers) = parts else {
        return false;
    };
    // A call of a role adds the turn, the call and the role.
    let is_complete = numbers.len() >= 4 && matches!(numbers.len() % 3, 1 | 2);
    let exists = |(step, role): (u64, u64)| step <= env.step && role < env.roles.len() as u64;
    is_complete && exists((numbers[0], numbers[1]))
}
