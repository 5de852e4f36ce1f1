//! Telemetry: which spans and metrics are exported, and where to.
//!
//! The driver and the services create spans (`driver/spans`). With the feature `telemetry`, and if a
//! collector is named, they are exported over OTLP (`export`), and so are metrics that are made of them
//! (`span_metrics`). The metrics for Prometheus are in `metrics`.

#[cfg(feature = "telemetry")]
mod client;
#[cfg(not(feature = "telemetry"))]
mod disabled;
#[cfg(feature = "telemetry")]
mod export;
#[cfg(feature = "telemetry")]
mod span_metrics;
#[cfg(feature = "telemetry")]
mod span_processor;
#[cfg(feature = "telemetry")]
mod trace_context;

use std::env;

use strata_services::telemetry::ContentCapture;

pub use strata_services::telemetry::{SPANS, TelemetrySettings, names};

#[cfg(not(feature = "telemetry"))]
use disabled as export;
#[cfg(not(feature = "telemetry"))]
use disabled as trace_context;

pub use export::TelemetryExport;
pub use trace_context::{run_span, served_span, traceparent};

/// Returns whether spans contain messages, arguments and results. That is what the operator demands
/// by a variable.
pub(crate) fn content_capture() -> ContentCapture {
    let demanded = env_value(names::CAPTURE_CONTENT);
    if demanded.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        ContentCapture::Captured
    } else {
        ContentCapture::Omitted
    }
}

/// Returns the value of an environment variable that is set and not blank.
fn env_value(name: &str) -> Option<String> {
    let value = env::var(name).ok()?.trim().to_owned();
    (!value.is_empty()).then_some(value)
}
