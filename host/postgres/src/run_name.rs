//! Finds the run of a URL by its name, and lists the runs of a database.

use strata_records::deleted_run::DeletedRun;
use strata_records::error::StoreError;
use strata_records::lineage::NamedRun;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::database::Database;
use super::schema::has_current_tables;

/// How many runs are listed in messages.
const MAX_RUNS_IN_MESSAGES: i64 = 20;

/// Lists the run that a URL names, if it exists, or else the `limit` newest ones, the newest first.
pub fn list_runs(database: &Database, limit: usize) -> Result<Vec<NamedRun>, StoreError> {
    let connection = database.connect()?;
    let Some(name) = database.run() else {
        return newest_runs(&connection, i64::try_from(limit).unwrap_or(i64::MAX));
    };
    let named = run_key(&connection)?.map(|key| NamedRun {
        key,
        name: name.to_owned(),
    });
    Ok(named.into_iter().take(limit).collect())
}

/// Returns the newest runs, the newest first.
fn newest_runs(connection: &Connection, limit: i64) -> Result<Vec<NamedRun>, StoreError> {
    if !has_current_tables(connection)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT id, name FROM strata.run ORDER BY id DESC LIMIT $1";
    let rows = connection.query(sql, &[(&limit, Type::INT8)])?;
    let run = |row: &Row| NamedRun {
        key: row.get(0),
        name: row.get(1),
    };
    Ok(rows.iter().map(run).collect())
}

/// Returns the names of the newest runs, the newest first.
fn known_runs(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let runs = newest_runs(connection, MAX_RUNS_IN_MESSAGES)?;
    Ok(runs.into_iter().map(|run| run.name).collect())
}

/// Returns the name of the run that a connection is for. Fails if the URL names none.
pub(super) fn run_name(connection: &Connection) -> Result<&str, StoreError> {
    match &connection.url().run {
        Some(name) => Ok(name),
        None => Err(StoreError::RunNotNamed {
            path: connection.path().into(),
            known: known_runs(connection)?,
        }),
    }
}

/// Returns the key of the run that a connection is for, if it exists.
pub(super) fn run_key(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let name = run_name(connection)?;
    if !has_current_tables(connection)? {
        return Ok(None);
    }
    let sql = "SELECT id FROM strata.run WHERE name = $1";
    let row = connection.query_optional(sql, &[(&name, Type::TEXT)])?;
    Ok(row.map(|row| row.get(0)))
}

/// Returns the key of the run that a connection is for. Fails if there is none.
pub(super) fn find_run(connection: &Connection) -> Result<i64, StoreError> {
    match run_key(connection)? {
        Some(key) => Ok(key),
        None => {
            let name = run_name(connection)?;
            Err(StoreError::NoRun {
                path: connection.path().into(),
                known: known_runs(connection)?,
                deleted: read_deletion(connection, name)?,
                name: name.into(),
            })
        }
    }
}

/// Returns who deleted a run of a name, if somebody did not long ago.
fn read_deletion(connection: &Connection, name: &str) -> Result<Option<DeletedRun>, StoreError> {
    if !has_current_tables(connection)? {
        return Ok(None);
    }
    let sql = "SELECT text FROM strata.note WHERE run = 0 AND name = $1";
    let note = DeletedRun::note_name(name);
    let row = connection.query_optional(sql, &[(&note, Type::TEXT)])?;
    Ok(row.and_then(|row| DeletedRun::from_note(row.get(0))))
}
