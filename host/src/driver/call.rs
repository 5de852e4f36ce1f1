//! The journaled gateway: calls that leave the host on behalf of an attempt.
//!
//! Each call that an earlier attempt has recorded is answered from the journal. All others are
//! made: the intent of a write is durable before it is sent, and an answer is durable before the
//! guest sees it. A call whose answer must not be lost outlives its attempt for a while; see `end`.
//! `afford` decides when a call to a model, which may cost money, is made.

use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use strata_core::environment::Environment;
use strata_core::event::{Event, HostCall, HostCallKind, Outcome, Source};
use strata_core::host_call::{Again, Finish, Intent};
use strata_core::id::{RoleId, hex};
use strata_core::json::Json;
use strata_core::money::Usd;
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use super::afford::no_model;
use super::attempt::Attempt;
use super::flights::{Batch, Given, GivenUp, Waiting};
use super::occurrence::Occurrence;
use super::{Driver, DriverError, Equipment, spans};
use crate::excerpt::excerpt;
use crate::gateway::{Allowance, Answer, AttemptId, HostError, HostErrorKind, of_reply};
use crate::services::http::{self, Sent};
use crate::services::llm::{self, Completed, Departure, Failed, Hearing, Models, Tokens};
use crate::sha256::sha256;

/// A call that leaves the host.
pub(super) enum Outward {
    /// A request to a language model.
    Complete(llm::Request),
    /// A request to an HTTP server.
    Fetch(http::Request),
}

/// What is lost if the answer to a call is discarded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// Nothing: the call can be made again.
    Light,
    /// Money, or the knowledge whether a write took effect.
    Heavy,
}

/// A call of a batch that can be made now.
pub(super) struct ReadyCall {
    /// Its index in the batch.
    pub(super) nth: usize,
    /// The name of the request in the record.
    pub(super) request: String,
    pub(super) call: Outward,
    /// The idempotency key of a write that has none of its own; empty for other calls.
    pub(super) key: String,
}

/// The result of a call.
struct Made {
    given: Given,
    outcome: Outcome,
    cost: Usd,
    tokens: u64,
    finish: Option<Finish>,
}

impl Made {
    /// Returns the result of a call that failed without cost.
    fn failed(error: HostError) -> Self {
        Self {
            given: Err(error),
            outcome: Outcome::Failed,
            cost: Usd::ZERO,
            tokens: 0,
            finish: None,
        }
    }
}

/// A call that has returned.
pub(super) struct Served {
    attempt: AttemptId,
    /// Its index in its batch.
    nth: usize,
    kind: HostCallKind,
    request: String,
    what: String,
    weight: Weight,
    span: Span,
    /// `None` if the call was abandoned.
    made: Option<Made>,
}

impl Outward {
    fn kind(&self) -> HostCallKind {
        match self {
            Self::Complete(_) => HostCallKind::Llm,
            Self::Fetch(_) => HostCallKind::Http,
        }
    }

    /// Returns the digest that identifies this request in the journal. It is the same in every
    /// lineage.
    pub(super) fn digest(&self, env: &Environment) -> String {
        match self {
            Self::Complete(request) => {
                let text = serde_json::to_string(request).unwrap_or_default();
                hex(&sha256(text))
            }
            Self::Fetch(request) => request.digest(&env.lineage.key(&env.run.0), &env.run.0),
        }
    }

    /// Returns whether the call may change something outside the host.
    fn is_write(&self) -> bool {
        matches!(self, Self::Fetch(request) if request.is_write())
    }

    fn weight(&self) -> Weight {
        match self {
            Self::Fetch(_) if !self.is_write() => Weight::Light,
            Self::Fetch(_) | Self::Complete(_) => Weight::Heavy,
        }
    }

    /// Summarizes the request in one line for people.
    fn told(&self) -> String {
        match self {
            Self::Complete(request) => {
                told(request.messages.last().map_or("", |turn| &turn.content))
            }
            Self::Fetch(request) => told(&request.told()),
        }
    }

    /// Returns what must be durable before a write is sent; `None` for other calls.
    fn intent(&self, request: &str) -> Option<Intent> {
        let Self::Fetch(fetch) = self else {
            return None;
        };
        let again = if fetch.key.is_some() {
            Again::Repeat
        } else {
            Again::Ask
        };
        let (kind, request) = (self.kind(), request.to_owned());
        fetch.is_write().then(|| Intent {
            kind,
            request,
            what: fetch.told(),
            again,
        })
    }
}

/// What becomes of the calls of a batch.
#[derive(Default)]
struct BatchPlan {
    /// The events to record before the calls are made.
    events: Vec<Event>,
    /// The recorded answers, in the order of the calls; `None` for calls to be made.
    answers: Vec<Option<Given>>,
    /// The calls to make at once.
    live: Vec<ReadyCall>,
    /// The calls that wait for the budget.
    waiting: VecDeque<Waiting>,
}

impl BatchPlan {
    /// Numbers the calls of an attempt, and takes the records that answer them.
    fn new(role: RoleId, attempt: &mut Attempt, calls: Vec<Outward>, env: &Environment) -> Self {
        let work = attempt.work();
        let mut plan = Self::default();
        for (nth, call) in calls.into_iter().enumerate() {
            let digest = call.digest(env);
            let Occurrence {
                nth: equal,
                name: request,
                recorded,
            } = attempt.next_call(call.kind(), &digest, call.is_write());
            if let Some(recorded) = recorded {
                plan.answers.push(Some(Ok(recorded.response.clone())));
                let (source, what) = (Source::Recorded, call.told());
                plan.events.push(Event::HostCalled {
                    role,
                    work,
                    call: recorded,
                    source,
                    what,
                });
                continue;
            }
            plan.answers.push(None);
            let intent = call.intent(&request);
            let key = intent
                .as_ref()
                .map(|_| attempt.write_key(&digest, equal))
                .unwrap_or_default();
            if let Some(intent) = intent {
                attempt.claim(&request);
                plan.events
                    .push(Event::HostCallBegun { role, work, intent });
            }
            match call {
                Outward::Complete(call) => plan.waiting.push_back(Waiting { nth, request, call }),
                Outward::Fetch(_) => plan.live.push(ReadyCall {
                    nth,
                    request,
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
    pub(super) fn call(
        &mut self,
        role: RoleId,
        calls: Vec<Outward>,
        allowance: Allowance,
        reply: oneshot::Sender<Answer>,
    ) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.get_mut(&role) else {
            return Ok(());
        };
        let kind = calls.first().map_or(HostCallKind::Llm, Outward::kind);
        let BatchPlan {
            events,
            answers,
            live,
            waiting,
        } = BatchPlan::new(role, attempt, calls, self.journal.env());
        for event in events {
            self.journal.stage(event)?;
        }
        if !live.is_empty() {
            // From here on the outside world may see the calls.
            self.journal.flush()?;
        }
        let Some(attempt) = self.attempts.get_mut(&role) else {
            return Ok(());
        };
        let batch = attempt.batch.insert(Batch {
            kind,
            answers,
            waiting,
            allowance,
            reply,
        });
        if !batch.is_complete() {
            batch.use_up();
        }
        for ready in live {
            self.take_off(role, ready);
        }
        self.make_waiting()?;
        self.journal.flush()?;
        self.reply(role);
        Ok(())
    }

    /// Sends one call of a batch.
    pub(super) fn take_off(&mut self, role: RoleId, ready: ReadyCall) {
        let ReadyCall {
            nth,
            request,
            call,
            key,
        } = ready;
        let Some(attempt) = self.attempts.get_mut(&role) else {
            return;
        };
        let (id, kind, weight, what) = (attempt.id(), call.kind(), call.weight(), call.told());
        let departure = if kind == HostCallKind::Llm {
            Departure::ahead()
        } else {
            Departure::over()
        };
        let given_up = attempt.flights.take_off(weight, departure.clone());
        let name = &self.journal.stepper().team().role(role).name;
        let listener = self
            .audience
            .as_ref()
            .and_then(|audience| audience(name, kind));
        let hearing = listener
            .map_or_else(Hearing::default, Hearing::by)
            .of(departure);
        let making = making(&self.equipment, attempt, call, key, hearing);
        let models = self.equipment.models.clone();
        let span = self.journal.spans().host_call(role, kind, &what);
        self.flights.push(Box::pin(async move {
            let made = tokio::select! {
                biased;
                made = making.instrument(span.clone()) => Some(made),
                given_up = given_up => match given_up {
                    GivenUp::Unsent(used) => Some(unsent(models.as_deref(), used)),
                    GivenUp::Unheard => None,
                },
            };
            Served {
                attempt: id,
                nth,
                kind,
                request,
                what,
                weight,
                span,
                made,
            }
        }));
    }

    /// Records a call that has returned, and answers the guest if its batch is complete.
    pub(super) fn served(&mut self, served: Served) -> Result<(), DriverError> {
        let Served {
            attempt: id,
            nth,
            kind,
            request,
            what,
            weight,
            span,
            made,
        } = served;
        let (role, attempt) = (id.role, self.running(id));
        let (
            Some(attempt),
            Some(Made {
                given,
                outcome,
                cost,
                tokens,
                finish,
            }),
        ) = (attempt, made)
        else {
            return Ok(());
        };
        let work = attempt.work();
        let response = match &given {
            Ok(response) => response.clone(),
            Err(error) => Json::from(serde_json::to_value(error).unwrap_or_default()),
        };
        if let Some(batch) = &mut attempt.batch {
            batch.answers[nth] = Some(given);
        }
        attempt.flights.land(weight);
        let over = attempt.ended.is_some() && !attempt.flights.is_heavy();
        let call = HostCall {
            kind,
            request,
            response,
            cost,
            tokens,
            outcome,
            finish,
        };
        spans::answered(&span, &call);
        self.journal.stage(Event::HostCalled {
            role,
            work,
            call,
            source: Source::Live,
            what,
        })?;
        if over {
            // The attempt was kept open for this call.
            self.conclude(role)?;
        }
        // The part of its reservation that was not used is released.
        self.make_waiting()?;
        if self
            .attempts
            .get(&role)
            .and_then(|attempt| attempt.batch.as_ref())
            .is_some_and(Batch::is_complete)
        {
            self.journal.flush()?;
            self.reply(role);
        }
        Ok(())
    }

    /// Answers the guest if all calls of its batch have an answer.
    pub(super) fn reply(&mut self, role: RoleId) {
        let Some(attempt) = self.attempts.get_mut(&role) else {
            return;
        };
        if let Some(batch) = attempt.batch.take_if(|batch| batch.is_complete()) {
            batch.answer();
        }
    }
}

/// The maximum length of a summary in characters: enough to distinguish calls.
const TOLD_CHARS: usize = 200;

/// Returns the beginning of a text on one line.
pub(super) fn told(text: &str) -> String {
    excerpt(text, TOLD_CHARS)
}

/// A model's reply of up to this size is recorded even if its guest may not receive it: it is paid
/// for, and an attempt with a higher limit can be served it. No model writes this much in one
/// reply.
const KEPT_REPLY_BYTES: usize = 1 << 20;

/// Returns the result of a call that was abandoned before it was sent, or before a retry was sent.
fn unsent(models: Option<&Models>, used: Tokens) -> Made {
    let (cost, tokens) = models.map(|models| models.charge(used)).unwrap_or_default();
    let error = HostError::new(
        HostErrorKind::Upstream,
        "the attempt ended before the request was sent, or sent again",
    );
    Made {
        given: Err(error),
        outcome: Outcome::Failed,
        cost,
        tokens,
        finish: None,
    }
}

/// Makes a call. `key` is used for a write without an idempotency key of its own; `hearing`
/// receives a model's reply while it is streamed.
fn making(
    equipment: &Equipment,
    attempt: &Attempt,
    call: Outward,
    key: String,
    hearing: Hearing,
) -> BoxFuture<'static, Made> {
    let allowance = attempt
        .batch
        .as_ref()
        .map_or_else(Allowance::unlimited, |batch| batch.allowance.clone());
    match call {
        Outward::Complete(request) => {
            let models = equipment.models.clone();
            Box::pin(async move {
                match models {
                    Some(models) => call_model(&models, &request, &allowance, hearing).await,
                    None => Made::failed(no_model()),
                }
            })
        }
        Outward::Fetch(request) => {
            let (client, plugin) = (equipment.http.clone(), attempt.plugin());
            Box::pin(async move {
                let grants = plugin
                    .as_ref()
                    .map_or(&[][..], |plugin| &plugin.grants.http);
                let (given, outcome) = match client.fetch(&request, grants, &key, &allowance).await
                {
                    Ok(response) => (Ok(response.to_json()), Outcome::Answered),
                    Err(failed) if failed.sent == Sent::No => (Err(failed.error), Outcome::Failed),
                    Err(failed) => (Err(failed.error), Outcome::Unknown),
                };
                Made {
                    given,
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
    request: &llm::Request,
    allowance: &Allowance,
    hearing: Hearing,
) -> Made {
    match models.complete_heard(request, hearing).await {
        Ok(Completed {
            reply,
            cost,
            tokens,
        }) => {
            let (bytes, finish) = (of_reply(&reply), Some(reply.finish));
            let (given, outcome) = match allowance.take(bytes) {
                Err(error) if bytes > KEPT_REPLY_BYTES => (Err(error), Outcome::Failed),
                Ok(()) | Err(_) => {
                    let reply = serde_json::to_value(&reply).unwrap_or_default();
                    (Ok(Json::from(reply)), Outcome::Answered)
                }
            };
            Made {
                given,
                outcome,
                cost,
                tokens,
                finish,
            }
        }
        Err(Failed {
            error,
            cost,
            tokens,
            finish,
        }) => Made {
            cost,
            tokens,
            finish,
            ..Made::failed(error)
        },
    }
}
