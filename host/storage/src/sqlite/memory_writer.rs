//! Writes the changes of a run that is kept in memory and lost with its lease: a database that has no file.

use std::path::Path;

use rusqlite::Connection;
use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;
use strata_records::error::StoreError;
use strata_records::lineage::{DIRECTORY_RUN, FIRST_LINEAGE, KeyRange, StoredLineage, key_range};
use strata_records::rows::RunRows;
use strata_records::run_change::RunChange;
use strata_records::run_writer::{RunWriter, ShownState, Writing};
use strata_records::stored_lease::StoredLease;

use super::error::sqlite_error;
use super::rows::{SqliteReader, SqliteRows};
use super::snapshot::database_bytes;
use super::write::{NewRun, fill_new_database};
use super::write_change::{RunUnderLease, write_change};
use crate::{Durability, Epoch, Lease, SavedDefinition};

/// What stands for the path of the database in messages.
const PATH: &str = "memory";

/// A lease of a run in memory.
pub(crate) type MemoryLease = StoredLease<MemoryWriter>;

/// Creates a run in memory that starts from `base`. It is lost with its lease.
pub fn create_in_memory(
    base: &Environment,
    definition: &SavedDefinition,
) -> Result<Box<dyn Lease>, StoreError> {
    Ok(Box::new(MemoryWriter::create(base, definition)?))
}

/// Creates a run in memory, and returns a function after whose call it is known that messages of a loaded state cannot be
/// decoded.
#[cfg(feature = "test-support")]
pub fn create_with_damage(
    base: &Environment,
    definition: &SavedDefinition,
) -> Result<(Box<dyn Lease>, impl Fn() + use<>), StoreError> {
    let mut lease = MemoryWriter::create(base, definition)?;
    let damage = lease.writer().reader.damaging();
    Ok((Box::new(lease), damage))
}

/// Writes the changes of a run in memory. Nobody else can take a lease of it.
#[derive(Debug)]
pub(crate) struct MemoryWriter {
    reader: SqliteReader,
    changed: RunUnderLease,
}

impl MemoryWriter {
    /// Creates a run that starts from `base`.
    pub(crate) fn create(
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<MemoryLease, StoreError> {
        let fail = |e| sqlite_error(Path::new(PATH), "create", e);
        let new = NewRun {
            run: DIRECTORY_RUN,
            lineage: FIRST_LINEAGE,
            base,
            definition,
            blobs: &Blobs::new(),
        };
        let conn = Connection::open_in_memory().map_err(fail)?;
        fill_new_database(&conn, Some(&new)).map_err(fail)?;
        let rows = SqliteRows::from_connection(conn, PATH.into(), DIRECTORY_RUN.0)?;
        let changed = RunUnderLease {
            run: rows.run()?,
            bundle_keys: key_range(FIRST_LINEAGE),
            shown: ShownState::Never,
        };
        let reader = SqliteReader::from_rows(rows);
        MemoryLease::new(Self { reader, changed })
    }
}

impl RunWriter for MemoryWriter {
    type Rows = SqliteRows;

    fn reader(&self) -> &SqliteReader {
        &self.reader
    }

    fn path(&self) -> &Path {
        Path::new(PATH)
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.changed.run.epoch as u64)
    }

    fn bundle_keys(&self) -> KeyRange {
        self.changed.bundle_keys
    }

    fn begin(
        &self,
        _: &StoredLineage,
        change: RunChange,
        _: Durability,
    ) -> Result<Writing, StoreError> {
        let conn = &self.reader.rows.conn;
        let write = || {
            let transaction = conn.unchecked_transaction()?;
            let written = write_change(conn, &self.changed, &change, &database_bytes)?;
            transaction.commit()?;
            Ok(Writing::Committed(written))
        };
        write().map_err(|e| self.reader.rows.error("write", e))
    }

    fn shown(&self) -> ShownState {
        self.changed.shown
    }

    fn measure(&self) -> Result<u64, StoreError> {
        self.reader.rows.stored_bytes()
    }
}
