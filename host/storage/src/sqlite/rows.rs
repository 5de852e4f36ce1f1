//! Reads the rows of a run from SQLite.

use std::path::{Path, PathBuf};

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};
use strata_records::codec::DecodeError;
use strata_records::error::StoreError;
use strata_records::lineage::{KeyRange, NamedRun, StoredLineage, StoredRun, key_range};
use strata_records::reader::RowReader;
use strata_records::rows::{
    BundleBytes, DefinitionRow, EventRange, EventRow, EventSelection, GapRow, RowResult, RowsSize,
    RunRows, SnapshotRange, SnapshotRow, SnapshotSelection, StoredBlob, VisitBundle, VisitEvent,
};

use strata_core::record::id::Digest;

use super::error::sqlite_error;
use super::file_state::ReadMode;
use super::lineage::SqliteRow;
use super::lineage::next_lineage_id;
use super::snapshot::last_bundle;
use crate::schema;

/// The size of SQLite's page cache, in KiB. It can be small: appending needs the end of the tables
/// and the pages that lead there, and reading goes through the file once.
const CACHE_KIB: i64 = 512;

/// Databases up to this size are checked page by page when they are opened, which takes a few
/// milliseconds at most.
const MAX_CHECKED_BYTES: u64 = 4 << 20;

/// Stands for the key of a run where no run is read, but what all have together.
pub(super) const WHOLE_DATABASE: i64 = 0;

/// A database that is open for reading.
pub(crate) type SqliteReader = RowReader<SqliteRows>;

/// The rows of a run in an open database.
#[derive(Debug)]
pub(crate) struct SqliteRows {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
    /// The key of the run that is read.
    pub(crate) run: i64,
    pub(super) mode: ReadMode,
}

impl SqliteRows {
    /// Reads a run instead of what all have together.
    pub(super) fn of_run(self, run: i64) -> SqliteReader {
        SqliteReader::from_rows(Self { run, ..self })
    }

    /// Returns what an error means.
    pub(crate) fn error(&self, action: &'static str, source: rusqlite::Error) -> StoreError {
        sqlite_error(&self.path, action, source)
    }

    /// Configures a connection that reads a run, and checks the schema of its database. Nothing may
    /// have been read from it before.
    pub(super) fn from_connection(
        mut conn: Connection,
        path: PathBuf,
        run: i64,
    ) -> Result<Self, StoreError> {
        schema::limit_schema_work(&mut conn).map_err(|e| sqlite_error(&path, "open", e))?;
        let set = || {
            // The file may come from anyone: nothing in its schema may be executed, and cells are
            // checked when pages are read.
            conn.pragma_update(None, "trusted_schema", false)?;
            conn.pragma_update(None, "cell_size_check", true)?;
            conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
            conn.pragma_update(None, "temp_store", "memory")
        };
        set().map_err(|e| schema::schema_error(&path, e))?;
        schema::check_schema(&mut conn, &path)?;
        Ok(Self {
            conn,
            path,
            run,
            mode: ReadMode::Commits,
        })
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, StoreError> {
        self.conn
            .prepare_cached(sql)
            .map_err(|e| self.read_error(e))
    }

    /// Returns what `read` returns for the only row of a query.
    fn query_row<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let row = self.prepare(sql)?.query_row(params, read);
        row.map_err(|e| self.read_error(e))
    }

    /// Returns what `read` returns for the only row of a query, or `None` if there is no row.
    pub(super) fn query_optional<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let row = self.prepare(sql)?.query_row(params, read).optional();
        row.map_err(|e| self.read_error(e))
    }

    /// Returns what `read` returns for each row of a query.
    pub(super) fn query_all<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare(sql)?;
        let rows = statement.query_map(params, read);
        rows.and_then(Iterator::collect)
            .map_err(|e| self.read_error(e))
    }

    fn measure(&self, table: &str, keys: KeyRange) -> Result<RowsSize, StoreError> {
        let sql = format!(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM {table} WHERE n BETWEEN ?1 AND ?2"
        );
        self.query_row(&sql, [keys.first, keys.last], |row| {
            Ok(RowsSize {
                rows: row.get(0)?,
                bytes: row.get(1)?,
            })
        })
    }

    /// Returns the keys of all other runs.
    fn other_runs(&self) -> Result<Vec<i64>, StoreError> {
        self.query_all("SELECT id FROM run WHERE id <> ?1", [self.run], |row| {
            row.get(0)
        })
    }

    /// Returns the key of the run with a name, if there is one.
    pub(super) fn run_key(&self, name: &str) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT id FROM run WHERE name = ?1";
        self.query_optional(sql, [name], |row| row.get(0))
    }

    /// Returns the newest runs, the newest first.
    pub(super) fn newest_runs(&self, limit: i64) -> Result<Vec<NamedRun>, StoreError> {
        let sql = "SELECT id, name FROM run ORDER BY id DESC LIMIT ?1";
        self.query_all(sql, [limit], |row| {
            Ok(NamedRun {
                key: row.get(0)?,
                name: row.get(1)?,
            })
        })
    }

    /// Returns the size of all that is stored of the run, in bytes.
    pub(super) fn stored_bytes(&self) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for line in self.lineages()? {
            let keys = key_range(line.id);
            for table in ["event", "snapshot", "bundle"] {
                bytes += self.measure(table, keys)?.bytes;
            }
        }
        let sql = "SELECT coalesce(sum(length(body)), 0) FROM blob WHERE run = ?1";
        let blobs: i64 = self.query_row(sql, [self.run], |row| row.get(0))?;
        Ok((bytes + blobs) as u64)
    }

    /// Returns the rows of the lineages of a run, by their numbers.
    pub(super) fn lineages_of(&self, run: i64) -> Result<Vec<StoredLineage>, StoreError> {
        let sql = "SELECT * FROM lineage WHERE run = ?1 ORDER BY number";
        let rows = self.query_all(sql, [run], StoredLineage::from_row)?;
        let rows: Result<_, DecodeError> = rows.into_iter().collect();
        rows.map_err(|e| self.decode_error("a lineage", e))
    }

    /// Returns how many changes that are no events were recorded, and whether there must be a log
    /// with further changes.
    pub(super) fn other_changes(&self) -> Result<(u64, bool), StoreError> {
        let sql = "SELECT changes, expected FROM log";
        let (changes, expected): (i64, i64) =
            self.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        match (u64::try_from(changes), expected) {
            (Ok(changes), 0 | 1) => Ok((changes, expected == 1)),
            _ => Err(self.decode_error("what is known of its log", DecodeError::OutOfRange)),
        }
    }

    fn read_error(&self, source: rusqlite::Error) -> StoreError {
        sqlite_error(&self.path, "read", source)
    }
}

impl RunRows for SqliteRows {
    fn path(&self) -> &Path {
        &self.path
    }

    fn begin_read(&self) -> Result<bool, StoreError> {
        if !self.conn.is_autocommit() {
            return Ok(false);
        }
        let result = self.conn.execute_batch("BEGIN DEFERRED");
        result.map(|()| true).map_err(|e| self.read_error(e))
    }

    fn end_read(&self) {
        // Nothing was changed, so it does not matter how the transaction ends.
        let _ = self.conn.execute_batch("ROLLBACK");
    }

    fn has_changed(&self) -> bool {
        self.mode.is_file_changed(&self.path)
    }

    fn reopen(&self) -> Result<Self, StoreError> {
        Self::open_unlocked(self.path.clone(), self.run)
    }

    fn run(&self) -> Result<StoredRun, StoreError> {
        let sql = "SELECT * FROM run WHERE id = ?1";
        let row = self.query_row(sql, [self.run], StoredRun::from_row)?;
        row.map_err(|e| self.decode_error("what its newest state is", e))
    }

    fn first_lineage(&self) -> Result<i64, StoreError> {
        let sql = "SELECT id FROM lineage WHERE run = ?1 AND number = 0";
        self.query_row(sql, [self.run], |row| row.get(0))
    }

    fn next_lineage_id(&self) -> Result<i64, StoreError> {
        next_lineage_id(&self.conn).map_err(|e| self.read_error(e))
    }

    fn lineage(&self, id: i64) -> Result<StoredLineage, StoreError> {
        let sql = "SELECT * FROM lineage WHERE id = ?1 AND run = ?2";
        let row = self.query_row(sql, [id, self.run], StoredLineage::from_row)?;
        row.map_err(|e| self.decode_error("a lineage", e))
    }

    fn lineage_by_name(&self, name: &str) -> Result<Option<StoredLineage>, StoreError> {
        let sql = "SELECT * FROM lineage WHERE run = ?1 AND name = ?2";
        let row = self.query_optional(sql, params![self.run, name], StoredLineage::from_row)?;
        row.transpose()
            .map_err(|e| self.decode_error("a lineage", e))
    }

    fn lineages(&self) -> Result<Vec<StoredLineage>, StoreError> {
        self.lineages_of(self.run)
    }

    fn visit_events(&self, range: EventRange, visit: &mut VisitEvent<'_>) -> RowResult<()> {
        let EventRange { keys, selection } = range;
        let (condition, limit) = match selection {
            EventSelection::All => ("", ""),
            EventSelection::Checkpoints => ("AND marks = 1", ""),
            EventSelection::NextCheckpoint => ("AND marks = 1", "LIMIT 1"),
        };
        let sql = format!(
            "SELECT n, line, lines, time_ms, marks, sum, body FROM event \
             WHERE n BETWEEN ?1 AND ?2 {condition} ORDER BY n {limit}"
        );
        let mut statement = self.prepare(&sql)?;
        let mut rows = statement
            .query([keys.first, keys.last])
            .map_err(|e| self.read_error(e))?;
        while let Some(row) = rows.next().map_err(|e| self.read_error(e))? {
            let read = || {
                Ok(EventRow {
                    n: row.get(0)?,
                    line: row.get(1)?,
                    lines: row.get(2)?,
                    time_ms: row.get(3)?,
                    marks: row.get(4)?,
                    sum: row.get(5)?,
                    body: row.get_ref(6)?.as_blob()?,
                })
            };
            visit(&read().map_err(|e| self.read_error(e))?)?;
        }
        Ok(())
    }

    fn measure_events(&self, keys: KeyRange) -> Result<RowsSize, StoreError> {
        self.measure("event", keys)
    }

    fn measure_snapshots(&self, keys: KeyRange) -> Result<RowsSize, StoreError> {
        self.measure("snapshot", keys)
    }

    fn gaps(&self, keys: KeyRange) -> Result<Vec<GapRow>, StoreError> {
        let sql = "SELECT n, last, step, sum FROM gap WHERE n BETWEEN ?1 AND ?2 ORDER BY n";
        self.query_all(sql, [keys.first, keys.last], |row| {
            Ok(GapRow {
                n: row.get(0)?,
                last: row.get(1)?,
                step: row.get(2)?,
                sum: row.get(3)?,
            })
        })
    }

    fn snapshots(&self, range: SnapshotRange) -> RowResult<Vec<SnapshotRow>> {
        let keys = range.keys;
        let order = match range.selection {
            SnapshotSelection::All => "ASC",
            SnapshotSelection::Oldest => "ASC LIMIT 1",
            SnapshotSelection::Newest => "DESC LIMIT 1",
        };
        let sql = format!(
            "SELECT n, length(body), bundles_sum, bundles FROM snapshot WHERE n BETWEEN ?1 AND ?2 ORDER BY n {order}"
        );
        self.query_all(&sql, [keys.first, keys.last], |row| {
            Ok(SnapshotRow {
                n: row.get(0)?,
                bytes: row.get(1)?,
                bundles: StoredBlob {
                    sum: row.get(2)?,
                    bytes: row.get(3)?,
                },
            })
        })
    }

    fn snapshot_body(&self, n: i64) -> Result<Option<StoredBlob>, StoreError> {
        let sql = "SELECT sum, body FROM snapshot WHERE n = ?1";
        self.query_optional(sql, [n], |row| {
            Ok(StoredBlob {
                sum: row.get(0)?,
                bytes: row.get(1)?,
            })
        })
    }

    fn visit_bundles(&self, keys: &[i64], visit: &mut VisitBundle<'_>) -> RowResult<()> {
        let sql = "SELECT n, sum, body FROM bundle WHERE n BETWEEN ?1 AND ?2 ORDER BY n";
        let mut statement = self.prepare(sql)?;
        // SQLite uses the memory of one row for the next one of the same query.
        for range in keys.chunk_by(|one, next| one.checked_add(1) == Some(*next)) {
            let ends = [range[0], range[range.len() - 1]];
            let mut rows = statement.query(ends).map_err(|e| self.read_error(e))?;
            while let Some(row) = rows.next().map_err(|e| self.read_error(e))? {
                let read = || {
                    Ok(BundleBytes {
                        n: row.get(0)?,
                        sum: row.get(1)?,
                        body: row.get_ref(2)?.as_blob()?,
                    })
                };
                visit(&read().map_err(|e| self.read_error(e))?)?;
            }
        }
        Ok(())
    }

    fn last_bundle(&self, keys: KeyRange) -> Result<i64, StoreError> {
        last_bundle(&self.conn, keys).map_err(|e| self.read_error(e))
    }

    fn definition(&self) -> Result<DefinitionRow, StoreError> {
        let sql = "SELECT name, base, text, components, sum FROM definition WHERE run = ?1";
        self.query_row(sql, [self.run], |row| {
            Ok(DefinitionRow {
                name: row.get(0)?,
                base: row.get(1)?,
                text: row.get(2)?,
                components: row.get(3)?,
                sum: row.get(4)?,
            })
        })
    }

    fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT text FROM note WHERE run = ?1 AND name = ?2";
        self.query_optional(sql, params![self.run, name], |row| row.get(0))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body FROM blob WHERE run = ?1 AND digest = ?2";
        self.query_optional(sql, params![self.run, digest.0], |row| row.get(0))
    }

    fn blob_digests(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT digest FROM blob WHERE run = ?1";
        self.query_all(sql, [self.run], |row| row.get(0))
    }

    fn has_blobs(&self) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM blob WHERE run = ?1)";
        self.query_row(sql, [self.run], |row| row.get(0))
    }
}

/// Checks all pages of a small database. In a large one, pages are checked when they are used.
pub(crate) fn check_pages(reader: &SqliteReader) -> Result<(), StoreError> {
    let rows = &reader.rows;
    let size = std::fs::metadata(&rows.path)
        .map_err(|e| StoreError::io(&rows.path, "open", e))?
        .len();
    if size > MAX_CHECKED_BYTES {
        return Ok(());
    }
    let check = rows
        .conn
        .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match check.map_err(|e| reader.rows.error("open", e))?.as_str() {
        "ok" => Ok(()),
        what => Err(StoreError::corrupt(&rows.path, what)),
    }
}

/// Returns the lineages of a run, including their newest events.
pub(super) fn complete_lineages_of(
    reader: &SqliteReader,
    run: i64,
) -> Result<Vec<StoredLineage>, StoreError> {
    reader.complete_lineages(reader.rows.lineages_of(run)?)
}

/// Returns the lineages of a run whose rows lag behind, including their newest events.
pub(super) fn lineages_behind(
    reader: &SqliteReader,
    run: i64,
) -> Result<Vec<StoredLineage>, StoreError> {
    let rows = reader.rows.lineages_of(run)?;
    if rows.is_empty() {
        // The run was deleted.
        return Ok(Vec::new());
    }
    retain_behind(reader, rows)
}

/// Returns the lineages of all other runs whose rows lag behind. A database may have many runs, so the others are not kept
/// in memory, nor are their rows written again.
pub(super) fn lineages_of_others_behind(
    reader: &SqliteReader,
) -> Result<Vec<StoredLineage>, StoreError> {
    let mut behind = Vec::new();
    for run in reader.rows.other_runs()? {
        behind.append(&mut retain_behind(reader, reader.rows.lineages_of(run)?)?);
    }
    Ok(behind)
}

fn retain_behind(
    reader: &SqliteReader,
    rows: Vec<StoredLineage>,
) -> Result<Vec<StoredLineage>, StoreError> {
    let mut lines = reader.complete_lineages(rows.clone())?;
    lines.retain(|line| !rows.contains(line));
    Ok(lines)
}

/// Returns how many changes of all runs were recorded: events of all lineages, and other changes
/// that must not be lost. Also returns whether there must be a log with further changes.
pub(crate) fn count_changes(reader: &SqliteReader) -> Result<(u64, bool), StoreError> {
    let _same = reader.begin_read()?;
    let own = |row: &StoredLineage| row.events - row.start();
    let mut events: i64 = 0;
    for run in reader.rows.other_runs()? {
        let lines = complete_lineages_of(reader, run)?;
        events += lines.iter().map(own).sum::<i64>();
    }
    if reader.rows.run != WHOLE_DATABASE {
        events += reader.stored_lineages()?.iter().map(own).sum::<i64>();
    }
    let (others, is_expected) = reader.rows.other_changes()?;
    Ok(((events as u64).saturating_add(others), is_expected))
}
