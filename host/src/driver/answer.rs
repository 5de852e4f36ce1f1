//! Answers to the requests of running attempts. Requests for the environment, the clock and random
//! bytes are answered at once; those that leave the host are handled by `call`.

use strata_core::record::event::{AttemptEvent, Event, HostCalled};
use strata_core::record::fault::FaultCause;
use strata_core::record::host_call::{AnswerSource, CallOutcome, HostCall, HostCallKind};
use strata_core::record::id::{RoleId, to_hex};
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_core::record::work::CallKey;
use strata_core::state::environment::scope::ScopeKey;

use super::attempt::RunningAttempt;
use super::call::OutboundCall;
use super::clock::now_ms;
use super::{Driver, DriverError};
use crate::gateway::{
    AttemptId, GuestRequest, HostAnswer, HostError, HostErrorKind, PendingGuestRequest,
    WASI_CLOCK_START,
};
use crate::services::models::config::ModelNames;
use crate::services::models::{ModelCall, ModelRequest};
use crate::sha256::sha256;

impl Driver {
    /// Answers one request, unless its attempt has ended: nothing is done for an ended attempt.
    pub(super) fn handle_guest_request(
        &mut self,
        question: PendingGuestRequest,
    ) -> Result<(), DriverError> {
        match self.running_attempt(question.attempt) {
            Some(_) if !question.reply.is_closed() => self.answer_guest_request(question),
            _ => Ok(()),
        }
    }

    /// Answers one request. It is no error if the guest is gone and does not receive the answer.
    pub(super) fn answer_guest_request(
        &mut self,
        question: PendingGuestRequest,
    ) -> Result<(), DriverError> {
        let PendingGuestRequest {
            attempt: AttemptId { call, .. },
            request: ask,
            allowance,
            reply,
        } = question;
        let role = call.role;
        let stepper = self.journal.stepper();
        let (team, env) = (stepper.team(), stepper.env());
        let answer = match ask {
            GuestRequest::Get {
                scope,
                key,
                last_read: seen,
                pending,
            } => {
                let value = env.read_key(
                    team,
                    role,
                    ScopeKey {
                        scope: &scope,
                        key: &key,
                    },
                    seen,
                    &pending,
                );
                HostAnswer::Value(value.ok_or_else(|| self.unknown_scope_error(&scope)))
            }
            GuestRequest::Keys { scope, pending } => HostAnswer::Keys(
                env.scope_keys(team, role, &scope, &pending)
                    .ok_or_else(|| self.unknown_scope_error(&scope)),
            ),
            GuestRequest::Recent { limit, label } => HostAnswer::Messages(
                self.journal
                    .recall_messages(role, label.as_deref(), limit as usize),
            ),
            GuestRequest::CurrentTime => self.read_clock(call, "")?,
            GuestRequest::ClockStart => self.read_clock(call, WASI_CLOCK_START)?,
            GuestRequest::Random { length } => {
                HostAnswer::Bytes(Ok(self.draw_random_bytes(call, length)?))
            }
            GuestRequest::AskHuman(question) => return self.ask_human(call, &question, reply),
            GuestRequest::Complete(requests) => {
                let calls = requests
                    .into_iter()
                    .map(|request| OutboundCall::Model(self.model_call(role, request)));
                let calls = calls.collect();
                return self.handle_call_batch(call, calls, allowance, reply);
            }
            GuestRequest::StoredFile(digest) => self.read_stored_file(&digest)?,
            GuestRequest::Fetch(requests) => {
                let calls = requests.into_iter().map(OutboundCall::Http).collect();
                return self.handle_call_batch(call, calls, allowance, reply);
            }
        };
        let _ = reply.send(answer);
        Ok(())
    }

    /// Returns a request with the model that it is for: the one that it names, or its role's.
    fn model_call(&self, role: RoleId, request: ModelRequest) -> ModelCall {
        let role = self.journal.stepper().team().role(role);
        let names = self.services.models.as_ref().map(|models| models.names());
        ModelCall::new(
            names.unwrap_or(&ModelNames::default()),
            role.model.as_deref(),
            request,
        )
    }

    fn unknown_scope_error(&self, name: &str) -> HostError {
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

    fn read_clock(&mut self, call: CallKey, request: &str) -> Result<HostAnswer, DriverError> {
        let now = |_: &mut RunningAttempt| Json::from(serde_json::Value::from(now_ms()));
        let recorded = self.answer_at_once(call, HostCallKind::Clock, request, now)?;
        Ok(HostAnswer::Time(
            recorded.value().as_f64().unwrap_or_default(),
        ))
    }

    fn draw_random_bytes(&mut self, call: CallKey, length: u32) -> Result<Vec<u8>, DriverError> {
        let request = length.to_string();
        let answer = self.answer_at_once(call, HostCallKind::Random, &request, |attempt| {
            attempt.random_draws += 1;
            let seed = format!(
                "{}/{}/{}",
                attempt.seed(),
                attempt.number(),
                attempt.random_draws
            );
            Json::from(serde_json::Value::from(to_hex(&expand_seed(
                &seed,
                length as usize,
            ))))
        })?;
        Ok(answer.value().as_str().map(decode_hex).unwrap_or_default())
    }

    /// Answers a call from the record if it is there, otherwise with the result of `make`, which is
    /// recorded.
    fn answer_at_once(
        &mut self,
        key: CallKey,
        kind: HostCallKind,
        request: &str,
        make: impl FnOnce(&mut RunningAttempt) -> Json,
    ) -> Result<Json, DriverError> {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return Ok(Json::null());
        };
        let (call, source) = match attempt.take_recorded(kind, request) {
            Some(call) => (call, AnswerSource::Recorded),
            None => {
                let response = make(attempt);
                let (request, cost, tokens, outcome) =
                    (request.into(), Usd::ZERO, 0, CallOutcome::Answered);
                (
                    HostCall {
                        kind,
                        request,
                        response,
                        cost,
                        tokens,
                        outcome,
                        finish_reason: None,
                    },
                    AnswerSource::Live,
                )
            }
        };
        let response = call.response.clone();
        let summary = if kind == HostCallKind::Random {
            format!("{request} bytes")
        } else {
            "the time".into()
        };
        self.journal.stage(Event::Attempt(
            key,
            AttemptEvent::HostCalled(HostCalled {
                call,
                source,
                summary,
            }),
        ))?;
        self.journal.flush()?;
        Ok(response)
    }
}

/// Returns `length` bytes derived from a seed.
fn expand_seed(seed: &str, length: usize) -> Vec<u8> {
    let block = |i: usize| sha256(format!("{seed}/{i}"));
    (0..length.div_ceil(32))
        .flat_map(block)
        .take(length)
        .collect()
}

pub(super) fn decode_hex(text: &str) -> Vec<u8> {
    let pair = |i: usize| {
        text.get(i..i + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    (0..text.len()).step_by(2).map_while(pair).collect()
}
