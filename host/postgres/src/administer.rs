//! What operators do with a database as a whole: create its tables, say whether it takes new runs, and
//! declare that it was restored.

use strata_records::error::StoreError;
use strata_records::retention::Retention;
use strata_records::{DatabaseSettings, FencedDatabase, Intake};
use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;
use super::database::Database;
use super::run_name::run_key;
use super::schema::migrate;

/// By how much the epochs of all runs rise when a database was restored: by more than what the lost part of
/// its history can have added, so that no owner of that time has an epoch which is given to another.
const EPOCHS_AFTER_RESTORE: i64 = 1_000_000;

/// Creates the tables, unless they exist, and returns what is set for the database.
pub fn prepare(database: &Database) -> Result<DatabaseSettings, StoreError> {
    read_settings(&open_prepared(database)?)
}

fn open_prepared(database: &Database) -> Result<Connection, StoreError> {
    let connection = database.connect()?;
    migrate(&connection)?;
    Ok(connection)
}

/// Returns what is set for a database that has the tables.
pub(super) fn read_settings(connection: &Connection) -> Result<DatabaseSettings, StoreError> {
    let sql = "SELECT incarnation, is_open FROM strata.meta";
    let row = connection.query_optional(sql, &[])?;
    let row =
        row.ok_or_else(|| StoreError::corrupt(connection.path(), "`strata.meta` is empty"))?;
    Ok(DatabaseSettings {
        incarnation: row.get(0),
        intake: Intake::from_open(row.get(1)),
    })
}

/// Fails if no runs may be added to a database.
pub(super) fn require_open(connection: &Connection) -> Result<(), StatementError> {
    let sql = "SELECT FROM strata.meta WHERE NOT is_open";
    match connection.query_optional(sql, &[])? {
        None => Ok(()),
        Some(_) => Err(StatementError::from(StoreError::Closed {
            path: connection.path().into(),
        })),
    }
}

/// Says whether runs may be added to a database.
pub fn set_intake(database: &Database, intake: Intake) -> Result<(), StoreError> {
    let connection = open_prepared(database)?;
    let is_open = intake == Intake::Open;
    connection.execute(
        "UPDATE strata.meta SET is_open = $1",
        &[(&is_open, Type::BOOL)],
    )?;
    Ok(())
}

/// Returns for how long runs are kept that have ended.
pub fn read_retention(database: &Database) -> Result<Retention, StoreError> {
    let connection = open_prepared(database)?;
    let row = connection.query_optional("SELECT retention FROM strata.meta", &[])?;
    let text: String = row.map_or_else(String::new, |row| row.get(0));
    Retention::parse(&text).map_err(|what| StoreError::corrupt(connection.path(), what))
}

/// Says for how long runs are kept that have ended.
pub fn set_retention(database: &Database, retention: &Retention) -> Result<(), StoreError> {
    let connection = open_prepared(database)?;
    let text = retention.to_string();
    connection.execute(
        "UPDATE strata.meta SET retention = $1",
        &[(&text, Type::TEXT)],
    )?;
    Ok(())
}

/// Takes all runs from their owners, and gives the database a new incarnation.
pub fn fence(database: &Database) -> Result<FencedDatabase, StoreError> {
    let connection = open_prepared(database)?;
    connection.transact("", || -> Result<_, StoreError> {
        // No heartbeat of before is answered from now on.
        connection.execute("DELETE FROM strata.worker", &[])?;
        let sql = "UPDATE strata.run SET owner = NULL, epoch = epoch + $1";
        let runs = connection.execute(sql, &[(&EPOCHS_AFTER_RESTORE, Type::INT8)])?;
        let sql = "UPDATE strata.meta SET incarnation = gen_random_uuid()::text";
        connection.execute(sql, &[])?;
        Ok(FencedDatabase {
            runs,
            incarnation: read_settings(&connection)?.incarnation,
        })
    })
}

/// Returns whether a database has the run of a URL.
pub fn has_run(database: &Database) -> Result<bool, StoreError> {
    Ok(run_key(&database.connect()?)?.is_some())
}
