//! Builds events from what happened outside. This changes nothing; recording and applying the
//! events is the task of the driver.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::call_limits::limit_calls;
use super::calls::unassignable_task;
use super::{Stepper, fork, human_requests, memory, nested_calls, role_calls};
use crate::machine::effect::Invocation;
use crate::record::asking_call::AskingCall;
use crate::record::edit::Edit;
use crate::record::event::{
    AttemptEvent, CallFailed, CallFinished, CallStarted, Event, MessageSent, NestedCallPlan,
    RunResumed, RunStarted,
};
use crate::record::fault::{Fault, FaultHandling, FaultKind, Retryability};
use crate::record::host_call::{CallOutcome, CallPolicy, HostCall, RecordedCallUse, WriteResult};
use crate::record::human_request::{HumanAnswer, HumanRequest};
use crate::record::id::{Digest, MessageId, RequestId, RunId, Slot};
use crate::record::memory::PlannedReplacement;
use crate::record::message::{Draft, IDEA_LABEL, IDEMPOTENCY_KEY, Message, TO_ALL};
use crate::record::money::Usd;
use crate::record::questions::AskedQuestions;
use crate::record::rules::Rules;
use crate::record::spending::Account;
use crate::record::turn::{ReplyMessage, ToolRef, TurnReply, last_model_call};
use crate::record::work::{CallKey, CallResult, Work};
use crate::state::activation::{Addressing, CallProgress, Phase};
use crate::state::environment::routing::{RouteInput, route};
use crate::state::kept_bytes::result_bytes;
use crate::team::condition::WorkBudget;
use crate::team::{RetryPolicy, Role};

/// The limit up to which pauses before retries are doubled, in milliseconds. A configured pause
/// that is longer stays as it is.
const MAX_BACKOFF_MS: u32 = 60_000;

impl Stepper {
    /// Returns the event that starts a run: its idea, with the images and files of the state, goes
    /// to all roles that watch for it.
    pub fn run_started_event(
        &self,
        run: RunId,
        idea: String,
        components: BTreeMap<Slot, Digest>,
    ) -> Event {
        let message = Message::from_user("idea".into(), idea.clone(), IDEA_LABEL.into());
        Event::RunStarted(RunStarted {
            run,
            idea,
            parts: self.state.env.idea_parts.clone(),
            budget: self.state.team.policy.budget,
            components,
            routed: self.route_from_outside(&message),
            checkpoint: self.state.env.next_checkpoint_id(),
            rules: Rules::from_team(&self.defined_team),
        })
    }

    /// Returns the event that resumes a run. It lists the finished calls of open activations.
    pub fn run_resumed_event(&self, budget: Option<Usd>, calls: CallPolicy) -> Event {
        self.run_resumed_event_with_spent(self.state.env.spent, budget, calls)
    }

    /// Returns the event that resumes a run when other lineages have spent money as well. `spent`
    /// is the total.
    pub fn run_resumed_event_with_spent(
        &self,
        spent: Usd,
        budget: Option<Usd>,
        calls: CallPolicy,
    ) -> Event {
        let mut finished = Vec::new();
        for (key, activation) in self.state.env.activations() {
            let calls = activation.done.iter();
            finished.extend(calls.map(|done| CallKey::in_activation(key, done.work)));
            let tool_calls = activation.tool_calls();
            let made_calls = tool_calls.filter(|(_, call)| call.was_made());
            finished.extend(made_calls.map(|(work, _)| CallKey::in_activation(key, work)));
        }
        Event::RunResumed(RunResumed {
            checkpoint: self.state.env.checkpoint.clone(),
            step: self.state.env.step,
            budget,
            call_policy: calls,
            finished,
            rules: Rules::from_team(&self.defined_team),
            spent: spent.max(self.state.env.spent),
            questions: AskedQuestions::default(),
            by: None,
        })
    }

    /// Returns the earlier message from outside that has the same idempotency key as this one, if
    /// it has a key.
    pub fn earlier_with_same_key(&mut self, message: &Message) -> Option<&MessageId> {
        // A key that is `null` or empty counts as none.
        let key = message
            .meta
            .get(IDEMPOTENCY_KEY)
            .filter(|key| !matches!(key.as_str(), "null" | "\"\""))?;
        let known = self
            .memory_index
            .first_with_key(&self.state.env, key.as_str())?;
        Some(&self.state.env.message(known).id)
    }

    /// Returns the event of a message from outside, e.g. from the operator. It gets its id here,
    /// and has no sender in the team, whatever it claims.
    pub fn message_sent_event(&self, mut message: Message) -> Event {
        message.id = self.state.env.next_external_message_id();
        message.move_claims_to_meta();
        if message.send_to.is_empty() {
            message.send_to.push(TO_ALL.into());
        }
        let routed = self.route_from_outside(&message);
        Event::MessageSent(MessageSent { message, routed })
    }

    fn route_from_outside(&self, message: &Message) -> crate::record::event::RoutingResult {
        let addressed = if message.send_to == [TO_ALL] {
            Addressing::ByEnvironment
        } else {
            Addressing::Explicit
        };
        let input = RouteInput {
            message,
            from: None,
            addressing: addressed,
            itinerary: message.route.clone(),
        };
        // Only senders in the team have routes, so no condition is evaluated.
        route(
            &self.state.team,
            &self.state.address_book,
            input,
            &mut WorkBudget::default(),
        )
    }

    /// Returns the event that starts an attempt.
    pub fn call_started_event(&self, call: &Invocation) -> Event {
        Event::Attempt(
            call.key(),
            AttemptEvent::CallStarted(CallStarted {
                attempt: call.attempt,
                digest: call.digest.clone(),
                call_reuse: call.call_reuse,
                forgotten: self.forgotten_writes(call),
            }),
        )
    }

    /// Returns descriptions of the external writes that an attempt may repeat because it starts
    /// without the recorded host calls.
    fn forgotten_writes(&self, call: &Invocation) -> Vec<String> {
        let open = self
            .state
            .env
            .open_call(&self.state.team, call.key())
            .filter(|_| call.call_reuse == RecordedCallUse::Fresh);
        let writes = open.map_or(Vec::new(), |open| open.progress.all_external_writes());
        let recorded = writes
            .into_iter()
            .filter(|write| write.result == WriteResult::Recorded);
        recorded
            .map(|write| write.intent.description.clone())
            .collect()
    }

    /// Returns why an open call cannot make a call within it, if it cannot.
    pub fn nesting_refusal(&self, call: CallKey) -> Option<String> {
        nested_calls::nesting_refusal(call)
    }

    /// Returns the event that the current attempt of a call makes a call within it for the first time, or
    /// `None` if it is not running. A call beyond a limit is rejected.
    pub fn nested_call_made_event(&self, outer: CallKey, plan: NestedCallPlan) -> Option<Event> {
        nested_calls::nested_call_made_event(&self.state, outer, plan)
    }

    /// Returns what the role answered that a tool call called, if it is done. A guard sees it before the
    /// call ends.
    pub fn role_result(&self, call: CallKey) -> Option<Draft> {
        role_calls::role_result(&self.state.env, call)
    }

    /// Returns the id of the first request that an open call makes after `before` others.
    pub fn first_request_id(&self, call: CallKey, before: u32) -> Option<RequestId> {
        human_requests::first_request_id(&self.state.team, &self.state.env, call, before)
    }

    /// Returns the event that ends the current attempt of a call because it asks a human, or `None`
    /// if it is not running. The request gets the id that belongs to its question; the given id is
    /// that of the first question asked in its place.
    pub fn request_opened_event(&self, call: CallKey, request: HumanRequest) -> Option<Event> {
        human_requests::request_opened_event(&self.state, call, request)
    }

    /// Returns the event that ends the current attempt of a call because the receiver of a host call asks
    /// humans, or `None` if it is not running. The requests get their ids here; `before` is how many
    /// questions the attempt asked before.
    pub fn call_asks_event(&self, call: CallKey, asking: AskingCall, before: u32) -> Option<Event> {
        human_requests::call_asks_event(&self.state, call, asking, before)
    }

    /// Returns the event with the answer to an open request, or `None` if there is no such request
    /// or the answer is none that it can have. `person` is the name of the person who answered, if
    /// it is known.
    pub fn request_answered_event(
        &self,
        id: &RequestId,
        answer: HumanAnswer,
        person: Option<String>,
    ) -> Option<Event> {
        human_requests::request_answered_event(&self.state, id, answer, person)
    }

    /// Returns the event that starts another lineage with this state, or `None` if the state is not
    /// that of a checkpoint. `account` is that of all lineages together.
    pub fn forked_event(
        &self,
        lineage: String,
        edits: Vec<Edit>,
        account: Account,
    ) -> Option<Event> {
        fork::forked_event(&self.state.env, lineage, edits, account)
    }

    /// Returns the event that ends the current attempt of a call, or `None` if it is not running.
    /// An invalid result becomes a fault. The model and the cost of a reply are those of the
    /// recorded host call.
    pub fn call_ended_event(
        &self,
        call: CallKey,
        result: Result<CallResult, Fault>,
    ) -> Option<Event> {
        let open = self.state.env.open_call(&self.state.team, call)?;
        if *open.phase != Phase::Running {
            return None;
        }
        let role = self.state.team.role(call.role);
        let attempt = open.progress.attempts;
        let limited = result.map(|finished| match finished {
            CallResult::Replied(mut reply) => {
                let recorded = &open.progress.recorded_calls;
                attribute_reply(&mut reply, recorded);
                let message = reply.message.clone();
                let parts = message.resolve(recorded).unwrap_or_default();
                let key = call.activation();
                limit_calls(role, key, open.activation, &parts, &mut reply);
                CallResult::Replied(reply)
            }
            other => other,
        });
        let limited = match (call.work, &open.activation.memory.planned) {
            (Work::Summary { .. }, Some(planned)) => {
                self.conclude_summary(call, planned, limited, open.progress)
            }
            _ => limited,
        };
        let within_bounds = limited.and_then(|finished| {
            let finished = validate_result(role, finished)?;
            self.state.check_kept_bytes(result_bytes(&finished))?;
            Ok(finished)
        });
        let fault = match within_bounds {
            Ok(result) => {
                return Some(Event::Attempt(
                    call,
                    AttemptEvent::CallFinished(CallFinished { attempt, result }),
                ));
            }
            Err(fault) => mention_defective_reply(fault, &open.progress.recorded_calls),
        };
        let digest = self.state.component(call.role, call.work).cloned();
        // A call in doubt is not retried automatically.
        let retry_ms = if open.progress.leaves_writes_in_doubt() {
            None
        } else {
            retry_pause_ms(
                &fault,
                retry_policy(role, call.work),
                open.progress.failures,
            )
        };
        Some(Event::Attempt(
            call,
            AttemptEvent::CallFailed(CallFailed {
                attempt,
                digest,
                handling: fault_handling(role, call.work, open.progress, &fault, retry_ms),
                fault,
                retry_ms,
            }),
        ))
    }

    /// Returns the result of an attempt at a summary. A failure that is retried, or that leaves a
    /// write in doubt, stays one.
    fn conclude_summary(
        &self,
        call: CallKey,
        planned: &PlannedReplacement,
        result: Result<CallResult, Fault>,
        progress: &CallProgress,
    ) -> Result<CallResult, Fault> {
        let retry = retry_policy(self.state.team.role(call.role), call.work);
        let is_open = result.as_ref().err().is_some_and(|fault| {
            progress.leaves_writes_in_doubt()
                || retry_pause_ms(fault, retry, progress.failures).is_some()
        });
        if is_open {
            result
        } else {
            memory::conclude_summary(planned, result, &progress.recorded_calls)
        }
    }
}

/// Adds to a failure that the component caused itself that a reply of a model was truncated or
/// refused, since that may be the reason. Host calls that failed for that reason say so themselves.
fn mention_defective_reply(mut fault: Fault, calls: &[HostCall]) -> Fault {
    let answered = calls
        .iter()
        .rev()
        .filter(|call| call.outcome == CallOutcome::Answered);
    let flaw = answered
        .filter_map(|call| call.finish_reason()?.defect())
        .next();
    if let Some(flaw) = flaw.filter(|_| !fault.keeps_recorded_calls()) {
        let summary = fault.message.lines().next().map_or(0, str::len);
        fault.message.insert_str(
            summary,
            &format!("; a reply of the model {}", flaw.description()),
        );
    }
    fault
}

/// Sets the model and the cost of a reply to those of the host call that it came from, and refers to
/// the answer of that call, which is recorded already.
fn attribute_reply(reply: &mut TurnReply, calls: &[HostCall]) {
    let Some(last) = last_model_call(calls) else {
        return;
    };
    // A guard may have asked a model, too, after the role's model had replied.
    let is_own = |call: &&HostCall| {
        call.reply_parts().map(ReplyMessage::Parts).as_ref() == Some(&reply.message)
    };
    let call = calls.iter().rev().find(is_own).unwrap_or(last);
    if let Some(used) = &call.model {
        reply.model = used.name.clone();
    }
    reply.cost = call.cost;
    if is_own(&last) {
        reply.message = ReplyMessage::OfLastCall;
    }
}

/// Refuses choices and plans that name something that does not exist.
fn validate_result(role: &Role, finished: CallResult) -> Result<CallResult, Fault> {
    match &finished {
        CallResult::Chosen(choice) if *choice < -1 || *choice >= role.actions.len() as i32 => {
            let count = role.actions.len();
            let message =
                format!("chose action {choice} of {count}; indices count from 0, and -1 stops");
            Err(Fault::new(FaultKind::Think, message))
        }
        CallResult::Planned { tasks, .. } => match unassignable_task(role, tasks) {
            Some(task) => {
                let who = task
                    .action
                    .as_deref()
                    .map_or("nobody".into(), |name| format!("`{}`", excerpt(name)));
                let task = excerpt(&task.text);
                let message = format!(
                    "planned the task `{task}` for {who}; workers are all actions but the first"
                );
                Err(Fault::new(FaultKind::OutputInvalid, message))
            }
            None => Ok(finished),
        },
        _ => Ok(finished),
    }
}

/// Returns the beginning of a guest's text, enough to recognise it in a message.
fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    text.chars().take(MAX_CHARS).collect()
}

/// Returns how often the calls of a role are retried.
pub fn retry_policy(role: &Role, work: Work) -> RetryPolicy {
    match work {
        Work::Think { .. } | Work::Answer => RetryPolicy::NEVER,
        Work::Plan => role.actions[0].retry,
        Work::Act { action, .. }
        | Work::ToolCall {
            tool: ToolRef::Action(action),
            ..
        } => role.action(action).retry,
        Work::Turn { .. } | Work::Summary { .. } => role
            .tool_loop()
            .map_or(RetryPolicy::NEVER, |tools| tools.retry),
        Work::ToolCall { .. } => RetryPolicy::NEVER,
    }
}

/// Returns what becomes of a fault. Only a tool call that is not retried and leaves nothing in doubt
/// can return it to the model.
fn fault_handling(
    role: &Role,
    work: Work,
    progress: &CallProgress,
    fault: &Fault,
    retry_ms: Option<u32>,
) -> FaultHandling {
    match (work, role.tool_loop()) {
        (Work::ToolCall { tool, .. }, Some(tools))
            if retry_ms.is_none() && !progress.leaves_writes_in_doubt() =>
        {
            tools.fault_handling(tool, fault.kind)
        }
        _ => FaultHandling::Stops,
    }
}

/// Returns the pause before the next attempt in milliseconds, doubled with each failure, or `None`
/// if there is no further attempt.
fn retry_pause_ms(fault: &Fault, retry: RetryPolicy, failures: u32) -> Option<u32> {
    let is_retried = fault.retryability == Retryability::Retryable && failures < retry.retries;
    is_retried.then(|| {
        retry
            .backoff_ms
            .saturating_mul(1 << failures.min(16))
            .min(MAX_BACKOFF_MS.max(retry.backoff_ms))
    })
}
