//! Deletes runs of a database file: one that somebody wants to be gone, and, for a worker, those that have ended and are
//! kept no longer.

use rusqlite::{Connection, OptionalExtension, Row, params};
use strata_base::clock::now_ms;
use strata_records::deleted_run::DeletedRun;
use strata_records::error::StoreError;
use strata_records::lineage::{key_range, position_of_key};
use strata_records::retention::{Retention, SweepResult};
use strata_records::rows::RunRows;

use super::super::lineage::{DELETED_LINEAGE_NOTE, DELETED_RUN_NOTE};
use super::super::rows::SqliteReader;
use super::super::write::write_note;
use super::change::ChangeTerms;
use super::database::{MissingDatabase, SharedDatabase};
use super::end_note::{OVERVIEW_NOTE, parse_note};
use super::runs::{open_named, open_whole};
use crate::schema::has_queue_tables;
use crate::sqlite_url::SqliteUrl;

/// The note about no run (0) of how long runs are kept that have ended.
const RETENTION_NOTE: &str = "retention";
/// How many runs are deleted one after another before the worker does something else.
const RUNS_PER_SWEEP: usize = 25;

/// Which runs ended with the status ?1 before ?2. One that waits for a person is never among them, nor one that somebody
/// asked for.
const EXPIRED: &str = "status = ?1 AND ended_ms < ?2 AND requests = 0 AND is_taken = 0 AND is_requested = 0 \
    AND schedule IN (0, 3)";

/// Returns for how long runs are kept that have ended.
pub(crate) fn read_retention(url: &SqliteUrl) -> Result<Retention, StoreError> {
    let Some(reader) = open_whole(url)? else {
        return Err(StoreError::Absent {
            path: url.to_path(),
        });
    };
    stored_retention(&reader)
}

/// Says for how long runs are kept that have ended.
pub(crate) fn set_retention(url: &SqliteUrl, retention: &Retention) -> Result<(), StoreError> {
    let text = retention.to_string();
    let database = SharedDatabase::open_existing_queue(url)?;
    database.change(ChangeTerms::durable(), move |conn| {
        write_note(conn, 0, RETENTION_NOTE, &text)
    })?;
    Ok(())
}

fn stored_retention(reader: &SqliteReader) -> Result<Retention, StoreError> {
    let sql = "SELECT text FROM note WHERE run = 0 AND name = ?1";
    let read = |row: &Row<'_>| row.get::<_, String>(0);
    let text = reader.rows.query_optional(sql, [RETENTION_NOTE], read)?;
    Retention::parse(&text.unwrap_or_default()).map_err(|what| reader.rows.corrupt(what))
}

/// Deletes some runs that have ended and are kept no longer, each in a transaction of its own.
pub(super) fn sweep(
    database: &SharedDatabase,
    reader: &SqliteReader,
) -> Result<SweepResult, StoreError> {
    let retention = stored_retention(reader)?;
    let mut swept = SweepResult::default();
    for (status, span) in retention.spans() {
        let (status, span) = (*status, *span);
        let expired = expired_runs(&reader.rows.conn, status, span);
        for run in expired.map_err(|e| reader.rows.error("read", e))? {
            // Somebody is changing it.
            let Some(_leased) = database.lease_run(run) else {
                continue;
            };
            let deleted = database.change(ChangeTerms::durable(), move |conn| {
                // Somebody may have asked for it meanwhile.
                let is_expired = is_expired(conn, run, status, span)?;
                if is_expired {
                    delete_rows(conn, run)?;
                }
                Ok(is_expired)
            })?;
            if deleted == Some(true) {
                swept.runs += 1;
                database.note_changed(run);
            }
        }
    }
    swept.runs += sweep_unsubmitted(database, reader, &retention)?;
    swept.has_more = swept.runs > 0;
    Ok(swept)
}

/// Deletes some runs that were never submitted, have ended and are kept no longer. What is noted at the end of a run
/// tells when that was.
fn sweep_unsubmitted(
    database: &SharedDatabase,
    reader: &SqliteReader,
    retention: &Retention,
) -> Result<u64, StoreError> {
    if retention.is_empty() {
        return Ok(0);
    }
    let notes = unsubmitted_ends(&reader.rows.conn).map_err(|e| reader.rows.error("read", e))?;
    let expired = notes.into_iter().filter(|end| end.is_expired(retention));
    let mut deleted_runs = 0;
    for end in expired.take(RUNS_PER_SWEEP) {
        // Somebody is changing it.
        let Some(_leased) = database.lease_run(end.run) else {
            continue;
        };
        let run = end.run;
        let deleted = database.change(ChangeTerms::durable(), move |conn| {
            // Somebody may have continued it meanwhile.
            let is_same = unsubmitted_end(conn, end.run)?.as_ref() == Some(&end);
            if is_same {
                delete_rows(conn, end.run)?;
            }
            Ok(is_same)
        })?;
        if deleted == Some(true) {
            deleted_runs += 1;
            database.note_changed(run);
        }
    }
    Ok(deleted_runs)
}

/// What is noted of the end of a run, and the key of its newest event.
#[derive(PartialEq, Eq)]
struct NotedEnd {
    run: i64,
    note: String,
    newest: Option<i64>,
}

impl NotedEnd {
    /// Whether the run ended that long ago, and waits for nobody.
    fn is_expired(&self, retention: &Retention) -> bool {
        let Some((overview, ended_ms)) = parse_note(&self.note, self.newest) else {
            return false;
        };
        let span = retention.spans().get(overview.status.name());
        span.is_some_and(|span| ended_ms < now_ms().saturating_sub(*span) && overview.requests == 0)
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            run: row.get(0)?,
            note: row.get(1)?,
            newest: row.get(2)?,
        })
    }
}

/// The ends that are noted of runs that were not submitted.
const UNSUBMITTED_ENDS: &str = "
    SELECT r.id, o.text,
           (SELECT max(n) FROM event WHERE n BETWEEN r.lineage << 40 AND ((r.lineage + 1) << 40) - 1)
    FROM note o JOIN run r ON r.id = o.run
    WHERE o.name = ?1 AND (?2 IS NULL OR o.run = ?2)
      AND NOT EXISTS (SELECT 1 FROM submission s WHERE s.run = o.run)";

fn unsubmitted_ends(conn: &Connection) -> rusqlite::Result<Vec<NotedEnd>> {
    let mut statement = conn.prepare_cached(UNSUBMITTED_ENDS)?;
    let all: Option<i64> = None;
    let rows = statement.query_map(params![OVERVIEW_NOTE, all], NotedEnd::from_row)?;
    rows.collect()
}

fn unsubmitted_end(conn: &Connection, run: i64) -> rusqlite::Result<Option<NotedEnd>> {
    let mut statement = conn.prepare_cached(UNSUBMITTED_ENDS)?;
    statement
        .query_row(params![OVERVIEW_NOTE, run], NotedEnd::from_row)
        .optional()
}

/// Returns some runs that ended with a status more than `span` milliseconds ago.
fn expired_runs(conn: &Connection, status: &str, span: i64) -> rusqlite::Result<Vec<i64>> {
    let sql = format!(
        "SELECT run FROM submission WHERE {EXPIRED} ORDER BY ended_ms, run LIMIT {RUNS_PER_SWEEP}"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let before = now_ms().saturating_sub(span);
    let rows = statement.query_map(params![status, before], |row| row.get(0))?;
    rows.collect()
}

/// Whether a run ended with a status more than `span` milliseconds ago.
fn is_expired(conn: &Connection, run: i64, status: &str, span: i64) -> rusqlite::Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM submission WHERE run = ?3 AND {EXPIRED})");
    let before = now_ms().saturating_sub(span);
    let mut statement = conn.prepare_cached(&sql)?;
    statement.query_row(params![status, before, run], |row| row.get(0))
}

/// Deletes a run that nobody owns, and the submitted files that only it had. Notes who did it.
pub(crate) fn delete_run(url: &SqliteUrl, by: Option<&str>) -> Result<(), StoreError> {
    let run = open_named(url)?.rows.run;
    let database = SharedDatabase::open(&url.file, MissingDatabase::Fail)?;
    let Some(_leased) = database.lease_run(run) else {
        return Err(StoreError::Locked {
            path: url.to_path(),
            pid: Some(std::process::id()),
        });
    };
    delete_leased(&database, url, run, by)
}

/// Deletes the run of a URL, of which this process has a lease. Notes who did it.
pub(super) fn delete_leased(
    database: &SharedDatabase,
    url: &SqliteUrl,
    run: i64,
    by: Option<&str>,
) -> Result<(), StoreError> {
    let deleted = by.map(DeletedRun::now);
    let name = url.run.clone().unwrap_or_default();
    database.change(ChangeTerms::durable(), move |conn| {
        delete_rows(conn, run)?;
        match &deleted {
            Some(deleted) => note_deletion(conn, run, &name, deleted),
            None => Ok(()),
        }
    })?;
    database.note_changed(run);
    Ok(())
}

/// Notes who deletes a run, and forgets now and then who deleted others long ago.
fn note_deletion(
    conn: &Connection,
    run: i64,
    name: &str,
    deleted: &DeletedRun,
) -> rusqlite::Result<()> {
    write_note(conn, 0, &DeletedRun::note_name(name), &deleted.to_note())?;
    if !DeletedRun::is_time_to_forget(run) {
        return Ok(());
    }
    // Other notes need not be JSON.
    let sql = "DELETE FROM note WHERE run = 0 AND \
                   CASE WHEN name LIKE ?1 THEN json_extract(text, '$.ms') < ?2 ELSE 0 END";
    let oldest = DeletedRun::oldest_kept_ms();
    conn.execute(sql, params![DeletedRun::note_pattern(), oldest])
        .map(drop)
}

/// Deletes all rows of a run.
fn delete_rows(conn: &Connection, run: i64) -> rusqlite::Result<()> {
    let sql = "SELECT id, coalesce(leaves_at, 0), events FROM lineage WHERE run = ?1";
    let mut lineages = conn.prepare(sql)?;
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let lineages = lineages.query_map([run], read)?;
    let lineages: Vec<(i64, i64, i64)> = lineages.collect::<rusqlite::Result<_>>()?;
    let mut events = 0;
    for (lineage, start, noted) in &lineages {
        let keys = key_range(*lineage);
        // The row may lag behind.
        let sql = "SELECT max(n) FROM event WHERE n BETWEEN ?1 AND ?2";
        let newest: Option<i64> = conn.query_row(sql, [keys.first, keys.last], |row| row.get(0))?;
        events += newest.map_or(*noted, position_of_key).max(*noted) - start;
        for table in ["event", "gap", "snapshot", "bundle"] {
            let sql = format!("DELETE FROM {table} WHERE n BETWEEN ?1 AND ?2");
            conn.execute(&sql, [keys.first, keys.last])?;
        }
    }
    // How many changes were recorded must not become less: that would be a loss.
    conn.execute("UPDATE log SET changes = changes + ?1", [events])?;
    let last = lineages.iter().map(|(lineage, ..)| *lineage).max();
    note_deleted(conn, DELETED_LINEAGE_NOTE, last)?;
    note_deleted(conn, DELETED_RUN_NOTE, Some(run))?;
    for table in ["lineage", "definition", "note", "blob"] {
        conn.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [run])?;
    }
    conn.execute("DELETE FROM run WHERE id = ?1", [run])?;
    if !has_queue_tables(conn)? {
        return Ok(());
    }
    let sql = "DELETE FROM server_record WHERE code = (SELECT code FROM submission WHERE run = ?1)";
    conn.execute(sql, [run])?;
    conn.execute("DELETE FROM submission WHERE run = ?1", [run])?;
    // A file that a tenant uploaded stays, so that the next run can have it.
    let sql = "DELETE FROM file WHERE digest IN (SELECT digest FROM run_file WHERE run = ?1) \
               AND NOT EXISTS (SELECT 1 FROM run_file r WHERE r.digest = file.digest AND r.run <> ?1) \
               AND NOT EXISTS (SELECT 1 FROM server_record WHERE kind = 'blob' AND name = file.digest)";
    conn.execute(sql, [run])?;
    conn.execute("DELETE FROM run_file WHERE run = ?1", [run])?;
    Ok(())
}

/// Notes the largest key that was deleted.
pub(super) fn note_deleted(
    conn: &Connection,
    note: &str,
    key: Option<i64>,
) -> rusqlite::Result<()> {
    let sql = "SELECT CAST(text AS INTEGER) FROM note WHERE run = 0 AND name = ?1";
    let before: Option<i64> = conn.query_row(sql, [note], |row| row.get(0)).optional()?;
    match key.max(before) {
        Some(key) => write_note(conn, 0, note, &key.to_string()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_expired_if_it_is_old_and_the_newest_event_and_nobody_is_waited_for() {
        let retention = Retention::parse("failed=1h").unwrap();
        let check = |status: &str, ago_ms: i64, requests: u64, newest: i64, expected: bool| {
            let note = serde_json::json!({
                "n": 7, "ended": now_ms() - ago_ms, "run": "r", "team": "t", "status": status, "step": 1, "spent": 0,
                "budget": null, "requests": requests, "faults": 1,
            });
            let end = NotedEnd {
                run: 1,
                note: note.to_string(),
                newest: Some(newest),
            };
            assert_eq!(end.is_expired(&retention), expected, "{note}");
        };
        check("failed", 7_200_000, 0, 7, true);
        check("failed", 7_200_000, 1, 7, false);
        check("failed", 7_200_000, 0, 8, false);
        check("failed", 60_000, 0, 7, false);
        check("done", 7_200_000, 0, 7, false);
    }
}
