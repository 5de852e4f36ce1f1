//! Exports spans over OTLP (HTTP with protobuf). All settings are the standard environment
//! variables of OpenTelemetry.
//!
//! A separate thread exports in batches; spans that exceed its capacity are dropped. A collector
//! that is unreachable, slow or faulty neither delays a run nor makes it fail.

use std::cell::Cell;
use std::env;
use std::time::Duration;

use opentelemetry::trace::{SpanId, TraceId, TracerProvider};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracerProvider};
use strata_base::files::sha256::sha256;
use strata_core::record::id::RunId;
use strata_services::endpoint::without_secrets;
use tracing::{Level, Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::SPANS;
use super::client::CollectorClient;

/// The variables that name a collector. If none is set, nothing is exported.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
/// The variables that select a protocol; the first that is set counts.
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
/// How long the end of the program waits for the last spans to be exported.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

thread_local! {
    /// The trace id for the span that is being created on this thread.
    static CURRENT_TRACE: Cell<Option<TraceId>> = const { Cell::new(None) };
}

/// A running export, which must be finished with `finish`; without a collector, it does nothing.
#[derive(Default)]
pub struct SpanExport(Option<SdkTracerProvider>);

impl SpanExport {
    /// Starts exporting if the operator names a collector.
    ///
    /// # Errors
    ///
    /// Returns the reason why the collector cannot be used.
    pub fn start() -> Result<Self, String> {
        let Some(endpoint) = ENDPOINTS
            .iter()
            .find_map(|name| env_value(name))
            .filter(|_| is_enabled())
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
            .find_map(|name| Some((name, env_value(name)?)))
            .filter(|(_, it)| it == "grpc")
        {
            let why = format!(
                "`{name}` asks for gRPC, and only HTTP with protobuf is spoken, usually at port 4318"
            );
            return Err(refused(why));
        }
        let client = CollectorClient::new(&endpoint).map_err(&refused)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(client);
        let exporter = exporter
            .build()
            .map_err(|error| refused(error.to_string()))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_id_generator(SpanIds::default());
        Ok(Self(Some(provider.with_resource(resource()).build())))
    }

    /// Returns the layer that passes spans to the exporter.
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

    /// Exports the remaining spans. Spans that are still open are not exported.
    pub fn finish(self) {
        if let Some(Err(error)) = self
            .0
            .map(|provider| provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT))
        {
            tracing::debug!("the last spans were not exported: {error}");
        }
    }
}

/// Returns the value of an environment variable that is set and not blank.
fn env_value(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn is_enabled() -> bool {
    let off =
        env_value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    !off && env_value("OTEL_TRACES_EXPORTER").is_none_or(|exporter| exporter != "none")
}

/// Returns the resource that identifies this program. The standard variables take precedence over
/// its own name.
fn resource() -> Resource {
    let named = env_value("OTEL_SERVICE_NAME").is_some()
        || env_value("OTEL_RESOURCE_ATTRIBUTES")
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

/// Returns whether this is a span of a run or a log record that belongs to one.
fn concerns_runs(metadata: &Metadata<'_>) -> bool {
    let ours = metadata.target() == SPANS
        || (metadata.is_event() && metadata.target().starts_with("strata_host"));
    ours && *metadata.level() <= Level::INFO
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

/// Returns the trace id of a run: the first bytes of the SHA-256 of its run id.
fn trace_id(run: &RunId) -> TraceId {
    let digest = sha256(&run.0);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    TraceId::from_bytes(bytes)
}

/// Generates trace ids from run ids, and span ids at random.
#[derive(Debug, Default)]
struct SpanIds(RandomIdGenerator);

impl IdGenerator for SpanIds {
    fn new_trace_id(&self) -> TraceId {
        CURRENT_TRACE.get().unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        self.0.new_span_id()
    }
}
