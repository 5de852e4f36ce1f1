//! The connection that changes a database, with what belongs to its log. At most one process has one: the
//! holder of the database's lock. Who may change which run is decided by its users.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use strata_records::error::StoreError;
use strata_records::lineage::StoredLineage;

use super::create::{DatabaseImage, create_database, remove_unused_database};
use super::error::sqlite_error;
use super::rows::{SqliteReader, SqliteRows, check_pages};
use super::wal_checkpoint::{WalMove, WalMover, ensure_log_started, log_pages};
use super::wal_file::WalFile;
use super::write::begin_log;
use super::{prune, wal_checkpoint};
use crate::directory::names::SideFile;
use crate::file::{self, FilePlace};
use crate::progress::ProgressFile;
use crate::progress::check_complete;
use crate::schema;

/// A connection that changes a database.
#[derive(Debug)]
pub(crate) struct WriteConnection {
    // Dropped first: closing the database moves the log into it.
    pub(super) reader: SqliteReader,
    /// How far the database got. Dropped after the database is closed.
    pub(super) progress: ProgressFile,
    /// The log file, to sync it. It is opened at the first sync, which also syncs the directory.
    wal_file: Option<WalFile>,
    wal_mover: WalMover,
    /// Where the file has to be.
    place: FilePlace,
    /// The size at which the log is moved into the database, in pages.
    max_log_pages: u32,
}

/// Why a transaction did not succeed.
#[derive(Debug)]
pub(super) enum TransactionError {
    /// It could not be begun.
    Begin(rusqlite::Error),
    /// Something in it failed, so nothing was changed.
    Work(rusqlite::Error),
    /// It could not be committed.
    Commit(rusqlite::Error),
}

impl TransactionError {
    /// Returns what SQLite says.
    pub(super) fn into_source(self) -> rusqlite::Error {
        match self {
            Self::Begin(source) | Self::Work(source) | Self::Commit(source) => source,
        }
    }
}

impl WriteConnection {
    /// Creates a database, and opens it to change a run. Only the holder of its lock may do so.
    pub(super) fn create(
        path: &Path,
        image: &DatabaseImage,
        run: i64,
        max_log_pages: u32,
    ) -> Result<Self, StoreError> {
        create_database(path, image)?;
        let started = Self::start(path, run, max_log_pages);
        started.inspect_err(|_| remove_unused_database(path))
    }

    /// Opens a database that was just created, and begins its log.
    fn start(path: &Path, run: i64, max_log_pages: u32) -> Result<Self, StoreError> {
        // The name becomes durable with the first full append. Nothing can be lost before that.
        let created = Self::open(path, run, max_log_pages)?;
        created.progress.open()?;
        created.wal_mover.note_log_expected();
        begin_log(created.conn()).map_err(|e| created.reader.rows.error("create", e))?;
        Ok(created)
    }

    /// Opens a database to change a run. Only the holder of its lock may do so.
    pub(super) fn open(path: &Path, run: i64, max_log_pages: u32) -> Result<Self, StoreError> {
        schema::require_own_database(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fail = |e| sqlite_error(path, "open", e);
        let conn = Connection::open_with_flags(path, flags).map_err(fail)?;
        // The log is left unchanged if the database is refused.
        let has_log = std::fs::metadata(SideFile::Wal.beside(path)).is_ok_and(|log| log.len() > 0);
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)
            .map_err(fail)?;
        let rows = SqliteRows::from_connection(conn, path.to_path_buf(), run)?;
        let mut reader = SqliteReader::from_rows(rows);
        let wal_mover =
            WalMover::for_connection(&mut reader.rows.conn, max_log_pages).map_err(fail)?;
        let conn = &reader.rows.conn;
        conn.pragma_update(None, "synchronous", wal_checkpoint::SYNCHRONOUS)
            .map_err(fail)?;
        check_pages(&reader)?;
        let changes = check_complete(&reader)?;
        schema::enable_wal(conn, path)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(fail)?;
        Ok(Self {
            progress: ProgressFile::for_database(path, changes)?,
            reader,
            wal_file: None,
            wal_mover,
            place: FilePlace::of(path)?,
            max_log_pages,
        })
    }

    pub(super) fn conn(&self) -> &Connection {
        &self.reader.rows.conn
    }

    /// Returns the path of the database.
    pub(super) fn path(&self) -> &Path {
        &self.reader.rows.path
    }

    /// Called before each change. At the first one, it makes sure that the loss of the log would be
    /// noticed. `current` is a lineage whose newest events its owner knows.
    pub(super) fn ensure_log_started(
        &self,
        current: Option<&StoredLineage>,
    ) -> Result<(), StoreError> {
        ensure_log_started(&self.reader, &self.wal_mover, &self.progress, current)
    }

    /// Runs `work` in a transaction: all of it is committed, or nothing. Nothing is if `work` returns
    /// `None`. What was committed survives the end of the process, and with `sync_log` a loss of power.
    pub(super) fn transact<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Option<T>>,
    ) -> Result<Option<T>, TransactionError> {
        let conn = self.conn();
        let run = |sql: &str| conn.prepare_cached(sql)?.execute([]).map(drop);
        let all = || {
            run("BEGIN IMMEDIATE").map_err(TransactionError::Begin)?;
            let Some(result) = work(conn).map_err(TransactionError::Work)? else {
                return Ok(None);
            };
            run("COMMIT").map_err(TransactionError::Commit)?;
            Ok(Some(result))
        };
        let result = all();
        if !conn.is_autocommit() {
            // If the rollback fails, the transaction ends with the connection; none of it becomes
            // visible.
            let _ = conn.execute_batch("ROLLBACK");
        }
        match result {
            // There is no space for the end of the transaction in the log, without which nobody takes it for committed.
            Err(TransactionError::Commit(source))
                if conn.is_autocommit()
                    && source.sqlite_error_code() == Some(ErrorCode::DiskFull) =>
            {
                Err(TransactionError::Work(source))
            }
            result => result,
        }
    }

    /// Whether the directory was synced, so that a sync of the log is all that events need.
    pub(super) fn is_directory_synced(&self) -> bool {
        self.wal_file.is_some()
    }

    /// Has the disk begin to write what was committed. `sync_log` waits for it.
    pub(super) fn begin_sync(&mut self) {
        if let Some(log) = &mut self.wal_file {
            log.begin_sync();
        }
    }

    /// Makes everything that was committed survive a loss of power.
    pub(super) fn sync_log(&mut self) -> Result<(), StoreError> {
        let path = SideFile::Wal.beside(&self.reader.rows.path);
        let fail = |e| StoreError::io(&path, "write", e);
        let log = match &mut self.wal_file {
            Some(log) => log,
            none => {
                let log = WalFile::open(&path, self.max_log_pages).map_err(fail)?;
                file::sync_directory(file::directory_of(&path))?;
                none.insert(log)
            }
        };
        log.sync().map_err(fail)?;
        self.progress.mark_synced();
        self.progress.flush();
        Ok(())
    }

    /// Whether the log has to be moved into the database: it is long, or its loss would not be noticed
    /// yet.
    pub(super) fn is_move_due(&self) -> rusqlite::Result<bool> {
        Ok(!self.wal_mover.is_log_expected() || log_pages(self.conn())? >= self.max_log_pages)
    }

    /// Moves the log into the database, unless a reader is in the way. All rows of lineages have to be
    /// written.
    pub(super) fn move_log(&self) -> rusqlite::Result<()> {
        if let Err(error) = self.progress.sync() {
            tracing::debug!("how far the database got is not synced: {error}");
        }
        if !self.wal_mover.move_log(self.conn(), WalMove::IfUnread)? {
            // It is moved when the row is written again after the reader has ended, or when the
            // database is closed; until then, it is read together with the database.
            tracing::debug!("the log stays as long as it is: another process reads it");
        }
        Ok(())
    }

    /// Has the log stay as it is when the database is closed.
    pub(super) fn keep_log(&self) {
        let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.conn().set_db_config(option, true) {
            tracing::warn!("the log is moved into the database when that is closed: {error}");
        }
    }

    /// Gives free pages back to the file system.
    pub(super) fn shrink(&self) -> Result<(), StoreError> {
        prune::shrink(self.conn(), &self.wal_mover).map_err(|e| self.reader.rows.error("shrink", e))
    }

    /// Fails if the directory is gone or not writable any more, or if the file is not in it any more. SQLite would go on
    /// writing to the files that are open, wherever they are.
    pub(super) fn check_directory(&self) -> Result<(), StoreError> {
        let path = file::directory_of(self.path());
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
            .map_err(|e| StoreError::io(path, "write", e.into()))?;
        self.place.check()
    }

    /// Returns where the file has to be.
    pub(super) fn place(&self) -> &FilePlace {
        &self.place
    }

    /// Returns how many pages the log has.
    #[cfg(test)]
    pub(crate) fn log_length(&self) -> u32 {
        log_pages(self.conn()).unwrap()
    }

    /// Sets the size at which the log is moved into the database, in pages.
    #[cfg(test)]
    pub(crate) fn limit_log(&mut self, pages: u32) {
        self.max_log_pages = pages;
    }

    /// Simulates a full disk once the database has this many pages.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, max: u32) {
        self.conn()
            .pragma_update(None, "max_page_count", max)
            .unwrap();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use rusqlite::Connection;

    use crate::directory::names::DATABASE;
    use crate::tests::damage::saved;
    use crate::{Durability, Lease, Record};

    /// How many times the run appends while others use its database.
    const ROUNDS: usize = 300;

    /// Opens a database as another program does.
    fn open(directory: &std::path::Path) -> Connection {
        let conn = Connection::open(directory.join(DATABASE)).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(60))
            .unwrap();
        conn
    }

    /// Does something in each round that it is in time for, until the last one has begun.
    fn once_a_round(rounds: &AtomicUsize, mut work: impl FnMut(usize)) {
        let mut done = 0;
        while done < ROUNDS {
            let round = rounds.load(SeqCst);
            if round == done {
                std::thread::yield_now();
                continue;
            }
            work(round);
            done = round;
        }
    }

    /// Counts events twice in a transaction, during which nothing may change.
    fn count_twice(conn: &Connection) -> i64 {
        let count = || {
            let sql = "SELECT count(*), sum(length(body)) FROM event";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?));
            conn.query_row(sql, [], read).unwrap()
        };
        conn.execute_batch("BEGIN").unwrap();
        let first = count();
        std::thread::yield_now();
        assert_eq!(count(), first);
        conn.execute_batch("COMMIT").unwrap();
        first.0
    }

    #[test]
    fn other_programs_read_and_move_the_log_and_write_while_a_run_commits() {
        let (_temp, directory, records, _) = saved(60);
        let mut store = directory.open().unwrap().lease;
        let more: Vec<Record> = records[..5].to_vec();
        store.append(&more, Durability::Process).unwrap();
        let before = count_twice(&open(directory.path()));
        let rounds = AtomicUsize::new(0);
        let (path, rounds) = (directory.path(), &rounds);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (conn, mut seen) = (open(path), 0);
                once_a_round(rounds, |_| {
                    let now = count_twice(&conn);
                    assert!(now >= seen);
                    seen = now;
                });
            });
            scope.spawn(move || {
                let conn = open(path);
                once_a_round(rounds, |round| {
                    let how = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][round % 4];
                    let sql = format!("PRAGMA wal_checkpoint({how})");
                    conn.query_row(&sql, [], |_| Ok(())).unwrap();
                });
            });
            scope.spawn(move || {
                let conn = open(path);
                once_a_round(rounds, |_| {
                    let sql = "INSERT OR REPLACE INTO note VALUES (1, 'another program', 'wrote')";
                    conn.execute(sql, []).unwrap();
                });
            });
            for round in 1..=ROUNDS {
                let appended = store.append(&more, Durability::Process);
                // The others end whatever happens.
                let ends = round == ROUNDS || appended.is_err();
                rounds.store(if ends { ROUNDS } else { round }, SeqCst);
                appended.unwrap();
            }
        });
        let conn = open(path);
        let check = |sql: &str| {
            conn.query_row(sql, [], |row| row.get::<_, String>(0))
                .unwrap()
        };
        assert_eq!(check("PRAGMA integrity_check"), "ok");
        assert_eq!(check("SELECT text FROM note"), "wrote");
        assert_eq!(count_twice(&conn), before + (more.len() * ROUNDS) as i64);
    }
}
