//! What is said about calls to those who watch runs: the names of spans and their fields ([`names`]),
//! and what a call is told about the run that it belongs to.
//!
//! Spans are those of `tracing`; who exports them, and where to, is decided in the driver.

pub mod names;

use std::sync::Arc;

use tracing::Span;

/// The target of all spans of runs.
pub const SPANS: &str = "strata";

/// The maximum size of a message, of arguments or of a result in a span, in bytes. Collectors refuse larger
/// batches, and spans wait in memory until they are exported.
const MAX_CONTENT_BYTES: usize = 64 << 10;

/// Returns a text as it is part of a span: its beginning, if it is too large.
pub fn content_text(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_CONTENT_BYTES)]
}

/// What the spans of a call say about its run. Nothing of it is sent or recorded, except for the
/// context of the trace.
#[derive(Clone, Debug, Default)]
pub struct CallTrace {
    /// The id of the run; `None` if nobody watches.
    pub run: Option<Arc<str>>,
    /// Whether a part of the conversation was replaced that the call belongs to.
    pub is_compacted: bool,
    /// Whether spans contain messages, arguments and results.
    pub content: ContentCapture,
    /// The context of the trace, for a request that carries it to its server.
    pub traceparent: Option<String>,
    /// The span of the attempt, if all that it does is this call.
    pub attempt: Option<Span>,
}

/// What a team says about telemetry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// The base address of a collector; `None` if only the environment may name one.
    pub endpoint: Option<String>,
    /// Whether older names are exported in addition.
    pub compat: bool,
}

/// Whether messages, arguments and results are part of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentCapture {
    /// They are not.
    #[default]
    Omitted,
    /// They are.
    Captured,
}
