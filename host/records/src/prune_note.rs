//! What is remembered with a run of its last pruning: who did it, when, and what was removed. Pruning makes no event.

use serde::{Deserialize, Serialize};
use strata_base::clock::now_ms;

use super::reader::RecordedRun;
use super::{Durability, Lease, Pruned, StoreError};

/// The name of the note.
const NOTE: &str = "pruned";

/// The last pruning of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PruneNote {
    /// Who did it, if that is known.
    pub by: Option<String>,
    /// When, in milliseconds since 1970.
    #[serde(rename = "ms")]
    pub at_ms: i64,
    /// How many checkpoints of each lineage were kept.
    pub keep: u32,
    /// How many checkpoints were removed.
    pub checkpoints: u64,
    /// How many events were dropped.
    pub events: u64,
}

impl PruneNote {
    /// Notes that a run was pruned now, if something was removed.
    ///
    /// # Errors
    /// Fails if the note cannot be stored. The run was pruned nevertheless.
    pub fn store(
        lease: &mut dyn Lease,
        by: Option<String>,
        keep: u32,
        pruned: &Pruned,
    ) -> Result<(), StoreError> {
        if pruned.checkpoints == 0 && pruned.events == 0 {
            return Ok(());
        }
        let note = Self {
            by,
            at_ms: now_ms(),
            keep,
            checkpoints: pruned.checkpoints,
            events: pruned.events,
        };
        let text = serde_json::json!(note).to_string();
        lease.set_note(NOTE, &text, Durability::Process)
    }

    /// Returns the last pruning of a run, if there was one.
    ///
    /// # Errors
    /// Fails if the run cannot be read.
    pub fn read(run: &dyn RecordedRun) -> Result<Option<Self>, StoreError> {
        let note = run.note(NOTE)?;
        Ok(note.and_then(|note| serde_json::from_str(&note).ok()))
    }
}
