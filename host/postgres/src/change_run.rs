//! Changes of a run that nobody owns: of a submitted team and its files, and the deletion of the run.

use strata_records::LEASE_TIME;
use strata_records::deleted_run::DeletedRun;
use strata_records::error::StoreError;
use strata_records::work::SubmissionChange;
use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;
use super::database::Database;
use super::notifications::notify_workers;
use super::run_name::{find_run, run_name};
use super::sweep::{delete_run_records, delete_unused_files};
use super::work::insert_missing_files;
use super::{schedule, write};

/// The tables with rows of runs.
const TABLES: [&str; 11] = [
    "event",
    "gap",
    "snapshot",
    "bundle",
    "definition",
    "note",
    "blob",
    "mail",
    "lineage",
    "run_file",
    "overview",
];

/// Locks a run, so that nobody takes it until the end of the transaction. Fails if a process owns it that was heard of
/// lately.
fn lock_free_run(connection: &Connection, run: i64) -> Result<(), StatementError> {
    let sql = "SELECT FROM strata.run r WHERE id = $1 AND NOT EXISTS ( \
                   SELECT FROM strata.worker w WHERE w.id = r.owner \
                   AND clock_timestamp() - w.beat_at < make_interval(secs => $2)) FOR UPDATE";
    let lease_time = LEASE_TIME.as_secs_f64();
    let arguments = [(&run as _, Type::INT8), (&lease_time as _, Type::FLOAT8)];
    match connection.query_optional(sql, &arguments)? {
        Some(_) => Ok(()),
        None => Err(StoreError::Locked {
            path: connection.path().into(),
            pid: None,
        }
        .into()),
    }
}

/// Changes a submitted run that nobody owns.
pub fn change_submission(database: &Database, change: &SubmissionChange) -> Result<(), StoreError> {
    let connection = database.connect()?;
    let run = find_run(&connection)?;
    insert_missing_files(&connection, &change.contents)?;
    connection.transact("", || -> Result<(), StatementError> {
        lock_free_run(&connection, run)?;
        // Whoever owned it before must not change it any more.
        let sql = "UPDATE strata.run SET owner = NULL, epoch = epoch + 1 WHERE id = $1";
        connection.execute(sql, &[(&run, Type::INT8)])?;
        if let Some(definition) = &change.definition {
            write::write_definition(&connection, run, definition)?;
            let sql = "DELETE FROM strata.run_file WHERE run = $1";
            connection.execute(sql, &[(&run, Type::INT8)])?;
            schedule::insert_files(&connection, run, &change.files)?;
            let sql = "UPDATE strata.run SET secrets = $2 WHERE id = $1";
            let arguments = [
                (&run as _, Type::INT8),
                (&change.secrets as _, Type::TEXT_ARRAY),
            ];
            connection.execute(sql, &arguments)?;
        }
        if let Some((name, text)) = &change.note {
            write::write_note(&connection, run, name, text)?;
        }
        if change.resumes {
            let sql = "UPDATE strata.run SET schedule = 1, is_requested = true, problem = NULL, failures = 0, \
                           failed_step = NULL, scheduled_at = clock_timestamp() WHERE id = $1 AND schedule <> 0";
            connection.execute(sql, &[(&run, Type::INT8)])?;
        }
        Ok(())
    })?;
    notify_workers(&connection)
}

/// Deletes a run that nobody owns, and the submitted files that only it had. Notes who did it.
pub fn delete_run(database: &Database, by: Option<&str>) -> Result<(), StoreError> {
    let connection = database.connect()?;
    let run = find_run(&connection)?;
    let deleted = connection.transact("", || -> Result<(), StatementError> {
        lock_free_run(&connection, run)?;
        let digests = delete_run_records(&connection, &[run])?;
        for table in TABLES {
            let sql = format!("DELETE FROM strata.{table} WHERE run = $1");
            connection.execute(&sql, &[(&run, Type::INT8)])?;
        }
        let sql = "DELETE FROM strata.run WHERE id = $1";
        connection.execute(sql, &[(&run, Type::INT8)])?;
        delete_unused_files(&connection, &digests)?;
        match by {
            Some(by) => note_deletion(&connection, run, run_name(&connection)?, by),
            None => Ok(()),
        }
    });
    Ok(deleted?)
}

/// Notes who deletes a run, and forgets now and then who deleted others long ago.
fn note_deletion(
    connection: &Connection,
    run: i64,
    name: &str,
    by: &str,
) -> Result<(), StatementError> {
    let note = DeletedRun::note_name(name);
    write::write_note(connection, 0, &note, &DeletedRun::now(by).to_note())?;
    if !DeletedRun::is_time_to_forget(run) {
        return Ok(());
    }
    // Other notes need not be JSON.
    let sql = "DELETE FROM strata.note WHERE run = 0 AND \
                   CASE WHEN name LIKE $1 THEN (text::jsonb ->> 'ms')::bigint < $2 ELSE false END";
    let (pattern, oldest) = (DeletedRun::note_pattern(), DeletedRun::oldest_kept_ms());
    let arguments = [(&pattern as _, Type::TEXT), (&oldest as _, Type::INT8)];
    connection.execute(sql, &arguments).map(drop)
}
