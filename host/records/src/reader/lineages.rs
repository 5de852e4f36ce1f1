//! Reads lineages: their rows, including the events that were appended since those were written, and
//! the path of events to a position in one.

use std::collections::VecDeque;

use strata_core::record::id::CheckpointId;

use super::checkpoint_search::CheckpointSearch;
use super::{RowReader, SnapshotInfo};
use crate::error::StoreError;
use crate::lineage::{
    EventPath, KeyRange, MAX_LINEAGES, PathSegment, StoredLineage, event_key, key_range,
    position_of_key,
};
use crate::rows::{RunRows, SnapshotSelection};
use crate::{Record, checkpoint_of};

impl<R: RunRows> RowReader<R> {
    /// Returns the lineage that this reader reads: the one it was switched to, otherwise the
    /// current one.
    pub fn selected_lineage(&self) -> Result<StoredLineage, StoreError> {
        let id = match self.selected {
            Some(id) => id,
            None => self.rows.run()?.lineage,
        };
        self.lineage_by_id(id)
    }

    /// Returns a lineage by its key.
    pub(crate) fn lineage_by_id(&self, id: i64) -> Result<StoredLineage, StoreError> {
        self.event_log().with_newest_events(self.rows.lineage(id)?)
    }

    /// Returns a lineage by its name.
    pub fn lineage_by_name(&self, name: &str) -> Result<Option<StoredLineage>, StoreError> {
        let row = self.rows.lineage_by_name(name)?;
        row.map(|row| self.event_log().with_newest_events(row))
            .transpose()
    }

    /// Returns all lineages of the run, in the order of their creation.
    pub fn stored_lineages(&self) -> Result<Vec<StoredLineage>, StoreError> {
        self.complete_lineages(self.rows.lineages()?)
    }

    /// Returns the lineages of a run including their newest events. Fails if one is missing.
    pub fn complete_lineages(
        &self,
        rows: Vec<StoredLineage>,
    ) -> Result<Vec<StoredLineage>, StoreError> {
        let mut numbered = rows.iter().zip(0..);
        if rows.is_empty() || numbered.any(|(row, number)| row.number != number) {
            return Err(self.rows.corrupt("a lineage is missing"));
        }
        rows.into_iter()
            .map(|row| self.event_log().with_newest_events(row))
            .collect()
    }

    /// Returns the path to a position in a lineage.
    pub(crate) fn path_to(
        &self,
        line: &StoredLineage,
        until: i64,
    ) -> Result<EventPath, StoreError> {
        let mut path = vec![PathSegment {
            lineage: line.id,
            after: line.start(),
            until,
        }];
        let mut line = line.clone();
        while let Some((origin, at)) = line.origin {
            // Each lineage has a higher key than the one it left, so the loop ends.
            let left = line.name;
            line = self.lineage_by_id(origin)?;
            if at > line.events {
                return Err(self
                    .rows
                    .corrupt(format!("lineage `{left}` leaves one after its end")));
            }
            path.push(PathSegment {
                lineage: origin,
                after: line.start(),
                until: at,
            });
        }
        path.reverse();
        Ok(path)
    }

    /// Returns the newest snapshot on the path to the end of a lineage.
    pub(crate) fn newest_snapshot(&self, line: &StoredLineage) -> Result<SnapshotInfo, StoreError> {
        self.states().newest(&self.path_to(line, line.events)?)
    }

    /// Returns all snapshots of the run.
    pub fn snapshots(&self) -> Result<Vec<SnapshotInfo>, StoreError> {
        let mut all = Vec::new();
        for line in self.stored_lineages()? {
            let range = key_range(line.id);
            all.append(&mut self.states().in_range(range, SnapshotSelection::All)?);
        }
        Ok(all)
    }

    /// Returns the size of a lineage's events after the newest snapshot on its path, in bytes.
    fn bytes_since_snapshot(&self, line: &StoredLineage) -> Result<i64, StoreError> {
        let path = self.path_to(line, line.events)?;
        let at = position_of_key(self.states().newest(&path)?.key);
        let mut weight = 0;
        for piece in path.iter().filter(|piece| piece.until > at) {
            let events = self.rows.measure_events(KeyRange {
                first: event_key(piece.lineage, piece.after.max(at) + 1),
                last: event_key(piece.lineage, piece.until),
            })?;
            weight += events.bytes;
        }
        Ok(weight)
    }

    /// Returns a new lineage that branches off at a checkpoint. It is not stored yet.
    pub(crate) fn new_branch(
        &self,
        name: &str,
        from: &CheckpointId,
    ) -> Result<StoredLineage, StoreError> {
        let refuse = |what: String| {
            Err(StoreError::Lineage {
                name: name.into(),
                what,
            })
        };
        if self.lineage_by_name(name)?.is_some() {
            return refuse("there is one with this name already".into());
        }
        let number = self.stored_lineages()?.len() as i64;
        let id = self.rows.next_lineage_id()?;
        if id >= MAX_LINEAGES {
            return refuse(format!(
                "there are {MAX_LINEAGES} lineages already, which is all a database holds"
            ));
        }
        let found = CheckpointSearch::new(self).find(from)?;
        let (origin, at) = (found.line.id, found.position);
        let row = StoredLineage {
            id,
            run: self.rows.run()?.id,
            number,
            events: at,
            origin: Some((origin, at)),
            ..StoredLineage::first(name)
        };
        Ok(StoredLineage {
            bytes_since_snapshot: self.bytes_since_snapshot(&row)?,
            ..row
        })
    }

    /// Returns the positions of a lineage's checkpoints that are not forgotten, oldest first.
    pub(crate) fn checkpoint_positions(
        &self,
        line: &StoredLineage,
    ) -> Result<VecDeque<i64>, StoreError> {
        let marking = self
            .event_log()
            .checkpoint_events_after(line.id, line.forgotten_until.max(line.start()))?;
        let positions = marking
            .iter()
            .filter(|(at, record)| makes_checkpoint(line, *at, record));
        Ok(positions.map(|(at, _)| *at).collect())
    }
}

/// Whether an event made a checkpoint of a lineage that can be forgotten. The first event of a
/// lineage does not count: it makes the first checkpoint, which is always kept.
pub(crate) fn makes_checkpoint(line: &StoredLineage, at: i64, record: &Record) -> bool {
    at > line.start() + 1 && checkpoint_of(&record.event).is_some()
}
