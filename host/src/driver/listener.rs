//! Who is told what happens, after it is durable.

use crate::narrator::{Line, Narrator};
use crate::store::Record;

/// Receives public lines, after what they tell is durable.
pub enum OnLine {
    /// Every line.
    Each(Box<dyn FnMut(&Line) + Send>),
    /// The number of the newest line only: for who reads lines from the records, where the rest is.
    Newest(Box<dyn FnMut(u64) + Send>),
}

impl OnLine {
    /// Nobody is told.
    pub(super) fn nobody() -> Self {
        Self::Newest(Box::new(|_| ()))
    }

    /// Tells what was recorded.
    pub(super) fn tell(&mut self, records: &[Record], narrator: &mut Narrator) {
        match self {
            Self::Each(on_line) => {
                for record in records {
                    let lines = narrator.tell(&record.event, record.line, record.time_ms);
                    debug_assert_eq!(
                        lines.len(),
                        record.lines as usize,
                        "{:?} is counted wrong",
                        record.event
                    );
                    lines.iter().for_each(&mut *on_line);
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
