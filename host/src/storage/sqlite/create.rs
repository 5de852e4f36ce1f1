//! Creates a database. It gets its final name when it is complete and nothing is left of a previous
//! one.

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;

use super::write::{NewRun, fill_new_database};
use crate::storage::directory::names::{DATABASE, DATABASE_SIDE_FILES};
use crate::storage::error::StoreError;
use crate::storage::file;
use crate::storage::group_log::log_links;
use crate::storage::progress::ProgressFile;

/// The name of a database that is not complete yet.
pub(in crate::storage) const TEMPORARY_DATABASE: &str = ".team.db.new";

/// Creates the database of a directory, with a run in it.
pub(super) fn create_database(directory: &Path, run: &NewRun<'_>) -> Result<(), StoreError> {
    let (new, path) = (directory.join(TEMPORARY_DATABASE), directory.join(DATABASE));
    let fail = |e| StoreError::sqlite(&path, "create", e);
    file::remove_if_exists(&new).map_err(|e| StoreError::io(&new, "replace", e))?;
    let conn = Connection::open(&new).map_err(fail)?;
    fill_new_database(&conn, run).map_err(fail)?;
    conn.close().map_err(|(_, e)| fail(e))?;
    remove_leftovers(directory)?;
    // The progress file comes first, since the database expects a log as soon as it has its name.
    ProgressFile::create(directory)?;
    let publish = || {
        File::open(&new)?.sync_all()?;
        std::fs::rename(&new, &path)
    };
    publish().map_err(|e| StoreError::io(&path, "create", e))
}

/// Removes the files that a previous database left behind, and syncs the directory. Otherwise,
/// SQLite would take the old log for that of the new database, and events of the old team would be
/// restored from a group log.
fn remove_leftovers(directory: &Path) -> Result<(), StoreError> {
    let links = log_links(directory)?;
    for link in &links {
        link.remove()?;
    }
    let mut is_clear = links.is_empty();
    for path in DATABASE_SIDE_FILES.map(|name| directory.join(name)) {
        is_clear &= !path.exists();
        file::remove_if_exists(&path).map_err(|e| StoreError::io(&path, "remove", e))?;
    }
    if is_clear {
        Ok(())
    } else {
        file::sync_directory(directory)
    }
}
