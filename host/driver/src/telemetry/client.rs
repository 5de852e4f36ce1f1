//! The HTTP client that sends batches of spans to a collector. It has a runtime of its own on the
//! exporter's thread, so that it neither depends on a run's runtime nor outlives it.

use std::env;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Runtime;

use strata_services::client::builder;
use strata_services::endpoint::without_secrets;

/// The variables that set the timeout of an export in milliseconds; the first that is set counts.
const TIMEOUTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
];
/// The timeout if none is set.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of bytes read of a response. It contains at most what was rejected.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Sends batches.
pub(super) struct CollectorClient {
    http: reqwest::Client,
    runtime: Runtime,
    endpoint: String,
    /// Whether a failure was reported already.
    has_warned: AtomicBool,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl CollectorClient {
    pub(super) fn new(endpoint: &str) -> Result<Self, String> {
        let set = TIMEOUTS
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
            has_warned: AtomicBool::new(false),
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
            let endpoint = without_secrets(&self.endpoint.to_string());
            tracing::warn!("traces do not reach `{endpoint}`: {why}; the run is none the worse");
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
