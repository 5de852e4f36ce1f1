//! The listener that is notified of public lines after they are durable.

use crate::public_event::{EventLine, EventTranslator};
use crate::storage::Record;

/// Receives public lines after they are durable.
pub enum LineListener {
    /// Receives every line.
    Each(Box<dyn FnMut(&EventLine) + Send>),
    /// Receives only the number of the newest line, for callers that read the lines from the store.
    Newest(Box<dyn FnMut(u64) + Send>),
}

impl LineListener {
    /// Returns a listener that does nothing.
    pub(super) fn none() -> Self {
        Self::Newest(Box::new(|_| ()))
    }

    /// Notifies the listener of recorded events.
    pub(super) fn notify(&mut self, records: &[Record], translator: &mut EventTranslator) {
        match self {
            Self::Each(on_line) => {
                for record in records {
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
            }
            Self::Newest(on_newest) => {
                if let Some(last) = records.iter().rfind(|record| record.lines > 0) {
                    on_newest(last.line + u64::from(last.lines) - 1);
                }
            }
        }
    }
}
