//! Follows the attempts of roles, with their host calls and faults.

use std::collections::BTreeMap;

use strata_base::clock::rfc3339;
use strata_base::text::excerpt::excerpt;
use strata_core::machine::stepper::{Stepper, conflict_message};
use strata_core::record::event::{
    AttemptEvent, CallFailed, CallFinished, CallStarted, ConflictingWriter, Event, HostCalled,
    RequestAnswered, RequestOpened, StepConflicted,
};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::{AnswerSource, CallOutcome, HostCall, HostCallKind};
use strata_core::record::money::Usd;
use strata_core::record::turn::TurnOutcome;
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_driver::work_name::index_and_name_of_call;
use strata_services::gateway::records_start;
use strata_services::{http, models};

use super::super::bounded::{Excerpt, FirstAndNewest};
use super::super::{
    AttemptEntry, AttemptOutcome, FaultEntry, HostCallEntry, ModelSpending, Outcomes,
};
use super::{MAX_ATTEMPTS, MAX_RARE_ENTRIES, SHORT_CHARS, TEXT_CHARS};

/// The maximum number of lines shown of a stack or a log.
const MAX_LINES: usize = 100;
/// The name under which model calls are counted that failed, so that no model is known.
const NO_MODEL: &str = "(no answer)";

/// Returns the name of what is attempted.
pub(super) fn call_name(stepper: &Stepper, call: CallKey) -> String {
    index_and_name_of_call(stepper, call).1.to_owned()
}

/// The attempts seen so far.
pub(super) struct AttemptTracker {
    pub(super) ended: FirstAndNewest<AttemptEntry>,
    pub(super) outcomes: Outcomes,
    pub(super) calls: FirstAndNewest<HostCallEntry>,
    pub(super) faults: FirstAndNewest<FaultEntry>,
    pub(super) models: BTreeMap<String, ModelSpending>,
    open: BTreeMap<CallKey, AttemptEntry>,
    /// How many attempts were started.
    started: u64,
    /// The number of the attempt that succeeded after others had failed, by the step in which the
    /// role took its mail, and the call.
    later_successes: BTreeMap<(u64, CallKey), u32>,
}

/// When something happened.
#[derive(Clone, Copy)]
pub(super) struct EventTime {
    /// The event, counted from the first reported one.
    pub(super) event: u64,
    /// In milliseconds since the epoch.
    pub(super) time_ms: i64,
}

impl AttemptTracker {
    pub(super) fn new() -> Self {
        Self {
            ended: FirstAndNewest::at_most(MAX_ATTEMPTS),
            outcomes: Outcomes::default(),
            calls: FirstAndNewest::at_most(MAX_ATTEMPTS),
            faults: FirstAndNewest::at_most(MAX_RARE_ENTRIES),
            models: BTreeMap::new(),
            open: BTreeMap::new(),
            started: 0,
            later_successes: BTreeMap::new(),
        }
    }

    /// Processes an event that is about to be applied.
    pub(super) fn add_event(&mut self, event: &Event, stepper: &Stepper, at: EventTime) {
        match event {
            Event::Attempt(call, event) => self.add_attempt_event(*call, event, stepper, at),
            Event::StepConflicted(StepConflicted {
                scope,
                key,
                writers,
                ..
            }) => {
                let team = stepper.team();
                let names = writers
                    .iter()
                    .map(|writer| team.role(writer.call.role).name.as_str());
                let message = conflict_message(scope, key, &names.collect::<Vec<_>>());
                for writer in writers {
                    self.add_conflict(writer, stepper, &message, at);
                }
            }
            Event::RunResumed(_) => self.end_open_attempts(AttemptOutcome::Killed, at),
            Event::RunEnded(_) => self.end_open_attempts(AttemptOutcome::Interrupted, at),
            _ => {}
        }
    }

    fn add_attempt_event(
        &mut self,
        call: CallKey,
        event: &AttemptEvent,
        stepper: &Stepper,
        at: EventTime,
    ) {
        match event {
            AttemptEvent::CallStarted(CallStarted {
                attempt, digest, ..
            }) => {
                let started = AttemptEntry {
                    number: *attempt,
                    digest: digest.as_ref().map(|digest| digest.0.clone()),
                    ..self.start_attempt(stepper, call, at)
                };
                self.open.insert(call, started);
            }
            AttemptEvent::HostCalled(called) => self.add_host_call(call, called, at),
            AttemptEvent::CallFinished(CallFinished { result, .. }) => {
                let text = Excerpt::from_text(&describe_result(result), TEXT_CHARS);
                self.end_attempt(call, AttemptOutcome::Finished, text, at);
            }
            AttemptEvent::CallFailed(CallFailed { fault, .. }) => {
                self.add_fault(call, fault);
                let end = match fault.kind {
                    FaultKind::Interrupted => AttemptOutcome::Interrupted,
                    _ => AttemptOutcome::Failed,
                };
                let message = Excerpt::from_text(&fault.message, SHORT_CHARS);
                self.end_attempt(call, end, message, at);
            }
            AttemptEvent::CallSuspended(_) => {
                self.end_attempt(call, AttemptOutcome::Suspended, Excerpt::default(), at);
            }
            AttemptEvent::Logged(logged) => {
                if let Some(attempt) = self.open.get_mut(&call) {
                    attempt.log = Excerpt::from_text(&logged.lines.join("\n"), TEXT_CHARS);
                    attempt.log_left_out = logged.left_out;
                }
            }
            AttemptEvent::SkillLoaded(loaded) => {
                if let Some(attempt) = self.open.get_mut(&call) {
                    attempt.loaded_skill = excerpt(&loaded.skill, SHORT_CHARS);
                }
            }
            AttemptEvent::LookupsDenied(denied) => {
                if let Some(attempt) = self.open.get_mut(&call) {
                    let paths = denied.paths.iter().take(MAX_LINES);
                    attempt.denied_lookups = paths.map(|path| excerpt(path, SHORT_CHARS)).collect();
                }
            }
            AttemptEvent::RequestOpened(RequestOpened { request }) => {
                self.request(stepper, call, &request.question, at);
            }
            AttemptEvent::RequestAnswered(RequestAnswered { answer, .. }) => {
                // This ends the attempt of a human who plays a role. An attempt that asked a human
                // has ended before.
                let text = answer.value().map_or_else(Excerpt::default, |value| {
                    Excerpt::from_text(value.as_str(), TEXT_CHARS)
                });
                self.end_attempt(call, AttemptOutcome::Finished, text, at);
            }
            _ => {}
        }
    }

    /// Starts the attempt of a human who plays a role, or ends one that asks a human.
    fn request(&mut self, stepper: &Stepper, call: CallKey, question: &str, at: EventTime) {
        let text = Excerpt::from_text(question, SHORT_CHARS);
        if call.work == Work::Answer {
            let answer = self.start_attempt(stepper, call, at);
            self.open.insert(call, AttemptEntry { text, ..answer });
        } else {
            self.end_attempt(call, AttemptOutcome::AskedHuman, text, at);
        }
    }

    /// Closes the attempts that are still open after the last event, and notes which faults were
    /// followed by a success.
    pub(super) fn finish(&mut self, at: EventTime, running: bool) {
        let end = if running {
            AttemptOutcome::Running
        } else {
            AttemptOutcome::Interrupted
        };
        self.end_open_attempts(end, at);
        let mended = &self.later_successes;
        for fault in self.faults.iter_mut() {
            let place = (fault.opened_step, fault.call);
            fault.fixed_by = mended.get(&place).copied().filter(|by| *by > fault.number);
        }
    }

    /// Notes which message the result of an attempt became. The event was applied.
    pub(super) fn add_output(&mut self, event: &Event, stepper: &Stepper) {
        let Event::Attempt(call, event) = event else {
            return;
        };
        let may_publish = match event {
            AttemptEvent::CallFinished(CallFinished { result, .. }) => match result {
                CallResult::Returned { .. } => !matches!(call.work, Work::ToolCall { .. }),
                CallResult::Replied(reply) => matches!(reply.outcome, TurnOutcome::Answer(_)),
                CallResult::Chosen(_)
                | CallResult::Planned { .. }
                | CallResult::SummaryDue(_)
                | CallResult::Replaced(_)
                | CallResult::Reported { .. } => false,
            },
            AttemptEvent::RequestAnswered(_) => call.work == Work::Answer,
            _ => false,
        };
        if !may_publish {
            return;
        }
        let env = stepper.env();
        let activation = env.activation(call.activation());
        let output = activation.and_then(|activation| activation.done.last());
        let ended = self.ended.last_mut().filter(|ended| ended.call == *call);
        if let (Some(ended), Some(done)) = (ended, output) {
            ended.message = Some(env.message(done.output.message).id.0.clone());
        }
    }

    /// Returns a new first attempt, without a component.
    fn start_attempt(&mut self, stepper: &Stepper, call: CallKey, at: EventTime) -> AttemptEntry {
        let role = call.role;
        self.started += 1;
        let activation = stepper.env().activation(call.activation());
        AttemptEntry {
            id: self.started,
            call,
            step: stepper.env().step,
            opened_step: activation
                .map_or(stepper.env().step, |activation| activation.opened_in_step),
            role: role.index(),
            role_name: stepper.team().role(role).name.clone(),
            action: call_name(stepper, call),
            number: 1,
            events: (at.event, at.event),
            span_ms: (at.time_ms, at.time_ms),
            outcome: AttemptOutcome::Running,
            digest: None,
            text: Excerpt::default(),
            message: None,
            cost: Usd::ZERO,
            log: Excerpt::default(),
            log_left_out: 0,
            denied_lookups: Vec::new(),
            loaded_skill: String::new(),
        }
    }

    fn end_attempt(&mut self, call: CallKey, end: AttemptOutcome, text: Excerpt, at: EventTime) {
        let Some(mut attempt) = self.open.remove(&call) else {
            return;
        };
        attempt.outcome = end;
        attempt.text = text;
        attempt.events.1 = at.event;
        attempt.span_ms.1 = at.time_ms;
        if end == AttemptOutcome::Finished && attempt.number > 1 {
            self.later_successes
                .insert((attempt.opened_step, attempt.call), attempt.number);
        }
        match end {
            AttemptOutcome::Finished => self.outcomes.finished += 1,
            AttemptOutcome::Failed => self.outcomes.failed += 1,
            _ => {}
        }
        self.ended.push(attempt);
    }

    /// Ends all open attempts, except that humans can still answer.
    fn end_open_attempts(&mut self, end: AttemptOutcome, at: EventTime) {
        for call in self.open.keys().copied().collect::<Vec<_>>() {
            let person = self
                .open
                .get(&call)
                .is_some_and(|attempt| attempt.digest.is_none() && attempt.action == "answer");
            if !person || end == AttemptOutcome::Running {
                let text = self
                    .open
                    .get(&call)
                    .map_or_else(Excerpt::default, |attempt| attempt.text.clone());
                self.end_attempt(call, end, text, at);
            }
        }
    }

    fn add_host_call(&mut self, caller: CallKey, called: &HostCalled, at: EventTime) {
        let HostCalled {
            call,
            source,
            summary,
        } = called;
        if records_start(call) {
            return;
        }
        let recorded = *source == AnswerSource::Recorded;
        if call.kind == HostCallKind::Llm {
            self.add_model_spending(call, recorded);
        }
        let Some(attempt) = self.open.get_mut(&caller) else {
            return;
        };
        if !recorded {
            attempt.cost += call.cost;
        }
        self.calls.push(HostCallEntry {
            attempt: attempt.id,
            time_ms: at.time_ms,
            kind: call.kind.name(),
            recorded,
            outcome: call.outcome.name(),
            request_summary: Excerpt::from_text(summary, SHORT_CHARS),
            request_digest: call.request.clone(),
            response: Excerpt::from_text(&describe_response(call), TEXT_CHARS),
            cost: call.cost,
            tokens: call.tokens(),
        });
    }

    fn add_model_spending(&mut self, call: &HostCall, recorded: bool) {
        let answered = call.model.as_ref().and_then(|used| used.answered.clone());
        let model = answered.unwrap_or_else(|| NO_MODEL.to_owned());
        let spending = self.models.entry(model).or_default();
        if recorded {
            spending.served += 1;
            spending.saved += call.cost;
        } else {
            spending.calls += 1;
            spending.tokens = spending.tokens.saturating_add(call.tokens());
            spending.usd += call.cost;
        }
    }

    fn add_fault(&mut self, call: CallKey, fault: &Fault) {
        let Some(attempt) = self.open.get(&call) else {
            return;
        };
        let fault = fault.as_reported(call.work);
        let lines = |lines: &[String]| -> Vec<Excerpt> {
            lines
                .iter()
                .take(MAX_LINES)
                .map(|line| Excerpt::from_text(line, SHORT_CHARS))
                .collect()
        };
        let (backtrace, log) = (lines(&fault.backtrace), lines(&fault.log));
        self.faults.push(FaultEntry {
            attempt: attempt.id,
            call: attempt.call,
            opened_step: attempt.opened_step,
            number: attempt.number,
            kind: fault.kind.name(),
            cause: fault.cause.name(),
            message: Excerpt::from_text(&fault.message, TEXT_CHARS),
            backtrace,
            log,
            digest: attempt.digest.clone(),
            fixed_by: None,
        });
    }

    /// Records that the result of an attempt, which had ended, is discarded because of a conflict.
    fn add_conflict(
        &mut self,
        writer: &ConflictingWriter,
        stepper: &Stepper,
        message: &str,
        at: EventTime,
    ) {
        let call = writer.call;
        let attempt = AttemptEntry {
            number: writer.attempt,
            digest: writer.digest.as_ref().map(|digest| digest.0.clone()),
            ..self.start_attempt(stepper, call, at)
        };
        self.open.insert(call, attempt);
        let fault = Fault::new(FaultKind::StateConflict, message);
        self.add_fault(call, &fault);
        let text = Excerpt::from_text(message, SHORT_CHARS);
        self.end_attempt(call, AttemptOutcome::Failed, text, at);
    }
}

/// Returns the result of an attempt as text.
fn describe_result(result: &CallResult) -> String {
    match result {
        CallResult::Chosen(-1) => "nothing more to do".into(),
        CallResult::Chosen(choice) => format!("action {choice} is next"),
        CallResult::Planned { tasks, .. } => {
            let tasks = tasks
                .iter()
                .enumerate()
                .map(|(i, task)| format!("{}. {}", i + 1, task.text));
            tasks.collect::<Vec<_>>().join("\n")
        }
        CallResult::Returned { output, .. } => match &output.data {
            Some(data) if output.content.is_empty() => data.as_str().to_owned(),
            _ => output.content.clone(),
        },
        CallResult::Reported { output } => output.content.clone(),
        CallResult::Replied(reply) => match &reply.outcome {
            TurnOutcome::Calls(plans) => {
                let tools: Vec<&str> = plans.iter().map(|plan| plan.tool.as_str()).collect();
                format!("calls {}", tools.join(", "))
            }
            TurnOutcome::Answer(answer) => answer.content.clone(),
            TurnOutcome::Misfit(reason) => format!("an answer that does not fit: {reason}"),
        },
        CallResult::SummaryDue(_) => "the conversation has to be summarised first".into(),
        CallResult::Replaced(replacement) => replacement.summary.clone().unwrap_or_else(|| {
            let (before, after) = (replacement.tokens_before, replacement.tokens_after);
            format!("results were cleared: about {after} tokens instead of {before}")
        }),
    }
}

/// Returns the response of a host call as text.
fn describe_response(call: &HostCall) -> String {
    let response = call.response.as_str();
    if call.outcome != CallOutcome::Answered {
        return response.to_owned();
    }
    match call.kind {
        HostCallKind::Llm => serde_json::from_str::<models::ModelReply>(response)
            .map_or_else(|_| response.to_owned(), |reply| reply.summary()),
        HostCallKind::Http => http::HttpResponse::from_json(&call.response).map_or_else(
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
        _ => response.to_owned(),
    }
}
