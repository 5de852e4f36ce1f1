//! Metrics that are made of ended spans, so that both always agree. A span that the sampler leaves out
//! is counted as well.

use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::trace::SpanKind;
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::trace::SpanData;
use strata_services::telemetry::names;

/// The bounds of the buckets for durations of requests to models and of tools, in seconds, as the
/// conventions recommend them.
const DURATION_BOUNDS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
/// The bounds of the buckets for durations of requests of the Model Context Protocol, in seconds.
const MCP_BOUNDS: [f64; 15] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
/// The bounds of the buckets for tokens.
const TOKEN_BOUNDS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// The attributes of metrics of requests to models.
const MODEL_ATTRIBUTES: &[&str] = &[
    names::OPERATION_NAME,
    names::PROVIDER_NAME,
    names::REQUEST_MODEL,
    names::RESPONSE_MODEL,
    names::SERVER_ADDRESS,
    names::SERVER_PORT,
];
/// The attributes of metrics of tools.
const TOOL_ATTRIBUTES: &[&str] = &[
    names::OPERATION_NAME,
    names::TOOL_NAME,
    names::TOOL_TYPE,
    names::AGENT_NAME,
    names::ERROR_TYPE,
];
/// The attributes of metrics of the Model Context Protocol.
const MCP_ATTRIBUTES: &[&str] = &[
    names::MCP_METHOD,
    names::TOOL_NAME,
    names::OPERATION_NAME,
    names::MCP_REVISION,
    names::NETWORK_TRANSPORT,
    names::SERVER_ADDRESS,
    names::SERVER_PORT,
    names::ERROR_TYPE,
];

/// The metrics.
pub(super) struct SpanMetrics {
    inference: Histogram<f64>,
    tool: Histogram<f64>,
    mcp_client: Histogram<f64>,
    mcp_server: Histogram<f64>,
    tokens: Vec<(&'static str, Counter<u64>)>,
    old_inference: Histogram<f64>,
    old_tokens: Histogram<u64>,
}

impl SpanMetrics {
    pub(super) fn new(meter: &Meter) -> Self {
        let seconds = |name, bounds: &[f64], description| {
            meter
                .f64_histogram(name)
                .with_unit("s")
                .with_boundaries(bounds.to_vec())
                .with_description(description)
                .build()
        };
        let tokens = names::TOKEN_COUNTERS.iter().map(|counter| {
            let built = meter
                .u64_counter(counter.metric)
                .with_unit("{token}")
                .with_description(counter.description)
                .build();
            (counter.attribute, built)
        });
        Self {
            inference: seconds(
                names::INFERENCE_DURATION,
                &DURATION_BOUNDS,
                "Duration of requests to models.",
            ),
            tool: seconds(
                names::TOOL_DURATION,
                &DURATION_BOUNDS,
                "Duration of attempts at tool calls.",
            ),
            mcp_client: seconds(
                names::MCP_CLIENT_DURATION,
                &MCP_BOUNDS,
                "Duration of requests to MCP servers.",
            ),
            mcp_server: seconds(
                names::MCP_SERVER_DURATION,
                &MCP_BOUNDS,
                "Duration of requests of MCP clients.",
            ),
            tokens: tokens.collect(),
            old_inference: seconds(
                names::OLD_DURATION,
                &DURATION_BOUNDS,
                "Duration of requests to models.",
            ),
            old_tokens: meter
                .u64_histogram(names::OLD_TOKEN_USAGE)
                .with_unit("{token}")
                .with_boundaries(TOKEN_BOUNDS.to_vec())
                .with_description("Tokens of requests and replies.")
                .build(),
        }
    }

    /// Counts a span that has ended. With `compat`, also under older names.
    pub(super) fn record(&self, span: &SpanData, compat: bool) {
        let duration = span.end_time.duration_since(span.start_time);
        let seconds = duration.unwrap_or(Duration::ZERO).as_secs_f64();
        // An attempt at a tool of a server has its attributes, and is no request.
        if span.span_kind != SpanKind::Internal && value(span, names::MCP_METHOD).is_some() {
            let attributes = selected(span, MCP_ATTRIBUTES);
            match span.span_kind {
                SpanKind::Server => self.mcp_server.record(seconds, &attributes),
                _ => self.mcp_client.record(seconds, &attributes),
            }
            return;
        }
        match value(span, names::OPERATION_NAME).map(Value::as_str) {
            Some(operation) if operation == names::EXECUTE_TOOL => {
                self.tool.record(seconds, &selected(span, TOOL_ATTRIBUTES));
            }
            Some(operation) if operation == names::CHAT => {
                self.record_request(span, seconds, compat);
            }
            Some(operation) if operation == names::EMBEDDINGS => {
                // The conventions have no other name for what is not inference.
                let attributes = with_error(selected(span, MODEL_ATTRIBUTES), span);
                self.old_inference.record(seconds, &attributes);
            }
            _ => {}
        }
    }

    /// Counts a request to a model.
    fn record_request(&self, span: &SpanData, seconds: f64, compat: bool) {
        let attributes = selected(span, MODEL_ATTRIBUTES);
        for (attribute, counter) in &self.tokens {
            if let Some(used) = tokens(span, attribute) {
                counter.add(used, &attributes);
            }
        }
        if compat {
            for (kind, attribute) in [
                ("input", names::INPUT_TOKENS),
                ("output", names::OUTPUT_TOKENS),
            ] {
                if let Some(used) = tokens(span, attribute) {
                    let mut attributes = attributes.clone();
                    attributes.push(KeyValue::new(names::TOKEN_TYPE, kind));
                    self.old_tokens.record(used, &attributes);
                }
            }
        }
        let attributes = with_error(attributes, span);
        self.inference.record(seconds, &attributes);
        if compat {
            self.old_inference.record(seconds, &attributes);
        }
    }
}

fn value<'a>(span: &'a SpanData, key: &str) -> Option<&'a Value> {
    let mut attributes = span.attributes.iter();
    let found = attributes.find(|attribute| attribute.key.as_str() == key)?;
    Some(&found.value)
}

/// Returns a number of tokens, unless it is zero.
fn tokens(span: &SpanData, key: &str) -> Option<u64> {
    match value(span, key)? {
        Value::I64(used) => u64::try_from(*used).ok().filter(|used| *used > 0),
        _ => None,
    }
}

/// Returns the attributes of a span with these keys.
fn selected(span: &SpanData, keys: &[&str]) -> Vec<KeyValue> {
    let attributes = span.attributes.iter();
    let wanted = attributes.filter(|attribute| keys.contains(&attribute.key.as_str()));
    wanted.cloned().collect()
}

fn with_error(mut attributes: Vec<KeyValue>, span: &SpanData) -> Vec<KeyValue> {
    attributes.extend(selected(span, &[names::ERROR_TYPE]));
    attributes
}
