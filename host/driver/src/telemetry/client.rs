//! The HTTP client that sends batches of spans or metrics to a collector. It has a runtime of its own on
//! the exporter's thread, so that it neither depends on a run's runtime nor outlives it.

use std::env;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Runtime;

use strata_services::client::builder;

/// The variable that sets the timeout of an export of any signal, in milliseconds.
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
/// The timeout if none is set.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of bytes read of a response. It contains at most what was rejected.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

/// Sends batches.
pub(super) struct CollectorClient {
    http: reqwest::Client,
    runtime: Runtime,
    /// The address of the collector, for messages.
    endpoint: String,
    /// Whether a failure was reported already, for this signal or another one.
    has_warned: Arc<AtomicBool>,
}

impl Signal {
    /// Returns the variable that names its collector.
    pub(super) fn endpoint_variable(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            Self::Metrics => "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        }
    }

    /// Returns the variable that selects its protocol.
    pub(super) fn protocol_variable(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            Self::Metrics => "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
        }
    }

    /// Returns the variable that switches it off with `none`.
    pub(super) fn exporter_variable(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_TRACES_EXPORTER",
            Self::Metrics => "OTEL_METRICS_EXPORTER",
        }
    }

    /// Returns the path at a collector.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }

    fn timeout_variable(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            Self::Metrics => "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
        }
    }
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl CollectorClient {
    /// Creates a client. `endpoint` is the address for messages; `has_warned` is shared by all clients
    /// of an export, which report one failure.
    pub(super) fn new(
        signal: Signal,
        endpoint: &str,
        has_warned: Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let set = [signal.timeout_variable(), TIMEOUT]
            .iter()
            .find_map(|name| env::var(name).ok()?.trim().parse().ok());
        let timeout = set.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        let http = builder()
            .no_proxy()
            .timeout(timeout)
            .build()
            .map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(Self {
            http,
            runtime,
            endpoint: endpoint.to_owned(),
            has_warned,
        })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut answer = self.http.execute(request.try_into()?).await?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await? {
            body.extend(piece.iter().take(MAX_RESPONSE_BYTES - body.len()));
            if body.len() == MAX_RESPONSE_BYTES {
                break;
            }
        }
        if !status.is_success() {
            self.warn_once(&format!("it answers {status}"));
        }
        Ok(Response::builder().status(status).body(body.into())?)
    }

    /// Warns of the first failure only.
    fn warn_once(&self, why: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let endpoint = &self.endpoint;
            tracing::warn!(
                "telemetry does not reach `{endpoint}`: {why}; the run is none the worse"
            );
        }
    }
}

impl HttpClient for CollectorClient {
    // The signature that `async_trait` generates for the trait's function.
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        // This runs on the exporter's thread, which may block.
        let result = self.runtime.block_on(self.exchange(request));
        if let Err(error) = &result {
            let mut deepest: &dyn std::error::Error = error.as_ref();
            while let Some(source) = deepest.source() {
                deepest = source;
            }
            self.warn_once(&deepest.to_string());
        }
        Box::pin(async move { result })
    }
}
