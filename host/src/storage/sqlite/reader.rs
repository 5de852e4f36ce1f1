//! Reads `team.db`, with or without holding its lock. Nothing here writes.
//!
//! Opening without the lock, concurrently with a writer, is in `consistent_read`; lineages are read in
//! `lineage`, saved states in `state`, and single rows in `rows`.

mod bundle_page;
mod consistent_read;
mod records;
mod rows;
mod state;

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::{CachedStatement, Connection};

use strata_core::record::event::{Event, Forked};
use strata_core::record::id::CheckpointId;
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;

use crate::storage::checkpoint_list::{
    LineageHistory, ListedCheckpoint, list_checkpoints, unknown_checkpoint,
};
use crate::storage::codec::DecodeError;
use crate::storage::error::StoreError;
use crate::storage::lineage::{EventPath, StoredLineage};
use crate::storage::{
    CheckpointRow, FIRST_LINE, LineageRow, LoadedState, Record, SavedDefinition, StateSelector,
    checkpoint_of, next_line, schema,
};

use consistent_read::ReadMode;
pub(crate) use records::{RECORDS_PER_BATCH, read_in_batches};
pub(in crate::storage) use rows::{definition_checksum_input, line_number};
pub(in crate::storage) use state::SnapshotInfo;

/// The size of SQLite's page cache, in KiB. It can be small: appending needs the end of the tables
/// and the pages that lead there, and reading goes through the file once.
const CACHE_KIB: i64 = 512;

/// Databases up to this size are checked page by page when they are opened, which takes a few
/// milliseconds at most.
const MAX_CHECKED_BYTES: u64 = 4 << 20;

/// A `team.db` that is open for reading.
#[derive(Debug)]
pub struct Reader {
    pub(in crate::storage) conn: Connection,
    pub(in crate::storage) path: PathBuf,
    /// The key of the run that is read.
    pub(in crate::storage) run: i64,
    /// The lineage that is read instead of the current one.
    pub(in crate::storage) selected: Option<i64>,
    sight: ReadMode,
}

/// The earliest state from which the later ones can be followed without a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct EarliestState {
    /// The state.
    pub env: Environment,
    /// The position of the last event before it.
    pub position: u64,
    /// How many events were dropped before it.
    pub dropped: u64,
}

impl Reader {
    /// Configures a connection that reads a run, and checks the schema of its database. Nothing may
    /// have been read from it before.
    pub(in crate::storage) fn from_connection(
        mut conn: Connection,
        path: PathBuf,
        run: i64,
    ) -> Result<Self, StoreError> {
        schema::limit_schema_work(&mut conn).map_err(|e| StoreError::sqlite(&path, "open", e))?;
        let set = || {
            // The file may come from anyone: nothing in its schema may be executed, and cells are
            // checked when pages are read.
            conn.pragma_update(None, "trusted_schema", false)?;
            conn.pragma_update(None, "cell_size_check", true)?;
            conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
            conn.pragma_update(None, "temp_store", "memory")
        };
        set().map_err(|e| schema::schema_error(&path, e))?;
        schema::check_schema(&mut conn, &path)?;
        Ok(Self {
            conn,
            path,
            run,
            selected: None,
            sight: ReadMode::Commits,
        })
    }

    /// From now on, reads this lineage instead of the current one.
    pub fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        self.selected = Some(self.require_lineage(lineage)?.id);
        Ok(())
    }

    /// Loads a state.
    pub fn load(&self, at: &StateSelector) -> Result<LoadedState, StoreError> {
        self.read_consistently(|reader| reader.load_now(at))
    }

    /// Loads the states of these checkpoints, in the same order. The checkpoints are listed once
    /// for all of them.
    pub fn load_each(&self, ids: &[CheckpointId]) -> Result<Vec<LoadedState>, StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            let (listed, rows) = (reader.listed_checkpoints()?, reader.stored_lineages()?);
            ids.iter()
                .map(|id| reader.load_checkpoint(id, &listed, &rows))
                .collect()
        })
    }

    fn load_now(&self, at: &StateSelector) -> Result<LoadedState, StoreError> {
        let _same = self.begin_read()?;
        let line = match at {
            StateSelector::Head => self.selected_lineage()?,
            StateSelector::Lineage(name) => self.require_lineage(name)?,
            StateSelector::Checkpoint(id) => {
                return self.load_checkpoint(
                    id,
                    &self.listed_checkpoints()?,
                    &self.stored_lineages()?,
                );
            }
        };
        self.state_at(&self.path_to(&line, line.events)?, line.events)
    }

    fn load_checkpoint(
        &self,
        id: &CheckpointId,
        listed: &[ListedCheckpoint],
        rows: &[StoredLineage],
    ) -> Result<LoadedState, StoreError> {
        let found = listed
            .iter()
            .find(|listed| listed.row.id == *id)
            .ok_or_else(|| unknown_checkpoint(id, listed))?;
        let (line, end) = (&rows[found.lineage], found.position as i64);
        let saved = self.state_at(&self.path_to(line, end)?, end)?;
        let newest = saved
            .tail
            .iter()
            .rev()
            .find_map(|record| checkpoint_of(&record.event));
        match newest.or(saved.base.checkpoint.as_ref()) == Some(id) {
            true => Ok(saved),
            false => Err(self.corrupt(format!(
                "event {end} is not the one that made checkpoint `{id}`"
            ))),
        }
    }

    /// Loads the state at the end of a path.
    pub(in crate::storage) fn state_at(
        &self,
        path: &EventPath,
        end: i64,
    ) -> Result<LoadedState, StoreError> {
        let (start, base) = self.load_snapshot(path)?;
        let tail = self.records_between(path, start + 1, end)?;
        Ok(LoadedState {
            base,
            tail,
            next_line: self.next_line()?,
        })
    }

    /// Returns the number of the public line after the last one of the storage.
    pub(in crate::storage) fn next_line(&self) -> Result<u64, StoreError> {
        let current = self.stored_run()?;
        let line = self.lineage_by_id(current.lineage)?;
        let newest = match line.events {
            0 => FIRST_LINE,
            at => next_line(
                self.records_between(&self.path_to(&line, at)?, at, at)?
                    .last(),
            ),
        };
        Ok(newest.max(current.next_line as u64))
    }

    /// Returns all lineages, in the order in which they were created.
    pub fn lineages(&self) -> Result<Vec<LineageRow>, StoreError> {
        self.read_consistently(Self::lineages_now)
    }

    fn lineages_now(&self) -> Result<Vec<LineageRow>, StoreError> {
        let _same = self.begin_read()?;
        let current = self.stored_run()?.lineage;
        let row = |row: StoredLineage| LineageRow {
            current: row.id == current,
            name: row.name,
            events: row.events as u64,
        };
        Ok(self.stored_lineages()?.into_iter().map(row).collect())
    }

    /// Returns how many of the events that lead to the newest state of the lineage that is read
    /// were dropped, and how many there were in total.
    pub fn dropped(&self) -> Result<(u64, u64), StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            let line = reader.selected_lineage()?;
            let gaps = reader.gaps_on(&reader.path_to(&line, line.events)?)?;
            Ok((
                gaps.iter()
                    .map(|gap| (gap.last - gap.first + 1) as u64)
                    .sum(),
                line.events as u64,
            ))
        })
    }

    /// Returns the earliest state from which the lineage that is read can be followed to its newest
    /// state.
    pub fn earliest_state(&self) -> Result<EarliestState, StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            let line = reader.selected_lineage()?;
            let mut path = reader.path_to(&line, line.events)?;
            let gaps = reader.gaps_on(&path)?;
            let Some(last) = gaps.last().map(|gap| gap.last) else {
                return Ok(EarliestState {
                    env: reader.base()?,
                    position: 0,
                    dropped: 0,
                });
            };
            let at = reader.snapshot_after(&path, last)?;
            path.retain(|piece| piece.after < at);
            path.iter_mut()
                .for_each(|piece| piece.until = piece.until.min(at));
            let dropped: i64 = gaps.iter().map(|gap| gap.last - gap.first + 1).sum();
            let (_, env) = reader.load_snapshot(&path)?;
            Ok(EarliestState {
                env,
                position: at as u64,
                dropped: dropped as u64,
            })
        })
    }

    /// Returns what all lineages have spent together.
    pub fn spent(&self) -> Result<Usd, StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            Ok(reader
                .stored_lineages()?
                .iter()
                .fold(Usd::ZERO, |sum, row| sum + Usd(row.spent as u64)))
        })
    }

    /// Returns all checkpoints of all lineages, oldest first.
    pub fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        let listed = self.read_consistently(Self::listed_checkpoints)?;
        Ok(listed.into_iter().map(|listed| listed.row).collect())
    }

    pub(in crate::storage) fn listed_checkpoints(
        &self,
    ) -> Result<Vec<ListedCheckpoint>, StoreError> {
        let _same = self.begin_read()?;
        self.list_checkpoints_with(self.stored_lineages()?)
    }

    /// Lists the checkpoints as if the lineages were these.
    pub(in crate::storage) fn list_checkpoints_with(
        &self,
        rows: Vec<StoredLineage>,
    ) -> Result<Vec<ListedCheckpoint>, StoreError> {
        let numbers: BTreeMap<i64, usize> = rows.iter().map(|row| row.id).zip(0..).collect();
        let marks = |row: StoredLineage| {
            let gaps = self.gaps(row.id)?;
            let origin = row.origin.map(|(origin, at)| {
                let number = numbers.get(&origin).copied();
                let missing = || self.corrupt("a lineage is missing".into());
                Ok::<_, StoreError>((number.ok_or_else(missing)?, at as u64))
            });
            Ok(LineageHistory {
                name: row.name.clone(),
                origin: origin.transpose()?,
                forgotten_until: row.forgotten_until as u64,
                events: self.checkpoint_events(row.id)?,
                gaps: gaps
                    .into_iter()
                    .map(|gap| (gap.last as u64, gap.step as u64))
                    .collect(),
            })
        };
        let lineages: Vec<LineageHistory> = rows
            .into_iter()
            .map(marks)
            .collect::<Result<_, StoreError>>()?;
        Ok(list_checkpoints(&self.base()?, &lineages))
    }

    /// Returns the team file of the run.
    pub fn definition(&self) -> Result<SavedDefinition, StoreError> {
        self.read_consistently(Self::definition_now)
    }

    fn require_lineage(&self, name: &str) -> Result<StoredLineage, StoreError> {
        if let Some(found) = self.lineage_by_name(name)? {
            return Ok(found);
        }
        let known: Vec<String> = self
            .stored_lineages()?
            .into_iter()
            .map(|row| row.name)
            .collect();
        if known.iter().any(|known| known == name) {
            // Rows are found by name in an index.
            return Err(self.corrupt(format!("the index of the lineages lacks `{name}`")));
        }
        Err(StoreError::NoLineage {
            name: name.into(),
            known,
        })
    }

    /// Starts a read transaction, if there is none yet: until it is dropped, all reads see the same
    /// state, whatever another process commits.
    fn begin_read(&self) -> Result<Option<rusqlite::Transaction<'_>>, StoreError> {
        if !self.conn.is_autocommit() {
            return Ok(None);
        }
        self.conn
            .unchecked_transaction()
            .map(Some)
            .map_err(|e| self.error("read", e))
    }

    pub(in crate::storage) fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, StoreError> {
        self.conn
            .prepare_cached(sql)
            .map_err(|e| self.error("read", e))
    }

    pub(in crate::storage) fn error(
        &self,
        action: &'static str,
        source: rusqlite::Error,
    ) -> StoreError {
        StoreError::sqlite(&self.path, action, source)
    }

    pub(in crate::storage) fn decode_error(&self, what: &str, damage: DecodeError) -> StoreError {
        self.corrupt(format!("{what} cannot be read: {damage}"))
    }

    pub(in crate::storage) fn corrupt(&self, what: String) -> StoreError {
        StoreError::corrupt(&self.path, what)
    }
}

/// Returns the name of the lineage that a batch of events creates, and the checkpoint where it
/// branches off.
pub(in crate::storage) fn branch_of(records: &[Record]) -> Option<(&str, &CheckpointId)> {
    match &records.first()?.event {
        Event::Forked(Forked { lineage, from, .. }) => Some((lineage, from)),
        _ => None,
    }
}

/// Checks all pages of a small database. In a large one, pages are checked when they are used.
pub(in crate::storage) fn check_pages(reader: &Reader) -> Result<(), StoreError> {
    let size = std::fs::metadata(&reader.path)
        .map_err(|e| StoreError::io(&reader.path, "open", e))?
        .len();
    if size > MAX_CHECKED_BYTES {
        return Ok(());
    }
    let check = reader
        .conn
        .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match check.map_err(|e| reader.error("open", e))?.as_str() {
        "ok" => Ok(()),
        what => Err(StoreError::corrupt(&reader.path, what)),
    }
}
