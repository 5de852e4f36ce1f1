//! Spans to a collector, over OTLP (HTTP, protobuf). All settings are the usual variables of OpenTelemetry.
//!
//! A thread of its own exports in batches; what it cannot keep up with is dropped. Nothing that happens there, and no
//! collector that is away, slow or broken, holds a run up or fails it.

use std::cell::Cell;
use std::env;
use std::time::Duration;

use opentelemetry::trace::{SpanId, TraceId, TracerProvider};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracerProvider};
use strata_core::id::RunId;
use tracing::{Level, Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::SPANS;
use super::client::Client;
use crate::services::endpoint::without_secrets;
use crate::sha256::sha256;

/// The variables that name a collector. Without one nothing is exported.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
/// The variables that name a protocol, the more special one first.
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
/// How long the end of the program waits for the last spans to be taken.
const LAST_CALL: Duration = Duration::from_secs(2);

thread_local! {
    /// The trace of the run whose span is being made on this thread.
    static TRACE: Cell<Option<TraceId>> = const { Cell::new(None) };
}

/// An export that goes on until it is told that there is no more; without a collector it is none.
#[derive(Default)]
pub struct Exporting(Option<SdkTracerProvider>);

impl Exporting {
    /// Begins to export, where the operator names a collector. Says why one cannot be used.
    pub fn begin() -> Result<Self, String> {
        let Some(endpoint) = ENDPOINTS
            .iter()
            .find_map(|name| set(name))
            .filter(|_| wanted())
        else {
            return Ok(Self::default());
        };
        let refused = |why: String| {
            format!(
                "cannot export traces to `{}`: {why}",
                without_secrets(&endpoint)
            )
        };
        if let Some((name, _)) = PROTOCOLS
            .iter()
            .find_map(|name| Some((name, set(name)?)))
            .filter(|(_, it)| it == "grpc")
        {
            let why = format!(
                "`{name}` asks for gRPC, and only HTTP with protobuf is spoken, usually at port 4318"
            );
            return Err(refused(why));
        }
        let client = Client::new(&endpoint).map_err(&refused)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(client);
        let exporter = exporter
            .build()
            .map_err(|error| refused(error.to_string()))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_id_generator(Ids::default());
        Ok(Self(Some(provider.with_resource(resource()).build())))
    }

    /// What hands spans to it.
    pub fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let layer =
            tracing_opentelemetry::layer().with_tracer(self.0.as_ref()?.tracer("strata-host"));
        let layer = layer
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false);
        Some(layer.with_filter(filter_fn(concerns_runs)))
    }

    /// Hands over what is left. Spans that are open are not among it.
    pub fn finish(self) {
        if let Some(Err(error)) = self
            .0
            .map(|provider| provider.shutdown_with_timeout(LAST_CALL))
        {
            tracing::debug!("the last spans were not exported: {error}");
        }
    }
}

/// A variable that is set to something.
fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn wanted() -> bool {
    let off = set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    !off && set("OTEL_TRACES_EXPORTER").is_none_or(|exporter| exporter != "none")
}

/// Who exports. The variables outweigh our own name.
fn resource() -> Resource {
    let named = set("OTEL_SERVICE_NAME").is_some()
        || set("OTEL_RESOURCE_ATTRIBUTES")
            .is_some_and(|attributes| attributes.contains("service.name="));
    let resource = Resource::builder();
    let resource = if named {
        resource
    } else {
        resource.with_service_name("strata-host")
    };
    resource
        .with_attribute(opentelemetry::KeyValue::new(
            "service.version",
            env!("CARGO_PKG_VERSION"),
        ))
        .build()
}

/// Spans of runs, and what is logged in them.
fn concerns_runs(metadata: &Metadata<'_>) -> bool {
    let ours = metadata.target() == SPANS
        || (metadata.is_event() && metadata.target().starts_with("strata_host"));
    ours && *metadata.level() <= Level::INFO
}

/// Makes the span of a run, in the trace of that run: resumes, whenever and wherever they are, go on with it.
pub(crate) fn of_run(run: &RunId, make: impl FnOnce() -> Span) -> Span {
    TRACE.set(Some(trace_of(run)));
    let span = make();
    // Only now it gets its ids.
    let _ = span.context();
    TRACE.set(None);
    span
}

/// The trace of a run: the beginning of the SHA-256 of its name.
fn trace_of(run: &RunId) -> TraceId {
    let digest = sha256(&run.0);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    TraceId::from_bytes(bytes)
}

/// Ids: of traces by their runs, of spans at random.
#[derive(Debug, Default)]
struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        TRACE.get().unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        self.0.new_span_id()
    }
}
