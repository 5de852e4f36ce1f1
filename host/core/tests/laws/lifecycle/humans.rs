//! Humans in a simulated run: attempts ask them, and they answer at random moments.

use strata_core::machine::effect::Invocation;
use strata_core::record::event::{AttemptEvent, Event, HostCalled};
use strata_core::record::host_call::{AnswerSource, HostCall, HostCallKind};
use strata_core::record::human_request::{HumanAnswer, HumanRequest};

use super::SimulatedRun;

/// How humans take part in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct HumanBehavior {
    /// In how many percent of cases a call asks them.
    pub asked: u64,
    /// When they answer.
    pub answer_timing: AnswerTiming,
}

/// When humans answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerTiming {
    /// When no role can continue: all requests, in any order.
    #[default]
    WhenQuiet,
    /// At any time, one request at a time.
    AnyTime,
}

impl SimulatedRun {
    /// Lets an attempt ask humans. Returns false if the attempt ends with that.
    pub(super) fn ask_human(&mut self, call: &Invocation) -> bool {
        let mut recorded = call.recorded_calls.clone();
        let questions = self.script.questions(self.people.asked, call);
        for (before, question) in (0..).zip(questions) {
            let id = self
                .stepper
                .first_request_id(call.key(), before)
                .expect("a running call");
            let request = self.script.request(id, &question);
            let known = |call: &HostCall| {
                call.kind == HostCallKind::Human && call.request == request.call_digest()
            };
            let Some(at) = recorded.iter().position(known) else {
                let event = self
                    .stepper
                    .request_opened_event(call.key(), request)
                    .expect("a running call");
                self.record(event);
                return false;
            };
            let answer = recorded.remove(at);
            assert_eq!(
                HumanAnswer::from_record(&answer.response)
                    .as_ref()
                    .and_then(HumanAnswer::value),
                request.default.as_ref()
            );
            self.record(Event::Attempt(
                call.key(),
                AttemptEvent::HostCalled(HostCalled {
                    call: answer,
                    source: AnswerSource::Recorded,
                    summary: String::new(),
                }),
            ));
        }
        true
    }

    /// Answers one request if humans answer at any time, otherwise all.
    pub(super) fn answer_humans(&mut self) {
        let mut open: Vec<HumanRequest> = self
            .env()
            .open_requests()
            .map(|(_, request)| request.clone())
            .collect();
        while !open.is_empty() {
            let request = open.swap_remove(self.rng.below(open.len()));
            let reply = || {
                if request.proposed.is_some() {
                    return self.script.verdict(&request.id);
                }
                self.script
                    .request(request.id.clone(), &request.call_digest())
                    .default
                    .expect("a default")
            };
            let answer = if request.default.is_some() && self.rng.chance(20) {
                request.outcome_when_expired()
            } else {
                HumanAnswer::Given(reply())
            };
            let event = self
                .stepper
                .request_answered_event(&request.id, answer, None)
                .expect("an open request");
            self.record(event);
            if self.people.answer_timing == AnswerTiming::AnyTime {
                return;
            }
        }
    }
}
