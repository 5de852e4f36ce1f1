//! Finds a checkpoint by its id. The ids of a lineage contain ascending numbers, so a binary search
//! over its events finds one without reading all of them. Only if that does not find it, all
//! checkpoints are listed: then it may be an older one that was kept, or none.

use strata_core::record::id::CheckpointId;
use strata_core::record::lineage::parse_checkpoint_id;

use super::RowReader;
use super::events::EventLog;
use crate::checkpoint_list::{ListedCheckpoint, unknown_checkpoint};
use crate::checkpoint_of;
use crate::error::StoreError;
use crate::lineage::{KeyRange, StoredLineage, event_key};
use crate::rows::{EventSelection, RunRows};

/// A checkpoint that was found.
#[derive(Debug)]
pub(crate) struct FoundCheckpoint {
    /// Its lineage.
    pub line: StoredLineage,
    /// The position of the event that made it; 0 for the state at the beginning.
    pub position: i64,
}

/// Finds checkpoints of a run. The list of all of them is made once, if it is needed.
pub(crate) struct CheckpointSearch<'a, R> {
    reader: &'a RowReader<R>,
    list: Option<CheckpointList>,
}

/// All checkpoints, and the lineages that they belong to.
struct CheckpointList {
    checkpoints: Vec<ListedCheckpoint>,
    lineages: Vec<StoredLineage>,
}

impl<'a, R: RunRows> CheckpointSearch<'a, R> {
    /// Returns a search in the checkpoints of a run.
    pub fn new(reader: &'a RowReader<R>) -> Self {
        Self { reader, list: None }
    }

    /// Returns the checkpoint with this id. Fails if there is none, or if it is forgotten.
    pub fn find(&mut self, id: &CheckpointId) -> Result<FoundCheckpoint, StoreError> {
        if let Some(found) = self.find_by_number(id)? {
            return Ok(found);
        }
        let list = match self.list.take() {
            Some(list) => list,
            None => CheckpointList::read(self.reader)?,
        };
        let CheckpointList {
            checkpoints,
            lineages,
        } = self.list.insert(list);
        let found = checkpoints.iter().find(|listed| listed.row.id == *id);
        let found = found.ok_or_else(|| unknown_checkpoint(id, checkpoints))?;
        Ok(FoundCheckpoint {
            line: lineages[found.lineage].clone(),
            position: found.position as i64,
        })
    }

    /// Returns the checkpoint with this id, if its lineage made it after those that it may forget.
    fn find_by_number(&self, id: &CheckpointId) -> Result<Option<FoundCheckpoint>, StoreError> {
        let Some((lineage, number)) = parse_checkpoint_id(id) else {
            return Ok(None);
        };
        let Some(line) = self.reader.lineage_by_name(lineage)? else {
            return Ok(None);
        };
        let events = self.reader.event_log();
        let mut first = line.forgotten_until.max(line.start()) + 1;
        let mut last = line.events;
        while first <= last {
            let middle = first + (last - first) / 2;
            let Some((position, found)) = events.next_checkpoint(line.id, middle, last)? else {
                last = middle - 1;
                continue;
            };
            match parse_checkpoint_id(&found) {
                _ if found == *id => return Ok(Some(FoundCheckpoint { line, position })),
                Some((_, other)) if other < number => first = position + 1,
                _ => last = middle - 1,
            }
        }
        Ok(None)
    }
}

impl CheckpointList {
    fn read<R: RunRows>(reader: &RowReader<R>) -> Result<Self, StoreError> {
        let lineages = reader.stored_lineages()?;
        Ok(Self {
            checkpoints: reader.list_checkpoints_with(lineages.clone())?,
            lineages,
        })
    }
}

impl<R: RunRows> EventLog<'_, R> {
    /// Returns the first checkpoint that an event of a lineage itself made from position `first` to
    /// `last`, with the position of the event.
    fn next_checkpoint(
        &self,
        lineage: i64,
        first: i64,
        last: i64,
    ) -> Result<Option<(i64, CheckpointId)>, StoreError> {
        let mut from = first;
        while from <= last {
            let keys = KeyRange {
                first: event_key(lineage, from),
                last: event_key(lineage, last),
            };
            let mut next = None;
            self.visit_records(keys, EventSelection::NextCheckpoint, |at, record| {
                next = Some((at, checkpoint_of(&record.event).cloned()));
                Ok(())
            })?;
            match next {
                None => return Ok(None),
                Some((at, Some(id))) => return Ok(Some((at, id))),
                // The end of a run that made no checkpoint.
                Some((at, None)) => from = at + 1,
            }
        }
        Ok(None)
    }
}
