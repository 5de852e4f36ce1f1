//! The rows of runs and lineages in SQLite.

use rusqlite::{Connection, OptionalExtension, Row, params};
use strata_base::codec::CodecError;
use strata_records::codec::DecodeError;
use strata_records::lineage::{StoredLineage, StoredRun};

/// The notes about no run (0) of the largest keys of runs and of lineages that were deleted. Keys are not used again:
/// whoever still reads a run that was deleted would read another.
pub(super) const DELETED_RUN_NOTE: &str = "deleted-run";
pub(super) const DELETED_LINEAGE_NOTE: &str = "deleted-lineage";

/// Returns the key after those of all lineages.
pub(super) fn next_lineage_id(conn: &Connection) -> rusqlite::Result<i64> {
    next_key(conn, "lineage", DELETED_LINEAGE_NOTE)
}

/// Returns the key after all keys of a table, also those that were deleted. It is 0 if there are none.
pub(super) fn next_key(conn: &Connection, table: &str, note: &str) -> rusqlite::Result<i64> {
    let sql = format!(
        "SELECT max(coalesce((SELECT max(id) FROM {table}), -1), \
                    coalesce((SELECT CAST(text AS INTEGER) FROM note WHERE run = 0 AND name = ?1), -1)) + 1"
    );
    conn.prepare_cached(&sql)?
        .query_row([note], |row| row.get(0))
}

/// What is stored as a row of a table.
pub(crate) trait SqliteRow: Sized {
    /// Reads it. Fails with a description if the row is damaged.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Result<Self, DecodeError>>;

    /// Writes all of its columns.
    fn write(&self, conn: &Connection) -> rusqlite::Result<()>;
}

impl SqliteRow for StoredLineage {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Result<Self, DecodeError>> {
        let origin: (Option<i64>, Option<i64>) = (row.get(4)?, row.get(5)?);
        let read = Self {
            id: row.get(0)?,
            run: row.get(1)?,
            number: row.get(2)?,
            name: row.get(3)?,
            origin: origin.0.zip(origin.1),
            events: row.get(6)?,
            last_checksum: row.get(7)?,
            forgotten_until: row.get(8)?,
            spent: row.get(9)?,
            bytes_since_snapshot: row.get(10)?,
        };
        let sum: u32 = row.get(11)?;
        Ok(read.verified(sum))
    }

    fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT INTO lineage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let row = params![
            self.id,
            self.run,
            self.number,
            self.name,
            self.origin.map(|origin| origin.0),
            self.origin.map(|origin| origin.1),
            self.events,
            self.last_checksum,
            self.forgotten_until,
            self.spent,
            self.bytes_since_snapshot,
            self.checksum()
        ];
        conn.execute(sql, row).map(drop)
    }
}

/// Writes the columns of a lineage that change.
pub(super) fn update_lineage(conn: &Connection, line: &StoredLineage) -> rusqlite::Result<()> {
    let sql = "UPDATE lineage SET events = ?2, last = ?3, forgotten = ?4, spent = ?5, since = ?6, sum = ?7 WHERE id = ?1";
    let row = params![
        line.id,
        line.events,
        line.last_checksum,
        line.forgotten_until,
        line.spent,
        line.bytes_since_snapshot,
        line.checksum()
    ];
    conn.prepare_cached(sql)?.execute(row).map(drop)
}

impl SqliteRow for StoredRun {
    /// Replaces it if it is there.
    fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO run VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let row = params![
            self.id,
            self.name,
            self.epoch,
            self.lineage,
            self.next_line,
            self.checksum()
        ];
        conn.execute(sql, row).map(drop)
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Result<Self, DecodeError>> {
        let read = Self {
            id: row.get(0)?,
            name: row.get(1)?,
            epoch: row.get(2)?,
            lineage: row.get(3)?,
            next_line: row.get(4)?,
        };
        let sum: u32 = row.get(5)?;
        Ok(if sum == read.checksum() {
            read.checked()
        } else {
            Err(CodecError::Checksum.into())
        })
    }
}

/// Returns the epoch of the newest lease under which a run was changed; `None` if there is no such run.
pub(super) fn stored_epoch(conn: &Connection, run: i64) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT epoch FROM run WHERE id = ?1")?
        .query_row([run], |row| row.get(0))
        .optional()
}
