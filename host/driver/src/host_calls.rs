//! The host calls of running attempts: the journaled gateway to what lies outside.
//!
//! A call that an earlier attempt has recorded is answered from the record. All others are made: the
//! intent of a write is durable before it is sent, and an answer is durable before the guest sees
//! it. This component owns the calls and says what to record; the driver records it, and sends calls
//! and answers once that is durable. A call whose answer must not be lost outlives its attempt for a
//! while. `budget_gate` decides when a call that may cost something is made.

mod attempt_calls;
mod batch;
mod budget_gate;
mod caller;
mod in_flight;
mod local_answer;
mod preparing;
mod request_sequence;
mod signals;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_base::process::runtime_context::in_context_of;
use strata_core::machine::stepper::Stepper;
use strata_core::record::asking_call::AskingCall;
use strata_core::record::event::{AttemptEvent, Event, HostCalled, MoneyReserved};
use strata_core::record::host_call::{AnswerSource, ExternalWrite, HostCall, HostCallKind};
use strata_core::record::money::Usd;
use strata_core::record::spending::{Amount, Reservation};
use strata_core::record::work::{CallKey, Work};
use strata_core::state::environment::Environment;
use strata_core::team::Team;
use strata_services::gateway::{Allowance, AttemptId, HostAnswer};
use strata_services::models::{ObservedCall, StreamObserver, StreamObserverFactory};
use strata_services::outbound::{OutboundCall, OutboundResult, SendContext};
use strata_storage::{CapCharge, LeaseStatus, RunCaps};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::spans::{CallSpan, Spans};

use attempt_calls::AttemptCalls;
use batch::{CallBatch, PendingCall};
use budget_gate::{Admission, Grant, admit};
pub(super) use caller::Caller;
use in_flight::{AbandonReason, AwaitPolicy};
pub(super) use preparing::PreparedOutcome;
use preparing::Preparing;
use request_sequence::NumberedRequest;
pub(super) use signals::{CallSignal, CompletedCall};

pub use budget_gate::action_budget_error;
pub(super) use local_answer::{LocalAnswer, RecordedQuestion};
pub use local_answer::{decode_random, decode_time};
pub use request_sequence::request_number;

/// The host calls of running attempts.
#[derive(Default)]
pub(super) struct HostCalls {
    /// The attempts that have made a host call, or that have records of earlier attempts.
    attempts: BTreeMap<CallKey, AttemptCalls>,
    /// Calls that may be sent as soon as what is staged is durable.
    ready: Vec<PendingCall>,
    /// Calls of which it is not known yet whether they are writes.
    preparing: Preparing,
    /// Calls that were sent and have not been recorded yet.
    sent: FuturesUnordered<BoxFuture<'static, ReturnedCall>>,
    /// Creates an observer for each call that is sent. It is notified of the call and receives a
    /// model's reply while it is streamed.
    observer_factory: Option<StreamObserverFactory>,
    /// The runtime to which the connections and timers of calls belong; `None` for the one in whose
    /// context the driver is polled.
    runtime: Option<Handle>,
    /// The caps above the run.
    caps: RunCaps,
    /// Whether a call waits until more of a cap is free.
    waits_for_cap: bool,
}

/// A batch that a guest has requested.
pub(super) struct GuestBatch {
    calls: Vec<Arc<dyn OutboundCall>>,
    /// How many bytes the answers may have.
    allowance: Allowance,
    reply: oneshot::Sender<HostAnswer>,
}

impl GuestBatch {
    pub(super) fn new(
        calls: Vec<Arc<dyn OutboundCall>>,
        allowance: Allowance,
        reply: oneshot::Sender<HostAnswer>,
    ) -> Self {
        Self {
            calls,
            allowance,
            reply,
        }
    }
}

/// A call that has returned.
pub(super) struct ReturnedCall {
    attempt: AttemptId,
    /// Its index in its batch.
    nth: usize,
    kind: HostCallKind,
    request_name: String,
    summary: String,
    await_policy: AwaitPolicy,
    span: CallSpan,
    /// What the caps above the run are charged with.
    charge: CapCharge,
    /// `None` if the call was abandoned.
    result: Option<OutboundResult>,
}

/// A round of decisions about the calls that wait for the budget: the attempts that remain, the
/// next one last.
pub(super) struct AdmissionRound(Vec<CallKey>);

/// A decision of the budget gate that has to be recorded before the next one is taken.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a value exists only until its caller has matched it"
)]
pub(super) enum AdmissionDecision {
    /// Money is reserved for a call: the event that records it.
    Reserve(Event),
    /// So much has to be drawn from the caps above the run.
    Draw(Usd),
    /// The attempt cannot continue until the budget is raised.
    Suspend(CallKey),
}

impl HostCalls {
    /// Sets the factory of observers.
    pub(super) fn set_observer_factory(&mut self, factory: StreamObserverFactory) {
        self.observer_factory = Some(factory);
    }

    /// Sets the runtime to which the connections and timers of calls belong.
    pub(super) fn set_runtime(&mut self, runtime: Handle) {
        self.runtime = Some(runtime);
    }

    /// Sets the caps above the run.
    pub(super) fn set_caps(&mut self, caps: RunCaps) {
        self.caps = caps;
    }

    /// Returns the caps above the run.
    pub(super) fn caps(&self) -> &RunCaps {
        &self.caps
    }

    /// Drops all calls. Those in flight are abandoned.
    pub(super) fn clear(&mut self) {
        self.attempts.clear();
        self.ready.clear();
        self.preparing = Preparing::default();
        self.sent = FuturesUnordered::new();
    }

    /// Notes that an attempt begins. It is served `recorded` before it makes calls; `unanswered` are
    /// the requests that earlier attempts began and that have no recorded answer.
    pub(super) fn begin_attempt(
        &mut self,
        attempt: AttemptId,
        recorded: Vec<HostCall>,
        unanswered: Vec<String>,
        asking_call: Option<AskingCall>,
    ) {
        // Most attempts have no records and make no calls: their entry is created by the first one.
        if !recorded.is_empty() || !unanswered.is_empty() || asking_call.is_some() {
            let mut calls = AttemptCalls::new(attempt, recorded, unanswered);
            calls.asking_call = asking_call;
            self.attempts.insert(attempt.call, calls);
        }
    }

    /// Forgets an attempt and abandons its calls in flight. Returns which of these writes of earlier
    /// attempts it did not make.
    pub(super) fn end_attempt(
        &mut self,
        key: CallKey,
        writes: &[ExternalWrite],
    ) -> Vec<(u32, String)> {
        let Some(calls) = self.attempts.remove(&key) else {
            return Vec::new();
        };
        self.ready
            .retain(|pending| pending.attempt != calls.attempt);
        calls.unclaimed_writes(writes)
    }

    /// Abandons the calls of an attempt that can be made again. It can make no further calls.
    pub(super) fn abandon_discardable(&mut self, key: CallKey) {
        if let Some(calls) = self.attempts.get_mut(&key) {
            calls.in_flight.abandon_discardable();
        }
    }

    /// Abandons the calls that can be made again, of all attempts. They can make no further calls.
    pub(super) fn abandon_all_discardable(&mut self) {
        self.preparing = Preparing::default();
        for calls in self.attempts.values_mut() {
            calls.in_flight.abandon_discardable();
        }
    }

    /// Returns whether an attempt has calls in flight whose answers must not be lost.
    pub(super) fn must_await(&self, key: CallKey) -> bool {
        let calls = self.attempts.get(&key);
        calls.is_some_and(|calls| calls.in_flight.must_await())
    }

    /// Returns whether any attempt has such calls.
    pub(super) fn must_await_any(&self) -> bool {
        let mut attempts = self.attempts.values();
        attempts.any(|calls| calls.in_flight.must_await())
    }

    fn attempt_mut(&mut self, attempt: AttemptId) -> &mut AttemptCalls {
        let new = || AttemptCalls::new(attempt, Vec::new(), Vec::new());
        self.attempts.entry(attempt.call).or_insert_with(new)
    }

    /// Returns the name in the record of the next call of a tool with this digest.
    pub(super) fn name_tool_call(&mut self, attempt: AttemptId, digest: &str) -> String {
        let calls = self.attempt_mut(attempt);
        calls.number_request(HostCallKind::Tool, digest, false).name
    }

    /// Takes over a batch: serves what is recorded, and prepares the other calls. Returns the events
    /// to record before `send_ready`.
    pub(super) fn submit(
        &mut self,
        caller: Caller<'_>,
        request: GuestBatch,
        env: &Environment,
    ) -> Vec<Event> {
        let GuestBatch {
            calls,
            allowance,
            reply,
        } = request;
        let id = caller.attempt;
        let new = || AttemptCalls::new(id, Vec::new(), Vec::new());
        let attempt = self.attempts.entry(id.call).or_insert_with(new);
        let (mut events, mut answers) = (Vec::new(), Vec::with_capacity(calls.len()));
        let mut awaiting_budget = VecDeque::new();
        for (nth, call) in calls.iter().enumerate() {
            let digest = caller.request_name(&call.digest(env));
            let NumberedRequest {
                number,
                name: request_name,
                recorded,
            } = attempt.number_request(call.kind(), &digest, call.is_write());
            if let Some(recorded) = recorded {
                answers.push(Some(Ok(recorded.response.clone())));
                let (source, summary) = (AnswerSource::Recorded, call.summary());
                events.push(host_called_event(id.call, recorded, source, summary));
                continue;
            }
            answers.push(None);
            let request_key = request_name.clone();
            let mut pending = PendingCall {
                attempt: id,
                attempt_number: caller.number,
                nth,
                request_name,
                call: call.clone(),
                idempotency_key: caller.write_key(&digest, number),
                expected_cost: None,
                charge: CapCharge::default(),
                asking_call: attempt.asking_call.take_if(|asking_call| {
                    asking_call.kind == call.kind() && asking_call.request == request_key
                }),
            };
            if let Some(preparation) = call.clone().prepare() {
                let preparation = match &self.runtime {
                    Some(runtime) => Box::pin(in_context_of(runtime.clone(), preparation)),
                    None => preparation,
                };
                self.preparing.add(pending, preparation);
                continue;
            }
            events.extend(attempt.begin_write(&mut pending));
            if call.is_paid() {
                awaiting_budget.push_back(pending);
            } else {
                self.ready.push(pending);
            }
        }
        let batch = attempt.batch.insert(CallBatch {
            answers,
            awaiting_budget,
            allowance,
            reply,
        });
        if !batch.is_complete() {
            // Only calls that are still made are limited by what is left.
            batch.deduct_recorded_bytes(&calls);
        }
        events
    }

    /// Begins a round of decisions about the calls that wait for the budget, in the order in which each
    /// attempt made them. It is due whenever calls were added, or a reservation was released or spent.
    pub(super) fn admission_round(&mut self) -> AdmissionRound {
        self.waits_for_cap = false;
        let waits = |calls: &AttemptCalls| {
            let batch = calls.batch.as_ref();
            batch.is_some_and(|batch| !batch.awaiting_budget.is_empty())
        };
        let waiting = self.attempts.iter().rev();
        AdmissionRound(
            waiting
                .filter(|(_, calls)| waits(calls))
                .map(|(key, _)| *key)
                .collect(),
        )
    }

    /// Takes the next decision of a round that has to be recorded; `None` ends the round. The
    /// stepper must have applied the decision before.
    pub(super) fn decide_next(
        &mut self,
        round: &mut AdmissionRound,
        stepper: &Stepper,
    ) -> Option<AdmissionDecision> {
        while let Some(key) = round.0.last().copied() {
            match self.decide_for(key, stepper) {
                Some(decision) => return Some(decision),
                None => round.0.pop(),
            };
        }
        None
    }

    /// Decides about the waiting calls of an attempt until a decision has to be recorded, or no
    /// further call can be made now.
    fn decide_for(&mut self, key: CallKey, stepper: &Stepper) -> Option<AdmissionDecision> {
        let calls = self.attempts.get_mut(&key)?;
        if calls.in_flight.is_draining() {
            return None;
        }
        // A guest that is gone needs no answer.
        let batch = calls
            .batch
            .as_mut()
            .filter(|batch| !batch.reply.is_closed())?;
        loop {
            let is_away = batch.has_calls_in_flight();
            let mut next = batch.awaiting_budget.pop_front()?;
            match admit(stepper, key, &mut next, &self.caps) {
                Admission::Granted(Grant { amount, charge }) => {
                    let request = next.request_name.clone();
                    next.charge = charge;
                    self.ready.push(next);
                    if amount != Amount::ZERO {
                        let reserved = Reservation { request, amount };
                        let event = AttemptEvent::MoneyReserved(MoneyReserved { reserved });
                        return Some(AdmissionDecision::Reserve(Event::Attempt(key, event)));
                    }
                }
                Admission::Short(usd) => {
                    batch.awaiting_budget.push_front(next);
                    return Some(AdmissionDecision::Draw(usd));
                }
                Admission::BlockedByCap => {
                    batch.awaiting_budget.push_front(next);
                    self.waits_for_cap = true;
                    return None;
                }
                Admission::Denied(refusal) => batch.answers[next.nth] = Some(Err(refusal)),
                Admission::Exhausted if !is_away => {
                    return Some(AdmissionDecision::Suspend(key));
                }
                // Calls in flight are paid for, so their answers are recorded before the attempt
                // ends.
                Admission::Exhausted | Admission::Blocked => {
                    batch.awaiting_budget.push_front(next);
                    return None;
                }
            }
        }
    }

    /// Returns whether calls can be sent, or batches answered, once what is staged is durable.
    pub(super) fn waits_for_flush(&self) -> bool {
        let is_complete = |batch: &CallBatch| batch.is_complete();
        !self.ready.is_empty()
            || self
                .attempts
                .values()
                .any(|calls| calls.batch.as_ref().is_some_and(is_complete))
    }

    /// Returns whether calls wait for the next heartbeat: until the lease is confirmed, or until more of a cap
    /// is free.
    pub(super) fn holds_calls(&self) -> bool {
        !self.ready.is_empty() || self.waits_for_cap
    }

    /// Sends the calls that are ready, and the answers of complete batches to their guests. What was
    /// staged before must be durable. Calls that must not be made twice are held back unless the lease
    /// is confirmed: whoever takes the run over would make them again.
    pub(super) fn send_ready(&mut self, team: &Team, spans: &Spans, lease: &LeaseStatus) {
        for pending in std::mem::take(&mut self.ready) {
            match await_policy(pending.call.as_ref()) {
                AwaitPolicy::MustAwait if !lease.is_confirmed() => self.ready.push(pending),
                _ => self.send(pending, team, spans),
            }
        }
        for calls in self.attempts.values_mut() {
            if let Some(batch) = calls.batch.take_if(|batch| batch.is_complete()) {
                batch.answer();
            }
        }
    }

    /// Sends one call of a batch.
    fn send(&mut self, pending: PendingCall, team: &Team, spans: &Spans) {
        let PendingCall {
            attempt,
            attempt_number,
            nth,
            request_name,
            call,
            idempotency_key,
            mut charge,
            asking_call,
            ..
        } = pending;
        let Some(calls) = self.attempts.get_mut(&attempt.call) else {
            return;
        };
        charge.note_sent();
        let (kind, summary) = (call.kind(), call.summary());
        let (await_policy, dispatch_state) = (await_policy(call.as_ref()), call.dispatch_state());
        let abandoned = calls.in_flight.track(await_policy, dispatch_state.clone());
        let name = &team.role(attempt.call.role).name;
        let listener = self.observer_factory.as_ref().and_then(|new_listener| {
            new_listener(ObservedCall {
                role: name,
                kind,
                turn: turn_of(attempt.call.work),
                attempt: attempt_number,
            })
        });
        let observer = listener.map_or_else(StreamObserver::default, StreamObserver::with_listener);
        let allowance = calls
            .batch
            .as_ref()
            .map_or_else(Allowance::unlimited, |batch| batch.allowance.clone());
        let unsent = Arc::clone(&call);
        let span = spans.host_call(attempt.call, call.as_ref());
        let trace = spans.call_trace(attempt.call, &span);
        let result = call.send(SendContext {
            idempotency_key,
            allowance,
            observer: observer.with_dispatch_state(dispatch_state),
            asking_call,
            trace,
        });
        let result = match &self.runtime {
            Some(runtime) => Box::pin(in_context_of(runtime.clone(), result)),
            None => result,
        };
        self.sent.push(Box::pin(async move {
            let result = tokio::select! {
                biased;
                result = result.instrument(span.span()) => Some(result),
                abandoned = abandoned => match abandoned {
                    AbandonReason::NotInFlight(used) => Some(unsent.unsent(used)),
                    AbandonReason::AnswerLost => None,
                },
            };
            ReturnedCall {
                attempt,
                nth,
                kind,
                request_name,
                summary,
                await_policy,
                span,
                charge,
                result,
            }
        }));
    }

    /// Waits for the next call to return; `None` if none is in flight.
    pub(super) async fn next_returned(&mut self) -> Option<ReturnedCall> {
        // Polling an empty set would register a waker for nothing.
        if self.sent.is_empty() {
            return None;
        }
        self.sent.next().await
    }

    /// Returns a call that has returned by now.
    pub(super) fn returned_now(&mut self) -> Option<ReturnedCall> {
        self.sent.next().now_or_never().flatten()
    }

    /// Takes the result of a call that has returned. Returns the attempt and the event to record;
    /// `None` if the call was abandoned or its attempt is gone.
    pub(super) fn complete(
        &mut self,
        returned: ReturnedCall,
    ) -> Option<(AttemptId, CompletedCall)> {
        let id = returned.attempt;
        let result = returned.result?;
        returned.charge.complete(result.cost);
        let attempt = self
            .attempts
            .get_mut(&id.call)
            .filter(|calls| calls.attempt == id)?;
        if let Some(asks) = result.asks {
            attempt.in_flight.complete(returned.await_policy);
            let call = AskingCall {
                kind: returned.kind,
                request: returned.request_name,
                state: asks.state,
                progress: asks.progress,
                questions: asks.questions,
            };
            let before = attempt.human_questions;
            return Some((id, CompletedCall::Asks { call, before }));
        }
        let call = result.to_record(returned.kind, returned.request_name);
        if let Some(batch) = &mut attempt.batch {
            batch.answers[returned.nth] = Some(result.answer);
        }
        attempt.in_flight.complete(returned.await_policy);
        returned.span.record_outcome(&call);
        let (source, summary) = (AnswerSource::Live, returned.summary);
        let called = host_called_event(id.call, call, source, summary);
        Some((id, CompletedCall::Recorded(called)))
    }
}

/// Returns the event that records a call.
fn host_called_event(key: CallKey, call: HostCall, source: AnswerSource, summary: String) -> Event {
    let called = HostCalled {
        call,
        source,
        summary,
    };
    Event::Attempt(key, AttemptEvent::HostCalled(called))
}

/// Returns whether a call is waited for after its attempt has ended.
fn await_policy(call: &dyn OutboundCall) -> AwaitPolicy {
    if call.is_write() || call.is_paid() {
        AwaitPolicy::MustAwait
    } else {
        AwaitPolicy::Discardable
    }
}

/// Returns which reply of a tools role's model a work asks for, or belongs to.
fn turn_of(work: Work) -> Option<u32> {
    match work {
        Work::Turn { turn } | Work::ToolCall { turn, .. } | Work::Summary { turn } => Some(turn),
        Work::Think { .. } | Work::Plan | Work::Act { .. } | Work::Answer => None,
    }
}

#[cfg(test)]
mod tests;
