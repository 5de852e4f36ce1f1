//! A database in the making: it appears under its name when it is complete, where nothing is left of one before it.

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;

use strata_core::environment::Environment;

use super::SqliteStore;
use super::write::{begin_log, fill};
use crate::blob::Blobs;
use crate::store::directory::{BESIDE, DATABASE};
use crate::store::error::StoreError;
use crate::store::group::{Link, links};
use crate::store::lock::Lock;
use crate::store::progress::ProgressFile;
use crate::store::{SavedDefinition, file};

/// The database in the making.
pub(in crate::store) const NEW_DATABASE: &str = ".team.db.new";

impl SqliteStore {
    /// Creates a database whose run starts from `base`, with the bytes of files. It appears under its name when it is
    /// complete.
    pub(in crate::store) fn create(
        lock: Lock,
        directory: &Path,
        (base, definition): (&Environment, &SavedDefinition),
        blobs: &Blobs,
    ) -> Result<Self, StoreError> {
        let (new, path) = (directory.join(NEW_DATABASE), directory.join(DATABASE));
        let fail = |e| StoreError::sqlite(&path, "create", e);
        file::remove(&new).map_err(|e| StoreError::io(&new, "replace", e))?;
        let conn = Connection::open(&new).map_err(fail)?;
        fill(&conn, base, definition, blobs).map_err(fail)?;
        conn.close().map_err(|(_, e)| fail(e))?;
        clear(directory)?;
        // Before the database, which expects a log from its first moment.
        ProgressFile::create(directory)?;
        let publish = || {
            File::open(&new)?.sync_all()?;
            std::fs::rename(&new, &path)
        };
        publish().map_err(|e| StoreError::io(&path, "create", e))?;
        // The name is durable with the first full append, before which there is nothing to be lost.
        let store = Self::open(lock, directory)?;
        store.progress.begin()?;
        begin_log(&store.reader.conn).map_err(fail)?;
        Ok(store)
    }
}

/// Removes, durably, what a database left that lay here before, and is here no more: SQLite would take its log for that
/// of the next one, and we what a shared log has of its team.
fn clear(directory: &Path) -> Result<(), StoreError> {
    let links = links(directory)?;
    links.iter().try_for_each(Link::remove)?;
    let mut is_clear = links.is_empty();
    for path in BESIDE.map(|name| directory.join(name)) {
        is_clear &= !path.exists();
        file::remove(&path).map_err(|e| StoreError::io(&path, "remove", e))?;
    }
    if is_clear {
        Ok(())
    } else {
        file::sync_directory(directory)
    }
}
