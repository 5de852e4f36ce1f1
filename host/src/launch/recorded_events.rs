//! The events that lead to a saved state, from the earliest that is still saved.

use strata_core::machine::stepper::IllegalEvent;
use strata_core::record::id::CheckpointId;
use strata_driver::DriverError;
use strata_storage::{
    CheckpointRow, EarliestState, Reader, Record, StateSelector, StorageLocation, StoreError,
};

use super::LaunchError;
use super::saved::list_checkpoints;

/// The events that lead to a saved state.
pub(super) struct RecordedEvents {
    reader: Box<dyn Reader>,
    /// The checkpoint with which they end; `None` if they end with the newest event.
    last: Option<CheckpointId>,
}

impl RecordedEvents {
    /// Returns those that lead to the state `at` of a saved run; `None` if no events are saved, as with a `team.json` alone.
    pub(super) fn of_run(
        location: &StorageLocation,
        at: &StateSelector,
    ) -> Result<Option<Self>, LaunchError> {
        let reader = match location.read() {
            Ok(reader) => reader,
            Err(StoreError::NoRecords { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let rows = match at {
            StateSelector::Checkpoint(_) => list_checkpoints(location)?.0,
            StateSelector::Head | StateSelector::Lineage(_) => Vec::new(),
        };
        Ok(Some(Self::select(reader, at, &rows)?))
    }

    /// Selects the events that lead to the state `at`. `rows` are all checkpoints; only a selected
    /// checkpoint is looked for in them.
    pub(super) fn select(
        mut reader: Box<dyn Reader>,
        at: &StateSelector,
        rows: &[CheckpointRow],
    ) -> Result<Self, StoreError> {
        // Without a switch, the current lineage is read.
        let mut last = None;
        match at {
            StateSelector::Head => {}
            StateSelector::Lineage(name) => reader.switch_lineage(name)?,
            StateSelector::Checkpoint(id) => {
                if let Some(row) = rows.iter().find(|row| row.id == *id) {
                    reader.switch_lineage(&row.lineage)?;
                }
                last = Some(id.clone());
            }
        }
        Ok(Self { reader, last })
    }

    /// Returns the state before the first of them.
    pub(super) fn earliest_state(&self) -> Result<EarliestState, StoreError> {
        self.reader.earliest_state()
    }

    /// Returns the bytes that are saved under a digest, if there are any.
    #[cfg(feature = "report")]
    pub(super) fn blob(
        &self,
        digest: &strata_core::record::id::Digest,
    ) -> Result<Option<std::sync::Arc<[u8]>>, StoreError> {
        self.reader.blob(digest)
    }

    /// Passes all of them after `position` to `process`, oldest first. It returns the newest
    /// checkpoint of the state after the event; `newest` is that before the first one.
    pub(super) fn replay(
        &self,
        position: u64,
        mut newest: Option<CheckpointId>,
        mut process: impl FnMut(&Record) -> Result<Option<CheckpointId>, IllegalEvent>,
    ) -> Result<(), LaunchError> {
        for record in self.reader.records_after(position) {
            if self.last.is_some() && newest == self.last {
                break;
            }
            newest = process(&record?).map_err(DriverError::from)?;
        }
        Ok(())
    }
}
