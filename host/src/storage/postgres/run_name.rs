//! Finds the run of a URL by its name.

use tokio_postgres::types::Type;

use super::connection::Connection;
use super::schema::{SchemaState, schema_state};
use crate::storage::error::StoreError;

/// How many runs are listed in messages.
const MAX_LISTED_RUNS: i64 = 20;

/// Returns the names of the newest runs, the newest first.
fn known_runs(connection: &Connection) -> Result<Vec<String>, StoreError> {
    if schema_state(connection)? == SchemaState::Absent {
        return Ok(Vec::new());
    }
    let sql = "SELECT name FROM strata.run ORDER BY id DESC LIMIT $1";
    let rows = connection.query(sql, &[(&MAX_LISTED_RUNS, Type::INT8)])?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
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
    if schema_state(connection)? == SchemaState::Absent {
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
        None => Err(StoreError::NoRun {
            path: connection.path().into(),
            name: run_name(connection)?.into(),
            known: known_runs(connection)?,
        }),
    }
}
