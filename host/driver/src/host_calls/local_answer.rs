//! Host calls that are answered without leaving the host: the clock, random bytes, and questions to
//! people that were answered before. They are recorded like all others.

use strata_base::clock::now_ms;
use strata_base::files::sha256::sha256;
use strata_core::record::event::Event;
use strata_core::record::host_call::{AnswerSource, HostCall, HostCallKind};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::to_hex;
use strata_core::record::json::Json;
use strata_services::gateway::{AttemptId, HostAnswer};
use strata_services::human::HumanQuestion;
use strata_services::outbound::summarize;

use super::attempt_calls::local_record;
use super::{Caller, HostCalls, host_called_event};

/// An answer of the host itself. The guest may see it once the event is durable.
#[derive(Debug)]
pub(crate) struct LocalAnswer {
    /// Records the call.
    pub(crate) event: Event,
    /// What the guest receives.
    pub(crate) answer: HostAnswer,
}

/// Whether a question to a person was answered before.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a value exists only until its caller has matched it"
)]
pub(crate) enum RecordedQuestion {
    /// It was.
    Answered(LocalAnswer),
    /// It was not. The attempt has asked this many questions before.
    Unanswered { earlier: u32 },
}

impl HostCalls {
    /// Returns the time. `request` is the name of the request in the record.
    pub(crate) fn read_clock(&mut self, attempt: AttemptId, request: &str) -> LocalAnswer {
        let recorded = self
            .attempt_mut(attempt)
            .take_recorded(HostCallKind::Clock, request);
        let (call, source) = recorded.map_or_else(
            || {
                let now = Json::from(serde_json::Value::from(now_ms()));
                let call = local_record(HostCallKind::Clock, request, now);
                (call, AnswerSource::Live)
            },
            |call| (call, AnswerSource::Recorded),
        );
        let answer = HostAnswer::Time(decode_time(&call));
        LocalAnswer {
            event: host_called_event(attempt.call, call, source, "the time".into()),
            answer,
        }
    }

    /// Draws random bytes. They depend only on the seed, the number of the attempt, and how many
    /// times it has drawn before.
    pub(crate) fn draw_random_bytes(&mut self, caller: Caller<'_>, length: u32) -> LocalAnswer {
        let kind = HostCallKind::Random;
        let request = caller.request_name(&length.to_string());
        let calls = self.attempt_mut(caller.attempt);
        let (call, source) = match calls.take_recorded(kind, &request) {
            Some(call) => (call, AnswerSource::Recorded),
            None => {
                calls.random_draws += 1;
                let Caller { seed, number, .. } = caller;
                let seed = format!("{seed}/{number}/{}", calls.random_draws);
                let bytes = to_hex(&expand_seed(&seed, length as usize));
                let drawn = Json::from(serde_json::Value::from(bytes));
                (local_record(kind, &request, drawn), AnswerSource::Live)
            }
        };
        let answer = HostAnswer::Bytes(Ok(decode_random(&call)));
        LocalAnswer {
            event: host_called_event(caller.attempt.call, call, source, format!("{length} bytes")),
            answer,
        }
    }

    /// Counts a question to a person, and answers it if its answer is recorded.
    pub(crate) fn ask(&mut self, attempt: AttemptId, question: &HumanQuestion) -> RecordedQuestion {
        let calls = self.attempt_mut(attempt);
        let earlier = calls.human_questions;
        calls.human_questions += 1;
        let recorded = calls.take_recorded(HostCallKind::Human, &question.digest());
        let answered =
            recorded.and_then(|call| Some((HumanAnswer::from_record(&call.response)?, call)));
        match answered {
            Some((answer, call)) => {
                let summary = summarize(&question.text);
                RecordedQuestion::Answered(LocalAnswer {
                    event: host_called_event(attempt.call, call, AnswerSource::Recorded, summary),
                    answer: HostAnswer::Human(answer),
                })
            }
            None => RecordedQuestion::Unanswered { earlier },
        }
    }
}

/// Returns the recorded time.
pub fn decode_time(call: &HostCall) -> f64 {
    call.response.value().as_f64().unwrap_or_default()
}

/// Returns the recorded random bytes.
pub fn decode_random(call: &HostCall) -> Vec<u8> {
    let value = call.response.value();
    value.as_str().map(decode_hex).unwrap_or_default()
}

/// Returns `length` bytes derived from a seed.
fn expand_seed(seed: &str, length: usize) -> Vec<u8> {
    let block = |i: usize| sha256(format!("{seed}/{i}"));
    (0..length.div_ceil(32))
        .flat_map(block)
        .take(length)
        .collect()
}

fn decode_hex(text: &str) -> Vec<u8> {
    let pair = |i: usize| {
        text.get(i..i + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    (0..text.len()).step_by(2).map_while(pair).collect()
}
