//! People in a life: they are asked by attempts, and answer when they like.

use strata_core::effect::Invocation;
use strata_core::event::{Event, HostCall, HostCallKind, Source};
use strata_core::id::RoleId;
use strata_core::request::{Answer, Request};

use super::Life;

/// How people take part.
#[derive(Clone, Copy, Debug, Default)]
pub struct People {
    /// How often, in a hundred, a call asks them.
    pub asked: u64,
    /// When they answer.
    pub patience: Patience,
}

/// When people answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// When nobody else can go on: all at once, in any order.
    #[default]
    WhenQuiet,
    /// At any time, one by one.
    AnyTime,
}

impl Life {
    /// Lets an attempt ask people. False where it ends with that.
    pub(super) fn consult(&mut self, call: &Invocation) -> bool {
        let mut recorded = call.recorded.clone();
        let questions = self.script.questions(self.people.asked, call);
        for (before, question) in (0..).zip(questions) {
            let id = self
                .stepper
                .request_id(call.role, before)
                .expect("a running call");
            let request = self.script.request(id, &question);
            let known =
                |call: &HostCall| call.kind == HostCallKind::Human && call.request == request.call;
            let Some(at) = recorded.iter().position(known) else {
                let event = self
                    .stepper
                    .request_opened(call.role, request)
                    .expect("a running call");
                self.record(event);
                return false;
            };
            let answer = recorded.remove(at);
            assert_eq!(
                Answer::recorded(&answer.response)
                    .as_ref()
                    .and_then(Answer::value),
                request.default.as_ref()
            );
            self.record(Event::HostCalled {
                role: call.role,
                work: call.work,
                call: answer,
                source: Source::Recorded,
                what: String::new(),
            });
        }
        true
    }

    /// People answer: one question where they do so at any time, else all.
    pub(super) fn hear(&mut self) {
        let mut open: Vec<(RoleId, Request)> = self
            .env()
            .requests()
            .map(|(id, r)| (id, r.clone()))
            .collect();
        while !open.is_empty() {
            let (role, request) = open.swap_remove(self.dice.below(open.len()));
            let given = || {
                self.script
                    .request(request.id.clone(), &request.call)
                    .default
                    .expect("a default")
            };
            let answer = if request.default.is_some() && self.dice.chance(20) {
                request.lapse()
            } else {
                Answer::Given(given())
            };
            let event = self
                .stepper
                .request_answered(role, answer)
                .expect("an open request");
            self.record(event);
            if self.people.patience == Patience::AnyTime {
                return;
            }
        }
    }
}
