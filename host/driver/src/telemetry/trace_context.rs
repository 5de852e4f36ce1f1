//! Which trace a span belongs to: all resumes of a run share one, and a request that is served belongs
//! to that of its client.

use std::cell::Cell;
use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanId, TraceContextExt, TraceId};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use strata_base::files::sha256::sha256;
use strata_core::record::id::RunId;
use strata_services::telemetry::names;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The maximum length of the context that a client sends, in bytes. The version in use has 55.
const MAX_CONTEXT_BYTES: usize = 256;

thread_local! {
    /// The trace id for the span that is being created on this thread.
    static CURRENT_TRACE: Cell<Option<TraceId>> = const { Cell::new(None) };
}

/// Creates the span of a run within the run's trace. All resumes of a run share the trace.
pub fn run_span(run: &RunId, make: impl FnOnce() -> Span) -> Span {
    CURRENT_TRACE.set(Some(trace_id(run)));
    let span = make();
    // The span receives its ids only when its context is requested.
    let _ = span.context();
    CURRENT_TRACE.set(None);
    span
}

/// Creates the span of a request that is served, within the trace of the client if the request has
/// the context of one.
pub fn served_span(traceparent: Option<&str>, make: impl FnOnce() -> Span) -> Span {
    let span = make();
    let usable = traceparent.filter(|context| context.len() <= MAX_CONTEXT_BYTES);
    if let Some(context) = usable.filter(|_| !span.is_disabled()) {
        let carrier = HashMap::from([(names::TRACEPARENT.to_owned(), context.to_owned())]);
        let parent = TraceContextPropagator::new().extract(&carrier);
        if parent.span().span_context().is_valid() {
            // It fails if the span is not exported, and nothing is lost then.
            let _ = span.set_parent(parent);
        }
    }
    span
}

/// Returns the context of a span, for a request to a server. Returns `None` if the span is not
/// exported.
pub fn traceparent(span: &Span) -> Option<String> {
    if span.is_disabled() {
        return None;
    }
    let context = span.context();
    if !context.span().span_context().is_valid() {
        return None;
    }
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&context, &mut carrier);
    carrier.remove(names::TRACEPARENT)
}

/// Returns the trace id of a run: the first bytes of the SHA-256 of its run id.
fn trace_id(run: &RunId) -> TraceId {
    let digest = sha256(&run.0);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    TraceId::from_bytes(bytes)
}

/// Generates trace ids from run ids, and span ids at random.
#[derive(Debug, Default)]
pub(super) struct SpanIds(RandomIdGenerator);

impl IdGenerator for SpanIds {
    fn new_trace_id(&self) -> TraceId {
        CURRENT_TRACE.get().unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        self.0.new_span_id()
    }
}
