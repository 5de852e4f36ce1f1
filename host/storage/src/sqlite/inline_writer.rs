//! Writes the changes of a run in a storage directory, each at once on the connection of its lease. The directory stays
//! locked until that is dropped.
//!
//! The database file itself, without its log, never contains an event that the row of its lineage does not cover, so that
//! the loss of its end is noticed: the log is moved into it only after the row was written, which is not done with each
//! event, since readers find the events after it. Events that are only in the log are protected by the log's own
//! checksums.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use strata_records::error::StoreError;
use strata_records::lineage::{DIRECTORY_RUN, KeyRange, StoredLineage, key_range};
use strata_records::rows::RunRows;
use strata_records::run_change::{RunChange, WrittenChange};
use strata_records::run_writer::{RunWriter, ShownState, Writing};
use strata_records::stored_lease::StoredLease;

use super::create::DatabaseImage;
use super::error::failed_sync;
use super::lineage::SqliteRow;
use super::lineage::stored_epoch;
use super::prune::file_bytes;
use super::rows::{SqliteReader, SqliteRows};
use super::snapshot::database_bytes;
use super::write_change::{LossCheck, RunUnderLease, write_change};
use super::write_connection::WriteConnection;
use crate::directory::names::{DATABASE, SideFile};
use crate::lock::StorageLock;
use crate::{Durability, Epoch};

/// The size at which the log is moved into the database, in pages of 4 KiB. It is large, because
/// moving costs two syncs each time, but small enough that reading the log after a crash takes
/// milliseconds.
const LOG_PAGES: u32 = 2000;

/// A lease of a run in a storage directory.
pub(crate) type SqliteLease = StoredLease<InlineWriter>;

/// Writes the changes of a run in a storage directory.
#[derive(Debug)]
pub(crate) struct InlineWriter {
    // Dropped first: the lock has to be held while the database is closed.
    pub(super) connection: WriteConnection,
    changed: RunUnderLease,
    /// Whether the run was changed under this lease, so that its epoch is stored. Until then, the
    /// lock alone keeps others away.
    is_claimed: Cell<bool>,
    /// The time of the event with which the directory was checked last, in milliseconds.
    directory_checked_ms: Cell<Option<i64>>,
    /// The directory.
    path: PathBuf,
    _lock: StorageLock,
}

impl InlineWriter {
    /// Creates a database whose run starts from `base`, with the bytes of files.
    pub(crate) fn create(
        lock: StorageLock,
        directory: &Path,
        image: &DatabaseImage,
    ) -> Result<SqliteLease, StoreError> {
        let path = directory.join(DATABASE);
        let connection = WriteConnection::create(&path, image, DIRECTORY_RUN.0, LOG_PAGES)?;
        SqliteLease::new(Self::new(lock, directory, connection)?)
    }

    /// Opens the database of a directory, to change a run.
    pub(crate) fn open(
        lock: StorageLock,
        directory: &Path,
        run: i64,
    ) -> Result<SqliteLease, StoreError> {
        let connection = WriteConnection::open(&directory.join(DATABASE), run, LOG_PAGES)?;
        SqliteLease::new(Self::new(lock, directory, connection)?)
    }

    /// Returns the connection, to look at it or to limit what it may do.
    #[cfg(test)]
    pub(crate) fn connection(&mut self) -> &mut WriteConnection {
        &mut self.connection
    }

    fn new(
        lock: StorageLock,
        directory: &Path,
        connection: WriteConnection,
    ) -> Result<Self, StoreError> {
        let rows = &connection.reader.rows;
        let mut run = rows.run()?;
        run.epoch += 1;
        Ok(Self {
            changed: RunUnderLease {
                run,
                bundle_keys: key_range(rows.first_lineage()?),
                shown: ShownState::Never,
            },
            connection,
            is_claimed: Cell::new(false),
            directory_checked_ms: Cell::new(None),
            path: directory.to_path_buf(),
            _lock: lock,
        })
    }

    /// Runs `work` in a transaction whose commit has to survive the end of the process.
    pub(super) fn commit<T>(
        &self,
        line: &StoredLineage,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let fail = |e| self.connection.reader.rows.error("write", e);
        if !self.connection.progress.is_open() && !self.is_newest_lease(line).map_err(fail)? {
            return Err(self.fenced());
        }
        self.connection.ensure_log_started(Some(line))?;
        let result = self.connection.transact(|conn| {
            if !self.is_newest_lease(line)? {
                return Ok(None);
            }
            if !self.is_claimed.get() {
                self.changed.run.write(conn)?;
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
    fn is_newest_lease(&self, line: &StoredLineage) -> rusqlite::Result<bool> {
        let conn = self.connection.conn();
        let run = &self.changed.run;
        let stored = stored_epoch(conn, run.id)?;
        if self.is_claimed.get() {
            return Ok(stored == Some(run.epoch));
        }
        // Another lease that was taken at the same moment has the same epoch until it is stored.
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM event WHERE n > ?1 AND n <= ?2)";
        let keys = [line.last_key(), key_range(line.id).last];
        let is_unchanged = conn.query_row(sql, keys, |row| row.get::<_, bool>(0))?;
        Ok(stored == Some(run.epoch - 1) && is_unchanged)
    }

    fn fenced(&self) -> StoreError {
        StoreError::Fenced {
            path: self.path.clone(),
        }
    }

    /// Fails if the directory is gone: SQLite would go on writing to open files in it.
    fn check_directory(&self, change: &RunChange) -> Result<(), StoreError> {
        match change {
            RunChange::Events(_) | RunChange::Branch(_) => {
                // Once a millisecond is enough: events that follow each other within one are few.
                let time_ms = change.events().and_then(|events| events.time_ms());
                if time_ms != self.directory_checked_ms.get() {
                    self.connection.check_directory()?;
                    self.directory_checked_ms.set(time_ms);
                }
                Ok(())
            }
            RunChange::EarlierState(_) | RunChange::Prune(_) | RunChange::Blobs(_) => {
                self.connection.check_directory()
            }
            RunChange::Snapshot(_)
            | RunChange::Row(_)
            | RunChange::Definition(_)
            | RunChange::Note { .. }
            | RunChange::Switch(_)
            | RunChange::Schedule(_) => Ok(()),
        }
    }

    /// Moves the log into the database if it is long. The row of the lineage has to be written. Fails if it is not known
    /// any more what the disk has.
    fn move_log_if_due(&self) -> Result<(), StoreError> {
        let moved = match self.connection.is_move_due() {
            Ok(true) => self.connection.move_log(),
            other => other.map(drop),
        };
        let Err(error) = moved else {
            return Ok(());
        };
        // Otherwise, what was committed is safe in the log. The next write of the row tries again.
        tracing::debug!("the log stays as long as it is: {error}");
        failed_sync(self.connection.path(), &error).map_or(Ok(()), Err)
    }
}

impl RunWriter for InlineWriter {
    type Rows = SqliteRows;

    fn reader(&self) -> &SqliteReader {
        &self.connection.reader
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.changed.run.epoch as u64)
    }

    fn bundle_keys(&self) -> KeyRange {
        self.changed.bundle_keys
    }

    fn begin(
        &self,
        line: &StoredLineage,
        change: RunChange,
        durability: Durability,
    ) -> Result<Writing, StoreError> {
        self.check_directory(&change)?;
        let loss_check = LossCheck::of(&change);
        let written: WrittenChange = self.commit(line, |conn| {
            let written = write_change(conn, &self.changed, &change, &database_bytes)?;
            loss_check.note(conn)?;
            Ok(written)
        })?;
        let progress = &self.connection.progress;
        match loss_check.changes() {
            0 => {}
            changes => progress.count_changes(changes),
        }
        if durability == Durability::Process {
            // Otherwise, this follows with the sync.
            progress.flush();
        }
        if change.writes_row() {
            self.move_log_if_due()?;
        }
        Ok(Writing::Committed(written))
    }

    fn begin_sync(&mut self) -> bool {
        // The first sync also syncs the directory.
        let is_separable = self.connection.is_directory_synced();
        if is_separable {
            self.connection.begin_sync();
        }
        is_separable
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.connection.sync_log()
    }

    fn needs_row(&self) -> bool {
        self.connection.is_move_due().unwrap_or(false)
    }

    fn shown(&self) -> ShownState {
        self.changed.shown
    }

    fn measure(&self) -> Result<u64, StoreError> {
        let path = self.connection.path();
        Ok(file_bytes(path) + file_bytes(&SideFile::Wal.beside(path)))
    }

    fn shrink(&mut self) -> Result<u64, StoreError> {
        self.connection.shrink()?;
        // The rest of the log is removed when the database is closed.
        Ok(file_bytes(self.connection.path()))
    }
}
