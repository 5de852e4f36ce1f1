//! The store in memory, for tests: what `sqlite` does, without a disk.

use std::collections::BTreeSet;

use strata_core::environment::Environment;
use strata_core::id::CheckpointId;

use super::error::StoreError;
use super::{
    At, CheckpointRow, Durability, Record, Saved, SavedDefinition, Store, checkpoint_of, list_checkpoints, marks,
    next_line,
};

/// Fewer events are never worth a snapshot.
const MIN_EVENTS: usize = 100;

/// A run that ends with the process.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    base: Environment,
    records: Vec<Record>,
    /// The newest snapshot, and how many events it sums up.
    snapshot: Option<(usize, Environment)>,
    forgotten: BTreeSet<CheckpointId>,
    definition: SavedDefinition,
    team_json: Option<String>,
}

impl MemoryStore {
    /// A store whose run starts from `base`.
    pub fn new(base: Environment, definition: SavedDefinition) -> Self {
        Self { base, records: Vec::new(), snapshot: None, forgotten: BTreeSet::new(), definition, team_json: None }
    }

    /// The `team.json` that was written last.
    pub fn team_json(&self) -> Option<&str> {
        self.team_json.as_deref()
    }

    fn is_forgotten(&self, record: &Record) -> bool {
        checkpoint_of(&record.event).is_some_and(|id| self.forgotten.contains(id))
    }

    fn find(&self, id: &str) -> Result<usize, StoreError> {
        if self.base.checkpoint.as_ref().is_some_and(|first| first.0 == id) {
            return Ok(0);
        }
        let made = |record: &Record| checkpoint_of(&record.event).is_some_and(|made| made.0 == id);
        let listed = |record: &Record| made(record) && !self.is_forgotten(record);
        let found = self.records.iter().position(listed).map(|i| i + 1);
        let last = || self.records.iter().rev().find_map(|record| checkpoint_of(&record.event));
        found.ok_or_else(|| StoreError::NoCheckpoint { id: id.into(), last: last().map(|id| id.0.clone()) })
    }
}

impl Store for MemoryStore {
    fn append(&mut self, records: &[Record], _: Durability) -> Result<(), StoreError> {
        self.records.extend_from_slice(records);
        Ok(())
    }

    fn snapshot_due(&self) -> bool {
        let at = self.snapshot.as_ref().map_or(0, |(at, _)| *at);
        self.records.len() - at > at.max(MIN_EVENTS)
    }

    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError> {
        self.snapshot = Some((self.records.len(), env.clone()));
        Ok(())
    }

    fn load(&self, at: &At) -> Result<Saved, StoreError> {
        let end = match at {
            At::Head => self.records.len(),
            At::Checkpoint(id) => self.find(&id.0)?,
        };
        let usable = self.snapshot.as_ref().filter(|(at, _)| *at <= end);
        let (start, base) = usable.map_or((0, &self.base), |(at, env)| (*at, env));
        let tail = self.records[start..end].to_vec();
        Ok(Saved { base: base.clone(), tail, next_line: next_line(self.records[..end].last()) })
    }

    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        let marking = self.records.iter().filter(|record| marks(&record.event) && !self.is_forgotten(record));
        let marking: Vec<_> = marking.cloned().collect();
        Ok(list_checkpoints(&self.base, &marking))
    }

    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError> {
        let rows = self.checkpoints()?;
        let newest = rows.len().saturating_sub(keep as usize);
        let superfluous = rows.get(1..newest).unwrap_or_default();
        self.forgotten.extend(superfluous.iter().map(|row| row.id.clone()));
        Ok(())
    }

    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        Ok(self.records.iter().skip(from).take(limit).cloned().collect())
    }

    fn definition(&self) -> Result<SavedDefinition, StoreError> {
        Ok(self.definition.clone())
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        self.definition = definition.clone();
        Ok(())
    }

    fn write_team_json(&mut self, text: &str) -> Result<(), StoreError> {
        self.team_json = Some(text.into());
        Ok(())
    }
}
