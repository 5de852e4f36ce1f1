//! What stands for the export where the program is built without it.

use strata_core::id::RunId;
use tracing::{Span, Subscriber};
use tracing_subscriber::layer::{Identity, Layer};

/// No export.
#[derive(Default)]
pub struct Exporting;

impl Exporting {
    /// There is none to begin.
    pub fn begin() -> Result<Self, String> {
        Ok(Self)
    }

    /// Nothing is handed to it.
    pub fn layer<S: Subscriber>(&self) -> Option<impl Layer<S> + use<S>> {
        None::<Identity>
    }

    /// Nothing is left to hand over.
    pub fn finish(self) {}
}

/// The span of a run.
pub(crate) fn of_run(_: &RunId, make: impl FnOnce() -> Span) -> Span {
    make()
}
