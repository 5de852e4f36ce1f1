//! Replaces the exporter if the program is built without the feature `telemetry`.

use strata_core::record::id::RunId;
use tracing::{Span, Subscriber};
use tracing_subscriber::layer::{Identity, Layer};

use super::TelemetrySettings;

/// An exporter that does nothing.
#[derive(Clone, Debug, Default)]
pub struct TelemetryExport;

impl TelemetryExport {
    /// Does nothing.
    pub fn from_environment() -> Result<Self, String> {
        Ok(Self)
    }

    /// Does nothing.
    pub fn apply(&self, _: &TelemetrySettings) -> Result<(), String> {
        Ok(())
    }

    /// Returns `None`, since nothing is exported.
    pub fn layer<S: Subscriber>(&self) -> Option<impl Layer<S> + use<S>> {
        None::<Identity>
    }

    /// Does nothing.
    pub fn finish(&self) {}
}

/// Creates the span of a run.
pub fn run_span(_: &RunId, make: impl FnOnce() -> Span) -> Span {
    make()
}

/// Creates the span of a request that is served.
pub fn served_span(_: Option<&str>, make: impl FnOnce() -> Span) -> Span {
    make()
}

/// Returns `None`, since nothing is exported.
pub fn traceparent(_: &Span) -> Option<String> {
    None
}
