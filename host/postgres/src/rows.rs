//! Reads the rows of a run from PostgreSQL.

use std::path::Path;

use strata_core::record::id::Digest;
use strata_records::error::StoreError;
use strata_records::lineage::{DIRECTORY_RUN, KeyRange, StoredLineage, StoredRun};
use strata_records::reader::RowReader;
use strata_records::rows::{
    BundleBytes, DefinitionRow, EventRange, EventRow, EventSelection, GapRow, RowResult, RowsSize,
    RunRows, SnapshotRange, SnapshotRow, SnapshotSelection, StoredBlob, VisitBundle, VisitEvent,
};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::connection::Connection;
use super::schema::require_known_format;
use super::session::Argument;
use super::write;

/// How many events, and how many bundles of messages, are fetched at once.
const EVENTS_PER_QUERY: usize = 1024;
const BUNDLES_PER_QUERY: usize = 16;

const LINEAGE_COLUMNS: &str =
    "id, number, name, origin, leaves_at, events, last, forgotten, spent, since, sum";

/// Reads a run in a database.
pub(crate) type PostgresReader = RowReader<PostgresRows>;

/// The rows of a run in a database.
#[derive(Debug)]
pub struct PostgresRows {
    pub(super) connection: Connection,
    /// The key of the run.
    pub(super) run: i64,
}

impl PostgresRows {
    fn query(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Vec<Row>, StoreError> {
        let run: Argument<'_> = (&self.run, Type::INT8);
        let mut all = vec![run];
        all.extend(arguments.iter().map(|(value, kind)| (*value, kind.clone())));
        Ok(self.connection.query(sql, &all)?)
    }

    fn query_optional(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, arguments)?.into_iter().next())
    }

    fn query_one(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Row, StoreError> {
        let missing = || self.corrupt("a row is missing");
        self.query_optional(sql, arguments)?.ok_or_else(missing)
    }

    /// Returns the value in a column of a row.
    fn get<'a, T: FromSql<'a>>(&self, row: &'a Row, column: usize) -> Result<T, StoreError> {
        row.try_get(column)
            .map_err(|error| self.corrupt(error.to_string()))
    }

    fn checksum(&self, row: &Row, column: usize) -> Result<u32, StoreError> {
        let sum: i64 = self.get(row, column)?;
        u32::try_from(sum).map_err(|_| self.corrupt("a checksum is out of range"))
    }

    fn text(&self, row: &Row, column: usize) -> Result<String, StoreError> {
        String::from_utf8(self.get(row, column)?)
            .map_err(|_| self.corrupt("a text in it is not UTF-8"))
    }

    fn stored_lineage(&self, row: &Row) -> Result<StoredLineage, StoreError> {
        let origin: Option<i64> = self.get(row, 3)?;
        let leaves_at: Option<i64> = self.get(row, 4)?;
        let lineage = StoredLineage {
            run: DIRECTORY_RUN.0,
            id: self.get(row, 0)?,
            number: self.get(row, 1)?,
            name: self.get(row, 2)?,
            origin: origin.zip(leaves_at),
            events: self.get(row, 5)?,
            last_checksum: self.checksum(row, 6)?,
            forgotten_until: self.get(row, 7)?,
            spent: self.get(row, 8)?,
            bytes_since_snapshot: self.get(row, 9)?,
        };
        lineage
            .verified(self.checksum(row, 10)?)
            .map_err(|e| self.decode_error("a lineage", e))
    }

    fn measure(&self, table: &str, keys: KeyRange) -> Result<RowsSize, StoreError> {
        let sql = format!(
            "SELECT count(*), coalesce(sum(length(body)), 0)::bigint FROM strata.{table} \
             WHERE run = $1 AND n BETWEEN $2 AND $3"
        );
        let row = self.query_one(&sql, &arguments(&keys))?;
        Ok(RowsSize {
            rows: self.get(&row, 0)?,
            bytes: self.get(&row, 1)?,
        })
    }
}

/// Returns the ends of a range as arguments.
fn arguments(keys: &KeyRange) -> [Argument<'_>; 2] {
    [(&keys.first, Type::INT8), (&keys.last, Type::INT8)]
}

impl RunRows for PostgresRows {
    fn path(&self) -> &Path {
        self.connection.path()
    }

    fn begin_read(&self) -> Result<bool, StoreError> {
        self.connection.begin_read()
    }

    fn end_read(&self) {
        self.connection.end_read();
    }

    fn has_changed(&self) -> bool {
        // A transaction sees one state.
        false
    }

    fn reopen(&self) -> Result<Self, StoreError> {
        Ok(Self {
            connection: self.connection.another(),
            run: self.run,
        })
    }

    fn run(&self) -> Result<StoredRun, StoreError> {
        let sql = "SELECT name, epoch, lineage, line, format FROM strata.run WHERE id = $1";
        let row = self.query_one(sql, &[])?;
        require_known_format(self.path(), self.get(&row, 4)?)?;
        let run = StoredRun {
            id: DIRECTORY_RUN.0,
            name: self.get(&row, 0)?,
            epoch: self.get(&row, 1)?,
            lineage: self.get(&row, 2)?,
            next_line: self.get(&row, 3)?,
        };
        run.checked()
            .map_err(|e| self.decode_error("what its newest state is", e))
    }

    fn first_lineage(&self) -> Result<i64, StoreError> {
        let sql = "SELECT id FROM strata.lineage WHERE run = $1 AND number = 0";
        self.get(&self.query_one(sql, &[])?, 0)
    }

    fn next_lineage_id(&self) -> Result<i64, StoreError> {
        let sql = "SELECT coalesce(max(id) + 1, 0) FROM strata.lineage WHERE run = $1";
        self.get(&self.query_one(sql, &[])?, 0)
    }

    fn lineage(&self, id: i64) -> Result<StoredLineage, StoreError> {
        let sql =
            format!("SELECT {LINEAGE_COLUMNS} FROM strata.lineage WHERE run = $1 AND id = $2");
        self.stored_lineage(&self.query_one(&sql, &[(&id, Type::INT8)])?)
    }

    fn lineage_by_name(&self, name: &str) -> Result<Option<StoredLineage>, StoreError> {
        let sql =
            format!("SELECT {LINEAGE_COLUMNS} FROM strata.lineage WHERE run = $1 AND name = $2");
        let row = self.query_optional(&sql, &[(&name, Type::TEXT)])?;
        row.map(|row| self.stored_lineage(&row)).transpose()
    }

    fn lineages(&self) -> Result<Vec<StoredLineage>, StoreError> {
        let sql =
            format!("SELECT {LINEAGE_COLUMNS} FROM strata.lineage WHERE run = $1 ORDER BY number");
        let rows = self.query(&sql, &[])?;
        rows.iter().map(|row| self.stored_lineage(row)).collect()
    }

    fn visit_events(&self, range: EventRange, visit: &mut VisitEvent<'_>) -> RowResult<()> {
        let EventRange {
            mut keys,
            selection,
        } = range;
        let (condition, limit) = match selection {
            EventSelection::All => ("", EVENTS_PER_QUERY),
            EventSelection::Checkpoints => ("AND marks = 1", EVENTS_PER_QUERY),
            EventSelection::NextCheckpoint => ("AND marks = 1", 1),
        };
        let sql = format!(
            "SELECT n, line, lines, time_ms, marks, sum, body FROM strata.event \
             WHERE run = $1 AND n BETWEEN $2 AND $3 {condition} ORDER BY n LIMIT {limit}"
        );
        loop {
            let rows = self.query(&sql, &arguments(&keys))?;
            for row in &rows {
                let event = EventRow {
                    n: self.get(row, 0)?,
                    line: self.get(row, 1)?,
                    lines: self.get(row, 2)?,
                    time_ms: self.get(row, 3)?,
                    marks: self.get(row, 4)?,
                    sum: self.checksum(row, 5)?,
                    body: self.get(row, 6)?,
                };
                visit(&event)?;
                keys.first = event.n + 1;
            }
            if rows.len() < EVENTS_PER_QUERY || selection == EventSelection::NextCheckpoint {
                return Ok(());
            }
        }
    }

    fn measure_events(&self, keys: KeyRange) -> Result<RowsSize, StoreError> {
        self.measure("event", keys)
    }

    fn measure_snapshots(&self, keys: KeyRange) -> Result<RowsSize, StoreError> {
        self.measure("snapshot", keys)
    }

    fn gaps(&self, keys: KeyRange) -> Result<Vec<GapRow>, StoreError> {
        let sql = "SELECT n, last, step, sum FROM strata.gap \
                   WHERE run = $1 AND n BETWEEN $2 AND $3 ORDER BY n";
        let mut gaps = Vec::new();
        for row in self.query(sql, &arguments(&keys))? {
            gaps.push(GapRow {
                n: self.get(&row, 0)?,
                last: self.get(&row, 1)?,
                step: self.get(&row, 2)?,
                sum: self.checksum(&row, 3)?,
            });
        }
        Ok(gaps)
    }

    fn snapshots(&self, range: SnapshotRange) -> RowResult<Vec<SnapshotRow>> {
        let keys = range.keys;
        let order = match range.selection {
            SnapshotSelection::All => "ASC",
            SnapshotSelection::Oldest => "ASC LIMIT 1",
            SnapshotSelection::Newest => "DESC LIMIT 1",
        };
        let sql = format!(
            "SELECT n, length(body)::bigint, bundles_sum, bundles FROM strata.snapshot \
             WHERE run = $1 AND n BETWEEN $2 AND $3 ORDER BY n {order}"
        );
        let mut snapshots = Vec::new();
        for row in self.query(&sql, &arguments(&keys))? {
            snapshots.push(SnapshotRow {
                n: self.get(&row, 0)?,
                bytes: self.get(&row, 1)?,
                bundles: StoredBlob {
                    sum: self.checksum(&row, 2)?,
                    bytes: self.get(&row, 3)?,
                },
            });
        }
        Ok(snapshots)
    }

    fn snapshot_body(&self, n: i64) -> Result<Option<StoredBlob>, StoreError> {
        let sql = "SELECT sum, body FROM strata.snapshot WHERE run = $1 AND n = $2";
        let Some(row) = self.query_optional(sql, &[(&n, Type::INT8)])? else {
            return Ok(None);
        };
        Ok(Some(StoredBlob {
            sum: self.checksum(&row, 0)?,
            bytes: self.get(&row, 1)?,
        }))
    }

    fn visit_bundles(&self, keys: &[i64], visit: &mut VisitBundle<'_>) -> RowResult<()> {
        let sql =
            "SELECT n, sum, body FROM strata.bundle WHERE run = $1 AND n = ANY($2) ORDER BY n";
        for keys in keys.chunks(BUNDLES_PER_QUERY) {
            for row in self.query(sql, &[(&keys, Type::INT8_ARRAY)])? {
                visit(&BundleBytes {
                    n: self.get(&row, 0)?,
                    sum: self.checksum(&row, 1)?,
                    body: self.get(&row, 2)?,
                })?;
            }
        }
        Ok(())
    }

    fn last_bundle(&self, keys: KeyRange) -> Result<i64, StoreError> {
        Ok(write::last_bundle(&self.connection, self.run, keys)?)
    }

    fn definition(&self) -> Result<DefinitionRow, StoreError> {
        let sql = "SELECT name, base, text, components, sum FROM strata.definition WHERE run = $1";
        let row = self.query_one(sql, &[])?;
        Ok(DefinitionRow {
            name: self.text(&row, 0)?,
            base: self.text(&row, 1)?,
            text: self.text(&row, 2)?,
            components: self.text(&row, 3)?,
            sum: self.checksum(&row, 4)?,
        })
    }

    fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT text FROM strata.note WHERE run = $1 AND name = $2";
        let row = self.query_optional(sql, &[(&name, Type::TEXT)])?;
        row.map(|row| self.get(&row, 0)).transpose()
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body FROM strata.blob WHERE run = $1 AND digest = $2";
        let row = self.query_optional(sql, &[(&digest.0, Type::TEXT)])?;
        row.map(|row| self.get(&row, 0)).transpose()
    }

    fn blob_digests(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT digest FROM strata.blob WHERE run = $1";
        let rows = self.query(sql, &[])?;
        rows.iter().map(|row| self.get(row, 0)).collect()
    }

    fn has_blobs(&self) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT FROM strata.blob WHERE run = $1)";
        self.get(&self.query_one(sql, &[])?, 0)
    }
}
