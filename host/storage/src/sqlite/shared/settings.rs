//! What is set for a database as a whole: its random name, whether it takes new runs, and that it was restored.

use rusqlite::{Connection, OptionalExtension, params};
use strata_base::random_id::random_name;
use strata_records::error::StoreError;
use strata_records::lineage::StoredRun;

use super::super::lineage::SqliteRow;
use super::super::write::write_note;
use super::change::ChangeTerms;
use super::database::SharedDatabase;
use super::owner_note::remove_owner_notes;
use crate::sqlite_url::SqliteUrl;
use crate::{DatabaseSettings, FencedDatabase, Intake};

/// The note about no run with the random name of the database.
pub(super) const INCARNATION_NOTE: &str = "incarnation";
/// The note about no run that there is while no runs may be added.
pub(super) const CLOSED_NOTE: &str = "closed";
/// By how much the epochs of all runs rise when a database was restored, as in a server.
const EPOCHS_AFTER_RESTORE: i64 = 1_000_000;

/// Creates a database, unless it exists, and returns what is set for it.
pub(crate) fn prepare(url: &SqliteUrl) -> Result<DatabaseSettings, StoreError> {
    let database = SharedDatabase::open_queue(&url.file)?;
    read_settings(&database)
}

/// Returns what is set for a database, which gets a random name if it has none.
pub(super) fn read_settings(database: &SharedDatabase) -> Result<DatabaseSettings, StoreError> {
    let new = random_name();
    let read = database.change(ChangeTerms::durable(), move |conn| {
        let sql = "INSERT OR IGNORE INTO note VALUES (0, ?1, ?2)";
        conn.execute(sql, params![INCARNATION_NOTE, new])?;
        Ok((read_note(conn, INCARNATION_NOTE)?, is_closed(conn)?))
    })?;
    let (incarnation, is_closed) = read.unwrap_or_default();
    Ok(DatabaseSettings {
        incarnation: incarnation.unwrap_or_default(),
        intake: Intake::from_open(!is_closed),
    })
}

/// Fails with `StoreError::WriteFailed` if this process has the database open and can write nothing to it any more.
pub(crate) fn check_writable(url: &SqliteUrl) -> Result<(), StoreError> {
    SharedDatabase::check_open_writable(&url.file)
}

fn read_note(conn: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT text FROM note WHERE run = 0 AND name = ?1";
    conn.query_row(sql, [name], |row| row.get(0)).optional()
}

/// Whether no runs may be added to a database.
pub(super) fn is_closed(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(read_note(conn, CLOSED_NOTE)?.is_some())
}

/// Says whether runs may be added to a database.
pub(crate) fn set_intake(url: &SqliteUrl, intake: Intake) -> Result<(), StoreError> {
    let database = SharedDatabase::open_existing_queue(url)?;
    database.change(ChangeTerms::durable(), move |conn| match intake {
        Intake::Closed => write_note(conn, 0, CLOSED_NOTE, ""),
        Intake::Open => {
            let sql = "DELETE FROM note WHERE run = 0 AND name = ?1";
            conn.execute(sql, [CLOSED_NOTE]).map(drop)
        }
    })?;
    Ok(())
}

/// Fails if no runs may be added to a database.
pub(super) fn require_open(database: &SharedDatabase, url: &SqliteUrl) -> Result<(), StoreError> {
    match database.change(ChangeTerms::default(), is_closed)? {
        Some(true) => Err(StoreError::Closed {
            path: url.to_path(),
        }),
        _ => Ok(()),
    }
}

/// Takes all runs from whoever had them when the database was copied, and gives the database another random name.
pub(crate) fn fence(url: &SqliteUrl) -> Result<FencedDatabase, StoreError> {
    let database = SharedDatabase::open_existing_queue(url)?;
    let incarnation = random_name();
    let new = incarnation.clone();
    let runs = database.change(ChangeTerms::durable(), move |conn| {
        remove_owner_notes(conn)?;
        conn.execute("UPDATE submission SET is_taken = 0", [])?;
        write_note(conn, 0, INCARNATION_NOTE, &new)?;
        raise_epochs(conn)
    })?;
    Ok(FencedDatabase {
        runs: runs.unwrap_or_default(),
        incarnation,
    })
}

/// Raises the epochs of all runs, and returns how many there are.
fn raise_epochs(conn: &Connection) -> rusqlite::Result<u64> {
    let mut statement = conn.prepare("SELECT * FROM run")?;
    let rows = statement.query_map([], StoredRun::from_row)?;
    let stored: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    let count = stored.len() as u64;
    // Nobody can take a run whose row is damaged.
    for mut run in stored.into_iter().flatten() {
        run.epoch += EPOCHS_AFTER_RESTORE;
        run.write(conn)?;
    }
    Ok(count)
}
