//! How `dev` and `try` show what actions print and log, while they run: a line of the action's role, and
//! nothing else. Other commands have it in their log.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The target under which the library logs the lines.
pub(super) const TARGET: &str = "guest";

/// Writes `ROLE | LINE`.
pub(super) struct GuestLines;

impl<S, N> FormatEvent<S, N> for GuestLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = GuestLine::default();
        event.record(&mut line);
        writeln!(writer, "{} | {}", line.role, line.text)
    }
}

/// The fields of a line.
#[derive(Default)]
struct GuestLine {
    role: String,
    text: String,
}

impl Visit for GuestLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "role" {
            value.clone_into(&mut self.role);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        }
    }
}
