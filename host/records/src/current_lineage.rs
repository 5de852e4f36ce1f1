//! The lineage that a lease changes, and what the lease has to know about it: how far its row lags
//! behind, which snapshot is the newest, and which checkpoints it has. Each kind of database writes the
//! rows itself.

use std::collections::VecDeque;

use strata_core::record::id::CheckpointId;
use strata_core::state::environment::Environment;

use super::codec::MessageBundle;
use super::error::StoreError;
use super::lineage::StoredLineage;
use super::reader::{RowReader, SnapshotInfo, branch_of, makes_checkpoint};
use super::rows::RunRows;
use super::snapshot::{EncodedSnapshot, MAX_SNAPSHOT_BYTES, MIN_SNAPSHOT_BYTES};
use super::{Record, next_line};

/// The current lineage of a run.
#[derive(Debug)]
pub struct CurrentLineage {
    line: StoredLineage,
    /// The lineage as it is stored in its row.
    row: StoredLineage,
    /// The newest snapshot on its path.
    snapshot: SnapshotInfo,
    /// The positions of its checkpoints that are not forgotten, oldest first. They are determined
    /// when they are first needed.
    checkpoint_positions: Option<VecDeque<i64>>,
}

/// A lineage that begins with the events that are appended.
#[derive(Debug)]
pub(crate) struct NewBranch {
    /// The lineage, without events of its own.
    pub line: StoredLineage,
    /// Whether the run continues with it: it does if other events follow the first one.
    pub becomes_current: bool,
    /// The first public line after the events.
    pub next_line: u64,
}

/// A snapshot that is about to be saved.
pub(crate) struct NewSnapshot<'a> {
    /// The state, encoded.
    pub state: EncodedSnapshot<'a>,
    /// Its key.
    pub key: i64,
    /// The bundles that it can use.
    pub bundles: Vec<MessageBundle>,
    /// The row of the lineage, which is written together with it.
    pub row: StoredLineage,
}

impl CurrentLineage {
    /// Loads a lineage with this key.
    pub fn load<R: RunRows>(reader: &RowReader<R>, id: i64) -> Result<Self, StoreError> {
        let row = reader.rows.lineage(id)?;
        let line = reader.event_log().with_newest_events(row.clone())?;
        Ok(Self {
            snapshot: reader.newest_snapshot(&line)?,
            line,
            row,
            checkpoint_positions: None,
        })
    }

    /// Returns the lineage, with all events that were appended.
    pub fn line(&self) -> &StoredLineage {
        &self.line
    }

    /// Returns the row that has to be written because it lags behind, if it does.
    pub fn row_behind(&self) -> Option<StoredLineage> {
        (self.line != self.row).then(|| self.line.clone())
    }

    /// Whether the row has to be written once the lineage is `line`.
    pub(crate) fn is_row_due(&self, line: &StoredLineage) -> bool {
        line.is_far_ahead(&self.row)
    }

    /// Notes that the row was written.
    pub(crate) fn note_row_written(&mut self, row: &StoredLineage) {
        self.row = row.clone();
    }

    /// Notes that records were appended. `line` is the lineage with them.
    pub fn note_appended(&mut self, line: StoredLineage, records: &[Record]) {
        if let Some(positions) = &mut self.checkpoint_positions {
            for (at, record) in (self.line.events + 1..).zip(records) {
                if makes_checkpoint(&line, at, record) {
                    positions.push_back(at);
                }
            }
        }
        self.line = line;
    }

    /// Whether the events since the newest snapshot are larger than that snapshot.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        self.line.bytes_since_snapshot as u64 > self.snapshot.bytes.max(MIN_SNAPSHOT_BYTES)
    }

    /// Prepares a snapshot of the state after the newest event.
    pub(crate) fn new_snapshot<'a>(&self, env: &'a Environment) -> NewSnapshot<'a> {
        NewSnapshot {
            state: EncodedSnapshot::encode(env),
            key: self.line.last_key(),
            bundles: self.snapshot.bundles.clone(),
            row: StoredLineage {
                bytes_since_snapshot: 0,
                ..self.line.clone()
            },
        }
    }

    /// Notes that a snapshot was saved, with these bundles, or that it could not be. If it could not,
    /// it is not tried again at once: sizes are counted from here.
    pub(crate) fn note_snapshot(
        &mut self,
        new: &NewSnapshot<'_>,
        saved: Result<Option<Vec<MessageBundle>>, StoreError>,
    ) -> Result<(), StoreError> {
        self.line.bytes_since_snapshot = 0;
        self.row.bytes_since_snapshot = 0;
        self.snapshot.bytes = new.state.bytes() as u64;
        if let Some(bundles) = saved? {
            self.snapshot.bundles = bundles;
            self.snapshot.key = new.key;
            self.row = new.row.clone();
        }
        Ok(())
    }

    /// Returns the lineage as it is after forgetting all checkpoints but the newest `keep`; `None` if
    /// it has no more. `note_forgotten` follows once it is stored.
    pub fn forget_checkpoints<R: RunRows>(
        &mut self,
        reader: &RowReader<R>,
        keep: u32,
    ) -> Result<Option<StoredLineage>, StoreError> {
        let mut positions = match self.checkpoint_positions.take() {
            Some(positions) => positions,
            None => reader.checkpoint_positions(&self.line)?,
        };
        let over = positions.len().saturating_sub(keep as usize);
        let last = positions.drain(..over).next_back();
        self.checkpoint_positions = Some(positions);
        Ok(last.map(|last| StoredLineage {
            forgotten_until: last,
            ..self.line.clone()
        }))
    }

    /// Counts bytes of events that were not appended.
    #[cfg(any(test, feature = "test-support"))]
    pub fn add_bytes(&mut self, bytes: i64) {
        self.line.bytes_since_snapshot += bytes;
    }

    /// Returns the bundles of its newest snapshot.
    #[cfg(any(test, feature = "test-support"))]
    pub fn bundles(&self) -> &[MessageBundle] {
        &self.snapshot.bundles
    }

    /// Notes that the row of this lineage, which has forgotten checkpoints, was written.
    pub(crate) fn note_forgotten(&mut self, line: StoredLineage) {
        self.row = line.clone();
        self.line = line;
    }
}

impl NewBranch {
    /// Returns the lineage that begins with these records, if one does.
    pub(crate) fn beginning_with<R: RunRows>(
        records: &[Record],
        reader: &RowReader<R>,
    ) -> Result<Option<Self>, StoreError> {
        let Some((name, from)) = branch_of(records) else {
            return Ok(None);
        };
        Self::leaving(name, from, records, reader).map(Some)
    }

    /// Returns the lineage with this name that leaves another at a checkpoint and begins with these
    /// records.
    pub(crate) fn leaving<R: RunRows>(
        name: &str,
        from: &CheckpointId,
        records: &[Record],
        reader: &RowReader<R>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            line: reader.new_branch(name, from)?,
            becomes_current: records.len() > 1,
            next_line: next_line(records.last()),
        })
    }
}

impl NewSnapshot<'_> {
    /// Whether it is small enough to be saved.
    pub fn fits(&self) -> bool {
        self.state.bytes() <= MAX_SNAPSHOT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::MAX_EVENTS_BEHIND;
    use crate::scripted_records::{replay, scripted_run};
    use strata_base::scripted_run::pseudorandom;

    fn empty() -> CurrentLineage {
        let line = StoredLineage::first("main");
        CurrentLineage {
            row: line.clone(),
            line,
            snapshot: SnapshotInfo {
                key: 0,
                bytes: 0,
                bundles: Vec::new(),
            },
            checkpoint_positions: Some(VecDeque::new()),
        }
    }

    /// Returns the lineage with records of this size each.
    fn counted(current: &CurrentLineage, records: &[Record], bytes: usize) -> StoredLineage {
        let mut line = current.line().clone();
        for record in records {
            line.count_event(&record.event, bytes, 7);
        }
        line
    }

    #[test]
    fn the_row_is_behind_until_it_is_written_and_due_when_it_is_far_behind() {
        let (records, _) = scripted_run(&pseudorandom(9, 8_000), 100);
        let mut current = empty();
        assert_eq!(current.row_behind(), None);
        let few = counted(&current, &records[..3], 10);
        assert!(!current.is_row_due(&few));
        let many = counted(&current, &records[..MAX_EVENTS_BEHIND as usize], 10);
        assert!(current.is_row_due(&many));
        current.note_appended(few.clone(), &records[..3]);
        assert_eq!(current.row_behind(), Some(few.clone()));
        current.note_row_written(&few);
        assert_eq!(current.row_behind(), None);
    }

    #[test]
    fn checkpoints_that_were_appended_are_forgotten_in_their_order() {
        let (records, _) = scripted_run(&pseudorandom(9, 8_000), 100);
        let mut current = empty();
        for record in &records {
            let record = std::slice::from_ref(record);
            current.note_appended(counted(&current, record, 10), record);
        }
        let positions: Vec<i64> = current.checkpoint_positions.clone().unwrap().into();
        let line = current.line().clone();
        let expected: Vec<i64> = (1..)
            .zip(&records)
            .filter(|(at, record)| makes_checkpoint(&line, *at, record))
            .map(|(at, _)| at)
            .collect();
        assert!(expected.len() > 5, "{expected:?}");
        assert_eq!(positions, expected);
    }

    #[test]
    fn a_snapshot_that_could_not_be_saved_is_due_again_after_as_many_events() {
        let (records, _) = scripted_run(&pseudorandom(9, 8_000), 10);
        let mut current = empty();
        let large = MIN_SNAPSHOT_BYTES as usize;
        current.note_appended(counted(&current, &records[..2], large), &records[..2]);
        assert!(current.is_snapshot_due());
        let env = replay(&records[..2]);
        let new = current.new_snapshot(&env);
        let full = StoreError::Full {
            path: "database".into(),
            action: "write",
            inodes: false,
            needed: 0,
        };
        assert!(current.note_snapshot(&new, Err(full)).is_err());
        assert!(!current.is_snapshot_due());
        assert_eq!(current.snapshot.key, 0);
        current.note_appended(counted(&current, &records[2..4], large), &records[2..4]);
        assert!(current.is_snapshot_due());
        let new = current.new_snapshot(&env);
        current.note_snapshot(&new, Ok(Some(Vec::new()))).unwrap();
        assert_eq!(
            (current.snapshot.key, current.row_behind()),
            (current.line.last_key(), None)
        );
    }
}
