//! The listener that is notified of public lines after they are durable.

use strata_core::record::event::Event;
use strata_storage::Record;

use crate::public_event::{EventLine, EventTranslator};

/// Receives public lines after they are durable.
pub enum LineListener {
    /// Receives every line.
    Each(Box<dyn FnMut(&EventLine) + Send>),
    /// Receives the lines of the recorded events that `select` accepts. No other lines are built.
    Selected {
        /// Returns whether the lines of an event are wanted.
        select: fn(&Event) -> bool,
        /// Receives the lines.
        on_line: Box<dyn FnMut(&EventLine) + Send>,
    },
    /// Receives only the number of the newest line, for callers that read the lines from the store.
    Newest(Box<dyn FnMut(u64) + Send>),
}

impl LineListener {
    /// Returns a listener that does nothing.
    pub fn none() -> Self {
        Self::Newest(Box::new(|_| ()))
    }

    /// Notifies the listener of recorded events.
    pub(super) fn notify(&mut self, records: &[Record], translator: &mut EventTranslator) {
        match self {
            Self::Each(on_line) => {
                for record in records {
                    pass_on(record, translator, on_line);
                }
            }
            Self::Selected { select, on_line } => {
                for record in records {
                    if select(&record.event) {
                        pass_on(record, translator, on_line)
                    } else {
                        translator.skip(&record.event)
                    }
                }
            }
            Self::Newest(on_newest) => {
                if let Some(last) = records.iter().rfind(|record| record.lines > 0) {
                    on_newest(last.line + u64::from(last.lines) - 1);
                }
            }
        }
    }
}

/// Builds the lines of a record and passes them on.
fn pass_on(
    record: &Record,
    translator: &mut EventTranslator,
    on_line: &mut (dyn FnMut(&EventLine) + Send),
) {
    let lines = translator.translate(&record.event, record.line, record.time_ms);
    debug_assert_eq!(
        lines.len(),
        record.lines as usize,
        "{:?} is counted wrong",
        record.event
    );
    for line in &lines {
        on_line(line);
    }
}
