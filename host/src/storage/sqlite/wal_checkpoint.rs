//! Marks in the database whether a log belongs to it, and moves the log into it.
//!
//! `log.expected` is 1 in the database file itself as long as a log is in use, and the first change
//! in the log sets it to 0. So a database that lost its log is noticed, and one into which any
//! program moved the complete log is accepted.

use rusqlite::Connection;

use super::rows::SqliteReader;
use super::write::SYNCHRONOUS;
use crate::storage::error::StoreError;
use crate::storage::lineage::StoredLineage;
use crate::storage::progress::ProgressFile;
use crate::storage::schema;

/// How the log is moved: the mode of an SQLite checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WalCheckpointMode {
    /// As far as it is possible without waiting for readers.
    Passive,
    /// Completely; waits for readers.
    Full,
    /// Completely, and the log file is truncated.
    Truncate,
}

impl WalCheckpointMode {
    fn sql(self) -> &'static str {
        match self {
            Self::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
            Self::Full => "PRAGMA wal_checkpoint(FULL)",
            Self::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        }
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

/// Moves the log into the database, which then expects another log. Returns whether all of it was
/// moved.
pub(super) fn move_log(conn: &Connection, how: WalCheckpointMode) -> rusqlite::Result<bool> {
    set_log_expected(conn, true)?;
    let moved = conn.query_row(how.sql(), [], |row| {
        let busy: i64 = row.get(0)?;
        let pages: i64 = row.get(1)?;
        let moved: i64 = row.get(2)?;
        Ok(busy == 0 && pages == moved)
    });
    set_log_expected(conn, false)?;
    moved
}

/// Called before each change. At the first one, it makes sure that the loss of the log would be
/// noticed. `line` is the current lineage.
pub(super) fn ensure_log_started(
    reader: &SqliteReader,
    progress: &ProgressFile,
    line: &StoredLineage,
) -> Result<(), StoreError> {
    if progress.is_open() {
        return Ok(());
    }
    let conn = &reader.rows.conn;
    let fail = |e| reader.error("write", e);
    // The rows of other runs may have stayed behind when a process was killed. They are read
    // before anything is changed, so that a damaged row leaves everything as it is.
    let others = reader.lineages_of_others()?;
    // The progress file comes first, since readers of a database that expects a log require it.
    progress.open()?;
    // With an empty log, SQLite has nothing to sync before the database.
    let is_new = log_pages(conn).map_err(fail)? == 0;
    let synchronous = if is_new { "off" } else { SYNCHRONOUS };
    conn.pragma_update(None, "synchronous", synchronous)
        .map_err(fail)?;
    let update_rows = || {
        line.update(conn)?;
        others.iter().try_for_each(|line| line.update(conn))
    };
    let begun = update_rows().and_then(|()| move_log(conn, WalCheckpointMode::Full));
    conn.pragma_update(None, "synchronous", SYNCHRONOUS)
        .map_err(fail)?;
    if begun.map_err(fail)? {
        if is_new {
            schema::sync_database(&reader.rows.path)?;
        }
        progress.mark_synced();
        progress.flush();
    }
    Ok(())
}
