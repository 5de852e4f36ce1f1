//! Marks in the database whether a log belongs to it, and moves the log into it.
//!
//! `log.expected` is 1 in the database file itself as long as a log is in use, and the first change
//! in the log sets it to 0. So a database that lost its log is noticed, and one into which any
//! program moved the complete log is accepted.
//!
//! SQLite would move a part of the log if a reader still needs an earlier state. The database file
//! would then hold a state from the middle of the log, in which `log.expected` is 0. So a log is
//! moved as a whole or not at all, and the move is tried again later.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use strata_records::error::StoreError;
use strata_records::lineage::StoredLineage;

use super::error::failed_sync;
use super::lineage::update_lineage;
use super::rows::{SqliteReader, lineages_of_others_behind};
use super::wal_file::max_bytes;
use crate::progress::ProgressFile;
use crate::schema;

/// When SQLite syncs by itself: only when the log is moved into the database, not at each commit.
/// This program syncs the log when a commit has to survive a loss of power.
pub(super) const SYNCHRONOUS: &str = "normal";

/// After how long SQLite looks again whether another connection is still in the way.
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// How often it does so at most.
const MAX_WAITS: i32 = 500;
/// How often it does so before the log is moved. Readers of this program end sooner; others may read
/// for any time, and the log can be moved later.
const MAX_WAITS_FOR_READERS: i32 = 100;

/// How the log is moved. Nothing is moved while a reader needs an earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalMove {
    /// If no reader is in the way now.
    IfUnread,
    /// Waits for readers first.
    Wait,
    /// Waits for readers, and truncates the log file.
    Truncate,
}

impl WalMove {
    fn sql(self) -> &'static str {
        match self {
            Self::IfUnread | Self::Wait => "PRAGMA wal_checkpoint(FULL)",
            Self::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        }
    }

    fn max_waits(self) -> i32 {
        match self {
            Self::IfUnread => 0,
            Self::Wait | Self::Truncate => MAX_WAITS_FOR_READERS,
        }
    }
}

/// Moves the log of a connection into its database.
#[derive(Debug)]
pub(super) struct WalMover {
    /// How the log is being moved at the moment, for the function that SQLite calls if a reader is
    /// in the way.
    current_move: Arc<Mutex<Option<WalMove>>>,
    /// Whether the database file expects a log, so that the loss of the log is noticed.
    is_log_expected: Cell<bool>,
}

impl WalMover {
    /// From now on, only the result moves the log of a connection, which is done once it has `pages`
    /// pages. Has SQLite shorten the file of a log that grew while a reader was in the way.
    pub(super) fn for_connection(conn: &mut Connection, pages: u32) -> rusqlite::Result<Self> {
        conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        let max_bytes = max_bytes(pages) as i64;
        conn.pragma_update(None, "journal_size_limit", max_bytes)?;
        let current_move = Arc::<Mutex<Option<WalMove>>>::default();
        let (shared, interrupt) = (Arc::clone(&current_move), conn.get_interrupt_handle());
        conn.busy_handler(Some(move |waits: i32| {
            let how = *shared.lock().unwrap_or_else(PoisonError::into_inner);
            if waits < how.map_or(MAX_WAITS, WalMove::max_waits) {
                std::thread::sleep(BUSY_WAIT);
                return true;
            }
            if how.is_some() {
                // Otherwise, SQLite would move the part of the log that no reader needs.
                interrupt.interrupt();
            }
            false
        }))?;
        Ok(Self {
            current_move,
            is_log_expected: Cell::new(false),
        })
    }

    /// Whether the database file expects a log.
    pub(super) fn is_log_expected(&self) -> bool {
        self.is_log_expected.get()
    }

    /// Notes that the database file expects a log since it was created.
    pub(super) fn note_log_expected(&self) {
        self.is_log_expected.set(true);
    }

    /// Moves the log into the database, which then expects another log. Returns whether it was
    /// moved.
    pub(super) fn move_log(&self, conn: &Connection, how: WalMove) -> rusqlite::Result<bool> {
        set_log_expected(conn, true)?;
        self.set_current_move(Some(how));
        let moved = checkpoint(conn, how);
        self.set_current_move(None);
        set_log_expected(conn, false)?;
        let moved = moved?;
        if moved {
            self.note_log_expected();
        }
        Ok(moved)
    }

    fn set_current_move(&self, how: Option<WalMove>) {
        *self
            .current_move
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = how;
    }
}

/// Sets whether there must be a log with the rest of the database. The change itself is written to
/// the log.
fn set_log_expected(conn: &Connection, is_expected: bool) -> rusqlite::Result<()> {
    conn.prepare_cached("UPDATE log SET expected = ?1")?
        .execute([is_expected])
        .map(drop)
}

/// Makes the first change in the log of a database that was just filled.
pub(super) fn mark_log_started(conn: &Connection) -> rusqlite::Result<()> {
    set_log_expected(conn, false)
}

/// Returns how many pages the log has.
pub(super) fn log_pages(conn: &Connection) -> rusqlite::Result<u32> {
    conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| {
        row.get::<_, i64>(1)
    })
    .map(|pages| pages.max(0) as u32)
}

/// Runs the SQLite checkpoint. Returns whether the whole log was moved; if not, nothing was.
fn checkpoint(conn: &Connection, how: WalMove) -> rusqlite::Result<bool> {
    let ended = conn.query_row(how.sql(), [], |row| {
        let pages: i64 = row.get(1)?;
        let moved: i64 = row.get(2)?;
        Ok(pages == moved)
    });
    match ended {
        Err(error)
            if matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::OperationInterrupted | ErrorCode::DatabaseBusy)
            ) =>
        {
            Ok(false)
        }
        ended => ended,
    }
}

/// Called before each change. At the first one, it makes sure that the loss of the log would be
/// noticed. `current` is a lineage of the run that `reader` reads, whose newest events its owner knows. Fails with
/// `StoreError::WriteFailed` if it is not known any more what the disk has.
pub(super) fn ensure_log_started(
    reader: &SqliteReader,
    mover: &WalMover,
    progress: &ProgressFile,
    current: Option<&StoredLineage>,
) -> Result<(), StoreError> {
    if progress.is_open() {
        return Ok(());
    }
    let conn = &reader.rows.conn;
    let fail = |e| reader.rows.error("write", e);
    // The rows of other runs may have stayed behind when a process was killed. They are read
    // before anything is changed, so that a damaged row leaves everything as it is.
    let others = lineages_of_others_behind(reader)?;
    // The progress file comes first, since readers of a database that expects a log require it.
    progress.open()?;
    // With an empty log, SQLite has nothing to sync before the database.
    let is_new = log_pages(conn).map_err(fail)? == 0;
    let synchronous = if is_new { "off" } else { SYNCHRONOUS };
    conn.pragma_update(None, "synchronous", synchronous)
        .map_err(fail)?;
    let update_rows = || {
        let mut lines = current.into_iter().chain(&others);
        lines.try_for_each(|line| update_lineage(conn, line))
    };
    let outcome = update_rows().and_then(|()| mover.move_log(conn, WalMove::Wait));
    conn.pragma_update(None, "synchronous", SYNCHRONOUS)
        .map_err(fail)?;
    let path = &reader.rows.path;
    let moved = outcome.map_err(|e| failed_sync(path, &e).unwrap_or_else(|| fail(e)))?;
    if moved {
        if is_new {
            // The next change does not come here again.
            schema::sync_database(path).map_err(|e| StoreError::write_failed(path, e))?;
        }
        progress.mark_synced();
        progress.flush();
    }
    Ok(())
}
