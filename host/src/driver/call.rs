//! The journaled gateway: calls that leave the host on behalf of an attempt.
//!
//! Each call that an earlier attempt has recorded is answered from the journal. All others are
//! made: the intent of a write is durable before it is sent, and an answer is durable before the
//! guest sees it. A call whose answer must not be lost outlives its attempt for a while; see `end`.
//! `budget_gate` decides when a call to a model, which may cost money, is made.

use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use strata_core::record::event::{AttemptEvent, Event, HostCallBegun, HostCalled};
use strata_core::record::host_call::{
    AnswerSource, CallOutcome, FinishReason, HostCall, HostCallKind, Intent, LostAnswerPolicy,
};
use strata_core::record::id::to_hex;
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_core::record::work::CallKey;
use strata_core::state::environment::Environment;
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use super::attempt::RunningAttempt;
use super::budget_gate::no_model_error;
use super::in_flight::{Abandoned, CallAnswer, CallAwaitingBudget, CallBatch};
use super::request_sequence::NumberedRequest;
use super::{Driver, DriverError, HostServices, spans};
use crate::excerpt::excerpt;
use crate::gateway::{Allowance, AttemptId, HostAnswer, HostError, HostErrorKind, reply_bytes};
use crate::services::http::{self, RequestSent};
use crate::services::models::{
    Charge, CompletedCall, DispatchState, FailedCall, ModelCall, Models, StreamObserver,
};
use crate::sha256::sha256;

/// A call that leaves the host.
pub(super) enum OutboundCall {
    /// A request to a language model.
    Model(ModelCall),
    /// A request to an HTTP server.
    Http(http::HttpRequest),
}

/// Whether a call is waited for after its attempt has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitPolicy {
    /// No: the call can be made again.
    Discardable,
    /// Yes: otherwise money is lost, or the knowledge whether a write took effect.
    MustAwait,
}

/// A call of a batch that can be made now.
pub(super) struct ReadyCall {
    /// Its index in the batch.
    pub(super) nth: usize,
    /// The name of the request in the record.
    pub(super) request_name: String,
    pub(super) call: OutboundCall,
    /// A generated idempotency key for a write; used only if the request has none. Empty for other
    /// calls.
    pub(super) key: String,
}

/// The result of a call.
struct OutboundResult {
    answer: CallAnswer,
    outcome: CallOutcome,
    cost: Usd,
    tokens: u64,
    finish: Option<FinishReason>,
}

impl OutboundResult {
    /// Returns the result of a call that failed without cost.
    fn failed(error: HostError) -> Self {
        Self {
            answer: Err(error),
            outcome: CallOutcome::Failed,
            cost: Usd::ZERO,
            tokens: 0,
            finish: None,
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
    span: Span,
    /// `None` if the call was abandoned.
    result: Option<OutboundResult>,
}

impl OutboundCall {
    fn kind(&self) -> HostCallKind {
        match self {
            Self::Model(_) => HostCallKind::Llm,
            Self::Http(_) => HostCallKind::Http,
        }
    }

    /// Returns the digest that identifies this request in the journal. It is the same in every
    /// lineage.
    pub(super) fn digest(&self, env: &Environment) -> String {
        match self {
            Self::Model(call) => to_hex(&sha256(call.identity())),
            Self::Http(request) => {
                request.digest(&env.lineage.idempotency_prefix(&env.run.0), &env.run.0)
            }
        }
    }

    /// Returns whether the call may change something outside the host.
    fn is_write(&self) -> bool {
        matches!(self, Self::Http(request) if request.is_write())
    }

    fn await_policy(&self) -> AwaitPolicy {
        match self {
            Self::Http(_) if !self.is_write() => AwaitPolicy::Discardable,
            Self::Http(_) | Self::Model(_) => AwaitPolicy::MustAwait,
        }
    }

    /// Summarizes the request in one line for people.
    fn summary(&self) -> String {
        match self {
            Self::Model(call) => summarize(&call.request.newest_text()),
            Self::Http(request) => summarize(&request.describe()),
        }
    }

    /// Returns what must be durable before a write is sent; `None` for other calls.
    fn intent(&self, name: &str) -> Option<Intent> {
        let Self::Http(request) = self else {
            return None;
        };
        let if_answer_lost = if request.key.is_some() {
            LostAnswerPolicy::Repeat
        } else {
            LostAnswerPolicy::AskOperator
        };
        request.is_write().then(|| Intent {
            kind: self.kind(),
            request: name.to_owned(),
            description: request.describe(),
            if_answer_lost,
        })
    }
}

/// What becomes of the calls of a batch.
#[derive(Default)]
struct BatchPlan {
    /// The events to record before the calls are made.
    events: Vec<Event>,
    /// The recorded answers, in the order of the calls; `None` for calls to be made.
    answers: Vec<Option<CallAnswer>>,
    /// The HTTP calls, which are made at once.
    http_calls: Vec<ReadyCall>,
    /// The calls that wait for the budget.
    awaiting_budget: VecDeque<CallAwaitingBudget>,
}

impl BatchPlan {
    /// Numbers the calls of an attempt, and takes the records that answer them.
    fn new(attempt: &mut RunningAttempt, calls: Vec<OutboundCall>, env: &Environment) -> Self {
        let caller = attempt.key();
        let mut plan = Self::default();
        for (nth, call) in calls.into_iter().enumerate() {
            let digest = call.digest(env);
            let NumberedRequest {
                number,
                name: request_name,
                recorded,
            } = attempt.number_request(call.kind(), &digest, call.is_write());
            if let Some(recorded) = recorded {
                plan.answers.push(Some(Ok(recorded.response.clone())));
                let (source, summary) = (AnswerSource::Recorded, call.summary());
                plan.events.push(Event::Attempt(
                    caller,
                    AttemptEvent::HostCalled(HostCalled {
                        call: recorded,
                        source,
                        summary,
                    }),
                ));
                continue;
            }
            plan.answers.push(None);
            let intent = call.intent(&request_name);
            let key = intent
                .as_ref()
                .map(|_| attempt.write_key(&digest, number))
                .unwrap_or_default();
            if let Some(intent) = intent {
                attempt.note_repeated_write(&request_name);
                plan.events.push(Event::Attempt(
                    caller,
                    AttemptEvent::HostCallBegun(HostCallBegun { intent }),
                ));
            }
            match call {
                OutboundCall::Model(call) => plan.awaiting_budget.push_back(CallAwaitingBudget {
                    nth,
                    request_name,
                    call,
                }),
                OutboundCall::Http(_) => plan.http_calls.push(ReadyCall {
                    nth,
                    request_name,
                    call,
                    key,
                }),
            }
        }
        plan
    }
}

impl Driver {
    /// Answers a batch of calls: from the journal if they are recorded. The others are made, all at
    /// once if the budget allows it.
    pub(super) fn handle_call_batch(
        &mut self,
        key: CallKey,
        calls: Vec<OutboundCall>,
        allowance: Allowance,
        reply: oneshot::Sender<HostAnswer>,
    ) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return Ok(());
        };
        let kind = calls.first().map_or(HostCallKind::Llm, OutboundCall::kind);
        let BatchPlan {
            events,
            answers,
            http_calls,
            awaiting_budget,
        } = BatchPlan::new(attempt, calls, self.journal.env());
        for event in events {
            self.journal.stage(event)?;
        }
        if !http_calls.is_empty() {
            // From here on the outside world may see the calls.
            self.journal.flush()?;
        }
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return Ok(());
        };
        let batch = attempt.batch.insert(CallBatch {
            kind,
            answers,
            awaiting_budget,
            allowance,
            reply,
        });
        if !batch.is_complete() {
            // Only calls that are still made are limited by what is left.
            batch.deduct_recorded_bytes();
        }
        for ready in http_calls {
            self.dispatch(key, ready);
        }
        self.dispatch_waiting()?;
        self.journal.flush()?;
        self.answer_if_complete(key);
        Ok(())
    }

    /// Sends one call of a batch.
    pub(super) fn dispatch(&mut self, caller: CallKey, ready: ReadyCall) {
        let ReadyCall {
            nth,
            request_name,
            call,
            key,
        } = ready;
        let Some(attempt) = self.attempts.get_mut(&caller) else {
            return;
        };
        let (id, kind, await_policy, summary) = (
            attempt.id(),
            call.kind(),
            call.await_policy(),
            call.summary(),
        );
        let dispatch_state = if kind == HostCallKind::Llm {
            DispatchState::not_in_flight()
        } else {
            DispatchState::dispatched()
        };
        let abandoned = attempt
            .in_flight
            .track(await_policy, dispatch_state.clone());
        let name = &self.journal.stepper().team().role(caller.role).name;
        let listener = self
            .observer_factory
            .as_ref()
            .and_then(|new_listener| new_listener(name, kind));
        let observer = listener
            .map_or_else(StreamObserver::default, StreamObserver::with_listener)
            .with_dispatch_state(dispatch_state);
        let call_future = make_call(&self.services, attempt, call, key, observer);
        let span = self.journal.spans().host_call(caller, kind, &summary);
        self.calls_in_flight.push(Box::pin(async move {
            let result = tokio::select! {
                biased;
                result = call_future.instrument(span.clone()) => Some(result),
                abandoned = abandoned => match abandoned {
                    Abandoned::NotInFlight(used) => Some(unsent_result(used)),
                    Abandoned::AnswerLost => None,
                },
            };
            ReturnedCall {
                attempt: id,
                nth,
                kind,
                request_name,
                summary,
                await_policy,
                span,
                result,
            }
        }));
    }

    /// Records a call that has returned, and answers the guest if its batch is complete.
    pub(super) fn record_returned_call(
        &mut self,
        returned: ReturnedCall,
    ) -> Result<(), DriverError> {
        let ReturnedCall {
            attempt: id,
            nth,
            kind,
            request_name,
            summary,
            await_policy,
            span,
            result,
        } = returned;
        let (key, attempt) = (id.call, self.running_attempt(id));
        let (
            Some(attempt),
            Some(OutboundResult {
                answer,
                outcome,
                cost,
                tokens,
                finish,
            }),
        ) = (attempt, result)
        else {
            return Ok(());
        };
        let response = match &answer {
            Ok(response) => response.clone(),
            Err(error) => Json::from(serde_json::to_value(error).unwrap_or_default()),
        };
        if let Some(batch) = &mut attempt.batch {
            batch.answers[nth] = Some(answer);
        }
        attempt.in_flight.complete(await_policy);
        let attempt_is_over = attempt.result.is_some() && !attempt.in_flight.must_await();
        let call = HostCall {
            kind,
            request: request_name,
            response,
            cost,
            tokens,
            outcome,
            finish_reason: finish,
        };
        spans::record_outcome(&span, &call);
        self.journal.stage(Event::Attempt(
            key,
            AttemptEvent::HostCalled(HostCalled {
                call,
                source: AnswerSource::Live,
                summary,
            }),
        ))?;
        if attempt_is_over {
            // The attempt was kept open for this call.
            self.conclude(key)?;
        }
        // Staging the event released the unused part of the reservation, so waiting calls may fit
        // now.
        self.dispatch_waiting()?;
        if self
            .attempts
            .get(&key)
            .and_then(|attempt| attempt.batch.as_ref())
            .is_some_and(CallBatch::is_complete)
        {
            self.journal.flush()?;
            self.answer_if_complete(key);
        }
        Ok(())
    }

    /// Answers the guest if all calls of its batch have an answer.
    pub(super) fn answer_if_complete(&mut self, key: CallKey) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        if let Some(batch) = attempt.batch.take_if(|batch| batch.is_complete()) {
            batch.answer();
        }
    }
}

/// The maximum length of a summary in characters: enough to distinguish calls.
const SUMMARY_CHARS: usize = 200;

/// Returns the beginning of a text on one line.
pub(super) fn summarize(text: &str) -> String {
    excerpt(text, SUMMARY_CHARS)
}

/// A reply up to this size is recorded even if it exceeds the guest's limit: it is paid for, and a
/// later attempt with a higher limit gets it from the record. No model writes this much in one
/// reply.
const MAX_RECORDED_REPLY_BYTES: usize = 1 << 20;

/// Returns the result of a call that was abandoned while it was not in flight.
fn unsent_result(used: Charge) -> OutboundResult {
    let error = HostError::new(
        HostErrorKind::Upstream,
        "the attempt ended before the request was sent, or sent again",
    );
    OutboundResult {
        cost: used.cost,
        tokens: used.usage.total(),
        ..OutboundResult::failed(error)
    }
}

/// Makes a call. `key` is used for a write without an idempotency key of its own; `observer`
/// receives a model's reply while it is streamed.
fn make_call(
    services: &HostServices,
    attempt: &RunningAttempt,
    call: OutboundCall,
    key: String,
    observer: StreamObserver,
) -> BoxFuture<'static, OutboundResult> {
    let allowance = attempt
        .batch
        .as_ref()
        .map_or_else(Allowance::unlimited, |batch| batch.allowance.clone());
    match call {
        OutboundCall::Model(call) => {
            let models = services.models.clone();
            Box::pin(async move {
                match models {
                    Some(models) => call_model(&models, &call, &allowance, observer).await,
                    None => OutboundResult::failed(no_model_error()),
                }
            })
        }
        OutboundCall::Http(request) => {
            let (client, plugin) = (services.http.clone(), attempt.plugin());
            Box::pin(async move {
                let grants = plugin
                    .as_ref()
                    .map_or(&[][..], |plugin| &plugin.grants.http);
                let (answer, outcome) = match client.fetch(&request, grants, &key, &allowance).await
                {
                    Ok(response) => (Ok(response.to_json()), CallOutcome::Answered),
                    Err(failed) if failed.sent == RequestSent::No => {
                        (Err(failed.error), CallOutcome::Failed)
                    }
                    Err(failed) => (Err(failed.error), CallOutcome::Unknown),
                };
                OutboundResult {
                    answer,
                    outcome,
                    cost: Usd::ZERO,
                    tokens: 0,
                    finish: None,
                }
            })
        }
    }
}

/// Makes a call to a language model.
async fn call_model(
    models: &Models,
    call: &ModelCall,
    allowance: &Allowance,
    observer: StreamObserver,
) -> OutboundResult {
    match models.complete_observed(call, observer).await {
        Ok(CompletedCall { reply, used }) => {
            let (bytes, finish) = (reply_bytes(&reply), Some(reply.finish));
            let (answer, outcome) = match allowance.take(bytes) {
                Err(error) if bytes > MAX_RECORDED_REPLY_BYTES => (Err(error), CallOutcome::Failed),
                Ok(()) | Err(_) => {
                    let reply = serde_json::to_value(&reply).unwrap_or_default();
                    (Ok(Json::from(reply)), CallOutcome::Answered)
                }
            };
            OutboundResult {
                answer,
                outcome,
                cost: used.charge.cost,
                tokens: used.charge.usage.total(),
                finish,
            }
        }
        Err(FailedCall { error, used }) => OutboundResult {
            cost: used.charge.cost,
            tokens: used.charge.usage.total(),
            finish: used.finish,
            ..OutboundResult::failed(error)
        },
    }
}
