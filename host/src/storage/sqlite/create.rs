//! Creates a database. It gets its final name when it is complete and nothing is left of a previous
//! one.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use rusqlite::Connection;
use strata_core::state::environment::Environment;

use super::write::{NewRun, fill_new_database};
use crate::blob::Blobs;
use crate::storage::SavedDefinition;
use crate::storage::directory::names::{DATABASE, DATABASE_SIDE_FILES};
use crate::storage::error::StoreError;
use crate::storage::file;
use crate::storage::group_log::log_links;
use crate::storage::lineage::{DIRECTORY_RUN, FIRST_LINEAGE};
use crate::storage::progress::ProgressFile;

/// The name of a database that is not complete yet.
pub(in crate::storage) const TEMPORARY_DATABASE: &str = ".team.db.new";

/// The offset in a database at which the versions of its format are: those with which it is written and
/// read. They say that it has a log.
const VERSIONS_OFFSET: usize = 18;
/// The version of a database with a log.
const LOG_VERSION: u8 = 2;

/// The bytes of a database with one run, which is not stored yet.
pub(in crate::storage) struct DatabaseImage(Vec<u8>);

impl fmt::Debug for DatabaseImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseImage({} bytes)", self.0.len())
    }
}

impl DatabaseImage {
    /// Creates the database of a directory in memory, with a run that starts from `base`.
    pub(in crate::storage) fn new(
        directory: &Path,
        base: &Environment,
        definition: &SavedDefinition,
        blobs: &Blobs,
    ) -> Result<Self, StoreError> {
        let run = NewRun {
            run: DIRECTORY_RUN,
            lineage: FIRST_LINEAGE,
            base,
            definition,
            blobs,
        };
        let image = || {
            let mut conn = Connection::open_in_memory()?;
            fill_new_database(&conn, &run)?;
            Ok(conn.serialize("main")?.to_vec())
        };
        let mut bytes: Vec<u8> =
            image().map_err(|e| StoreError::sqlite(&directory.join(DATABASE), "create", e))?;
        // A database in memory has no log; this one is opened with one.
        for version in bytes.iter_mut().skip(VERSIONS_OFFSET).take(2) {
            *version = LOG_VERSION;
        }
        Ok(Self(bytes))
    }
}

/// Creates the database of a directory.
pub(super) fn create_database(directory: &Path, image: &DatabaseImage) -> Result<(), StoreError> {
    let (new, path) = (directory.join(TEMPORARY_DATABASE), directory.join(DATABASE));
    file::remove_if_exists(&new).map_err(|e| StoreError::io(&new, "replace", e))?;
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
        file.write_all(&image.0)?;
        Ok(file)
    };
    let file: File = write().map_err(|e| StoreError::io(&path, "create", e))?;
    remove_leftovers(directory)?;
    // The progress file comes first, since the database expects a log as soon as it has its name.
    ProgressFile::create(directory)?;
    let publish = || {
        file.sync_all()?;
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
