//! A lease of a run in PostgreSQL. Each change is refused if there is a newer lease.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;

use strata_core::record::id::Digest;
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;
use tokio_postgres::types::Type;

use super::administer::require_open;
use super::append::{AppendRight, change_repeatably, refusal, synchronous_commit};
use super::connect::{StatementError, on_another_thread};
use super::connection::Connection;
use super::owner::Ownership;
use super::rows::{PostgresReader, PostgresRows};
use super::writer::{AppendRequest, Writers};
use super::{schedule, write};
use crate::blob::Blobs;
use crate::storage::codec::MessageBundle;
use crate::storage::current_lineage::{CurrentLineage, NewBranch, NewSnapshot};
use crate::storage::encoded_events::{EncodedEvents, KnownEvent};
use crate::storage::error::StoreError;
use crate::storage::lineage::{KeyRange, StoredLineage, StoredRun, event_key, key_range};
use crate::storage::prune_plan::PrunePlanner;
use crate::storage::reader::Reader;
use crate::storage::rows::RunRows;
use crate::storage::snapshot::{EncodedSnapshot, MAX_SNAPSHOT_BYTES, SnapshotRows};
use crate::storage::work::{NewSubmission, RunSchedule};
use crate::storage::{
    Append, Appending, BuildState, CheckpointRow, Durability, Epoch, Lease, LeaseStatus,
    LineageRow, LoadedState, Pruned, Record, RunCaps, SavedDefinition, StateSelector,
};

/// A lease of a run in a database. Dropping it gives the run up.
#[derive(Debug)]
pub(in crate::storage) struct PostgresLease {
    reader: PostgresReader,
    owner: Ownership,
    caps: RunCaps,
    writers: Arc<Writers>,
    /// The range in which the keys of the run's bundles are.
    bundle_keys: KeyRange,
    current: CurrentLineage,
    /// The last event that was appended with full durability.
    kept: Option<KnownEvent>,
    /// The largest key of a bundle that was used. It is read when it is first needed.
    last_bundle: Cell<Option<i64>>,
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
            caps: owner.caps.join(owner.scope.clone()),
            owner,
            bundle_keys,
            current,
            kept: None,
            last_bundle: Cell::new(None),
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
        change(self.connection(), &self.right(), durability, work)
    }

    /// Does the same on another thread.
    fn begin_change(
        &self,
        durability: Durability,
        work: impl Fn(&Connection) -> Result<(), StatementError> + Send + 'static,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + 'static {
        let (connection, right) = (self.connection().another(), self.right());
        async move {
            let path = connection.path().to_path_buf();
            let work = move || change(&connection, &right, durability, work);
            on_another_thread(&path, work).await
        }
    }

    /// Writes the row of the current lineage if it lags behind.
    fn write_row_if_behind(&mut self) -> Result<(), StoreError> {
        let Some(line) = self.current.row_behind() else {
            return Ok(());
        };
        let run = self.reader.rows.run;
        self.change(Durability::Process, |connection| {
            write::update_lineage(connection, run, &line)
        })?;
        self.current.note_row_written(&line);
        Ok(())
    }

    /// Makes a lineage the current one.
    fn continue_with(&mut self, lineage: i64) -> Result<(), StoreError> {
        self.current = CurrentLineage::load(&self.reader, lineage)?;
        Ok(())
    }

    /// Begins to append events to the current lineage.
    fn append_to_current<'a>(&'a mut self, append: Append<'a>) -> Appending<'a> {
        let Append {
            records,
            replies,
            durability,
            ..
        } = append;
        let mut line = self.current.line().clone();
        let events = EncodedEvents::following(&mut line, records);
        let bytes = events.bytes();
        let newest = events.last();
        let row = self.current.is_row_due(&line).then(|| line.clone());
        let appended = self.writers.append(AppendRequest {
            path: self.connection().path().into(),
            right: self.right(),
            events,
            kept: self.kept,
            row: row.clone(),
            replies: replies.to_vec(),
            durability,
        });
        // What was appended is not known if nobody waits for the answer.
        self.has_failed = true;
        Appending::Pending(Box::pin(async move {
            appended.await?;
            self.has_failed = false;
            self.note_stored(newest, bytes, durability);
            if let Some(row) = row {
                self.current.note_row_written(&row);
            }
            self.current.note_appended(line, records);
            Ok(())
        }))
    }

    /// Notes that events are stored, of which `newest` is the last.
    fn note_stored(&mut self, newest: Option<KnownEvent>, bytes: u64, durability: Durability) {
        if durability == Durability::Full {
            self.kept = newest;
        }
        if let Some(stored) = &mut self.stored_bytes {
            *stored += bytes;
        }
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
        self.note_stored(events.last(), events.bytes(), durability);
        match branch.becomes_current {
            true => self.continue_with(line.id),
            false => Ok(()),
        }
    }

    /// Returns the rows of a state that is to be inserted.
    fn snapshot_rows(
        &self,
        state: &EncodedSnapshot<'_>,
        n: i64,
        bundles: Vec<MessageBundle>,
    ) -> Result<SnapshotRows, StoreError> {
        let run = self.reader.rows.run;
        let last_bundle = match self.last_bundle.get() {
            Some(last) => last,
            None => write::last_bundle(self.connection(), run, self.bundle_keys)?,
        };
        let rows = state.rows(n, last_bundle, bundles);
        let newest = rows.new_bundles.last().map(|bundle| bundle.n);
        self.last_bundle.set(Some(newest.unwrap_or(last_bundle)));
        Ok(rows)
    }

    /// Inserts a state.
    fn insert_snapshot(
        &self,
        state: &EncodedSnapshot<'_>,
        n: i64,
        bundles: Vec<MessageBundle>,
    ) -> Result<(), StoreError> {
        let run = self.reader.rows.run;
        let rows = self.snapshot_rows(state, n, bundles)?;
        self.change(Durability::Process, |connection| {
            write::insert_snapshot(connection, run, &rows)
        })
    }

    /// Begins to insert a state, and to delete older ones that are not needed any more.
    fn begin_insert_newest(
        &mut self,
        new: &NewSnapshot<'_>,
    ) -> Result<impl Future<Output = Result<SavedSnapshot, StoreError>> + Send + use<>, StoreError>
    {
        let rows = self.snapshot_rows(&new.state, new.key, new.bundles.clone())?;
        let (connection, right) = (self.connection().another(), self.right());
        let (known_bytes, bytes) = (self.stored_bytes, new.state.bytes() as u64);
        let (key, row) = (new.key, new.row.clone());
        let save = move || {
            let run = right.run;
            let stored = match known_bytes {
                Some(bytes) => bytes,
                None => write::stored_bytes(&connection, run)?,
            };
            change(&connection, &right, Durability::Process, |connection| {
                write::delete_old_snapshots(connection, run, key, stored)?;
                write::update_lineage(connection, run, &row)?;
                write::insert_snapshot(connection, run, &rows)
            })?;
            Ok(SavedSnapshot {
                bundles: rows.bundles,
                stored_bytes: stored + bytes,
            })
        };
        let path = self.connection().path().to_path_buf();
        Ok(async move { on_another_thread(&path, save).await })
    }
}

/// A snapshot that was saved.
struct SavedSnapshot {
    bundles: Vec<MessageBundle>,
    /// About how many bytes the run has now.
    stored_bytes: u64,
}

/// Runs `work` in a transaction, unless there is a newer lease. It may be run again if the connection
/// breaks.
fn change(
    connection: &Connection,
    right: &AppendRight,
    durability: Durability,
    work: impl Fn(&Connection) -> Result<(), StatementError>,
) -> Result<(), StoreError> {
    change_repeatably(connection, right, |connection| {
        transact(connection, right, durability, &work)
    })
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
        self.caps.leave();
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

    fn begin_append<'a>(&'a mut self, append: Append<'a>) -> Appending<'a> {
        if append.records.is_empty() {
            return Appending::Done(Ok(()));
        }
        match NewBranch::beginning_with(append.records, &self.reader) {
            Ok(None) => self.append_to_current(append),
            Ok(Some(branch)) => {
                let appended = self.append_branch(&branch, append.records, append.durability);
                self.has_failed |= appended.is_err();
                Appending::Done(appended)
            }
            Err(error) => Appending::Done(Err(error)),
        }
    }

    fn caps(&self) -> RunCaps {
        self.caps.clone()
    }

    fn status(&self) -> LeaseStatus {
        self.owner.lease_status.clone()
    }

    fn snapshot_due(&self) -> bool {
        self.current.is_snapshot_due()
    }

    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError> {
        self.begin_save_snapshot(env).finish_blocking()
    }

    fn begin_save_snapshot<'a>(&'a mut self, env: &'a Environment) -> Appending<'a> {
        let new = self.current.new_snapshot(env);
        if !new.fits() {
            return Appending::Done(self.current.note_snapshot(&new, Ok(None)));
        }
        let saving = match self.begin_insert_newest(&new) {
            Ok(saving) => saving,
            Err(error) => return Appending::Done(self.current.note_snapshot(&new, Err(error))),
        };
        Appending::Pending(Box::pin(async move {
            let saved = saving.await;
            if let Ok(saved) = &saved {
                self.stored_bytes = Some(saved.stored_bytes);
            }
            self.current
                .note_snapshot(&new, saved.map(|saved| Some(saved.bundles)))
        }))
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
        self.begin_keep_checkpoints(keep).finish_blocking()
    }

    fn begin_keep_checkpoints<'a>(&'a mut self, keep: u32) -> Appending<'a> {
        let line = match self.current.forget_checkpoints(&self.reader, keep) {
            Ok(Some(line)) => line,
            Ok(None) => return Appending::Done(Ok(())),
            Err(error) => return Appending::Done(Err(error)),
        };
        let (run, row) = (self.reader.rows.run, line.clone());
        let forgetting = self.begin_change(Durability::Process, move |connection| {
            write::update_lineage(connection, run, &row)
        });
        Appending::Pending(Box::pin(async move {
            forgetting.await?;
            self.current.note_row_written(&line);
            self.current.note_forgotten(line);
            Ok(())
        }))
    }

    fn prune(&mut self, keep: u32, build_state: &mut BuildState<'_>) -> Result<Pruned, StoreError> {
        let run = self.reader.rows.run;
        let before = write::stored_bytes(self.connection(), run)?;
        let planner = PrunePlanner {
            reader: &self.reader,
            keep,
            max_state_bytes: MAX_SNAPSHOT_BYTES,
            build_state: &mut |saved| build_state(saved),
            save_state: &mut |state, n, bundles| self.insert_snapshot(state, n, bundles),
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
        self.begin_put_blobs(blobs.clone()).finish_blocking()
    }

    fn begin_put_blobs<'a>(&'a mut self, blobs: Blobs) -> Appending<'a> {
        let run = self.reader.rows.run;
        let putting = self.begin_change(Durability::Process, move |connection| {
            write::insert_blobs(connection, run, &blobs)
        });
        Appending::Pending(Box::pin(putting))
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
        schedule::set_schedule(self.connection(), &self.owner, schedule).map_err(StoreError::from)
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
pub(super) struct NewPostgresRun<'a> {
    pub(super) name: &'a str,
    /// The state that it starts from.
    pub(super) base: &'a Environment,
    pub(super) definition: &'a SavedDefinition,
    pub(super) blobs: &'a Blobs,
    /// What it is if a worker is to take it.
    pub(super) submission: Option<&'a NewSubmission<'a>>,
}

impl NewPostgresRun<'_> {
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
                schedule::schedule_submission(connection, run, submission)?;
            }
            Ok(run)
        })
    }
}
