//! A lease of a run in a database that holds many. Changes are written by another thread; what is read of
//! the run is read by a connection of the lease's own.

use std::future::Future;
use std::path::PathBuf;

use rusqlite::Connection;

use strata_base::files::blob::Blobs;
use strata_base::process::wait::wait;
use strata_core::state::environment::Environment;

use super::super::blob::insert_blobs;
use super::super::lineage::next_lineage_id;
use super::super::prune::carry_out;
use super::super::rows::{SqliteReader, SqliteRows};
use super::super::snapshot::{delete_old_snapshots, insert_snapshot_rows, last_bundle};
use super::super::write::{insert_events, write_definition, write_note};
use super::change::{ChangeTerms, LossCheck, PendingChange, RunRight};
use super::database::DatabaseHandle;
use super::end_note::EndNote;
use super::owner_note::{insert_owner_note, remove_owner_note};
use super::queue::LeasedRun;
use super::submission_row::{OverviewUpdate, write_schedule};
use crate::codec::{DecodeError, MessageBundle};
use crate::current_lineage::{CurrentLineage, NewBranch, NewSnapshot};
use crate::encoded_events::EncodedEvents;
use crate::error::StoreError;
use crate::lineage::{KeyRange, MAX_LINEAGES, StoredLineage, StoredRun, event_key, key_range};
use crate::prune_plan::PrunePlanner;
use crate::reader::RecordedRun;
use crate::rows::RunRows;
use crate::schema::has_queue_tables;
use crate::snapshot::{EncodedSnapshot, MAX_SNAPSHOT_BYTES, SnapshotRows};
use crate::{
    Append, Appending, BuildState, Durability, Epoch, Lease, Pruned, RunSchedule, SavedDefinition,
};

/// A lease of a run. Dropping it gives the run up.
#[derive(Debug)]
pub(crate) struct SharedLease {
    reader: SqliteReader,
    /// The run, with the epoch of this lease.
    run: StoredRun,
    /// The URL of the run, for messages.
    path: PathBuf,
    /// The range in which the keys of the run's bundles are.
    bundle_keys: KeyRange,
    current: CurrentLineage,
    /// About how many bytes are stored of the run. They are counted when that is first needed.
    stored_bytes: Option<u64>,
    /// Whether it was submitted, so that a row says what a list shows of it.
    is_submitted: bool,
    /// Whether events could not be appended. What this lease knows of the run may then be wrong, so it
    /// writes nothing more.
    has_failed: bool,
    _leased: LeasedRun,
    /// Dropped last: the database is closed with the last one.
    database: DatabaseHandle,
}

/// A snapshot that was saved.
struct SavedSnapshot {
    bundles: Vec<MessageBundle>,
    /// About how many bytes are stored of the run now.
    stored_bytes: u64,
}

impl SharedLease {
    /// Takes a lease of the run with this key. `path` is its URL.
    pub(super) fn take(
        database: DatabaseHandle,
        run: i64,
        path: PathBuf,
    ) -> Result<Self, StoreError> {
        let Some(leased) = database.lease_run(run) else {
            return Err(StoreError::Locked {
                path,
                pid: Some(std::process::id()),
            });
        };
        let claimed = database.change(ChangeTerms::default(), move |conn| claim(conn, run))?;
        let rows = SqliteRows::open_beside_writer(database.path().to_path_buf(), run)?;
        let reader = SqliteReader::from_rows(rows);
        let run = match claimed {
            Some(Ok(run)) => run,
            Some(Err(damage)) => return Err(reader.rows.decode_error("a run", damage)),
            None => return Err(StoreError::Fenced { path }),
        };
        let same = reader.begin_read()?;
        let current = CurrentLineage::load(&reader, run.lineage)?;
        let bundle_keys = key_range(reader.rows.first_lineage()?);
        let is_submitted = is_submitted(&reader.rows.conn, run.id);
        let is_submitted = is_submitted.map_err(|e| reader.error("read", e))?;
        drop(same);
        Ok(Self {
            is_submitted,
            reader,
            run,
            path,
            bundle_keys,
            current,
            stored_bytes: None,
            has_failed: false,
            _leased: leased,
            database,
        })
    }

    /// Gives the run another name.
    pub(super) fn rename(&mut self, name: &str) -> Result<(), StoreError> {
        let renamed = StoredRun {
            name: name.into(),
            ..self.run.clone()
        };
        self.change_for_good(move |conn| renamed.write(conn))
    }

    fn right(&self) -> RunRight {
        RunRight {
            run: self.run.id,
            epoch: self.run.epoch,
        }
    }

    fn fenced(&self) -> StoreError {
        StoreError::Fenced {
            path: self.path.clone(),
        }
    }

    /// Begins a change. It is refused if there is a newer lease.
    fn begin_change<T: Send + 'static>(
        &self,
        durability: Durability,
        loss_check: LossCheck,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<PendingChange<T>, StoreError> {
        if self.has_failed {
            let what = "events could not be appended before; resume the run";
            let source = std::io::Error::other(what);
            return Err(StoreError::io(&self.path, "write", source));
        }
        let terms = ChangeTerms {
            right: Some(self.right()),
            durability,
            loss_check,
        };
        Ok(self.database.begin(terms, write))
    }

    /// Waits for a change that was begun.
    fn finish<T>(&self, pending: PendingChange<T>) -> Result<T, StoreError> {
        wait(pending.outcome())?.ok_or_else(|| self.fenced())
    }

    fn change<T: Send + 'static>(
        &self,
        durability: Durability,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.finish(self.begin_change(durability, LossCheck::None, write)?)
    }

    /// Makes a change that is no event and must not be lost.
    fn change_for_good<T: Send + 'static>(
        &self,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.finish(self.begin_change(Durability::Full, LossCheck::Change, write)?)
    }

    /// Makes a lineage the current one.
    fn continue_with(&mut self, lineage: i64) -> Result<(), StoreError> {
        self.current = CurrentLineage::load(&self.reader, lineage)?;
        Ok(())
    }

    /// Begins to append events to the current lineage.
    fn append_to_current<'a>(
        &'a mut self,
        append: Append<'a>,
    ) -> Result<Appending<'a>, StoreError> {
        let (records, durability) = (append.records, append.durability);
        let mut line = self.current.line().clone();
        let events = EncodedEvents::following(&mut line, records);
        let row = self.current.is_row_due(&line).then(|| line.clone());
        let written_row = row.clone();
        let loss_check = LossCheck::Events(records.len());
        let (note, shown) = match self.is_submitted {
            true => (None, Some(OverviewUpdate::after(append))),
            false => (
                EndNote::after(append, event_key(line.id, line.events)),
                None,
            ),
        };
        let run = self.run.id;
        let appended = self.begin_change(durability, loss_check, move |conn| {
            insert_events(conn, &events)?;
            note.iter().try_for_each(|note| note.write(conn, run))?;
            shown.iter().try_for_each(|shown| shown.write(conn, run))?;
            row.iter().try_for_each(|row| row.update(conn))
        })?;
        // What was appended is not known if nobody waits for the answer.
        self.has_failed = true;
        Ok(Appending::Pending(Box::pin(async move {
            let appended = appended.outcome().await?;
            self.has_failed = false;
            appended.ok_or_else(|| self.fenced())?;
            if let Some(row) = written_row {
                self.current.note_row_written(&row);
            }
            self.current.note_appended(line, records);
            Ok(())
        })))
    }

    /// Appends events with which a lineage begins that branches off a checkpoint.
    fn append_branch(&mut self, branch: NewBranch, append: Append<'_>) -> Result<(), StoreError> {
        let (behind, records) = (self.current.row_behind(), append.records.to_vec());
        let durability = append.durability;
        // A branch that the run does not continue with changes nothing of what is listed.
        let shown =
            (self.is_submitted && branch.becomes_current).then(|| OverviewUpdate::after(append));
        let (run, becomes_current) = (self.run.clone(), branch.becomes_current);
        let loss_check = LossCheck::Events(records.len());
        let appended = self.begin_change(durability, loss_check, move |conn| {
            behind.iter().try_for_each(|row| row.update(conn))?;
            // Other runs may have begun lineages since the branch was made.
            let mut line = StoredLineage {
                id: new_lineage_id(conn)?,
                ..branch.line.clone()
            };
            line.insert(conn)?;
            let events = EncodedEvents::following(&mut line, &records);
            insert_events(conn, &events)?;
            line.update(conn)?;
            let run = StoredRun {
                lineage: if becomes_current {
                    line.id
                } else {
                    run.lineage
                },
                next_line: branch.next_line as i64,
                ..run.clone()
            };
            shown
                .iter()
                .try_for_each(|shown| shown.write(conn, run.id))?;
            run.write(conn).map(|()| run)
        })?;
        self.run = self.finish(appended)?;
        // The row of the lineage that was left was written, too.
        self.continue_with(self.run.lineage)
    }

    /// Returns the rows of a state that is to be inserted.
    fn snapshot_rows(
        &self,
        state: &EncodedSnapshot<'_>,
        n: i64,
        bundles: Vec<MessageBundle>,
    ) -> Result<SnapshotRows, StoreError> {
        // Only this lease adds bundles to the run.
        let last = last_bundle(&self.reader.rows.conn, self.bundle_keys)
            .map_err(|e| self.reader.error("read", e))?;
        Ok(state.rows(n, last, bundles))
    }

    /// Begins to insert a state, and to delete older ones that are not needed any more.
    fn begin_insert_newest(
        &self,
        new: &NewSnapshot<'_>,
    ) -> Result<impl Future<Output = Result<SavedSnapshot, StoreError>> + Send + use<>, StoreError>
    {
        let rows = self.snapshot_rows(&new.state, new.key, new.bundles.clone())?;
        let stored = match self.stored_bytes {
            Some(bytes) => bytes,
            None => self.reader.rows.stored_bytes()?,
        };
        let (row, bytes) = (new.row.clone(), new.state.bytes() as u64);
        let bundles = rows.bundles.clone();
        // The snapshot may be lost with the power, since the events that it covers are not.
        let saved = self.begin_change(Durability::Process, LossCheck::None, move |conn| {
            delete_old_snapshots(conn, rows.n, stored)?;
            row.update(conn)?;
            insert_snapshot_rows(conn, &rows)
        })?;
        let path = self.path.clone();
        Ok(async move {
            let fenced = || StoreError::Fenced { path };
            saved.outcome().await?.ok_or_else(fenced)?;
            Ok(SavedSnapshot {
                bundles,
                stored_bytes: stored + bytes,
            })
        })
    }
}

/// Whether a run was submitted.
fn is_submitted(conn: &Connection, run: i64) -> rusqlite::Result<bool> {
    if !has_queue_tables(conn)? {
        return Ok(false);
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM submission WHERE run = ?1)";
    conn.query_row(sql, [run], |row| row.get(0))
}

/// Raises the epoch of a run, and returns the run.
fn claim(conn: &Connection, run: i64) -> rusqlite::Result<Result<StoredRun, DecodeError>> {
    let sql = "SELECT * FROM run WHERE id = ?1";
    let stored = conn.query_row(sql, [run], StoredRun::from_row)?;
    let mut claimed = match stored {
        Ok(claimed) => claimed,
        Err(damage) => return Ok(Err(damage)),
    };
    claimed.epoch += 1;
    claimed.write(conn)?;
    insert_owner_note(conn, run, "")?;
    Ok(Ok(claimed))
}

/// Returns the key of a new lineage.
pub(super) fn new_lineage_id(conn: &Connection) -> rusqlite::Result<i64> {
    let id = next_lineage_id(conn)?;
    match id < MAX_LINEAGES {
        true => Ok(id),
        false => Err(rusqlite::Error::IntegralValueOutOfRange(0, id)),
    }
}

impl Drop for SharedLease {
    fn drop(&mut self) {
        let run = self.run.id;
        let terms = ChangeTerms {
            right: Some(self.right()),
            ..ChangeTerms::default()
        };
        let given_up = self
            .database
            .change(terms, move |conn| remove_owner_note(conn, run));
        if let Err(error) = given_up {
            tracing::debug!("the note of who owns the run stays: {error}");
        }
    }
}

impl Lease for SharedLease {
    fn epoch(&self) -> Epoch {
        Epoch(self.run.epoch as u64)
    }

    fn recorded(&self) -> &dyn RecordedRun {
        &self.reader
    }

    fn begin_append<'a>(&'a mut self, append: Append<'a>) -> Appending<'a> {
        if append.records.is_empty() {
            return Appending::Done(Ok(()));
        }
        let appending = match NewBranch::beginning_with(append.records, &self.reader) {
            Ok(None) => self.append_to_current(append),
            Ok(Some(branch)) => {
                let appended = self.append_branch(branch, append);
                let is_known = matches!(appended, Ok(()) | Err(StoreError::Fenced { .. }));
                self.has_failed |= !is_known;
                Ok(Appending::Done(appended))
            }
            Err(error) => Err(error),
        };
        appending.unwrap_or_else(|error| Appending::Done(Err(error)))
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

    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        if self.current.line().name == lineage {
            return Ok(());
        }
        let run = StoredRun {
            lineage: self.reader.require_lineage(lineage)?.id,
            next_line: self.reader.next_line()? as i64,
            ..self.run.clone()
        };
        let (behind, row) = (self.current.row_behind(), run.clone());
        let is_submitted = self.is_submitted;
        self.change_for_good(move |conn| {
            behind.iter().try_for_each(|row| row.update(conn))?;
            if is_submitted {
                // What is listed of the run is that of the lineage before.
                OverviewUpdate::unknown().write(conn, row.id)?;
            }
            row.write(conn)
        })?;
        self.run = run;
        self.continue_with(self.run.lineage)
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
        let row = line.clone();
        let begun = self.begin_change(Durability::Process, LossCheck::None, move |conn| {
            row.update(conn)
        });
        let forgetting = match begun {
            Ok(forgetting) => forgetting,
            Err(error) => return Appending::Done(Err(error)),
        };
        Appending::Pending(Box::pin(async move {
            forgetting.outcome().await?.ok_or_else(|| self.fenced())?;
            self.current.note_forgotten(line);
            Ok(())
        }))
    }

    fn prune(&mut self, keep: u32, build_state: &mut BuildState<'_>) -> Result<Pruned, StoreError> {
        let before = self.reader.rows.stored_bytes()?;
        let planner = PrunePlanner {
            reader: &self.reader,
            keep,
            max_state_bytes: MAX_SNAPSHOT_BYTES,
            build_state: &mut |saved| build_state(saved),
            save_state: &mut |state, n, bundles| {
                let rows = self.snapshot_rows(state, n, bundles)?;
                self.change(Durability::Process, move |conn| {
                    insert_snapshot_rows(conn, &rows)
                })
            },
        };
        let plan = planner.plan()?;
        let (run, bundle_keys, checkpoints) = (self.run.id, self.bundle_keys, plan.checkpoints);
        // A full sync, which covers the states that were saved before.
        let events = self.change(Durability::Full, move |conn| {
            carry_out(conn, run, bundle_keys, &plan)
        })?;
        self.continue_with(self.current.line().id)?;
        let after = self.reader.rows.stored_bytes()?;
        self.stored_bytes = Some(after);
        // The file stays as large as it is: what was freed is used for what all runs store next.
        Ok(Pruned {
            checkpoints,
            events,
            bytes: before.saturating_sub(after),
        })
    }

    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        self.begin_put_blobs(blobs.clone()).finish_blocking()
    }

    fn begin_put_blobs<'a>(&'a mut self, blobs: Blobs) -> Appending<'a> {
        let run = self.run.id;
        let begun = self.begin_change(Durability::Process, LossCheck::None, move |conn| {
            insert_blobs(conn, run, &blobs)
        });
        match begun {
            Ok(putting) => Appending::Pending(Box::pin(async move {
                putting.outcome().await?.ok_or_else(|| self.fenced())
            })),
            Err(error) => Appending::Done(Err(error)),
        }
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        let (run, definition) = (self.run.id, definition.clone());
        self.change_for_good(move |conn| write_definition(conn, run, &definition))
    }

    fn set_schedule(&mut self, schedule: RunSchedule) -> Result<(), StoreError> {
        if !self.is_submitted {
            return Ok(());
        }
        let run = self.run.id;
        self.change_for_good(move |conn| write_schedule(conn, run, schedule))
    }

    fn set_note(
        &mut self,
        name: &str,
        text: &str,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let (run, name, text) = (self.run.id, name.to_owned(), text.to_owned());
        self.change(durability, move |conn| write_note(conn, run, &name, &text))
    }
}
