//! Answers to what running attempts ask: from the environment at once; from the journal where a call was recorded;
//! else from the world, recorded before the guest hears of it.

use sha2::{Digest as _, Sha256};
use strata_core::event::{Event, HostCall, HostCallKind, Source};
use strata_core::id::{RoleId, hex};
use strata_core::json::Json;
use strata_core::money::Usd;
use tokio::sync::oneshot;

use super::clock::now_ms;
use super::{Arrived, Driver, DriverError};
use crate::gateway::{Answer, Ask, HostError, HostErrorKind, Question};
use crate::services::llm::{Completed, Failed, Reply, Request};

type Replied = Result<Reply, HostError>;

/// Answers of models, on their way to a guest.
pub(super) struct Served {
    role: RoleId,
    attempt: u32,
    /// What is known already, in the order of the requests.
    replies: Vec<Option<Replied>>,
    /// What was asked, by its digest, and came back.
    live: Vec<(String, Result<Completed, Failed>)>,
    reply: oneshot::Sender<Answer>,
}

impl Driver {
    /// Answers one question. A guest that is gone does not listen any more; that is no error.
    pub(super) fn answer(&mut self, question: Question) -> Result<(), DriverError> {
        let Question { role, ask, reply } = question;
        let stepper = self.journal.stepper();
        let (team, env) = (stepper.team(), stepper.env());
        let answer = match ask {
            Ask::Get { scope, key, pending } => {
                let value = env.read(team, role, (&scope, &key), &pending);
                Answer::Value(value.ok_or_else(|| self.no_scope(&scope)))
            }
            Ask::Keys { scope, pending } => {
                Answer::Keys(env.keys(team, role, &scope, &pending).ok_or_else(|| self.no_scope(&scope)))
            }
            Ask::Recent { limit, label } => Answer::Messages(env.remembered(role, label.as_deref(), limit as usize)),
            Ask::Now => {
                let recorded =
                    self.recorded(role, HostCallKind::Clock, "", |_| Json::from(serde_json::Value::from(now_ms())))?;
                Answer::Time(recorded.value().as_f64().unwrap_or_default())
            }
            Ask::Random { length } => Answer::Bytes(Ok(self.random(role, length)?)),
            Ask::Complete(requests) => return self.complete(role, requests, reply),
            Ask::Person(question) => return self.consult(role, &question, reply),
        };
        let _ = reply.send(answer);
        Ok(())
    }

    fn no_scope(&self, name: &str) -> HostError {
        let scopes: Vec<_> = self.journal.stepper().team().scopes.keys().map(|s| format!("`{s}`")).collect();
        let known = if scopes.is_empty() { String::new() } else { format!(", {}", scopes.join(", ")) };
        let message = format!("there is no scope `{name}`; scopes are `role`{known}; add `[env.scope.{name}]`");
        HostError::new(HostErrorKind::Invalid, message)
    }

    fn random(&mut self, role: RoleId, length: u32) -> Result<Vec<u8>, DriverError> {
        let request = length.to_string();
        let answer = self.recorded(role, HostCallKind::Random, &request, |attempt| {
            attempt.draws += 1;
            let seed = format!("{}/{}/{}", attempt.seed(), attempt.number(), attempt.draws);
            Json::from(serde_json::Value::from(hex(&stretch(&seed, length as usize))))
        })?;
        Ok(answer.value().as_str().map(unhex).unwrap_or_default())
    }

    /// A call that is answered at once: from what is recorded, else by `make`.
    fn recorded(
        &mut self,
        role: RoleId,
        kind: HostCallKind,
        request: &str,
        make: impl FnOnce(&mut super::attempt::Attempt) -> Json,
    ) -> Result<Json, DriverError> {
        let Some(attempt) = self.attempts.get_mut(&role) else { return Ok(Json::null()) };
        let (call, source) = match attempt.recall(kind, request) {
            Some(call) => (call, Source::Recorded),
            None => {
                let response = make(attempt);
                (HostCall { kind, request: request.into(), response, cost: Usd::ZERO }, Source::Live)
            }
        };
        let response = call.response.clone();
        let work = attempt.work();
        self.journal.stage(Event::HostCalled { role, work, call, source })?;
        self.journal.flush()?;
        Ok(response)
    }

    /// Asks models, but for what is recorded already.
    fn complete(
        &mut self,
        role: RoleId,
        requests: Vec<Request>,
        reply: oneshot::Sender<Answer>,
    ) -> Result<(), DriverError> {
        let broke = self.journal.env().is_broke();
        let models = self.equipment.models.clone();
        let Some(attempt) = self.attempts.get_mut(&role) else { return Ok(()) };
        let (work, number) = (attempt.work(), attempt.number());
        let mut replies = Vec::new();
        let mut live = Vec::new();
        let mut events = Vec::new();
        for mut request in requests {
            // The model that answers is part of the request, so that another one's reply is not served for it.
            let default = || models.as_ref().and_then(|models| models.default_model()).map(str::to_owned);
            request.model = request.model.or_else(default);
            let digest = digest(&request);
            if let Some(call) = attempt.recall(HostCallKind::Llm, &digest) {
                replies.push(Some(serde_json::from_value(call.response.value()).map_err(unreadable)));
                events.push(Event::HostCalled { role, work, call, source: Source::Recorded });
            } else if broke {
                let why = "the budget is used up; go on with `--investment USD`";
                replies.push(Some(Err(HostError::new(HostErrorKind::OutOfBudget, why))));
            } else {
                replies.push(None);
                live.push((digest, request));
            }
        }
        events.into_iter().try_for_each(|event| self.journal.stage(event))?;
        self.journal.flush()?;
        let Some(models) = models else {
            let why = "the team has no model; add `[llm] provider = …` to its file";
            let none = || Err(HostError::new(HostErrorKind::Upstream, why));
            let _ = reply.send(Answer::Replies(replies.into_iter().map(|r| r.unwrap_or_else(none)).collect()));
            return Ok(());
        };
        self.arrivals.push(Box::pin(async move {
            let (digests, requests): (Vec<_>, Vec<_>) = live.into_iter().unzip();
            let completed = models.complete_many(&requests).await;
            let live = digests.into_iter().zip(completed).collect();
            Arrived::Served(Served { role, attempt: number, replies, live, reply })
        }));
        Ok(())
    }

    /// Records what models answered, then hands it to the guest.
    pub(super) fn served(&mut self, served: Served) -> Result<(), DriverError> {
        let Served { role, attempt: number, mut replies, live, reply } = served;
        let Some(attempt) = self.attempts.get(&role).filter(|attempt| attempt.number() == number) else {
            return Ok(());
        };
        let work = attempt.work();
        let mut open = replies.iter_mut().filter(|reply| reply.is_none());
        for (request, completed) in live {
            let (replied, response, request, cost) = match completed {
                Ok(Completed { reply, cost }) => {
                    let response = serde_json::to_value(&reply).unwrap_or_default();
                    (Ok(reply), response, request, cost)
                }
                // What failed is never served again, so its record is kept under a name that nobody asks for.
                Err(Failed { error, cost }) => {
                    let response = serde_json::to_value(&error).unwrap_or_default();
                    (Err(error), response, format!("failed:{request}"), cost)
                }
            };
            let call = HostCall { kind: HostCallKind::Llm, request, response: Json::from(response), cost };
            self.journal.stage(Event::HostCalled { role, work, call, source: Source::Live })?;
            if let Some(slot) = open.next() {
                *slot = Some(replied);
            }
        }
        self.journal.flush()?;
        let lost = || Err(HostError::new(HostErrorKind::Upstream, "the provider did not answer"));
        let _ = reply.send(Answer::Replies(replies.into_iter().map(|r| r.unwrap_or_else(lost)).collect()));
        Ok(())
    }
}

fn unreadable(error: serde_json::Error) -> HostError {
    HostError::new(HostErrorKind::Upstream, format!("the recorded reply cannot be read: {error}"))
}

fn digest(request: &Request) -> String {
    let text = serde_json::to_string(request).unwrap_or_default();
    hex(&Sha256::digest(text))
}

/// As many bytes as wanted from a seed.
fn stretch(seed: &str, length: usize) -> Vec<u8> {
    let block = |i: usize| Sha256::digest(format!("{seed}/{i}")).to_vec();
    (0..length.div_ceil(32)).flat_map(block).take(length).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pair = |i: usize| text.get(i..i + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).map_while(pair).collect()
}
