//! Creates a database. It gets its final name when it is complete and nothing is left of a previous
//! one.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use rusqlite::Connection;
use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;
use strata_records::error::StoreError;
use strata_records::lineage::{DIRECTORY_RUN, FIRST_LINEAGE};

use super::error::sqlite_error;
use super::write::{NewRun, fill_new_database};
use crate::SavedDefinition;
use crate::directory::names::{DATABASE, SideFile};
use crate::file;
use crate::progress::ProgressFile;

/// The offset in a database at which the versions of its format are: those with which it is written and
/// read. They say that it has a log.
const VERSIONS_OFFSET: usize = 18;
/// The version of a database with a log.
const LOG_VERSION: u8 = 2;

/// The bytes of a database, which is not stored yet.
pub(crate) struct DatabaseImage(Vec<u8>);

impl fmt::Debug for DatabaseImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseImage({} bytes)", self.0.len())
    }
}

impl DatabaseImage {
    /// Creates the database of a directory in memory, with a run that starts from `base`.
    pub(crate) fn new(
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
        Self::with_run(&directory.join(DATABASE), Some(&run))
    }

    /// Creates a database without runs in memory.
    pub(super) fn without_runs(path: &Path) -> Result<Self, StoreError> {
        Self::with_run(path, None)
    }

    fn with_run(path: &Path, run: Option<&NewRun<'_>>) -> Result<Self, StoreError> {
        let image = || {
            let mut conn = Connection::open_in_memory()?;
            fill_new_database(&conn, run)?;
            Ok(conn.serialize("main")?.to_vec())
        };
        let mut bytes: Vec<u8> = image().map_err(|e| sqlite_error(path, "create", e))?;
        // A database in memory has no log; this one is opened with one.
        for version in bytes.iter_mut().skip(VERSIONS_OFFSET).take(2) {
            *version = LOG_VERSION;
        }
        Ok(Self(bytes))
    }
}

/// Creates a database. If that fails, as on a full disk, nothing of it is left.
pub(super) fn create_database(path: &Path, image: &DatabaseImage) -> Result<(), StoreError> {
    let new = file::temporary_path(path);
    file::remove_if_exists(&new).map_err(|e| StoreError::io(&new, "replace", e))?;
    let written = write_database(path, &new, image);
    written.inspect_err(|_| {
        // It only takes space.
        let _ = file::remove_if_exists(&new);
    })
}

/// Removes a database that was created and cannot be used. Nothing was stored in it yet, and without its log it would be
/// taken for one that has lost something.
pub(super) fn remove_unused_database(path: &Path) {
    // The files beside a database that is gone are removed before the next one is created.
    let side_files = SideFile::OF_DATABASE.map(|file| file.beside(path));
    for path in [path.to_owned()].into_iter().chain(side_files) {
        let _ = file::remove_if_exists(&path);
    }
}

fn write_database(path: &Path, new: &Path, image: &DatabaseImage) -> Result<(), StoreError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(new)?;
        file.write_all(&image.0)?;
        Ok(file)
    };
    let file: File = write().map_err(|e| StoreError::io(path, "create", e))?;
    remove_leftovers(path)?;
    // The progress file comes first, since the database expects a log as soon as it has its name.
    ProgressFile::create(path)?;
    let publish = || {
        file.sync_all()?;
        std::fs::rename(new, path)
    };
    publish().map_err(|e| StoreError::io(path, "create", e))
}

/// Removes the files that a previous database left behind, and syncs the directory. Otherwise,
/// SQLite would take the old log for that of the new database.
fn remove_leftovers(database: &Path) -> Result<(), StoreError> {
    let mut is_clear = true;
    for path in SideFile::OF_DATABASE.map(|file| file.beside(database)) {
        is_clear &= !path.exists();
        file::remove_if_exists(&path).map_err(|e| StoreError::io(&path, "remove", e))?;
    }
    if is_clear {
        Ok(())
    } else {
        file::sync_directory(file::directory_of(database))
    }
}
