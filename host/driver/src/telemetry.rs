//! Telemetry: which spans are exported, and where to.
//!
//! The driver creates spans (`driver/spans`). With the feature `telemetry`, and if the operator
//! names a collector, they are exported over OTLP (`otlp`). Metrics are in `metrics`.

#[cfg(feature = "telemetry")]
mod client;
#[cfg(not(feature = "telemetry"))]
mod disabled;
#[cfg(feature = "telemetry")]
mod otlp;

#[cfg(not(feature = "telemetry"))]
use disabled as otlp;

pub use otlp::SpanExport;
pub use otlp::run_span;

/// The target of all spans of runs.
pub const SPANS: &str = "strata";
