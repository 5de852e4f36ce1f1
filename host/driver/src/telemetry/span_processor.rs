//! What becomes of a span that has ended: it is counted in metrics, brought into the form of the
//! conventions, and passed on to the exporter.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SamplingDecision, SamplingResult, ShouldSample, Span, SpanData,
    SpanProcessor,
};
use strata_services::telemetry::names;

use super::span_metrics::SpanMetrics;

/// Where ended spans go. It is empty until a collector is named.
#[derive(Default)]
pub(super) struct SpanDestination {
    /// The exporter of spans and the metrics, once there is a collector.
    pub(super) sinks: OnceLock<SpanSinks>,
    /// Whether older names are exported in addition.
    pub(super) compat: AtomicBool,
}

/// What receives spans.
#[derive(Default)]
pub(super) struct SpanSinks {
    /// `None` if only metrics are exported.
    pub(super) exporter: Option<BatchSpanProcessor>,
    /// `None` if only spans are exported.
    pub(super) metrics: Option<SpanMetrics>,
}

/// The processor of all spans.
pub(super) struct DestinationProcessor(pub(super) Arc<SpanDestination>);

impl fmt::Debug for DestinationProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DestinationProcessor")
    }
}

impl SpanProcessor for DestinationProcessor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, mut span: SpanData) {
        let Some(sinks) = self.0.sinks.get() else {
            return;
        };
        let compat = self.0.compat.load(Ordering::Relaxed);
        if let Some(metrics) = &sinks.metrics {
            metrics.record(&span, compat);
        }
        if let Some(exporter) = &sinks.exporter
            && span.span_context.is_sampled()
        {
            conform(&mut span.attributes, compat);
            exporter.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        let sinks = self.0.sinks.get();
        match sinks.and_then(|sinks| sinks.exporter.as_ref()) {
            Some(exporter) => exporter.shutdown_with_timeout(timeout),
            None => Ok(()),
        }
    }
}

/// Brings attributes into the form of the conventions: fields of `tracing` cannot be lists.
fn conform(attributes: &mut Vec<KeyValue>, compat: bool) {
    let mut older = None;
    for attribute in attributes.iter_mut() {
        let key = attribute.key.as_str();
        if let Value::String(text) = &attribute.value
            && names::LISTS.contains(&key)
        {
            let list: Vec<StringValue> = vec![text.clone()];
            attribute.value = Value::Array(Array::String(list));
        } else if key == names::CACHE_WRITE_TOKENS && compat {
            older = Some(attribute.value.clone());
        }
    }
    if let Some(value) = older {
        attributes.push(KeyValue::new(names::OLD_CACHE_WRITE_TOKENS, value));
    }
}

/// Lets all spans be recorded, for metrics, whatever the sampler says. Those that it drops are not
/// exported.
#[derive(Debug)]
pub(super) struct RecordAll(Arc<dyn ShouldSample>);

impl RecordAll {
    pub(super) fn new(sampler: Box<dyn ShouldSample>) -> Self {
        Self(sampler.into())
    }
}

impl Clone for RecordAll {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl ShouldSample for RecordAll {
    fn should_sample(
        &self,
        parent_context: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        span_kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let mut result =
            self.0
                .should_sample(parent_context, trace_id, name, span_kind, attributes, links);
        if result.decision == SamplingDecision::Drop {
            result.decision = SamplingDecision::RecordOnly;
        }
        result
    }
}
