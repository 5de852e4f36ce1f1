//! Answers to the requests of running attempts. Requests for the environment, the clock and random
//! bytes are answered at once; those that leave the host are handled by `call`.

use strata_core::environment::scope::ScopeKey;
use strata_core::event::{Event, HostCall, HostCallKind, Outcome, Source};
use strata_core::fault::FaultCause;
use strata_core::id::{RoleId, hex};
use strata_core::json::Json;
use strata_core::money::Usd;

use super::attempt::Attempt;
use super::call::Outward;
use super::clock::now_ms;
use super::{Driver, DriverError};
use crate::gateway::{Answer, Ask, AttemptId, HostError, HostErrorKind, Question, START};
use crate::services::llm;
use crate::sha256::sha256;

impl Driver {
    /// Answers one request, unless its attempt has ended: nothing is done for an ended attempt.
    pub(super) fn asked(&mut self, question: Question) -> Result<(), DriverError> {
        match self.running(question.attempt) {
            Some(_) if !question.reply.is_closed() => self.answer(question),
            _ => Ok(()),
        }
    }

    /// Answers one request. It is no error if the guest is gone and does not receive the answer.
    pub(super) fn answer(&mut self, question: Question) -> Result<(), DriverError> {
        let Question {
            attempt: AttemptId { role, .. },
            ask,
            allowance,
            reply,
        } = question;
        let stepper = self.journal.stepper();
        let (team, env) = (stepper.team(), stepper.env());
        let answer = match ask {
            Ask::Get {
                scope,
                key,
                seen,
                pending,
            } => {
                let value = env.read(
                    team,
                    role,
                    ScopeKey {
                        scope: &scope,
                        key: &key,
                    },
                    seen,
                    &pending,
                );
                Answer::Value(value.ok_or_else(|| self.no_scope(&scope)))
            }
            Ask::Keys { scope, pending } => Answer::Keys(
                env.keys(team, role, &scope, &pending)
                    .ok_or_else(|| self.no_scope(&scope)),
            ),
            Ask::Recent { limit, label } => Answer::Messages(self.journal.remembered(
                role,
                label.as_deref(),
                limit as usize,
            )),
            Ask::Now => self.time(role, "")?,
            Ask::Start => self.time(role, START)?,
            Ask::Random { length } => Answer::Bytes(Ok(self.random(role, length)?)),
            Ask::Person(question) => return self.consult(role, &question, reply),
            Ask::Complete(requests) => {
                let calls = requests
                    .into_iter()
                    .map(|request| Outward::Complete(self.of_model(request)));
                let calls = calls.collect();
                return self.call(role, calls, allowance, reply);
            }
            Ask::File(digest) => self.file(&digest)?,
            Ask::Fetch(requests) => {
                let calls = requests.into_iter().map(Outward::Fetch).collect();
                return self.call(role, calls, allowance, reply);
            }
        };
        let _ = reply.send(answer);
        Ok(())
    }

    /// Fills in the default model. It is part of the request's digest, so that a reply of another
    /// model is not served for it.
    fn of_model(&self, request: llm::Request) -> llm::Request {
        let default = || {
            self.equipment
                .models
                .as_ref()?
                .default_model()
                .map(str::to_owned)
        };
        llm::Request {
            model: request.model.clone().or_else(default),
            ..request
        }
    }

    fn no_scope(&self, name: &str) -> HostError {
        let scopes: Vec<_> = self
            .journal
            .stepper()
            .team()
            .scopes
            .keys()
            .map(|s| format!("`{s}`"))
            .collect();
        let known = if scopes.is_empty() {
            String::new()
        } else {
            format!(", {}", scopes.join(", "))
        };
        let message = format!(
            "there is no scope `{name}`; scopes are `role`{known}; add `[env.scope.{name}]`"
        );
        HostError::new(HostErrorKind::Invalid, message).caused_by(FaultCause::NoScope)
    }

    fn time(&mut self, role: RoleId, request: &str) -> Result<Answer, DriverError> {
        let now = |_: &mut Attempt| Json::from(serde_json::Value::from(now_ms()));
        let recorded = self.recorded(role, HostCallKind::Clock, request, now)?;
        Ok(Answer::Time(recorded.value().as_f64().unwrap_or_default()))
    }

    fn random(&mut self, role: RoleId, length: u32) -> Result<Vec<u8>, DriverError> {
        let request = length.to_string();
        let answer = self.recorded(role, HostCallKind::Random, &request, |attempt| {
            attempt.draws += 1;
            let seed = format!("{}/{}/{}", attempt.seed(), attempt.number(), attempt.draws);
            Json::from(serde_json::Value::from(hex(&stretch(
                &seed,
                length as usize,
            ))))
        })?;
        Ok(answer.value().as_str().map(unhex).unwrap_or_default())
    }

    /// Answers a call from the record if it is there, otherwise with the result of `make`, which is
    /// recorded.
    fn recorded(
        &mut self,
        role: RoleId,
        kind: HostCallKind,
        request: &str,
        make: impl FnOnce(&mut Attempt) -> Json,
    ) -> Result<Json, DriverError> {
        let Some(attempt) = self.attempts.get_mut(&role) else {
            return Ok(Json::null());
        };
        let (call, source) = match attempt.recall(kind, request) {
            Some(call) => (call, Source::Recorded),
            None => {
                let response = make(attempt);
                let (request, cost, tokens, outcome) =
                    (request.into(), Usd::ZERO, 0, Outcome::Answered);
                (
                    HostCall {
                        kind,
                        request,
                        response,
                        cost,
                        tokens,
                        outcome,
                        finish: None,
                    },
                    Source::Live,
                )
            }
        };
        let response = call.response.clone();
        let work = attempt.work();
        let what = if kind == HostCallKind::Random {
            format!("{request} bytes")
        } else {
            "the time".into()
        };
        self.journal.stage(Event::HostCalled {
            role,
            work,
            call,
            source,
            what,
        })?;
        self.journal.flush()?;
        Ok(response)
    }
}

/// Returns `length` bytes derived from a seed.
fn stretch(seed: &str, length: usize) -> Vec<u8> {
    let block = |i: usize| sha256(format!("{seed}/{i}"));
    (0..length.div_ceil(32))
        .flat_map(block)
        .take(length)
        .collect()
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    let pair = |i: usize| {
        text.get(i..i + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    (0..text.len()).step_by(2).map_while(pair).collect()
}
