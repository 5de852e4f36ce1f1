//! `/metrics` on TCP, for the collector of Prometheus, and `/health` and `/ready` for whoever starts processes.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use futures_util::future::BoxFuture;

use super::response::respond;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
/// The format of Prometheus that the metrics have.
const METRICS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is served about a process.
#[derive(Clone)]
pub struct Monitoring {
    /// Returns the metrics as they are now.
    pub metrics: Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>,
    /// Fails with the reason while the process takes no work.
    pub readiness: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

/// Returns what is served, by path.
pub(super) fn routes(monitoring: Monitoring) -> Router {
    Router::new()
        .route("/metrics", get(get_metrics).fallback(reject))
        .route("/health", get(get_health).fallback(reject))
        .route("/ready", get(get_readiness).fallback(reject))
        .fallback(reject)
        .with_state(monitoring)
}

async fn get_metrics(State(monitoring): State<Monitoring>) -> Response {
    respond(StatusCode::OK, METRICS_TEXT, (monitoring.metrics)().await)
}

/// Answers that the process is there. A database that is away does not change that: a restart would not help.
async fn get_health() -> Response {
    respond(StatusCode::OK, PLAIN_TEXT, "ok\n".into())
}

async fn get_readiness(State(monitoring): State<Monitoring>) -> Response {
    match (monitoring.readiness)() {
        Ok(()) => respond(StatusCode::OK, PLAIN_TEXT, "ready\n".into()),
        Err(why) => respond(
            StatusCode::SERVICE_UNAVAILABLE,
            PLAIN_TEXT,
            format!("not ready: {why}\n"),
        ),
    }
}

/// Answers what no route serves.
async fn reject(method: Method) -> Response {
    let (status, text) = match method {
        Method::GET | Method::HEAD => (
            StatusCode::NOT_FOUND,
            "metrics are at /metrics, and /health and /ready say how the process is\n",
        ),
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            "metrics are read with GET\n",
        ),
    };
    respond(status, PLAIN_TEXT, text.to_owned())
}
