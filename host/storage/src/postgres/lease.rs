//! A lease of a run in PostgreSQL. Each change is refused if there is a newer lease. If one is refused because the
//! database went back to an earlier state, it is made again once what the database lost was stored again.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use strata_base::files::blob::Blobs;
use strata_core::record::id::Digest;
use strata_core::state::environment::Environment;

use super::administer::read_settings;
use super::append::{AppendRequest, AppendRight};
use super::change::{NewLineage, RunChange, change, change_once};
use super::connect::{StatementError, on_another_thread};
use super::connection::Connection;
use super::overview::OverviewRow;
use super::owner::Ownership;
use super::recent::{LeaseChanges, RecentChanges};
use super::restore::restore_changes;
use super::rows::{PostgresReader, PostgresRows};
use super::write;
use super::writer::Writers;
use crate::codec::MessageBundle;
use crate::current_lineage::{CurrentLineage, NewBranch, NewSnapshot};
use crate::encoded_events::{EncodedEvents, KnownEvent};
use crate::error::StoreError;
use crate::lineage::{KeyRange, StoredLineage, key_range};
use crate::prune_plan::PrunePlanner;
use crate::reader::{RecordedRun, branch_of};
use crate::rows::RunRows;
use crate::snapshot::{EncodedSnapshot, MAX_SNAPSHOT_BYTES, SnapshotRows};
use crate::work::RunSchedule;
use crate::{
    Append, Appending, BuildState, DEFAULT_PATIENCE, Durability, Epoch, Lease, LeaseStatus, Pruned,
    Record, RunCaps, SavedDefinition,
};

/// How often a change is made again because the database went back meanwhile.
const MAX_RESTORES: u32 = 3;

/// A lease of a run in a database. Dropping it gives the run up.
#[derive(Debug)]
pub(crate) struct PostgresLease {
    reader: PostgresReader,
    owner: Ownership,
    caps: RunCaps,
    writers: Arc<Writers>,
    /// The range in which the keys of the run's bundles are.
    bundle_keys: KeyRange,
    current: CurrentLineage,
    /// What was changed lately.
    recent: LeaseChanges,
    /// Which restored copy of the database this is.
    incarnation: String,
    /// What the row shows from which the run is listed, as far as this lease knows.
    overview: Option<OverviewRow>,
    /// The files that were stored since the last event.
    new_files: Vec<Digest>,
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
    patience: Duration,
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
        let incarnation = read_settings(&reader.rows.connection)?.incarnation;
        drop(same);
        let url = reader.rows.connection.url();
        let recent = RecentChanges::of_database(url)?;
        Ok(Self {
            writers: Writers::of_database(url)?,
            recent: LeaseChanges::begin(recent, run, KnownEvent::newest_of(current.line())),
            incarnation,
            overview: None,
            new_files: Vec::new(),
            reader,
            caps: owner.caps.join(owner.scope.clone()),
            owner,
            bundle_keys,
            current,
            kept: None,
            last_bundle: Cell::new(None),
            stored_bytes: None,
            has_failed: false,
            patience: DEFAULT_PATIENCE,
        })
    }

    fn connection(&self) -> &Connection {
        &self.reader.rows.connection
    }

    /// Returns the right under which the current lineage is changed.
    fn right(&self) -> AppendRight {
        AppendRight {
            run: self.reader.rows.run,
            epoch: self.owner.epoch,
            owner: Arc::clone(&self.owner.owner),
            before: KnownEvent::newest_of(self.current.line()),
            patience: self.patience,
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

    /// Runs `work` in a transaction on another thread, unless there is a newer lease, and runs it again after what the database lost has been stored again.
    async fn change_elsewhere(
        &mut self,
        durability: Durability,
        work: impl Fn(&Connection) -> Result<(), StatementError> + Clone + Send + 'static,
    ) -> Result<(), StoreError> {
        let mut restores = 0;
        loop {
            let (connection, right) = (self.connection().another(), self.right());
            let path = connection.path().to_path_buf();
            let work = work.clone();
            let work = move || change(&connection, &right, durability, work);
            match on_another_thread(&path, work).await {
                Err(error) if self.restore_after(&error, &mut restores)? => {}
                done => return done,
            }
        }
    }

    /// Makes a change, and remembers it.
    fn make(&mut self, durability: Durability, new: RunChange) -> Result<(), StoreError> {
        self.restoring(|lease| {
            let run = lease.reader.rows.run;
            lease.change(durability, |connection| new.write(connection, run))
        })?;
        self.recent.note(new);
        Ok(())
    }

    /// Does something that is refused if the database went back, and does it again after what was lost
    /// has been stored again.
    fn restoring<T>(
        &mut self,
        work: impl Fn(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut restores = 0;
        loop {
            match work(self) {
                Err(error) if self.restore_after(&error, &mut restores)? => {}
                done => return done,
            }
        }
    }

    /// Stores again what the database lost, if something was refused with this error because it went back.
    /// Returns whether what was refused can be done again. `restores` counts how often that was so.
    fn restore_after(
        &mut self,
        error: &StoreError,
        restores: &mut u32,
    ) -> Result<bool, StoreError> {
        *restores += 1;
        if !error.is_behind() || *restores > MAX_RESTORES {
            return Ok(false);
        }
        let history = self.recent.history();
        let connection = self.connection();
        if !restore_changes(connection, &self.right(), &self.incarnation, &history)? {
            return Ok(false);
        }
        // Rows of lineages and states are not stored again. From here on, those are known that are there.
        let newest = KnownEvent::newest_of(self.current.line());
        self.continue_with(self.current.line().id)?;
        self.last_bundle.set(None);
        self.stored_bytes = None;
        self.kept = newest;
        self.overview = None;
        Ok(KnownEvent::newest_of(self.current.line()) == newest)
    }

    /// Writes the row of the current lineage if it lags behind.
    fn write_row_if_behind(&mut self) -> Result<(), StoreError> {
        self.restoring(|lease| {
            let Some(line) = lease.current.row_behind() else {
                return Ok(());
            };
            let run = lease.reader.rows.run;
            lease.change(Durability::Process, |connection| {
                write::update_lineage(connection, run, &line)
            })?;
            lease.current.note_row_written(&line);
            Ok(())
        })
    }

    /// Makes a lineage the current one.
    fn continue_with(&mut self, lineage: i64) -> Result<(), StoreError> {
        self.current = CurrentLineage::load(&self.reader, lineage)?;
        Ok(())
    }

    /// Begins to append events to the current lineage.
    fn append_to_current<'a>(&'a mut self, append: Append<'a>) -> Appending<'a> {
        let mut encoded = self.encode(append);
        let mut appended = self.writers.append(encoded.request.clone());
        // What was appended is not known if nobody waits for the answer.
        self.has_failed = true;
        Appending::Pending(Box::pin(async move {
            let mut restores = 0;
            while let Err(error) = appended.await {
                if !self.restore_after(&error, &mut restores)? {
                    return Err(error);
                }
                encoded = self.encode(append);
                appended = self.writers.append(encoded.request.clone());
            }
            self.has_failed = false;
            self.note_appended(encoded, append.records);
            Ok(())
        }))
    }

    /// Encodes events that are to be appended to the current lineage.
    fn encode(&self, append: Append<'_>) -> EncodedAppend {
        let mut line = self.current.line().clone();
        let events = EncodedEvents::following(&mut line, append.records);
        let overview = OverviewRow::after(append);
        let is_known = |before: &OverviewRow| overview.is_like(before);
        let is_listed = self.overview.as_ref().is_some_and(is_known);
        EncodedAppend {
            request: AppendRequest {
                path: self.connection().path().into(),
                right: self.right(),
                events: events.into(),
                files: self.new_files.clone(),
                kept: self.kept,
                row: self.current.is_row_due(&line).then(|| line.clone()),
                overview: (!is_listed).then_some(overview),
                replies: append.replies.to_vec(),
                durability: append.durability,
            },
            line,
        }
    }

    /// Notes that events were appended to the current lineage.
    fn note_appended(&mut self, appended: EncodedAppend, records: &[Record]) {
        let EncodedAppend { line, request } = appended;
        self.new_files.clear();
        self.note_stored(&request.events, request.durability);
        if let Some(row) = &request.overview {
            self.overview = Some(row.clone());
        }
        if let Some(row) = request.row {
            self.current.note_row_written(&row);
        }
        self.current.note_appended(line, records);
        self.recent.note(RunChange::Events {
            events: request.events,
            replies: request.replies,
            overview: request.overview,
        });
    }

    /// Notes that events are stored.
    fn note_stored(&mut self, events: &EncodedEvents, durability: Durability) {
        if durability == Durability::Full {
            self.kept = events.last();
        }
        if let Some(stored) = &mut self.stored_bytes {
            *stored += events.bytes();
        }
    }

    /// Appends events with which a lineage begins that branches off a checkpoint.
    fn append_branch(&mut self, branch: &NewBranch, append: Append<'_>) -> Result<(), StoreError> {
        self.write_row_if_behind()?;
        let new = NewLineage::beginning_with(append, branch, self.current.line().id);
        let (run, new) = (self.reader.rows.run, Arc::new(new));
        let added = RunChange::Branch(Arc::clone(&new));
        // If it was added although the answer was lost, it must not be added again.
        change_once(
            self.connection(),
            &self.right(),
            append.durability,
            |connection| added.write(connection, run),
        )?;
        self.note_stored(&new.events, append.durability);
        self.recent.note(added);
        if new.overview.is_some() {
            self.overview.clone_from(&new.overview);
        }
        match branch.becomes_current {
            true => self.continue_with(new.line.id),
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

/// Events that are to be appended, and the lineage with them.
struct EncodedAppend {
    line: StoredLineage,
    request: AppendRequest,
}

/// A snapshot that was saved.
struct SavedSnapshot {
    bundles: Vec<MessageBundle>,
    /// About how many bytes the run has now.
    stored_bytes: u64,
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

    fn recorded(&self) -> &dyn RecordedRun {
        &self.reader
    }

    fn begin_append<'a>(&'a mut self, append: Append<'a>) -> Appending<'a> {
        if append.records.is_empty() {
            return Appending::Done(Ok(()));
        }
        let Some((name, from)) = branch_of(append.records) else {
            return self.append_to_current(append);
        };
        let appended = self.restoring(|lease| {
            let branch = NewBranch::leaving(name, from, append.records, &lease.reader)?;
            lease.append_branch(&branch, append)
        });
        self.has_failed |= appended.is_err();
        Appending::Done(appended)
    }

    fn ensure_stored(&mut self) -> Result<(), StoreError> {
        let look = |lease: &mut Self| {
            // If the connection breaks meanwhile, this is called again.
            change_once(
                lease.connection(),
                &lease.right(),
                Durability::Process,
                |_| Ok(()),
            )
        };
        match self.restoring(look) {
            Err(StoreError::Unreachable { .. }) => Ok(()),
            done => done,
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
        let mut new = self.current.new_snapshot(env);
        if !new.fits() {
            return Appending::Done(self.current.note_snapshot(&new, Ok(None)));
        }
        Appending::Pending(Box::pin(async move {
            let mut restores = 0;
            let saved = loop {
                let saved = match self.begin_insert_newest(&new) {
                    Ok(saving) => saving.await,
                    Err(error) => Err(error),
                };
                match saved {
                    Err(error) if self.restore_after(&error, &mut restores)? => {
                        new = self.current.new_snapshot(env);
                    }
                    saved => break saved,
                }
            };
            if let Ok(saved) = &saved {
                self.stored_bytes = Some(saved.stored_bytes);
            }
            self.current
                .note_snapshot(&new, saved.map(|saved| Some(saved.bundles)))
        }))
    }

    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        if self.current.line().name == lineage {
            return Ok(());
        }
        self.write_row_if_behind()?;
        let next_line = self.reader.next_line()? as i64;
        let id = self.reader.require_lineage(lineage)?.id;
        self.make(Durability::Full, RunChange::Lineage { id, next_line })?;
        self.overview = None;
        self.continue_with(id)
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
        Appending::Pending(Box::pin(async move {
            let (run, row) = (self.reader.rows.run, line.clone());
            let write = move |connection: &Connection| write::update_lineage(connection, run, &row);
            self.change_elsewhere(Durability::Process, write).await?;
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

    fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        self.begin_put_blobs(blobs.clone()).finish_blocking()
    }

    fn begin_put_blobs<'a>(&'a mut self, blobs: Blobs) -> Appending<'a> {
        Appending::Pending(Box::pin(async move {
            let files: Vec<Digest> = blobs.keys().cloned().collect();
            let added = RunChange::Blobs(Arc::new(blobs));
            let (run, new) = (self.reader.rows.run, added.clone());
            let write = move |connection: &Connection| new.write(connection, run);
            self.change_elsewhere(Durability::Process, write).await?;
            self.new_files.extend(files);
            self.recent.note(added);
            Ok(())
        }))
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        let new = RunChange::Definition(Arc::new(definition.clone()));
        self.make(Durability::Full, new)
    }

    fn set_schedule(&mut self, schedule: RunSchedule) -> Result<(), StoreError> {
        self.make(Durability::Full, RunChange::Schedule(schedule))
    }

    fn set_note(
        &mut self,
        name: &str,
        text: &str,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let new = RunChange::Note {
            name: name.into(),
            text: text.into(),
        };
        self.make(durability, new)
    }
}
