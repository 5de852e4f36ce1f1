//! Spans for `tracing`: of the run, its steps, their activations, attempts and host calls. Numbers
//! are recorded as signed integers, because exporters turn unsigned ones into strings.
//!
//! Spans follow the events of the journal, so they agree with the record. Nothing depends on them;
//! without a subscriber each costs one check of a flag.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{
    AttemptEvent, Event, HostCalled, RunEnded, RunStarted, StepCommitted, StepStarted,
};
use strata_core::record::fault::Fault;
use strata_core::record::host_call::{AnswerSource, CallOutcome, HostCall, HostCallKind};
use strata_core::record::id::{CheckpointId, RoleId, RunId};
use strata_core::record::work::CallKey;
use strata_services::gateway::WASI_CLOCK_START;
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use crate::public_event::action_name;
use crate::telemetry::{SPANS, run_span};

/// What the span of a run says about where it is kept and who runs it.
#[derive(Clone, Debug, Default)]
pub struct SpanLabels {
    /// The name of the run in its database.
    pub run_name: Option<String>,
    /// The id of the worker.
    pub worker: Option<String>,
}

/// The open spans.
#[derive(Default)]
pub(super) struct Spans {
    labels: SpanLabels,
    /// `None` if there is no subscriber.
    run: Option<Span>,
    step: Option<Span>,
    activations: BTreeMap<RoleId, Span>,
    attempts: BTreeMap<CallKey, Span>,
}

impl Spans {
    /// Returns none that is open.
    pub(super) fn new(labels: SpanLabels) -> Self {
        Self {
            labels,
            ..Self::default()
        }
    }

    /// Opens and closes spans for an event that is about to be applied.
    pub(super) fn observe(&mut self, event: &Event, stepper: &Stepper) {
        match event {
            Event::RunStarted(RunStarted { run, .. }) => self.begin(run, stepper),
            Event::RunResumed(_) => self.begin(&stepper.env().run, stepper),
            _ if self.run.is_none() => {}
            Event::RunEnded(RunEnded { status, .. }) => self.end(status.name(), stepper),
            Event::StepStarted(StepStarted { step, roles }) => self.step(*step, roles, stepper),
            Event::StepCommitted(StepCommitted { checkpoint, .. }) => self.committed(checkpoint),
            Event::Attempt(call, event) => self.observe_attempt(*call, event, stepper),
            _ => {}
        }
    }

    fn observe_attempt(&mut self, key: CallKey, event: &AttemptEvent, stepper: &Stepper) {
        match event {
            AttemptEvent::CallStarted(started) => {
                self.attempt_begins(key, started.attempt, stepper);
            }
            AttemptEvent::CallFinished(_) => self.attempt_ends(key, "finished", None),
            AttemptEvent::CallFailed(failed) => {
                self.attempt_ends(key, "failed", Some(&failed.fault.as_reported(key.work)));
            }
            AttemptEvent::CallSuspended(_) => self.attempt_ends(key, "suspended", None),
            AttemptEvent::RequestOpened(_) => self.attempt_ends(key, "asked", None),
            AttemptEvent::HostCalled(HostCalled {
                call,
                source,
                summary,
            }) => self.record_call(key, call, *source, summary),
            _ => {}
        }
    }

    /// Runs the future of an attempt inside its span.
    pub(super) fn instrument<T: 'static>(
        &self,
        call: CallKey,
        attempt: BoxFuture<'static, T>,
    ) -> BoxFuture<'static, T> {
        match self.attempts.get(&call) {
            Some(span) => Box::pin(attempt.instrument(span.clone())),
            None => attempt,
        }
    }

    /// Returns a span for a host call that is about to be made.
    pub(super) fn host_call(&self, call: CallKey, kind: HostCallKind, summary: &str) -> Span {
        match self.attempts.get(&call) {
            Some(attempt) => call_span(attempt, kind, summary, AnswerSource::Live),
            None => Span::none(),
        }
    }

    fn begin(&mut self, run: &RunId, stepper: &Stepper) {
        let (team, env) = (stepper.team(), stepper.env());
        let span = run_span(run, || {
            info_span!(
                target: SPANS, parent: None, "run", run = run.0, team = team.name, lineage = env.lineage.name,
                run_name = self.labels.run_name.as_deref(), worker = self.labels.worker.as_deref(), status = Empty, spent_dollars = Empty, otel.status_code = Empty
            )
        });
        *self = Self {
            labels: std::mem::take(&mut self.labels),
            run: Some(span).filter(|span| !span.is_disabled()),
            ..Self::default()
        };
        if env.is_step_open {
            // An open step continues without a new `StepStarted` event.
            let roles: Vec<RoleId> = env.mail_activations().map(|(role, _)| role).collect();
            self.step(env.step, &roles, stepper);
        }
    }

    fn end(&mut self, status: &str, stepper: &Stepper) {
        let labels = self.labels.clone();
        let Some(run) = std::mem::replace(self, Self::new(labels)).run else {
            return;
        };
        run.record("status", status)
            .record("spent_dollars", stepper.env().spent.to_dollars());
        if matches!(status, "failed" | "in-doubt" | "stalled") {
            run.record("otel.status_code", "ERROR");
        }
    }

    fn step(&mut self, step: u64, roles: &[RoleId], stepper: &Stepper) {
        let Some(run) = &self.run else { return };
        let span =
            info_span!(target: SPANS, parent: run, "step", step = step as i64, checkpoint = Empty);
        self.activations = roles
            .iter()
            .map(|role| (*role, activation_span(&span, *role, stepper)))
            .collect();
        self.attempts.clear();
        self.step = Some(span);
    }

    fn committed(&mut self, checkpoint: &CheckpointId) {
        self.activations.clear();
        self.attempts.clear();
        if let Some(step) = self.step.take() {
            step.record("checkpoint", checkpoint.0.as_str());
        }
    }

    fn attempt_begins(&mut self, call: CallKey, attempt: u32, stepper: &Stepper) {
        let Some(step) = &self.step else { return };
        // A role that has waited since an earlier step continues in this one.
        let activation = self
            .activations
            .entry(call.role)
            .or_insert_with(|| activation_span(step, call.role, stepper));
        let role = stepper.team().role(call.role);
        let (name, action) = (&role.name, action_name(role, call.work));
        let span = info_span!(
            target: SPANS, parent: &*activation, "action", otel.name = format!("{name}.{action}"), role = name,
            action, step = stepper.env().step as i64, attempt = i64::from(attempt), outcome = Empty, fault = Empty, otel.status_code = Empty,
            otel.status_description = Empty
        );
        self.attempts.insert(call, span);
    }

    fn attempt_ends(&mut self, call: CallKey, outcome: &str, failed: Option<&Fault>) {
        let Some(span) = self.attempts.remove(&call) else {
            return;
        };
        span.record("outcome", outcome);
        if let Some(fault) = failed {
            let why = fault.message.lines().next().unwrap_or_default();
            span.record("fault", fault.kind.name())
                .record("otel.status_code", "ERROR")
                .record("otel.status_description", why);
        }
    }

    /// Records a call that was answered at once. Calls that leave the host have spans of their own.
    fn record_call(&self, key: CallKey, call: &HostCall, source: AnswerSource, summary: &str) {
        let leaves = call.kind.leaves_host();
        let Some(attempt) = self.attempts.get(&key) else {
            return;
        };
        if (leaves && source == AnswerSource::Live)
            || (call.kind == HostCallKind::Clock && call.request == WASI_CLOCK_START)
        {
            return;
        }
        record_outcome(&call_span(attempt, call.kind, summary, source), call);
    }
}

/// Opens the span of an activation in a step.
fn activation_span(step: &Span, role: RoleId, stepper: &Stepper) -> Span {
    let (name, number) = (&stepper.team().role(role).name, stepper.env().step as i64);
    info_span!(target: SPANS, parent: step, "activation", role = name, step = number)
}

fn call_span(attempt: &Span, kind: HostCallKind, summary: &str, source: AnswerSource) -> Span {
    let source = source.name();
    info_span!(
        target: SPANS, parent: attempt, "host call", otel.name = kind.name(), kind = kind.name(), what = summary, source,
        outcome = Empty, cost_dollars = Empty, tokens = Empty, otel.status_code = Empty
    )
}

/// Records the outcome of a call in its span.
pub(super) fn record_outcome(span: &Span, call: &HostCall) {
    span.record("outcome", call.outcome.name());
    span.record("cost_dollars", call.cost.to_dollars())
        .record("tokens", call.tokens() as i64);
    if call.outcome != CallOutcome::Answered {
        span.record("otel.status_code", "ERROR");
    }
}
