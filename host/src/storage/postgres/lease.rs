//! A lease of a run in PostgreSQL. Each change is refused if there is a newer lease.

use std::cell::Cell;
use std::sync::Arc;

use strata_core::record::id::Digest;
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;
use tokio_postgres::types::Type;

use super::administer::require_open;
use super::append::{
    AppendRight, EncodedEvents, KnownEvent, change_repeatably, refusal, synchronous_commit,
};
use super::connection::{Connection, StatementError};
use super::owner::Ownership;
use super::rows::{PostgresReader, PostgresRows};
use super::writer::{AppendRequest, Writers};
use super::{work, write};
use crate::blob::Blobs;
use crate::storage::codec::MessageBundle;
use crate::storage::current_lineage::{CurrentLineage, NewBranch};
#[cfg(test)]
use crate::storage::database_url::DatabaseUrl;
use crate::storage::error::StoreError;
use crate::storage::lineage::{StoredLineage, StoredRun, event_key, key_range};
use crate::storage::prune_plan::PrunePlanner;
use crate::storage::reader::Reader;
use crate::storage::rows::{KeyRange, RunRows};
use crate::storage::snapshot::{EncodedSnapshot, MAX_SNAPSHOT_BYTES};
use crate::storage::work::{NewSubmission, RunSchedule};
use crate::storage::{
    Appending, BuildState, CheckpointRow, Durability, Epoch, Lease, LeaseStatus, LineageRow,
    LoadedState, Pruned, Record, SavedDefinition, StateSelector,
};

/// A lease of a run in a database. Dropping it gives the run up.
#[derive(Debug)]
pub(in crate::storage) struct PostgresLease {
    reader: PostgresReader,
    owner: Ownership,
    writers: Arc<Writers>,
    /// The range in which the keys of the run's bundles are.
    bundle_keys: KeyRange,
    current: CurrentLineage,
    /// About how many bytes of events and snapshots the run has. They are counted when that is first
    /// needed.
    stored_bytes: Option<u64>,
    /// Whether events could not be appended. What this lease knows of the run may then be wrong, so it
    /// writes nothing more.
    has_failed: bool,
}

impl PostgresLease {
    /// Returns a lease of the run that its owner took.
    pub(super) fn new(
        connection: Connection,
        run: i64,
        owner: Ownership,
    ) -> Result<Self, StoreError> {
        let reader = PostgresReader::from_rows(PostgresRows { connection, run });
        let same = reader.begin_read()?;
        let current = CurrentLineage::load(&reader, reader.rows.run()?.lineage)?;
        let bundle_keys = key_range(reader.rows.first_lineage()?);
        drop(same);
        Ok(Self {
            writers: Writers::of_database(reader.rows.connection.url())?,
            reader,
            owner,
            bundle_keys,
            current,
            stored_bytes: None,
            has_failed: false,
        })
    }

    fn connection(&self) -> &Connection {
        &self.reader.rows.connection
    }

    /// Returns the right under which the current lineage is changed.
    fn right(&self) -> AppendRight {
        let line = self.current.line();
        let before = (line.events > line.start()).then(|| KnownEvent {
            key: event_key(line.id, line.events),
            sum: line.last_checksum,
        });
        AppendRight {
            run: self.reader.rows.run,
            epoch: self.owner.epoch,
            before,
        }
    }

    /// Runs `work` in a transaction, unless there is a newer lease. It may be run again if the
    /// connection breaks.
    fn change(
        &self,
        durability: Durability,
        work: impl Fn(&Connection) -> Result<(), StatementError>,
    ) -> Result<(), StoreError> {
        let right = self.right();
        change_repeatably(self.connection(), &right, |connection| {
            transact(connection, &right, durability, &work)
        })
    }

    /// The same, together with writing the row of the current lineage.
    fn change_with_row(
        &mut self,
        line: &StoredLineage,
        work: impl Fn(&Connection) -> Result<(), StatementError>,
    ) -> Result<(), StoreError> {
        let run = self.reader.rows.run;
        self.change(Durability::Process, |connection| {
            work(connection)?;
            write::update_lineage(connection, run, line)
        })?;
        self.current.note_row_written(line);
        Ok(())
    }

    /// Writes the row of the current lineage if it lags behind.
    fn write_row_if_behind(&mut self) -> Result<(), StoreError> {
        match self.current.row_behind() {
            Some(line) => self.change_with_row(&line, |_| Ok(())),
            None => Ok(()),
        }
    }

    /// Makes a lineage the current one.
    fn continue_with(&mut self, lineage: i64) -> Result<(), StoreError> {
        self.current = CurrentLineage::load(&self.reader, lineage)?;
        Ok(())
    }

    /// Begins to append events to the current lineage.
    fn append_to_current<'a>(
        &'a mut self,
        records: &'a [Record],
        durability: Durability,
    ) -> Appending<'a> {
        let mut line = self.current.line().clone();
        let events = EncodedEvents::following(&mut line, records);
        let bytes = events.bytes();
        let row = self.current.is_row_due(&line).then(|| line.clone());
        let appended = self.writers.append(AppendRequest {
            path: self.connection().path().into(),
            right: self.right(),
            events,
            row: row.clone(),
            durability,
        });
        // What was appended is not known if nobody waits for the answer.
        self.has_failed = true;
        Appending::Pending(Box::pin(async move {
            appended.await?;
            self.has_failed = false;
            if let Some(stored) = &mut self.stored_bytes {
                *stored += bytes;
            }
            if let Some(row) = row {
                self.current.note_row_written(&row);
            }
            self.current.note_appended(line, records);
            Ok(())
        }))
    }

    /// Appends events with which a lineage begins that branches off a checkpoint.
    fn append_branch(
        &mut self,
        branch: &NewBranch,
        records: &[Record],
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.write_row_if_behind()?;
        let mut line = branch.line.clone();
        let events = EncodedEvents::following(&mut line, records);
        let current = match branch.becomes_current {
            true => line.id,
            false => self.current.line().id,
        };
        let next_line = branch.next_line as i64;
        let right = self.right();
        let run = right.run;
        let is_inserted = transact(self.connection(), &right, durability, &|connection| {
            write::insert_lineage(connection, run, &line)?;
            write::update_run(connection, run, current, next_line)?;
            events.insert(connection, run)
        })?;
        if !is_inserted {
            return Err(refusal(self.connection(), &right)?);
        }
        match branch.becomes_current {
            true => self.continue_with(line.id),
            false => Ok(()),
        }
    }

    /// Returns how many bytes of events and snapshots the run has.
    fn stored_bytes(&mut self) -> Result<u64, StoreError> {
        if let Some(bytes) = self.stored_bytes {
            return Ok(bytes);
        }
        let bytes = write::stored_bytes(self.connection(), self.reader.rows.run)?;
        self.stored_bytes = Some(bytes);
        Ok(bytes)
    }

    /// Inserts a state, and returns its bundles.
    fn insert_snapshot(
        &self,
        state: &EncodedSnapshot<'_>,
        n: i64,
        bundles: Vec<MessageBundle>,
        also: impl Fn(&Connection) -> Result<(), StatementError>,
    ) -> Result<Vec<MessageBundle>, StoreError> {
        let run = self.reader.rows.run;
        let last_bundle = write::last_bundle(self.connection(), run, self.bundle_keys)?;
        let rows = state.rows(n, last_bundle, bundles);
        self.change(Durability::Process, |connection| {
            also(connection)?;
            write::insert_snapshot(connection, run, &rows)
        })?;
        Ok(rows.bundles)
    }
}

/// Runs `work` in a transaction, unless there is a newer lease. Returns whether there is none.
fn transact(
    connection: &Connection,
    right: &AppendRight,
    durability: Durability,
    work: &dyn Fn(&Connection) -> Result<(), StatementError>,
) -> Result<bool, StatementError> {
    let begin = format!(
        "BEGIN; SET LOCAL synchronous_commit TO {}",
        synchronous_commit(durability)
    );
    connection.transact(&begin, || {
        let sql = "SELECT FROM strata.run WHERE id = $1 AND epoch = $2 FOR NO KEY UPDATE";
        let arguments = [
            (&right.run as _, Type::INT8),
            (&right.epoch as _, Type::INT8),
        ];
        if connection.query_optional(sql, &arguments)?.is_none() {
            return Ok(false);
        }
        work(connection)?;
        Ok(true)
    })
}

impl Drop for PostgresLease {
    fn drop(&mut self) {
        let written = match self.has_failed {
            true => Ok(()),
            false => self.write_row_if_behind(),
        };
        let released = self.owner.release(self.connection());
        if let Err(error) = written.and(released) {
            tracing::debug!("the run is given up when its lease has expired: {error}");
        }
    }
}

impl Lease for PostgresLease {
    fn epoch(&self) -> Epoch {
        Epoch(self.owner.epoch as u64)
    }

    fn append(&mut self, records: &[Record], durability: Durability) -> Result<(), StoreError> {
        self.begin_append(records, durability).finish_blocking()
    }

    fn begin_append<'a>(
        &'a mut self,
        records: &'a [Record],
        durability: Durability,
    ) -> Appending<'a> {
        if records.is_empty() {
            return Appending::Done(Ok(()));
        }
        match NewBranch::beginning_with(records, &self.reader) {
            Ok(None) => self.append_to_current(records, durability),
            Ok(Some(branch)) => {
                let appended = self.append_branch(&branch, records, durability);
                self.has_failed |= appended.is_err();
                Appending::Done(appended)
            }
            Err(error) => Appending::Done(Err(error)),
        }
    }

    fn status(&self) -> LeaseStatus {
        self.owner.lease_status.clone()
    }

    fn snapshot_due(&self) -> bool {
        self.current.is_snapshot_due()
    }

    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError> {
        let new = self.current.new_snapshot(env);
        let saved = match new.fits() {
            true => {
                let run = self.reader.rows.run;
                let stored = self.stored_bytes()?;
                self.stored_bytes = Some(stored + new.state.bytes() as u64);
                let bundles = new.bundles.clone();
                self.insert_snapshot(&new.state, new.key, bundles, |connection| {
                    write::delete_old_snapshots(connection, run, new.key, stored)?;
                    write::update_lineage(connection, run, &new.row)
                })
                .map(Some)
            }
            false => Ok(None),
        };
        self.current.note_snapshot(&new, saved)
    }

    fn load(&self, at: &StateSelector) -> Result<LoadedState, StoreError> {
        self.reader.load(at)
    }

    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        if self.current.line().name == lineage {
            return Ok(());
        }
        self.write_row_if_behind()?;
        let next_line = self.reader.next_line()? as i64;
        let id = self.reader.require_lineage(lineage)?.id;
        let run = self.reader.rows.run;
        self.change(Durability::Full, |connection| {
            write::update_run(connection, run, id, next_line)
        })?;
        self.continue_with(id)
    }

    fn lineages(&self) -> Result<Vec<LineageRow>, StoreError> {
        self.reader.lineages()
    }

    fn spent(&self) -> Result<Usd, StoreError> {
        self.reader.spent()
    }

    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        self.reader.checkpoints()
    }

    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError> {
        let Some(line) = self.current.forget_checkpoints(&self.reader, keep)? else {
            return Ok(());
        };
        self.change_with_row(&line, |_| Ok(()))?;
        self.current.note_forgotten(line);
        Ok(())
    }

    fn prune(&mut self, keep: u32, build_state: &mut BuildState<'_>) -> Result<Pruned, StoreError> {
        let run = self.reader.rows.run;
        let before = write::stored_bytes(self.connection(), run)?;
        let planner = PrunePlanner {
            reader: &self.reader,
            keep,
            max_state_bytes: MAX_SNAPSHOT_BYTES,
            build_state: &mut |saved| build_state(saved),
            save_state: &mut |state, n, bundles| {
                self.insert_snapshot(state, n, bundles, |_| Ok(()))
                    .map(drop)
            },
        };
        let plan = planner.plan()?;
        let events = Cell::new(0);
        self.change(Durability::Full, |connection| {
            events.set(write::carry_out(connection, run, self.bundle_keys, &plan)?);
            Ok(())
        })?;
        self.continue_with(self.current.line().id)?;
        let after = write::stored_bytes(self.connection(), run)?;
        self.stored_bytes = Some(after);
        Ok(Pruned {
            checkpoints: plan.checkpoints,
            events: events.get(),
            bytes: before.saturating_sub(after),
        })
    }

    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.reader.records(from, limit)
    }

    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        let run = self.reader.rows.run;
        self.change(Durability::Process, |connection| {
            write::insert_blobs(connection, run, blobs)
        })
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.reader.blob(digest)
    }

    fn definition(&self) -> Result<SavedDefinition, StoreError> {
        self.reader.definition()
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        let run = self.reader.rows.run;
        self.change(Durability::Full, |connection| {
            write::write_definition(connection, run, definition)
        })
    }

    fn set_schedule(&mut self, schedule: RunSchedule) -> Result<(), StoreError> {
        work::set_schedule(self.connection(), &self.owner, schedule).map_err(StoreError::from)
    }

    fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.reader.note(name)
    }

    fn set_note(
        &mut self,
        name: &str,
        text: &str,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let run = self.reader.rows.run;
        self.change(durability, |connection| {
            write::write_note(connection, run, name, text)
        })
    }
}

/// A run that is to be inserted into a database.
pub(super) struct NewRun<'a> {
    pub(super) name: &'a str,
    /// The state that it starts from.
    pub(super) base: &'a Environment,
    pub(super) definition: &'a SavedDefinition,
    pub(super) blobs: &'a Blobs,
    /// What it is if a worker is to take it.
    pub(super) submission: Option<&'a NewSubmission<'a>>,
}

impl NewRun<'_> {
    /// Inserts it, and returns its key.
    pub(super) fn insert(&self, connection: &Connection) -> Result<i64, StatementError> {
        let lineage = StoredLineage {
            spent: i64::try_from(self.base.spent.0).unwrap_or(i64::MAX),
            ..StoredLineage::first(&self.base.lineage.name)
        };
        let first = StoredRun {
            id: lineage.run,
            name: self.name.into(),
            epoch: 0,
            lineage: lineage.id,
            next_line: crate::storage::FIRST_LINE as i64,
        };
        let n = event_key(lineage.id, 0);
        let state = EncodedSnapshot::encode(self.base);
        let rows = state.rows(n, key_range(lineage.id).first, Vec::new());
        connection.transact("BEGIN", || {
            require_open(connection)?;
            let run = write::insert_run(connection, &first)?;
            write::insert_lineage(connection, run, &lineage)?;
            write::insert_snapshot(connection, run, &rows)?;
            write::write_definition(connection, run, self.definition)?;
            write::insert_blobs(connection, run, self.blobs)?;
            if let Some(submission) = self.submission {
                work::schedule_submission(connection, run, submission)?;
            }
            Ok(run)
        })
    }
}

/// Ends the connections of a lease and those over which events are appended, as a network does that
/// fails.
#[cfg(test)]
pub(in crate::storage) fn break_connection(url: &DatabaseUrl, lease: &PostgresLease) {
    let pid = lease.connection().query("SELECT pg_backend_pid()", &[]);
    let pid: i32 = pid.unwrap()[0].get(0);
    let other = Connection::open(url).unwrap();
    let sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
               WHERE pid = $1 OR (pid <> pg_backend_pid() AND query LIKE '%appended AS (%')";
    other.query(sql, &[(&pid, Type::INT4)]).unwrap();
}
