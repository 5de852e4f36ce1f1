//! How the database says that a log belongs to it, and how the log is moved into it.
//!
//! `log.expected` is 1 in the database itself for as long as a log is in use, and the first change in the log sets it to
//! 0. So a database that lost its log says so, and one into which any program moved the log as a whole does not.

use rusqlite::Connection;

use super::SqliteStore;
use crate::store::error::StoreError;
use crate::store::schema;

/// How the log is moved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// As far as no reader is in the way.
    Passive,
    /// As a whole; readers are waited for.
    Full,
    /// The same, and its file is cut off.
    Truncate,
}

impl Move {
    fn sql(self) -> &'static str {
        match self {
            Self::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
            Self::Full => "PRAGMA wal_checkpoint(FULL)",
            Self::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        }
    }
}

/// Says in the log whether the rest of the database is in a log that follows.
fn expect(conn: &Connection, is_expected: bool) -> rusqlite::Result<()> {
    conn.prepare_cached("UPDATE log SET expected = ?1")?
        .execute([is_expected])
        .map(drop)
}

/// The first change in the log of a database that was just filled.
pub(super) fn begin_first(conn: &Connection) -> rusqlite::Result<()> {
    expect(conn, false)
}

/// How many pages the log has.
pub(super) fn log_pages(conn: &Connection) -> rusqlite::Result<u32> {
    conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| {
        row.get::<_, i64>(1)
    })
    .map(|pages| pages.max(0) as u32)
}

/// Moves the log into the database, which expects another one then. Gives whether all of it was moved.
pub(super) fn move_log(conn: &Connection, how: Move) -> rusqlite::Result<bool> {
    expect(conn, true)?;
    let moved = conn.query_row(how.sql(), [], |row| {
        let (busy, pages, moved): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(busy == 0 && pages == moved)
    });
    expect(conn, false)?;
    moved
}

impl SqliteStore {
    /// Moves the log into the database once it has this many pages.
    #[cfg(test)]
    pub(in crate::store) fn limit_log(&mut self, pages: u32) {
        self.log_pages = pages;
    }

    /// How many pages the log has.
    #[cfg(test)]
    pub(in crate::store) fn log_length(&self) -> u32 {
        log_pages(&self.reader.conn).unwrap()
    }

    /// Before the first change: sees to it that the loss of the log would be noticed.
    pub(super) fn begin(&self) -> Result<(), StoreError> {
        if self.progress.is_begun() {
            return Ok(());
        }
        // First, since whoever reads a database that expects a log looks for this.
        self.progress.begin()?;
        let conn = &self.reader.conn;
        let fail = |e| self.reader.error("write", e);
        // An empty log has nothing that SQLite would have to sync before the database.
        let is_new = log_pages(conn).map_err(fail)? == 0;
        let synchronous = if is_new {
            "off"
        } else {
            super::write::SYNCHRONOUS
        };
        conn.pragma_update(None, "synchronous", synchronous)
            .map_err(fail)?;
        let begun = self
            .line
            .update(conn)
            .and_then(|()| move_log(conn, Move::Full));
        conn.pragma_update(None, "synchronous", super::write::SYNCHRONOUS)
            .map_err(fail)?;
        if begun.map_err(fail)? {
            if is_new {
                schema::sync(&self.reader.path)?;
            }
            self.progress.synced();
            self.progress.put();
        }
        Ok(())
    }
}
