//! `/metrics` on TCP, for the collector of Prometheus.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;

use super::response::respond;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
/// The format of Prometheus that the metrics have.
const METRICS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the metrics as they are now.
type MetricsSource = Arc<dyn Fn() -> String + Send + Sync>;

/// Returns what is served, by path.
pub(super) fn routes(metrics: MetricsSource) -> Router {
    Router::new()
        .route("/metrics", get(get_metrics).fallback(reject))
        .fallback(reject)
        .with_state(metrics)
}

async fn get_metrics(State(metrics): State<MetricsSource>) -> Response {
    respond(StatusCode::OK, METRICS_TEXT, metrics())
}

/// Answers what no route serves.
async fn reject(method: Method) -> Response {
    let (status, text) = match method {
        Method::GET | Method::HEAD => (StatusCode::NOT_FOUND, "metrics are at /metrics\n"),
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            "metrics are read with GET\n",
        ),
    };
    respond(status, PLAIN_TEXT, text.to_owned())
}
