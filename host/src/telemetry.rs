//! Telemetry: which spans leave the process, and where to.
//!
//! The driver makes spans (`driver/spans`). With the feature `telemetry`, and where the operator names a collector, they
//! are exported over OTLP (`otlp`). Metrics are `metrics`' business.

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
