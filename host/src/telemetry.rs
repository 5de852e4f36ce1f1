//! Telemetry: which spans are exported, and where to.
//!
//! The driver creates spans (`driver/spans`). With the feature `telemetry`, and if the operator
//! names a collector, they are exported over OTLP (`otlp`). Metrics are in `metrics`.

#[cfg(feature = "telemetry")]
mod client;
#[cfg(not(feature = "telemetry"))]
mod nowhere;
#[cfg(feature = "telemetry")]
mod otlp;

#[cfg(not(feature = "telemetry"))]
use nowhere as otlp;

pub use otlp::Exporting;
pub(crate) use otlp::of_run;

/// The target of all spans of runs.
pub const SPANS: &str = "strata";
