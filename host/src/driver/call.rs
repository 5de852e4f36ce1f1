//! The journaled gateway: calls that leave the host on behalf of an attempt.
//!
//! What an earlier attempt has recorded is served from the journal, call by call. All else is made: the intent of what
//! may change the world is durable before it goes out, and an answer is durable before the guest sees it. A call that
//! must not be lost outlives its attempt for a while; see `end`. When a call to a model is made, which may cost
//! something, is `afford`'s.

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
    /// To a language model.
    Complete(llm::Request),
    /// To a web server.
    Fetch(http::Request),
}

/// What is lost with an answer that nobody waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// Nothing: the call is simply made again.
    Light,
    /// Money, or the knowledge whether something was done.
    Heavy,
}

/// What came of a call.
struct Made {
    given: Given,
    outcome: Outcome,
    cost: Usd,
    tokens: u64,
    finish: Option<Finish>,
}

/// A call that came back.
pub(super) struct Served {
    attempt: AttemptId,
    /// Its place among those that were made together.
    nth: usize,
    kind: HostCallKind,
    request: String,
    what: String,
    weight: Weight,
    span: Span,
    /// None when it was given up.
    made: Option<Made>,
}

impl Outward {
    fn kind(&self) -> HostCallKind {
        match self {
            Self::Complete(_) => HostCallKind::Llm,
            Self::Fetch(_) => HostCallKind::Http,
        }
    }

    /// By what it is known again, also in another lineage.
    pub(super) fn digest(&self, env: &Environment) -> String {
        match self {
            Self::Complete(request) => {
                let text = serde_json::to_string(request).unwrap_or_default();
                hex(&sha256(text))
            }
            Self::Fetch(request) => request.digest((&env.lineage.key(&env.run.0), &env.run.0)),
        }
    }

    /// Whether it may change the world.
    fn is_write(&self) -> bool {
        matches!(self, Self::Fetch(request) if request.is_write())
    }

    fn weight(&self) -> Weight {
        match self {
            Self::Fetch(_) if !self.is_write() => Weight::Light,
            Self::Fetch(_) | Self::Complete(_) => Weight::Heavy,
        }
    }

    /// What it is, for people, in a line.
    fn told(&self) -> String {
        match self {
            Self::Complete(request) => {
                told(request.messages.last().map_or("", |turn| &turn.content))
            }
            Self::Fetch(request) => told(&request.told()),
        }
    }

    /// What is to be known before it is made, where it may change the world.
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

impl Driver {
    /// Answers calls that were asked for together: from the journal where they are recorded; the others are made, all
    /// at once where there is enough to spend.
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
        let work = attempt.work();
        let kind = calls.first().map_or(HostCallKind::Llm, Outward::kind);
        let (mut answers, mut events) = (Vec::new(), Vec::new());
        let (mut live, mut waiting) = (Vec::new(), VecDeque::new());
        for (nth, call) in calls.into_iter().enumerate() {
            let digest = call.digest(self.journal.env());
            let Occurrence {
                nth: equal,
                name: request,
                recorded,
            } = attempt.next_call(call.kind(), &digest, call.is_write());
            if let Some(recorded) = recorded {
                answers.push(Some(Ok(recorded.response.clone())));
                let (source, what) = (Source::Recorded, call.told());
                events.push(Event::HostCalled {
                    role,
                    work,
                    call: recorded,
                    source,
                    what,
                });
                continue;
            }
            answers.push(None);
            let intent = call.intent(&request);
            let key = intent
                .as_ref()
                .map(|_| attempt.write_key(&digest, equal))
                .unwrap_or_default();
            if let Some(intent) = intent {
                attempt.claim(&request);
                events.push(Event::HostCallBegun { role, work, intent });
            }
            match call {
                Outward::Complete(call) => waiting.push_back(Waiting { nth, request, call }),
                Outward::Fetch(_) => live.push((nth, request, call, key)),
            }
        }
        events
            .into_iter()
            .try_for_each(|event| self.journal.stage(event))?;
        if !live.is_empty() {
            // From here on the world may know of it.
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
        live.into_iter()
            .for_each(|(nth, request, call, key)| self.take_off(role, (nth, key), request, call));
        self.make_waiting()?;
        self.journal.flush()?;
        self.reply(role);
        Ok(())
    }

    /// Lets a call leave: the `nth` of those that are made together, under this key.
    pub(super) fn take_off(
        &mut self,
        role: RoleId,
        (nth, key): (usize, String),
        request: String,
        call: Outward,
    ) {
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

    /// Records a call that came back, and hands it to the guest.
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
        let (role, ours) = (id.role, self.running(id));
        let (
            Some(attempt),
            Some(Made {
                given,
                outcome,
                cost,
                tokens,
                finish,
            }),
        ) = (ours, made)
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
            // Its attempt was kept open for this.
            self.conclude(role)?;
        }
        // What was held back for it is free, as far as it was not used up.
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

    /// Hands answers to the guest once all of them are there.
    pub(super) fn reply(&mut self, role: RoleId) {
        let Some(attempt) = self.attempts.get_mut(&role) else {
            return;
        };
        attempt
            .batch
            .take_if(|batch| batch.is_complete())
            .into_iter()
            .for_each(Batch::answer);
    }
}

/// How much of what is asked is told: enough to know one call from another.
const TOLD_CHARS: usize = 200;

/// The beginning of what is asked, on one line.
pub(super) fn told(text: &str) -> String {
    excerpt(text, TOLD_CHARS)
}

/// A model's reply up to this size is recorded also where it is more than its guest may have: it is paid for, and an
/// attempt with a higher limit is served it. No model writes as much in one go.
const KEPT_REPLY_BYTES: usize = 1 << 20;

/// What is recorded of a call that was given up before it left, or left again.
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

/// Makes a call. `key` goes with a write that has none of its own; a model's reply is heard by `hearing`.
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
                let Some(models) = models else {
                    return Made {
                        given: Err(no_model()),
                        outcome: Outcome::Failed,
                        cost: Usd::ZERO,
                        tokens: 0,
                        finish: None,
                    };
                };
                match models.complete_heard(&request, hearing).await {
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
                        given: Err(error),
                        outcome: Outcome::Failed,
                        cost,
                        tokens,
                        finish,
                    },
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
