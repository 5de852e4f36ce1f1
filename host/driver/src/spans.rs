//! Spans for `tracing`: of the run, its steps, the activations of roles, attempts at actions and tool
//! calls, and host calls. They and their fields are named by the conventions for generative AI
//! (`services/telemetry/names`). Numbers are recorded as signed integers, because exporters turn
//! unsigned ones into strings.
//!
//! Spans follow the events of the journal, so they agree with the record. Nothing depends on them;
//! without a subscriber each costs one check of a flag. The spans of requests to models are created
//! where these are sent (`services/models/request_span`).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::tool_calls;
use strata_core::record::event::{
    AttemptEvent, CallFinished, Event, HostCalled, RunEnded, RunStarted, StepCommitted, StepStarted,
};
use strata_core::record::fault::Fault;
use strata_core::record::host_call::{AnswerSource, CallOutcome, HostCall, HostCallKind};
use strata_core::record::id::{CheckpointId, RoleId, RunId};
use strata_core::record::work::{ActivationKey, CallKey, CallResult, Work};
use strata_core::state::activation::Activation;
use strata_services::gateway::records_start;
use strata_services::outbound::OutboundCall;
use strata_services::telemetry::{CallTrace, ContentCapture, content_text, names};
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use crate::public_event::action_name;
use crate::telemetry::{self, SPANS, run_span};

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
    run: Option<OpenRun>,
    step: Option<Span>,
    activations: BTreeMap<ActivationKey, Span>,
    attempts: BTreeMap<CallKey, OpenAttempt>,
}

/// The span of the run, and what those of its calls say about it.
struct OpenRun {
    span: Span,
    id: Arc<str>,
    content: ContentCapture,
}

/// An attempt in progress.
struct OpenAttempt {
    /// Its own span; that of its activation if the host makes it, to ask the model of a tools role.
    span: Span,
    /// Whether a part of the conversation was replaced that it sends.
    is_compacted: bool,
}

/// The span of a host call that is made.
pub(super) struct CallSpan {
    /// The span in which it is made.
    span: Span,
    ownership: SpanOwnership,
    kind: HostCallKind,
}

/// Whose span a host call is made in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpanOwnership {
    /// Its own.
    Own,
    /// That of its attempt. The service that makes the call opens spans within it.
    OfAttempt,
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
            AttemptEvent::CallFinished(finished) => {
                self.note_result(key, finished);
                self.attempt_ends(key, "finished", None);
            }
            AttemptEvent::CallFailed(failed) => {
                self.attempt_ends(key, "failed", Some(&failed.fault.as_reported(key.work)));
            }
            AttemptEvent::CallSuspended(_) => self.attempt_ends(key, "suspended", None),
            AttemptEvent::RequestOpened(_) => self.attempt_ends(key, "asked", None),
            AttemptEvent::HostCalled(HostCalled { call, source, .. }) => {
                self.record_call(key, call, *source);
            }
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
            Some(open) => Box::pin(attempt.instrument(open.span.clone())),
            None => attempt,
        }
    }

    /// Returns a span for a host call that is about to be made.
    pub(super) fn host_call(&self, call: CallKey, outbound: &dyn OutboundCall) -> CallSpan {
        let kind = outbound.kind();
        let Some(attempt) = self.attempts.get(&call) else {
            return CallSpan {
                span: Span::none(),
                ownership: SpanOwnership::OfAttempt,
                kind,
            };
        };
        match kind {
            HostCallKind::Llm => CallSpan {
                span: attempt.span.clone(),
                ownership: SpanOwnership::OfAttempt,
                kind,
            },
            _ => CallSpan {
                span: call_span(&attempt.span, outbound),
                ownership: SpanOwnership::Own,
                kind,
            },
        }
    }

    /// Returns what the spans of a host call say about the run. `span` is the one in which it is made. Other
    /// servers than those of models and web servers are told the trace.
    pub(super) fn call_trace(&self, call: CallKey, span: &CallSpan) -> CallTrace {
        let (Some(run), Some(attempt)) = (&self.run, self.attempts.get(&call)) else {
            return CallTrace::default();
        };
        CallTrace {
            run: Some(Arc::clone(&run.id)),
            is_compacted: attempt.is_compacted,
            content: run.content,
            traceparent: match span.kind {
                HostCallKind::Llm | HostCallKind::Http => None,
                _ => telemetry::traceparent(&span.span),
            },
            attempt: call.work.calls_server().then(|| attempt.span.clone()),
        }
    }

    fn begin(&mut self, run: &RunId, stepper: &Stepper) {
        let (team, env) = (stepper.team(), stepper.env());
        let span = run_span(run, || {
            info_span!(
                target: SPANS, parent: None, "run",
                otel.name = format!("{} {}", names::INVOKE_WORKFLOW, team.name),
                { names::OPERATION_NAME } = names::INVOKE_WORKFLOW, { names::AGENT_NAME } = team.name,
                { names::CONVERSATION_ID } = run.0, { names::LINEAGE } = env.lineage.name,
                { names::RUN_NAME } = self.labels.run_name.as_deref(),
                { names::WORKER } = self.labels.worker.as_deref(),
                { names::STATUS } = Empty, { names::COST_USD } = Empty, { names::ERROR_TYPE } = Empty,
                otel.status_code = Empty
            )
        });
        *self = Self::new(std::mem::take(&mut self.labels));
        if span.is_disabled() {
            return;
        }
        self.run = Some(OpenRun {
            span,
            id: run.0.as_str().into(),
            content: telemetry::content_capture(),
        });
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
        let run = run.span;
        run.record(names::STATUS, status)
            .record(names::COST_USD, stepper.env().spent.to_dollars());
        if matches!(status, "failed" | "in-doubt" | "stalled") {
            run.record(names::ERROR_TYPE, status)
                .record("otel.status_code", "ERROR");
        }
    }

    fn step(&mut self, step: u64, roles: &[RoleId], stepper: &Stepper) {
        let Some(run) = &self.run else { return };
        let span = info_span!(
            target: SPANS, parent: &run.span, "step", { names::STEP } = step as i64, { names::CHECKPOINT } = Empty
        );
        self.activations.clear();
        self.attempts.clear();
        for role in roles {
            let activation = activation_span(&span, *role, &run.id, stepper);
            self.activations
                .insert(ActivationKey::of_mail(*role), activation);
        }
        self.step = Some(span);
    }

    fn committed(&mut self, checkpoint: &CheckpointId) {
        self.activations.clear();
        self.attempts.clear();
        if let Some(step) = self.step.take() {
            step.record(names::CHECKPOINT, checkpoint.0.as_str());
        }
    }

    fn attempt_begins(&mut self, key: CallKey, attempt: u32, stepper: &Stepper) {
        let Some(activation) = self.activation(key.activation(), stepper) else {
            return;
        };
        let state = stepper.env().activation(key.activation());
        let span = match key.work {
            Work::Turn { .. } | Work::Summary { .. } => activation,
            Work::ToolCall { .. } => {
                let outer = state.and_then(|state| Some(state.outer_call(key.work)?.0));
                let outer = outer.map(|work| CallKey { work, ..key });
                let outer = outer.and_then(|outer| self.attempts.get(&outer));
                let parent = outer.map_or(&activation, |open| &open.span);
                let content = self.run.as_ref().map(|run| run.content);
                tool_span(parent, key, state, content.unwrap_or_default(), stepper)
            }
            _ => {
                let role = stepper.team().role(key.role);
                let (name, action) = (&role.name, action_name(role, key.work));
                info_span!(
                    target: SPANS, parent: &activation, "action", otel.name = format!("{name}.{action}"),
                    { names::AGENT_NAME } = name, { names::ACTION } = action, { names::ATTEMPT } = Empty,
                    { names::OUTCOME } = Empty, { names::ERROR_TYPE } = Empty, otel.status_code = Empty,
                    otel.status_description = Empty
                )
            }
        };
        if !is_of_host(key.work) {
            span.record(names::ATTEMPT, i64::from(attempt));
        }
        let is_compacted = state.is_some_and(|state| !state.memory.replacements.is_empty());
        self.attempts
            .insert(key, OpenAttempt { span, is_compacted });
    }

    /// Returns the span of an activation, which is opened if there is none: that of a role which was
    /// called as a tool, or which has waited since an earlier step.
    fn activation(&mut self, key: ActivationKey, stepper: &Stepper) -> Option<Span> {
        if let Some(open) = self.activations.get(&key) {
            return Some(open.clone());
        }
        let parent = match key.caller() {
            Some(caller) => self.activation(caller, stepper)?,
            None => self.step.clone()?,
        };
        let run = self.run.as_ref()?;
        let span = activation_span(&parent, key.role, &run.id, stepper);
        self.activations.insert(key, span.clone());
        Some(span)
    }

    /// Notes the result of a tool call, if it is to be part of spans.
    fn note_result(&self, key: CallKey, finished: &CallFinished) {
        let captures = |run: &OpenRun| run.content == ContentCapture::Captured;
        if !self.run.as_ref().is_some_and(captures) {
            return;
        }
        if let (Work::ToolCall { .. }, CallResult::Returned { output, .. }, Some(open)) =
            (key.work, &finished.result, self.attempts.get(&key))
        {
            open.span
                .record(names::TOOL_RESULT, content_text(&output.content));
        }
    }

    fn attempt_ends(&mut self, key: CallKey, outcome: &str, failed: Option<&Fault>) {
        let Some(OpenAttempt { span, .. }) = self.attempts.remove(&key) else {
            return;
        };
        if !is_of_host(key.work) {
            span.record(names::OUTCOME, outcome);
        }
        if let Some(fault) = failed {
            span.record(names::ERROR_TYPE, fault.kind.name())
                .record("otel.status_code", "ERROR");
            // A message may quote what a guest, a model or a server said.
            if self.captures_content() {
                let why = fault.message.lines().next().unwrap_or_default();
                span.record("otel.status_description", why);
            }
        }
    }

    fn captures_content(&self) -> bool {
        let run = self.run.as_ref();
        run.is_some_and(|run| run.content == ContentCapture::Captured)
    }

    /// Notes a call that was answered without being made outside of the host. Calls that leave it have
    /// spans of their own.
    fn record_call(&self, key: CallKey, call: &HostCall, source: AnswerSource) {
        let Some(open) = self.attempts.get(&key) else {
            return;
        };
        if (call.kind.leaves_host() && source == AnswerSource::Live) || records_start(call) {
            return;
        }
        tracing::info!(
            target: SPANS, parent: &open.span, message = "host call",
            { names::CALL_KIND } = call.kind.name(), { names::CALL_SOURCE } = source.name(),
            { names::OUTCOME } = call.outcome.name()
        );
    }
}

impl CallSpan {
    /// Returns the span in which the call is made.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Notes how the call ended.
    pub(super) fn record_outcome(&self, call: &HostCall) {
        if self.ownership == SpanOwnership::OfAttempt {
            return;
        }
        self.span.record(names::OUTCOME, call.outcome.name());
        if call.outcome != CallOutcome::Answered {
            self.span
                .record(names::ERROR_TYPE, "host")
                .record("otel.status_code", "ERROR");
        }
    }
}

/// Returns whether the host itself does some work within the activation, so that it has no span.
fn is_of_host(work: Work) -> bool {
    matches!(work, Work::Turn { .. } | Work::Summary { .. })
}

/// Opens the span of an activation.
fn activation_span(parent: &Span, role: RoleId, run: &str, stepper: &Stepper) -> Span {
    let (name, step) = (&stepper.team().role(role).name, stepper.env().step as i64);
    info_span!(
        target: SPANS, parent: parent, "activation", otel.name = format!("{} {name}", names::INVOKE_AGENT),
        { names::OPERATION_NAME } = names::INVOKE_AGENT, { names::AGENT_NAME } = name,
        { names::CONVERSATION_ID } = run, { names::STEP } = step, { names::ERROR_TYPE } = Empty,
        otel.status_code = Empty, otel.status_description = Empty
    )
}

/// Opens the span of an attempt at a tool call. `state` is the activation.
fn tool_span(
    parent: &Span,
    key: CallKey,
    state: Option<&Activation>,
    content: ContentCapture,
    stepper: &Stepper,
) -> Span {
    let role = stepper.team().role(key.role);
    let call = state.and_then(|state| state.tool_call(key.work));
    let tool = call.map_or_else(|| action_name(role, key.work), |call| call.tool.as_str());
    let kind = if key.work.calls_server() {
        names::EXTENSION
    } else {
        names::FUNCTION
    };
    let call_id = state.and_then(|state| provider_call_id(state, key.work));
    let arguments = match content {
        ContentCapture::Captured => state.and_then(|state| state.arguments(key.work)),
        ContentCapture::Omitted => None,
    };
    info_span!(
        target: SPANS, parent: parent, "tool call", otel.name = format!("{} {tool}", names::EXECUTE_TOOL),
        { names::OPERATION_NAME } = names::EXECUTE_TOOL, { names::TOOL_NAME } = tool,
        { names::TOOL_TYPE } = kind, { names::TOOL_CALL_ID } = call_id,
        { names::AGENT_NAME } = role.name, { names::ATTEMPT } = Empty, { names::OUTCOME } = Empty,
        { names::TOOL_ARGUMENTS } = arguments.as_ref().map(|arguments| content_text(arguments.as_str())),
        { names::TOOL_RESULT } = Empty, { names::MCP_METHOD } = Empty, { names::MCP_REVISION } = Empty,
        { names::NETWORK_TRANSPORT } = Empty, { names::REQUEST_ID } = Empty, { names::ERROR_TYPE } = Empty,
        otel.status_code = Empty, otel.status_description = Empty
    )
}

/// Returns the provider's id of a tool call, or `None` if code made the call.
fn provider_call_id(state: &Activation, work: Work) -> Option<&str> {
    let Work::ToolCall {
        turn, call, nested, ..
    } = work
    else {
        return None;
    };
    let reply = &state.turns.get(turn as usize)?.message;
    let tool_call = tool_calls(reply).nth(call as usize)?;
    nested.is_empty().then_some(tool_call.id.as_str())
}

/// Opens the span of a host call that is made. The service that makes it adds where it goes to.
fn call_span(attempt: &Span, outbound: &dyn OutboundCall) -> Span {
    let kind = outbound.kind();
    info_span!(
        target: SPANS, parent: attempt, "host call",
        otel.name = outbound.span_name().as_deref().unwrap_or(kind.name()), otel.kind = "client",
        { names::CALL_KIND } = kind.name(), { names::CALL_SOURCE } = AnswerSource::Live.name(),
        { names::HTTP_METHOD } = Empty, { names::SERVER_ADDRESS } = Empty, { names::SERVER_PORT } = Empty,
        { names::STATUS_CODE } = Empty, { names::OPERATION_NAME } = Empty, { names::MCP_METHOD } = Empty,
        { names::TOOL_NAME } = Empty, { names::TOOL_ARGUMENTS } = Empty,
        { names::MCP_REVISION } = Empty, { names::NETWORK_TRANSPORT } = Empty, { names::REQUEST_ID } = Empty,
        { names::OUTCOME } = Empty, { names::ERROR_TYPE } = Empty, otel.status_code = Empty
    )
}
