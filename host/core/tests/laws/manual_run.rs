//! A run that a test drives step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event, HostCalled, Status};
use strata_core::record::fault::Fault;
use strata_core::record::host_call::{
    AnswerSource, CallOutcome, CallPolicy, HostCall, HostCallKind,
};
use strata_core::record::id::{ActionId, Digest, RequestId, RoleId, RunId};
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, Message};
use strata_core::record::money::Usd;
use strata_core::record::scope_write::{ScopeChange, Write};
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::state::environment::Environment;
use strata_core::team::Team;

use crate::lifecycle::slots;

/// The call of a role that runs its first action in order.
pub const FIRST_ACTION: Work = Work::Act {
    action: ActionId(0),
    task: None,
};

/// A run that is driven step by step.
pub struct ManualRun {
    /// The stepper.
    pub stepper: Stepper,
    /// All recorded events.
    pub log: Vec<Event>,
}

impl ManualRun {
    /// Returns a run that has started.
    pub fn start(team: Team) -> Self {
        let team = Arc::new(team);
        let stepper = Stepper::new(team.clone(), Environment::new(&team));
        let mut run = Self {
            stepper,
            log: Vec::new(),
        };
        let components = slots(&team)
            .map(|slot| (slot, Digest::from("build 0")))
            .collect();
        run.record(
            run.stepper
                .run_started_event(RunId::from("run"), "idea".into(), components),
        );
        run
    }

    /// Returns the state.
    pub fn env(&self) -> &Environment {
        self.stepper.env()
    }

    /// Records an event and applies it.
    pub fn record(&mut self, event: Event) {
        self.stepper
            .apply(&event)
            .unwrap_or_else(|illegal| panic!("{illegal}: {event:?}"));
        self.log.push(event);
    }

    /// Continues to the next call and starts it.
    pub fn call(&mut self) -> Invocation {
        self.next_call()
            .unwrap_or_else(|| panic!("expected a call, not {:?}", self.stepper.next()))
    }

    /// Continues to the next call and starts it, if there is one.
    pub fn next_call(&mut self) -> Option<Invocation> {
        let Effect::Call(call) = self.go() else {
            return None;
        };
        self.record(self.stepper.call_started_event(&call));
        Some(call)
    }

    /// Continues to the next call, starts it and ends it.
    pub fn act(&mut self, result: Result<CallResult, Fault>) -> Invocation {
        let call = self.call();
        self.end(call.role, result);
        call
    }

    /// Returns the call that a role has open.
    pub fn open_call(&self, role: RoleId) -> CallKey {
        let mut open = self.env().open_calls(self.stepper.team());
        let (call, _) = open.find(|(call, _)| call.role == role).expect("a call");
        call
    }

    /// Returns the id of the request for which a role waits.
    pub fn open_request(&self, role: RoleId) -> RequestId {
        let mut open = self.env().open_requests();
        let (_, request) = open.find(|(id, _)| *id == role).expect("a request");
        request.id.clone()
    }

    /// Ends a call.
    pub fn end(&mut self, role: RoleId, result: Result<CallResult, Fault>) {
        let event = self
            .stepper
            .call_ended_event(self.open_call(role), result)
            .expect("a running call");
        self.record(event);
    }

    /// Makes a host call.
    pub fn ask(&mut self, call: &Invocation, request: &str, cost: u64) {
        let (request, response, outcome) = (request.into(), Json::null(), CallOutcome::Answered);
        let answer = HostCall {
            kind: HostCallKind::Llm,
            request,
            response,
            cost: Usd(cost),
            outcome,
            model: None,
        };
        let event = Event::Attempt(
            call.key(),
            AttemptEvent::HostCalled(HostCalled {
                call: answer,
                source: AnswerSource::Live,
                summary: String::new(),
            }),
        );
        self.record(event);
    }

    /// Records what the stepper decides until something else is to be done, and returns that.
    pub fn go(&mut self) -> Effect {
        loop {
            match self.stepper.next() {
                Effect::Record(event) => self.record(event),
                other => return other,
            }
        }
    }

    /// Continues to the end of the run.
    pub fn halt(&mut self) -> Status {
        match self.go() {
            Effect::Halt(status) => status,
            other => panic!("expected a halt, not {other:?}"),
        }
    }

    /// Kills the process and resumes with this team.
    pub fn resume(&mut self, team: Team, calls: CallPolicy) {
        let team = Arc::new(team);
        let mut stepper = Stepper::new(team.clone(), Environment::new(&team));
        for event in &self.log {
            stepper
                .apply(event)
                .expect("what was recorded can be read back");
        }
        self.stepper = stepper;
        self.record(self.stepper.run_resumed_event(team.policy.budget, calls));
    }

    /// Returns the content of each published message.
    pub fn history(&self) -> Vec<&str> {
        self.env()
            .history
            .iter()
            .map(|id| self.env().message(*id).content.as_str())
            .collect()
    }
}

/// Returns an output.
pub fn says(content: &str) -> CallResult {
    CallResult::Returned {
        output: draft(content, &[]),
        emissions: Vec::new(),
        writes: Vec::new(),
    }
}

/// Returns an output and writes of numbers into `s0`.
pub fn writes(content: &str, values: &[(&str, i64)]) -> CallResult {
    let write = |(key, value): &(&str, i64)| Write {
        scope: "s0".into(),
        key: (*key).into(),
        change: ScopeChange::Set(Json::from(serde_json::Value::from(*value))),
    };
    let writes = values.iter().map(write).collect();
    CallResult::Returned {
        output: draft(content, &[]),
        emissions: Vec::new(),
        writes,
    }
}

/// Returns a draft for these recipients.
pub fn draft(content: &str, to: &[&str]) -> Draft {
    Draft {
        content: content.into(),
        to: to.iter().map(|name| (*name).into()).collect(),
        ..Draft::default()
    }
}

/// Returns a message from outside.
pub fn mail(content: &str, cause: &str, to: &[&str]) -> Message {
    Message {
        id: "".into(),
        content: content.into(),
        instruct: None,
        parts: Vec::new(),
        role: "user".into(),
        cause_by: cause.into(),
        sent_from: String::new(),
        send_to: to.iter().map(|name| (*name).into()).collect(),
        meta: BTreeMap::new(),
        route: Vec::new(),
    }
}
