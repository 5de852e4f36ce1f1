//! Follows the attempts of roles, with their host calls and faults.

use std::collections::BTreeMap;

use strata_core::event::{Event, Finished, HostCall, HostCallKind, Outcome, Source, Work, Writer};
use strata_core::fault::{Fault as Failure, FaultKind};
use strata_core::id::RoleId;
use strata_core::money::Usd;
use strata_core::stepper::{Stepper, conflict};

use super::super::room::{Kept, Text};
use super::super::{Attempt, Call, End, Fault, ModelSpending, Outcomes};
use super::{MAX_ATTEMPTS, MAX_RARE, SHORT_CHARS, TEXT_CHARS};
use crate::gateway::START;
use crate::public_event::{action_name, rfc3339};
use crate::services::{http, llm};

/// The maximum number of lines shown of a stack or a log.
const MAX_LINES: usize = 100;
/// The name under which model calls are counted that failed, so that no model is known.
const NO_MODEL: &str = "(no answer)";

/// The attempts seen so far.
pub(super) struct Attempts {
    pub(super) ended: Kept<Attempt>,
    pub(super) outcomes: Outcomes,
    pub(super) calls: Kept<Call>,
    pub(super) faults: Kept<Fault>,
    pub(super) models: BTreeMap<String, ModelSpending>,
    open: BTreeMap<RoleId, Attempt>,
    /// How many attempts were started.
    begun: u64,
    /// The number of the attempt that succeeded after others had failed, by step, role and action.
    mended: BTreeMap<(u64, usize, String), u32>,
}

/// When something happened.
#[derive(Clone, Copy)]
pub(super) struct EventTime {
    /// The event, counted from the first reported one.
    pub(super) event: u64,
    /// In milliseconds since the epoch.
    pub(super) time_ms: i64,
}

impl Attempts {
    pub(super) fn new() -> Self {
        Self {
            ended: Kept::at_most(MAX_ATTEMPTS),
            outcomes: Outcomes::default(),
            calls: Kept::at_most(MAX_ATTEMPTS),
            faults: Kept::at_most(MAX_RARE),
            models: BTreeMap::new(),
            open: BTreeMap::new(),
            begun: 0,
            mended: BTreeMap::new(),
        }
    }

    /// Processes an event that is about to be applied.
    pub(super) fn event(&mut self, event: &Event, stepper: &Stepper, at: EventTime) {
        match event {
            Event::CallStarted {
                role,
                work,
                attempt,
                digest,
                ..
            } => {
                let started = Attempt {
                    number: *attempt,
                    digest: digest.as_ref().map(|digest| digest.0.clone()),
                    ..self.begin(stepper, *role, *work, at)
                };
                self.open.insert(*role, started);
            }
            Event::HostCalled {
                role,
                call,
                source,
                what,
                ..
            } => self.call(*role, call, *source, what, at),
            Event::CallFinished { role, result, .. } => {
                let said = Text::of(&said(result), TEXT_CHARS);
                self.end(*role, End::Finished, said, at);
            }
            Event::CallFailed {
                role, work, fault, ..
            } => {
                self.fail(*role, *work, fault, at);
                let end = if fault.kind == FaultKind::Interrupted {
                    End::Interrupted
                } else {
                    End::Failed
                };
                let message = Text::of(&fault.message, SHORT_CHARS);
                self.end(*role, end, message, at);
            }
            Event::CallSuspended { role, .. } => {
                self.end(*role, End::Suspended, Text::default(), at)
            }
            Event::RequestOpened {
                role,
                work,
                request,
            } => self.request(stepper, *role, *work, &request.question, at),
            Event::RequestAnswered { role, answer, .. } => {
                // This ends the attempt of a human who plays a role. An attempt that asked a human
                // has ended before.
                let said = answer
                    .value()
                    .map_or_else(Text::default, |value| Text::of(value.as_str(), TEXT_CHARS));
                self.end(*role, End::Finished, said, at);
            }
            Event::StepConflicted {
                scope,
                key,
                writers,
                ..
            } => {
                let names: Vec<&str> = writers
                    .iter()
                    .map(|writer| stepper.team().role(writer.role).name.as_str())
                    .collect();
                let message = conflict(scope, key, &names);
                for writer in writers {
                    self.conflict(writer, stepper, &message, at);
                }
            }
            Event::RunResumed { .. } => self.cut_off(End::Killed, at),
            Event::RunEnded { .. } => self.cut_off(End::Interrupted, at),
            _ => {}
        }
    }

    /// Starts the attempt of a human who plays a role, or ends one that asks a human.
    fn request(
        &mut self,
        stepper: &Stepper,
        role: RoleId,
        work: Work,
        question: &str,
        at: EventTime,
    ) {
        let said = Text::of(question, SHORT_CHARS);
        if work == Work::Answer {
            let answer = self.begin(stepper, role, work, at);
            self.open.insert(role, Attempt { said, ..answer });
        } else {
            self.end(role, End::Asked, said, at);
        }
    }

    /// Closes the attempts that are still open after the last event, and notes which faults were
    /// followed by a success.
    pub(super) fn finish(&mut self, at: EventTime, running: bool) {
        let end = if running { End::Open } else { End::Interrupted };
        self.cut_off(end, at);
        let mended = &self.mended;
        for fault in self.faults.iter_mut() {
            let place = (fault.opened, fault.role, fault.action.clone());
            fault.mended = mended.get(&place).copied().filter(|by| *by > fault.number);
        }
    }

    /// Returns a new first attempt, without a component.
    fn begin(&mut self, stepper: &Stepper, role: RoleId, work: Work, at: EventTime) -> Attempt {
        self.begun += 1;
        let activation = stepper.env().role(role).activation.as_ref();
        let index = match work {
            Work::Plan => Some(0),
            Work::Act { action, .. } => Some(action.0),
            Work::Think { .. } | Work::Answer => None,
        };
        Attempt {
            id: self.begun,
            step: stepper.env().step,
            opened: activation.map_or(stepper.env().step, |activation| activation.opened),
            role: role.index(),
            who: stepper.team().role(role).name.clone(),
            action: action_name(stepper.team().role(role), work).into(),
            index,
            number: 1,
            events: (at.event, at.event),
            span_ms: (at.time_ms, at.time_ms),
            end: End::Open,
            digest: None,
            said: Text::default(),
            cost: Usd::ZERO,
            calls: (0, 0),
        }
    }

    fn end(&mut self, role: RoleId, end: End, said: Text, at: EventTime) {
        let Some(mut attempt) = self.open.remove(&role) else {
            return;
        };
        attempt.end = end;
        attempt.said = said;
        attempt.events.1 = at.event;
        attempt.span_ms.1 = at.time_ms;
        if end == End::Finished && attempt.number > 1 {
            self.mended.insert(
                (attempt.opened, attempt.role, attempt.action.clone()),
                attempt.number,
            );
        }
        match end {
            End::Finished => self.outcomes.finished += 1,
            End::Failed => self.outcomes.failed += 1,
            _ => {}
        }
        self.ended.push(attempt);
    }

    /// Ends all open attempts, except that humans can still answer.
    fn cut_off(&mut self, end: End, at: EventTime) {
        for role in self.open.keys().copied().collect::<Vec<_>>() {
            let person = self
                .open
                .get(&role)
                .is_some_and(|attempt| attempt.digest.is_none() && attempt.action == "answer");
            if !person || end == End::Open {
                let said = self
                    .open
                    .get(&role)
                    .map_or_else(Text::default, |attempt| attempt.said.clone());
                self.end(role, end, said, at);
            }
        }
    }

    fn call(&mut self, role: RoleId, call: &HostCall, source: Source, what: &str, at: EventTime) {
        if call.kind == HostCallKind::Clock && call.request == START {
            return;
        }
        let recorded = source == Source::Recorded;
        if call.kind == HostCallKind::Llm {
            self.model(call, recorded);
        }
        let Some(attempt) = self.open.get_mut(&role) else {
            return;
        };
        if recorded {
            attempt.calls.1 += 1;
        } else {
            attempt.calls.0 += 1;
            attempt.cost += call.cost;
        }
        self.calls.push(Call {
            attempt: attempt.id,
            who: format!("{}.{}", attempt.who, attempt.action),
            time_ms: at.time_ms,
            kind: call.kind.name(),
            recorded,
            outcome: call.outcome.name(),
            asked: Text::of(what, SHORT_CHARS),
            request: call.request.clone(),
            answer: Text::of(&answer(call), TEXT_CHARS),
            cost: call.cost,
            tokens: call.tokens,
        });
    }

    fn model(&mut self, call: &HostCall, recorded: bool) {
        let reply: Option<llm::Reply> = serde_json::from_str(call.response.as_str()).ok();
        let model = reply.map_or_else(|| NO_MODEL.to_owned(), |reply| reply.model);
        let spending = self.models.entry(model).or_default();
        if recorded {
            spending.served += 1;
            spending.saved += call.cost;
        } else {
            spending.calls += 1;
            spending.tokens = spending.tokens.saturating_add(call.tokens);
            spending.usd += call.cost;
        }
    }

    fn fail(&mut self, role: RoleId, work: Work, fault: &Failure, at: EventTime) {
        let Some(attempt) = self.open.get(&role) else {
            return;
        };
        let fault = fault.seen(work);
        let lines = |lines: &[String]| -> Vec<Text> {
            lines
                .iter()
                .take(MAX_LINES)
                .map(|line| Text::of(line, SHORT_CHARS))
                .collect()
        };
        let (backtrace, log) = (lines(&fault.backtrace), lines(&fault.log));
        self.faults.push(Fault {
            attempt: attempt.id,
            step: attempt.step,
            opened: attempt.opened,
            role: attempt.role,
            who: attempt.who.clone(),
            action: attempt.action.clone(),
            number: attempt.number,
            kind: fault.kind.name(),
            cause: fault.cause.name(),
            time_ms: at.time_ms,
            message: Text::of(&fault.message, TEXT_CHARS),
            backtrace,
            log,
            digest: attempt.digest.clone(),
            mended: None,
        });
    }

    /// Records that the result of an attempt, which had ended, is discarded because of a conflict.
    fn conflict(&mut self, writer: &Writer, stepper: &Stepper, message: &str, at: EventTime) {
        let (role, work) = (writer.role, writer.work);
        let attempt = Attempt {
            number: writer.attempt,
            digest: writer.digest.as_ref().map(|digest| digest.0.clone()),
            ..self.begin(stepper, role, work, at)
        };
        self.open.insert(role, attempt);
        let fault = Failure::new(FaultKind::StateConflict, message);
        self.fail(role, work, &fault, at);
        let said = Text::of(message, SHORT_CHARS);
        self.end(role, End::Failed, said, at);
    }
}

/// Returns the result of an attempt as text.
fn said(result: &Finished) -> String {
    match result {
        Finished::Chosen(-1) => "nothing more to do".into(),
        Finished::Chosen(choice) => format!("action {choice} is next"),
        Finished::Planned { tasks, .. } => {
            let tasks = tasks
                .iter()
                .enumerate()
                .map(|(i, task)| format!("{}. {}", i + 1, task.text));
            tasks.collect::<Vec<_>>().join("\n")
        }
        Finished::Returned { output, .. } => match &output.data {
            Some(data) if output.content.is_empty() => data.as_str().to_owned(),
            _ => output.content.clone(),
        },
    }
}

/// Returns the response of a host call as text.
fn answer(call: &HostCall) -> String {
    let response = call.response.as_str();
    if call.outcome != Outcome::Answered {
        return response.to_owned();
    }
    match call.kind {
        HostCallKind::Llm => serde_json::from_str::<llm::Reply>(response).map_or_else(
            |_| response.to_owned(),
            |reply| match reply.data {
                Some(data) if reply.text.is_empty() => data,
                _ => reply.text,
            },
        ),
        HostCallKind::Http => http::Response::from_json(&call.response).map_or_else(
            |_| response.to_owned(),
            |answer| {
                format!(
                    "{}\n{}",
                    answer.status,
                    String::from_utf8_lossy(&answer.body)
                )
            },
        ),
        HostCallKind::Clock => call
            .response
            .value()
            .as_f64()
            .map_or_else(|| response.to_owned(), |time_ms| rfc3339(time_ms as i64)),
        HostCallKind::Random => response.trim_matches('"').to_owned(),
        HostCallKind::Human => response.to_owned(),
    }
}
