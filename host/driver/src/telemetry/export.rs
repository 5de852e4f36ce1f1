//! Exports spans and metrics over OTLP (HTTP with protobuf). All settings are the standard environment
//! variables of OpenTelemetry; a team may name a collector where these do not.
//!
//! Separate threads export in batches; what exceeds their capacity is dropped. A collector that is
//! unreachable, slow or faulty neither delays a run nor makes it fail.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{BatchSpanProcessor, Config, SdkTracerProvider, SpanProcessor};
use strata_base::clock::stopwatch;
use strata_services::endpoint::without_secrets;
use strata_services::telemetry::names;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::client::{CollectorClient, Signal};
use super::span_metrics::SpanMetrics;
use super::span_processor::{DestinationProcessor, RecordAll, SpanDestination, SpanSinks};
use super::trace_context::SpanIds;
use super::{SPANS, TelemetrySettings, env_value};

/// The variable that names a collector for all signals.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The variable that selects a protocol for all signals.
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
/// How long the end of the program waits for what is left to be exported.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// The name of the instrumentation.
const SCOPE: &str = "strata-host";

/// The export of telemetry, to which all copies belong. It must be finished with `finish`. Without a
/// collector it does nothing, and the default one never has any.
#[derive(Clone, Default)]
pub struct TelemetryExport {
    shared: Option<Arc<Shared>>,
}

struct Shared {
    tracers: SdkTracerProvider,
    destination: Arc<SpanDestination>,
    meters: OnceLock<SdkMeterProvider>,
    /// Whether something is exported.
    is_on: AtomicBool,
}

impl fmt::Debug for TelemetryExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryExport").finish_non_exhaustive()
    }
}

impl Default for Shared {
    fn default() -> Self {
        let destination = Arc::<SpanDestination>::default();
        let tracers = SdkTracerProvider::builder()
            .with_sampler(RecordAll::new(Config::default().sampler))
            .with_id_generator(SpanIds::default())
            .with_resource(resource())
            .with_span_processor(DestinationProcessor(Arc::clone(&destination)))
            .build();
        Self {
            tracers,
            destination,
            meters: OnceLock::new(),
            is_on: AtomicBool::new(false),
        }
    }
}

impl TelemetryExport {
    /// Returns the export, which has begun if the environment names a collector.
    ///
    /// # Errors
    ///
    /// Returns the reason why the collector cannot be used.
    pub fn from_environment() -> Result<Self, String> {
        let shared = Arc::<Shared>::default();
        shared.start(None)?;
        Ok(Self {
            shared: Some(shared),
        })
    }

    /// Applies what a team says. A collector that it names counts if none is used yet.
    ///
    /// # Errors
    ///
    /// Returns the reason why the collector cannot be used.
    pub fn apply(&self, settings: &TelemetrySettings) -> Result<(), String> {
        let Some(shared) = &self.shared else {
            return Ok(());
        };
        if settings.compat {
            shared.destination.compat.store(true, Ordering::Relaxed);
        }
        match &settings.endpoint {
            Some(endpoint) => shared.start(Some(endpoint)),
            None => Ok(()),
        }
    }

    /// Returns the layer that passes spans to the exporter.
    pub fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let shared = Arc::clone(self.shared.as_ref()?);
        let tracer = shared.tracers.tracer_with_scope(scope());
        let layer: OpenTelemetryLayer<S, _> = tracing_opentelemetry::layer().with_tracer(tracer);
        let layer = layer
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false);
        let filter = filter_fn(move |metadata| {
            shared.is_on.load(Ordering::Relaxed) && concerns_runs(metadata)
        });
        Some(layer.with_filter(filter.with_max_level_hint(LevelFilter::INFO)))
    }

    /// Exports what is left. Spans that are still open are not exported.
    pub fn finish(&self) {
        if let Some(shared) = &self.shared {
            shared.finish();
        }
    }
}

impl Shared {
    /// Exports what is left, as far as that is possible in time.
    fn finish(&self) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let deadline = stopwatch() + SHUTDOWN_TIMEOUT;
        let (done, ends) = mpsc::channel();
        let mut shutdowns = 0;
        let tracers = self.tracers.clone();
        let spans_done = done.clone();
        shutdowns += i32::from(spawn_shutdown(move || {
            // What cannot be exported was reported by the client.
            let _ = tracers.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
            let _ = spans_done.send(());
        }));
        if let Some(meters) = self.meters.get().cloned() {
            shutdowns += i32::from(spawn_shutdown(move || {
                let _ = meters.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
                let _ = done.send(());
            }));
        }
        for _ in 0..shutdowns {
            let left = deadline.saturating_duration_since(stopwatch());
            if ends.recv_timeout(left).is_err() {
                tracing::debug!("the last telemetry was not exported");
                return;
            }
        }
    }

    /// Begins to export, unless that has begun or is switched off. `endpoint` is the base address of the
    /// collector if the environment names none.
    fn start(&self, endpoint: Option<&str>) -> Result<(), String> {
        if self.is_on.load(Ordering::Relaxed) || is_disabled() {
            return Ok(());
        }
        let warnings = Arc::<AtomicBool>::default();
        let spans = collector(Signal::Traces, endpoint, &warnings)?;
        let metrics = collector(Signal::Metrics, endpoint, &warnings)?;
        if spans.is_none() && metrics.is_none() {
            return Ok(());
        }
        let mut sinks = SpanSinks::default();
        if let Some(Collector { address, client }) = spans {
            sinks.exporter = Some(span_exporter(&address, client)?);
        }
        if let Some(Collector { address, client }) = metrics {
            let meters = meters(&address, client)?;
            sinks.metrics = Some(SpanMetrics::new(&meters.meter_with_scope(scope())));
            // Two threads could begin at the same time. What the second one has made is dropped.
            let _ = self.meters.set(meters);
        }
        let _ = self.destination.sinks.set(sinks);
        self.is_on.store(true, Ordering::Relaxed);
        // Until now, nobody was interested in spans.
        tracing::callsite::rebuild_interest_cache();
        Ok(())
    }
}

/// Starts a thread that ends an exporter. Returns whether it runs.
fn spawn_shutdown(shutdown: impl FnOnce() + Send + 'static) -> bool {
    let builder = thread::Builder::new().name("telemetry end".into());
    builder.spawn(shutdown).is_ok()
}

/// A collector of a signal.
struct Collector {
    /// The address that a team names, for this signal; `None` if the environment names one.
    address: Option<String>,
    client: CollectorClient,
}

/// Returns the collector of a signal; `None` if there is none, or if the signal is switched off.
fn collector(
    signal: Signal,
    endpoint: Option<&str>,
    warnings: &Arc<AtomicBool>,
) -> Result<Option<Collector>, String> {
    if env_value(signal.exporter_variable()).is_some_and(|exporter| exporter == "none") {
        return Ok(None);
    }
    let named = env_value(signal.endpoint_variable()).or_else(|| env_value(ENDPOINT));
    let address = match (&named, endpoint) {
        (Some(_), _) => None,
        (None, Some(base)) => Some(format!("{}{}", base.trim_end_matches('/'), signal.path())),
        (None, None) => return Ok(None),
    };
    let display_address = without_secrets(address.as_ref().or(named.as_ref()).map_or("", |it| it));
    let refused = |why: String| format!("cannot export telemetry to `{display_address}`: {why}");
    for variable in [signal.protocol_variable(), PROTOCOL] {
        match env_value(variable).as_deref() {
            Some("grpc") => {
                return Err(refused(format!(
                    "`{variable}` asks for gRPC, and only HTTP with protobuf is spoken, usually at port 4318"
                )));
            }
            Some(_) => break,
            None => {}
        }
    }
    let client =
        CollectorClient::new(signal, &display_address, Arc::clone(warnings)).map_err(refused)?;
    Ok(Some(Collector { address, client }))
}

/// Returns the builder of an exporter that sends to a collector.
fn sending_to<B: WithExportConfig + WithHttpConfig>(
    address: &Option<String>,
    client: CollectorClient,
    builder: B,
) -> B {
    let builder = builder
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(client);
    match address {
        Some(address) => builder.with_endpoint(address),
        None => builder,
    }
}

fn span_exporter(
    address: &Option<String>,
    client: CollectorClient,
) -> Result<BatchSpanProcessor, String> {
    let exporter = sending_to(address, client, SpanExporter::builder().with_http())
        .build()
        .map_err(|error| format!("cannot export traces: {error}"))?;
    let mut processor = BatchSpanProcessor::builder(exporter).build();
    processor.set_resource(&resource());
    Ok(processor)
}

fn meters(address: &Option<String>, client: CollectorClient) -> Result<SdkMeterProvider, String> {
    let exporter = sending_to(address, client, MetricExporter::builder().with_http())
        .build()
        .map_err(|error| format!("cannot export metrics: {error}"))?;
    let provider = SdkMeterProvider::builder()
        .with_reader(PeriodicReader::builder(exporter).build())
        .with_resource(resource());
    Ok(provider.build())
}

/// Returns whether the operator switched all telemetry off.
fn is_disabled() -> bool {
    env_value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns what says where spans and metrics come from, and which names they have.
fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE)
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(names::SCHEMA_URL)
        .build()
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
        resource.with_service_name(SCOPE)
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
        || (metadata.is_event() && metadata.target().starts_with("strata_"));
    ours && *metadata.level() <= Level::INFO
}
