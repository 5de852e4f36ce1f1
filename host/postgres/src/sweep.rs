//! Deletes runs that have ended and are kept no longer, in small pieces: no lock is held for long, whatever the size of
//! a run.
//!
//! A run disappears at once, with everything by which it is found. Its other rows, which nothing refers to any more,
//! are removed piece by piece; `strata.removal` has the runs of which some may be left.

use std::time::{Duration, Instant};

use strata_records::error::StoreError;
use strata_records::retention::{Retention, SweepResult};
use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;

/// The lock under which runs are deleted, by one process at a time: "STRD".
const SWEEP_LOCK: i64 = 0x5354_5244;
/// How many runs disappear in one transaction, and how many rows of a table are removed in one.
const RUNS_PER_PIECE: i64 = 25;
const ROWS_PER_PIECE: i64 = 1000;
/// For how long pieces are removed before the worker does something else.
const SWEEP_TIME: Duration = Duration::from_millis(200);
/// How long a statement waits for what others have locked.
const SETTINGS: &str = "SET LOCAL lock_timeout = '1s'";

/// The tables whose rows are removed piece by piece, with the column that tells the rows of a run apart.
const LEFT_TABLES: [(&str, &str); 8] = [
    ("event", "n"),
    ("gap", "n"),
    ("snapshot", "n"),
    ("bundle", "n"),
    ("blob", "digest"),
    ("note", "name"),
    ("mail", "id"),
    ("definition", "run"),
];

/// The tables by which a run is found, or that refer to it.
const FOUND_BY: [&str; 3] = ["overview", "lineage", "run_file"];

/// Deletes runs for a moment, unless another process is doing it.
pub(super) fn sweep(connection: &Connection) -> Result<SweepResult, StoreError> {
    let (begun, mut swept) = (Instant::now(), SweepResult::default());
    loop {
        let piece = connection.transact(SETTINGS, || sweep_piece(connection));
        let piece = piece.map_err(StoreError::from)?;
        swept.runs += piece.runs;
        swept.has_more = piece.has_more;
        if !piece.has_more || begun.elapsed() >= SWEEP_TIME {
            return Ok(swept);
        }
    }
}

fn sweep_piece(connection: &Connection) -> Result<SweepResult, StatementError> {
    let sql = format!(
        "SELECT retention, ARRAY(SELECT run FROM strata.removal ORDER BY run LIMIT {RUNS_PER_PIECE}), \
                pg_try_advisory_xact_lock($1) FROM strata.meta"
    );
    let Some(row) = connection.query_optional(&sql, &[(&SWEEP_LOCK, Type::INT8)])? else {
        return Ok(SweepResult::default());
    };
    let (text, left, is_locked): (String, Vec<i64>, bool) = (row.get(0), row.get(1), row.get(2));
    if !is_locked {
        return Ok(SweepResult::default());
    }
    // A later program may know more than this one.
    let retention = Retention::parse(&text).unwrap_or_default();
    let runs = if retention.is_empty() {
        0
    } else {
        remove_expired(connection, &retention)?
    };
    if !left.is_empty() {
        remove_rows(connection, &left)?;
    }
    Ok(SweepResult {
        runs,
        has_more: !left.is_empty() || runs > 0,
    })
}

/// Makes runs disappear that are kept no longer, and returns how many.
fn remove_expired(connection: &Connection, retention: &Retention) -> Result<u64, StatementError> {
    // One that waits for a person or has a request to its owner is never among them, nor one that somebody asked for.
    let sql = format!(
        "SELECT r.id FROM unnest($1::text[], $2::bigint[]) kept (status, ms) \
         JOIN strata.overview o ON o.status = kept.status \
              AND o.ended_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - kept.ms \
         JOIN strata.run r ON r.id = o.run \
         WHERE o.requests = 0 AND r.owner IS NULL AND r.schedule IN (0, 3) AND NOT r.is_requested \
           AND NOT EXISTS (SELECT FROM strata.mail m WHERE m.run = r.id) \
         LIMIT {RUNS_PER_PIECE} FOR UPDATE OF r SKIP LOCKED"
    );
    let statuses: Vec<&str> = retention.spans().keys().copied().collect();
    let spans: Vec<i64> = retention.spans().values().copied().collect();
    let arguments = [
        (&statuses as _, Type::TEXT_ARRAY),
        (&spans as _, Type::INT8_ARRAY),
    ];
    let rows = connection.query(&sql, &arguments)?;
    let runs: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    if runs.is_empty() {
        return Ok(0);
    }
    let ids = [(&runs as _, Type::INT8_ARRAY)];
    let digests = delete_run_records(connection, &runs)?;
    for table in FOUND_BY {
        let sql = format!("DELETE FROM strata.{table} WHERE run = ANY($1)");
        connection.execute(&sql, &ids)?;
    }
    connection.execute("DELETE FROM strata.run WHERE id = ANY($1)", &ids)?;
    let sql = "INSERT INTO strata.removal (run) SELECT unnest($1::bigint[])";
    connection.execute(sql, &ids)?;
    delete_unused_files(connection, &digests)?;
    Ok(runs.len() as u64)
}

/// Removes some of the rows that are left of runs that disappeared.
fn remove_rows(connection: &Connection, runs: &[i64]) -> Result<(), StatementError> {
    let ids = [(&runs as _, Type::INT8_ARRAY)];
    let mut is_done = true;
    for (table, key) in LEFT_TABLES {
        let sql = format!(
            "DELETE FROM strata.{table} WHERE run = ANY($1) AND (run, {key}) IN \
                 (SELECT run, {key} FROM strata.{table} WHERE run = ANY($1) LIMIT {ROWS_PER_PIECE})"
        );
        is_done &= connection.execute(&sql, &ids)? < ROWS_PER_PIECE as u64;
    }
    if is_done {
        let sql = "DELETE FROM strata.removal WHERE run = ANY($1)";
        connection.execute(sql, &ids)?;
    }
    Ok(())
}

/// Deletes what servers remember with runs that are about to be deleted. Returns the digests of the files that were
/// submitted with them.
pub(super) fn delete_run_records(
    connection: &Connection,
    runs: &[i64],
) -> Result<Vec<String>, StatementError> {
    let runs = [(&runs as _, Type::INT8_ARRAY)];
    let sql = "DELETE FROM strata.server_record s USING strata.run r WHERE s.code = r.code AND r.id = ANY($1)";
    connection.execute(sql, &runs)?;
    let sql = "SELECT DISTINCT digest FROM strata.run_file WHERE run = ANY($1)";
    let rows = connection.query(sql, &runs)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Deletes those of some files that no run has. One that a tenant uploaded stays, so that the next run can have it.
pub(super) fn delete_unused_files(
    connection: &Connection,
    digests: &[String],
) -> Result<(), StatementError> {
    let digests = [(&digests as _, Type::TEXT_ARRAY)];
    // Whoever uploads one of them at the same time is waited for, and the next statement sees what that did.
    let sql = "SELECT FROM strata.file WHERE digest = ANY($1) ORDER BY digest FOR UPDATE";
    connection.query(sql, &digests)?;
    let sql = "DELETE FROM strata.file f WHERE digest = ANY($1) \
               AND NOT EXISTS (SELECT FROM strata.run_file r WHERE r.digest = f.digest) \
               AND NOT EXISTS (SELECT FROM strata.server_record u WHERE u.kind = 'blob' AND u.name = f.digest)";
    connection.execute(sql, &digests).map(drop)
}
