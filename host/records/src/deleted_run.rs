//! What is remembered of a run that somebody deleted: who, and when. In a database, it is a note about no run, which is
//! removed after a while.

use std::fmt;

use serde::{Deserialize, Serialize};
use strata_base::clock::{now_ms, rfc3339};

/// What the names of such notes begin with, before the name of the run.
const NOTE_PREFIX: &str = "deleted/";
/// For how long they are kept, in milliseconds: 90 days.
const KEPT_MS: i64 = 90 * 24 * 3600 * 1000;

/// Who deleted a run, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedRun {
    /// Who did it.
    pub by: String,
    /// When, in milliseconds since 1970.
    #[serde(rename = "ms")]
    pub at_ms: i64,
}

impl fmt::Display for DeletedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} deleted it at {}", self.by, rfc3339(self.at_ms))
    }
}

impl DeletedRun {
    /// Returns the deletion of a run now.
    pub fn now(by: &str) -> Self {
        Self {
            by: by.into(),
            at_ms: now_ms(),
        }
    }

    /// Returns the name of the note about a run.
    pub fn note_name(run: &str) -> String {
        format!("{NOTE_PREFIX}{run}")
    }

    /// Returns the pattern, in SQL, of the names of such notes.
    pub fn note_pattern() -> String {
        format!("{NOTE_PREFIX}%")
    }

    /// Returns the text of the note.
    pub fn to_note(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Reads the text of a note.
    pub fn from_note(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether the deletion of the run with this key is one of those at which old notes are removed. Looking at all notes
    /// whenever one of many runs is deleted would take too long.
    pub fn is_time_to_forget(run: i64) -> bool {
        run % 100 == 0
    }

    /// Returns the time of the oldest that are kept.
    pub fn oldest_kept_ms() -> i64 {
        now_ms().saturating_sub(KEPT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_who_deleted_a_run_and_when() {
        let deleted = DeletedRun {
            by: "Anna".into(),
            at_ms: 0,
        };
        assert_eq!(
            DeletedRun::from_note(&deleted.to_note()),
            Some(deleted.clone())
        );
        assert_eq!(
            deleted.to_string(),
            "Anna deleted it at 1970-01-01T00:00:00.000Z"
        );
        assert_eq!(DeletedRun::from_note("{"), None);
    }
}
