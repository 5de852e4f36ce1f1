//! The store in a file: `team.db`, an SQLite database in WAL mode. Its rows are read in `rows`, without
//! its lock in `consistent_read`, and its tables are in `schema`.
//!
//! Here, `create` makes a database; `append` appends events; `write` writes rows, and `lineage_row` writes that of the
//! current lineage; `wal_file` syncs the write-ahead log, and `wal_checkpoint` moves it into
//! the database; `snapshot` saves states, and `prune` removes what is not needed.

mod append;
pub(super) mod blob;
mod consistent_read;
mod create;
mod file_state;
mod lineage;
mod lineage_row;
mod prune;
pub(super) mod rows;
pub(super) mod schema;
#[cfg(test)]
mod several_runs;
pub(super) mod shared;
mod snapshot;
mod wal_checkpoint;
mod wal_file;
mod write;
mod write_connection;

use std::cell::Cell;
use std::path::Path;

use rusqlite::Connection;

use strata_core::state::environment::Environment;

use super::current_lineage::CurrentLineage;
use super::directory::names::{DATABASE, SideFile};
use super::error::StoreError;
use super::lineage::{DIRECTORY_RUN, KeyRange, StoredRun, key_range};
use super::lock::StorageLock;
use super::prune_plan::PrunePlanner;
use super::reader::RecordedRun;
use super::rows::RunRows;
use super::snapshot::MAX_SNAPSHOT_BYTES;
use super::{Append, Appending, BuildState, Durability, Epoch, Lease, Pruned, SavedDefinition};

use strata_base::files::blob::Blobs;

pub(crate) use create::DatabaseImage;
use lineage::stored_epoch;
use prune::{carry_out, file_bytes};
use snapshot::insert_snapshot;
use write::{write_definition, write_note};
use write_connection::WriteConnection;

/// The size at which the log is moved into the database, in pages of 4 KiB. It is large, because
/// moving costs two syncs each time, but small enough that reading the log after a crash takes
/// milliseconds.
const LOG_PAGES: u32 = 2000;

/// A lease of a run in a file. The directory stays locked until the lease is dropped.
#[derive(Debug)]
pub struct SqliteLease {
    // Dropped first: the lock has to be held while the database is closed.
    connection: WriteConnection,
    /// The run, with the epoch of this lease.
    run: StoredRun,
    /// Whether the run was changed under this lease, so that its epoch is stored. Until then, the
    /// lock alone keeps others away.
    is_claimed: Cell<bool>,
    /// The range in which the keys of the run's bundles are.
    bundle_keys: KeyRange,
    current: CurrentLineage,
    /// The buffer in which events are encoded.
    buffer: Vec<u8>,
    /// The time of the event with which the directory was checked last, in milliseconds.
    directory_checked_ms: Option<i64>,
    lock: LockedDirectory,
}

#[derive(Debug)]
struct LockedDirectory {
    path: std::path::PathBuf,
    _lock: StorageLock,
}

impl SqliteLease {
    /// Creates a database whose run starts from `base`, with the bytes of files.
    pub(crate) fn create(
        lock: StorageLock,
        directory: &Path,
        image: &DatabaseImage,
    ) -> Result<Self, StoreError> {
        let path = directory.join(DATABASE);
        let connection = WriteConnection::create(&path, image, DIRECTORY_RUN.0, LOG_PAGES)?;
        Self::new(lock, directory, connection)
    }

    /// Opens the database of a directory, to change a run.
    pub(super) fn open(lock: StorageLock, directory: &Path, run: i64) -> Result<Self, StoreError> {
        let connection = WriteConnection::open(&directory.join(DATABASE), run, LOG_PAGES)?;
        Self::new(lock, directory, connection)
    }

    fn new(
        lock: StorageLock,
        directory: &Path,
        connection: WriteConnection,
    ) -> Result<Self, StoreError> {
        let reader = &connection.reader;
        let mut run = reader.rows.run()?;
        run.epoch += 1;
        let lock = LockedDirectory {
            path: directory.to_path_buf(),
            _lock: lock,
        };
        Ok(Self {
            current: CurrentLineage::load(reader, run.lineage)?,
            bundle_keys: key_range(reader.rows.first_lineage()?),
            run,
            is_claimed: Cell::new(false),
            connection,
            buffer: Vec::new(),
            directory_checked_ms: None,
            lock,
        })
    }

    /// Runs `work` in a transaction: all of it is committed, or nothing.
    fn transact<T>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let result = self.commit(work)?;
        if durability == Durability::Full {
            self.connection.sync_log()?;
        }
        Ok(result)
    }

    /// Commits a change that is no event and must not be lost.
    fn commit_change(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        self.transact(Durability::Process, |conn| {
            work(conn)?;
            conn.execute("UPDATE log SET changes = changes + 1", [])
                .map(drop)
        })?;
        self.connection.progress.count_changes(1);
        self.connection.sync_log()
    }

    /// Runs `work` in a transaction whose commit only has to survive the end of the process: if it is
    /// not an event, it may be lost with the power.
    fn commit<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let fail = |e| self.connection.reader.error("write", e);
        if !self.connection.progress.is_open() && !self.is_newest_lease().map_err(fail)? {
            return Err(self.fenced());
        }
        self.connection
            .ensure_log_started(Some(self.current.line()))?;
        let result = self.connection.transact(|conn| {
            if !self.is_newest_lease()? {
                return Ok(None);
            }
            if !self.is_claimed.get() {
                self.run.write(conn)?;
            }
            work(conn).map(Some)
        });
        let result = result.map_err(|e| fail(e.into_source()))?;
        let result = result.ok_or_else(|| self.fenced())?;
        self.is_claimed.set(true);
        Ok(result)
    }

    /// Whether the run was not changed under another lease since this one was taken. The lock of the
    /// directory ensures that, unless somebody removed its file.
    fn is_newest_lease(&self) -> rusqlite::Result<bool> {
        let conn = self.connection.conn();
        let stored = stored_epoch(conn, self.run.id)?;
        if self.is_claimed.get() {
            return Ok(stored == Some(self.run.epoch));
        }
        // Another lease that was taken at the same moment has the same epoch until it is stored.
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM event WHERE n > ?1 AND n <= ?2)";
        let keys = [
            self.current.last_key(),
            key_range(self.current.line().id).last,
        ];
        let is_unchanged = conn.query_row(sql, keys, |row| row.get::<_, bool>(0))?;
        Ok(stored == Some(self.run.epoch - 1) && is_unchanged)
    }

    fn fenced(&self) -> StoreError {
        StoreError::Fenced {
            path: self.lock.path.clone(),
        }
    }
}

impl Lease for SqliteLease {
    fn epoch(&self) -> Epoch {
        Epoch(self.run.epoch as u64)
    }

    fn recorded(&self) -> &dyn RecordedRun {
        &self.connection.reader
    }

    fn begin_append<'a>(&'a mut self, append: Append<'a>) -> Appending<'a> {
        append::begin_append(self, append)
    }

    fn snapshot_due(&self) -> bool {
        self.current.is_snapshot_due()
    }

    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError> {
        let new = self.current.new_snapshot(env);
        let bundle_keys = self.bundle_keys;
        let saved = match new.fits() {
            // The snapshot may be lost with the power, since the events that it covers are not.
            true => self
                .commit_with_row(&new.row, |conn| {
                    let stored_bytes = snapshot::database_bytes(conn)?;
                    snapshot::delete_old_snapshots(conn, new.key, stored_bytes)?;
                    insert_snapshot(conn, &new.state, bundle_keys, new.key, new.bundles.clone())
                })
                .map(Some),
            false => Ok(None),
        };
        self.current.note_snapshot(&new, saved)
    }

    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        if self.current.line().name == lineage {
            return Ok(());
        }
        self.write_row_if_behind()?;
        let run = StoredRun {
            lineage: self.connection.reader.require_lineage(lineage)?.id,
            next_line: self.connection.reader.next_line()? as i64,
            ..self.run.clone()
        };
        self.commit_change(|conn| run.write(conn))?;
        self.run = run;
        self.continue_with(self.run.lineage)
    }

    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError> {
        let Some(line) = self
            .current
            .forget_checkpoints(&self.connection.reader, keep)?
        else {
            return Ok(());
        };
        self.commit_with_row(&line, |_| Ok(()))?;
        self.current.note_forgotten(line);
        Ok(())
    }

    fn prune(&mut self, keep: u32, build_state: &mut BuildState<'_>) -> Result<Pruned, StoreError> {
        self.connection.check_directory()?;
        let path = self.connection.path();
        let before = file_bytes(path) + file_bytes(&SideFile::Wal.beside(path));
        let (run, bundle_keys) = (self.run.id, self.bundle_keys);
        let planner = PrunePlanner {
            reader: &self.connection.reader,
            keep,
            max_state_bytes: MAX_SNAPSHOT_BYTES,
            build_state: &mut |saved| build_state(saved),
            save_state: &mut |state, n, bundles| {
                self.commit(|conn| insert_snapshot(conn, state, bundle_keys, n, bundles))
                    .map(drop)
            },
        };
        let plan = planner.plan()?;
        // A full sync, which covers the states that were saved before.
        let events = self.transact(Durability::Full, |conn| {
            carry_out(conn, run, bundle_keys, &plan)
        })?;
        self.continue_with(self.current.line().id)?;
        self.connection.shrink()?;
        // The rest of the log is removed when the database is closed.
        let bytes = before.saturating_sub(file_bytes(self.connection.path()));
        Ok(Pruned {
            checkpoints: plan.checkpoints,
            events,
            bytes,
        })
    }

    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        self.connection.check_directory()?;
        let line = self.current.line().clone();
        // Blobs may be large, and the log is moved into the database only after the row was
        // written.
        let run = self.run.id;
        self.commit_with_row(&line, |conn| blob::insert_blobs(conn, run, blobs))
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        let run = self.run.id;
        self.commit_change(|conn| write_definition(conn, run, definition))
    }

    fn set_note(
        &mut self,
        name: &str,
        text: &str,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let run = self.run.id;
        self.transact(durability, |conn| write_note(conn, run, name, text))
    }
}
