//! The store in a file: `team.db`, an SQLite database in WAL mode. Its rows are read in `rows`, without
//! its lock in `consistent_read`, and its tables are in `schema`.
//!
//! Here, `create` makes a database; `append` appends events; `write` writes rows, and `lineage_row` writes that of the
//! current lineage; `wal_file` syncs the write-ahead log, and `wal_checkpoint` moves it into
//! the database; `commit_locks` has a commit take fewer locks; `group_commit` shares a log with other teams; `snapshot` saves states, and `prune` removes what is not needed.

mod append;
pub(super) mod blob;
mod commit_locks;
mod consistent_read;
mod create;
mod file_state;
mod group_commit;
pub(super) mod group_log;
mod lineage;
mod lineage_row;
mod prune;
pub(super) mod rows;
pub(super) mod schema;
#[cfg(test)]
mod several_runs;
mod snapshot;
mod wal_checkpoint;
mod wal_file;
mod write;

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use strata_core::record::id::Digest;
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;

use super::current_lineage::CurrentLineage;
use super::directory::names::{DATABASE, WAL_FILE};
use super::error::StoreError;
use super::lineage::{DIRECTORY_RUN, KeyRange, StoredRun, key_range};
use super::lock::StorageLock;
use super::progress::ProgressFile;
use super::prune_plan::PrunePlanner;
use super::reader::Reader;
use super::rows::RunRows;
use super::snapshot::MAX_SNAPSHOT_BYTES;
use super::{
    Append, Appending, BuildState, CheckpointRow, Durability, Epoch, GroupLog, Lease, LineageRow,
    LoadedState, Pruned, Record, SavedDefinition, StateSelector, file,
};

use crate::blob::Blobs;

pub(in crate::storage) use create::DatabaseImage;
pub(super) use create::TEMPORARY_DATABASE;
use create::create_database;
use group_commit::GroupCommit;
use lineage::stored_epoch;
use prune::{carry_out, file_bytes, shrink};
use rows::{SqliteReader, SqliteRows, check_pages};
use snapshot::insert_snapshot;
use wal_checkpoint::{WalMover, ensure_log_started};
use wal_file::WalFile;
use write::{begin_log, write_definition, write_note};

/// The size at which the log is moved into the database, in pages of 4 KiB. It is large, because
/// moving costs two syncs each time, but small enough that reading the log after a crash takes
/// milliseconds.
const LOG_PAGES: u32 = 2000;

/// A lease of a run in a file. The directory stays locked until the lease is dropped.
#[derive(Debug)]
pub struct SqliteLease {
    // Dropped first: the lock has to be held while the database is closed.
    reader: SqliteReader,
    /// How far the database got. Dropped after the database is closed.
    progress: ProgressFile,
    /// The run, with the epoch of this lease.
    run: StoredRun,
    /// Whether the run was changed under this lease, so that its epoch is stored. Until then, the
    /// lock alone keeps others away.
    is_claimed: Cell<bool>,
    /// The range in which the keys of the run's bundles are.
    bundle_keys: KeyRange,
    current: CurrentLineage,
    /// The log file, to sync it. It is opened at the first sync, which also syncs the directory.
    wal_file: Option<WalFile>,
    /// The buffer in which events are encoded.
    buffer: Vec<u8>,
    /// Its membership in a log that several teams share. Dropped after the database is closed,
    /// while the lock is held.
    group_commit: Option<GroupCommit>,
    /// The size at which the log is moved into the database, in pages.
    max_log_pages: u32,
    wal_mover: WalMover,
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
    pub(in crate::storage) fn create(
        lock: StorageLock,
        directory: &Path,
        image: &DatabaseImage,
    ) -> Result<Self, StoreError> {
        create_database(directory, image)?;
        // The name becomes durable with the first full append. Nothing can be lost before that.
        let store = Self::open(lock, directory, DIRECTORY_RUN.0)?;
        store.progress.open()?;
        store.wal_mover.note_log_expected();
        begin_log(&store.reader.rows.conn)
            .map_err(|e| StoreError::sqlite(&store.reader.rows.path, "create", e))?;
        Ok(store)
    }

    /// Opens the database of a directory, to change a run.
    pub(super) fn open(lock: StorageLock, directory: &Path, run: i64) -> Result<Self, StoreError> {
        let path = directory.join(DATABASE);
        schema::require_own_database(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fail = |e| StoreError::sqlite(&path, "open", e);
        let conn = match commit_locks::file_system() {
            Some(name) => Connection::open_with_flags_and_vfs(&path, flags, name),
            None => Connection::open_with_flags(&path, flags),
        };
        let conn = conn.map_err(fail)?;
        // The log is left unchanged if the database is refused.
        let has_log = std::fs::metadata(directory.join(WAL_FILE)).is_ok_and(|log| log.len() > 0);
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)
            .map_err(fail)?;
        let rows = SqliteRows::from_connection(conn, path.clone(), run)?;
        let mut reader = SqliteReader::from_rows(rows);
        let wal_mover = WalMover::for_connection(&mut reader.rows.conn).map_err(fail)?;
        reader
            .rows
            .conn
            .pragma_update(None, "synchronous", wal_checkpoint::SYNCHRONOUS)
            .map_err(fail)?;
        check_pages(&reader)?;
        let changes = reader.check_complete()?;
        schema::enable_wal(&reader.rows.conn, &path)?;
        reader
            .rows
            .conn
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(fail)?;
        let progress = ProgressFile::for_database(directory, changes)?;
        let mut run = reader.rows.run()?;
        run.epoch += 1;
        let current = CurrentLineage::load(&reader, run.lineage)?;
        let lock = LockedDirectory {
            path: directory.to_path_buf(),
            _lock: lock,
        };
        let mut store = Self {
            run,
            is_claimed: Cell::new(false),
            bundle_keys: key_range(reader.rows.first_lineage()?),
            reader,
            progress,
            current,
            wal_file: None,
            buffer: Vec::new(),
            group_commit: None,
            max_log_pages: LOG_PAGES,
            wal_mover,
            directory_checked_ms: None,
            lock,
        };
        store.restore_from_group_logs()?;
        Ok(store)
    }

    /// Simulates a full disk once the database has this many pages.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, max: u32) {
        self.reader
            .rows
            .conn
            .pragma_update(None, "max_page_count", max)
            .unwrap();
    }

    /// Runs `work` in a transaction: all of it is committed, or nothing.
    fn transact<T>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let result = self.commit(work)?;
        if let Some(joined) = &mut self.group_commit {
            joined.note_other_change();
        }
        if durability == Durability::Full {
            self.sync_log()?;
        }
        Ok(result)
    }

    /// The same, for a change that is no event and must not be lost.
    fn commit_change(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        self.transact(Durability::Process, |conn| {
            work(conn)?;
            conn.execute("UPDATE log SET changes = changes + 1", [])
                .map(drop)
        })?;
        self.progress.count_changes(1);
        self.sync_log()
    }

    /// The same, but the commit only has to survive the end of the process: if it is not an event,
    /// it may be lost with the power.
    fn commit<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let fail = |e| self.reader.error("write", e);
        if !self.progress.is_open() && !self.is_newest_lease().map_err(fail)? {
            return Err(self.fenced());
        }
        let line = self.current.line();
        ensure_log_started(&self.reader, &self.wal_mover, &self.progress, line)?;
        let conn = &self.reader.rows.conn;
        let run = |sql: &str| conn.prepare_cached(sql)?.execute([]).map(drop);
        let all = || {
            run("BEGIN IMMEDIATE")?;
            if !self.is_newest_lease()? {
                return Ok(None);
            }
            if !self.is_claimed.get() {
                self.run.write(conn)?;
            }
            let result = work(conn)?;
            run("COMMIT")?;
            Ok(Some(result))
        };
        let result = commit_locks::with_fewer_locks(|| {
            let result = all();
            if !conn.is_autocommit() {
                // If the rollback fails, the transaction ends with the connection; none of it
                // becomes visible.
                let _ = conn.execute_batch("ROLLBACK");
            }
            result
        });
        let result = result.map_err(fail)?.ok_or_else(|| self.fenced())?;
        self.is_claimed.set(true);
        Ok(result)
    }

    /// Whether the run was not changed under another lease since this one was taken. The lock of the
    /// directory ensures that, unless somebody removed its file.
    fn is_newest_lease(&self) -> rusqlite::Result<bool> {
        let conn = &self.reader.rows.conn;
        let stored = stored_epoch(conn, self.run.id)?;
        if self.is_claimed.get() {
            return Ok(stored == self.run.epoch);
        }
        // Another lease that was taken at the same moment has the same epoch until it is stored.
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM event WHERE n > ?1 AND n <= ?2)";
        let keys = [
            self.current.last_key(),
            key_range(self.current.line().id).last,
        ];
        let is_unchanged = conn.query_row(sql, keys, |row| row.get::<_, bool>(0))?;
        Ok(stored + 1 == self.run.epoch && is_unchanged)
    }

    fn fenced(&self) -> StoreError {
        StoreError::Fenced {
            path: self.lock.path.clone(),
        }
    }

    /// Makes everything that was committed survive a loss of power. Events are committed together
    /// with those of other teams if possible.
    fn sync(&mut self) -> Result<(), StoreError> {
        // Until its own WAL was synced for the first time, the directory has to be synced, too.
        let (Some(log), Some(joined)) = (&mut self.wal_file, &mut self.group_commit) else {
            return self.sync_log();
        };
        log.preallocate_if_grown()
            .map_err(|e| StoreError::io(&self.lock.path.join(WAL_FILE), "write", e))?;
        if joined.commit() {
            Ok(())
        } else {
            self.sync_log()
        }
    }

    /// Does the same by syncing its own WAL.
    fn sync_log(&mut self) -> Result<(), StoreError> {
        let path = self.lock.path.join(WAL_FILE);
        let fail = |e| StoreError::io(&path, "write", e);
        let log = match &mut self.wal_file {
            Some(log) => log,
            none => {
                let log = WalFile::open(&path, self.max_log_pages).map_err(fail)?;
                file::sync_directory(&self.lock.path)?;
                none.insert(log)
            }
        };
        match &mut self.group_commit {
            Some(joined) => joined.sync(log),
            None => log.sync(),
        }
        .map_err(fail)?;
        self.progress.mark_synced();
        self.progress.flush();
        Ok(())
    }

    /// Fails if the directory is gone or not writable any more. SQLite would go on writing to open
    /// files in it, but the run could not be saved in an orderly way.
    fn check_directory(&self) -> Result<(), StoreError> {
        let path = &self.lock.path;
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
            .map_err(|e| StoreError::io(path, "write", e.into()))
    }
}

impl Lease for SqliteLease {
    fn epoch(&self) -> Epoch {
        Epoch(self.run.epoch as u64)
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
                    snapshot::delete_old_snapshots(conn, new.key)?;
                    insert_snapshot(conn, &new.state, bundle_keys, new.key, new.bundles.clone())
                })
                .map(Some),
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
        let run = StoredRun {
            lineage: self.reader.require_lineage(lineage)?.id,
            next_line: self.reader.next_line()? as i64,
            ..self.run.clone()
        };
        self.commit_change(|conn| run.write(conn))?;
        self.run = run;
        self.continue_with(self.run.lineage)
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
        self.commit_with_row(&line, |_| Ok(()))?;
        self.current.note_forgotten(line);
        Ok(())
    }

    fn prune(&mut self, keep: u32, build_state: &mut BuildState<'_>) -> Result<Pruned, StoreError> {
        self.check_directory()?;
        let path = &self.reader.rows.path;
        let before = file_bytes(path) + file_bytes(&path.with_file_name(WAL_FILE));
        let (run, bundle_keys) = (self.run.id, self.bundle_keys);
        let planner = PrunePlanner {
            reader: &self.reader,
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
        shrink(&self.reader.rows.conn, &self.wal_mover)
            .map_err(|e| self.reader.error("shrink", e))?;
        // The rest of the log is removed when the database is closed.
        let bytes = before.saturating_sub(file_bytes(&self.reader.rows.path));
        Ok(Pruned {
            checkpoints: plan.checkpoints,
            events,
            bytes,
        })
    }

    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.reader.records(from, limit)
    }

    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        self.check_directory()?;
        let line = self.current.line().clone();
        // Blobs may be large, and the log is moved into the database only after the row was
        // written.
        let run = self.run.id;
        self.commit_with_row(&line, |conn| blob::insert_blobs(conn, run, blobs))?;
        if let Some(joined) = &mut self.group_commit {
            joined.note_other_change();
        }
        Ok(())
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.reader.blob(digest)
    }

    fn definition(&self) -> Result<SavedDefinition, StoreError> {
        self.reader.definition()
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        let run = self.run.id;
        self.commit_change(|conn| write_definition(conn, run, definition))
    }

    fn join(&mut self, group: &GroupLog) {
        self.join_group(group);
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
        let run = self.run.id;
        self.transact(durability, |conn| write_note(conn, run, name, text))
    }
}
