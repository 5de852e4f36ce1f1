//! Opens a database without holding its lock, and notices when another process writes it meanwhile.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use strata_records::error::StoreError;
use strata_records::lineage::DIRECTORY_RUN;

use super::error::sqlite_error;
use super::file_state::ReadMode;
use super::rows::{SqliteReader, SqliteRows, WHOLE_DATABASE, check_pages};
use crate::directory::names::DATABASE;
use crate::progress::check_complete;
use crate::{file, schema};

impl SqliteRows {
    /// Opens the database of a directory for reading, which another process may be writing. Creates and changes
    /// nothing.
    pub(crate) fn open(directory: impl AsRef<Path>) -> Result<SqliteReader, StoreError> {
        let directory = directory.as_ref();
        file::require_regular_files(directory)?;
        Self::open_run(directory.join(DATABASE), DIRECTORY_RUN.0)
    }

    /// Opens a database, which another process may be writing, to read one of its runs, or with
    /// `WHOLE_DATABASE` what all have together. Creates and changes nothing.
    pub(super) fn open_run(path: PathBuf, run: i64) -> Result<SqliteReader, StoreError> {
        schema::require_own_database(&path)?;
        let reader = SqliteReader::from_rows(Self::open_unlocked(path, run)?);
        // Otherwise, the loss of rows on a damaged page could go unnoticed.
        reader.read_consistently(check_pages)?;
        reader.read_consistently(|reader| check_complete(reader).map(drop))?;
        Ok(reader)
    }

    /// Opens a database for reading a run, without its lock and without checking whether it is
    /// complete.
    pub(crate) fn open_unlocked(path: PathBuf, run: i64) -> Result<Self, StoreError> {
        // Without a log the file is complete. Reading it as immutable then avoids locks, and files
        // beside it that SQLite would otherwise create.
        let mode = ReadMode::for_file(&path);
        Self::open_in_mode(path, run, mode)
    }

    /// Opens a database for reading a run while this process writes to it.
    pub(super) fn open_beside_writer(path: PathBuf, run: i64) -> Result<Self, StoreError> {
        Self::open_in_mode(path, run, ReadMode::Commits)
    }

    fn open_in_mode(path: PathBuf, run: i64, mode: ReadMode) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let open = Connection::open_with_flags(uri(&path, mode), flags);
        let conn = open.map_err(|e| sqlite_error(&path, "open", e))?;
        let reader = SqliteReader::from_rows(Self::from_connection(conn, path, run)?);
        let same = reader.begin_read()?;
        match run {
            WHOLE_DATABASE => reader.rows.other_changes().map(drop)?,
            _ => reader.selected_lineage().map(drop)?,
        }
        drop(same);
        Ok(Self {
            mode,
            ..reader.rows
        })
    }
}

/// Returns a path as a URI, in which SQLite takes options.
fn uri(path: &Path, mode: ReadMode) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
                uri.push(char::from(*byte))
            }
            other => {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{other:02X}");
            }
        }
    }
    if matches!(mode, ReadMode::Immutable(_)) {
        uri.push_str("?immutable=1");
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::damage::saved;
    use crate::tests::script;
    use crate::{Durability, Lease, Record, RecordedRun, ReplacePolicy};

    #[test]
    fn who_began_to_read_before_a_run_goes_on_sees_what_that_does() {
        let (_temp, directory, records, end) = saved(60);
        let found = |reader: &SqliteReader| reader.records(0, usize::MAX).unwrap().len();
        let before = SqliteRows::open(&directory).unwrap();
        let mut store = directory.open().unwrap().lease;
        // A run that has not recorded anything yet has an empty log.
        assert_eq!(
            std::fs::metadata(directory.path().join("team.db-wal"))
                .unwrap()
                .len(),
            0
        );
        let current = SqliteRows::open(&directory).unwrap();
        assert_eq!([found(&before), found(&current)], [60, 60]);
        let more: Vec<Record> = records[..20].to_vec();
        for n in 1..4 {
            store.append(&more, Durability::Process).unwrap();
            assert_eq!([found(&before), found(&current)], [60 + 20 * n; 2]);
            // And when the log is gone again.
            drop(store);
            assert_eq!([found(&before), found(&current)], [60 + 20 * n; 2]);
            store = directory.open().unwrap().lease;
        }
        drop(store);
        // What is created with the same name is another team.
        drop(
            directory
                .create(ReplacePolicy::Unfinished, &end, &script::definition())
                .unwrap(),
        );
        assert_eq!([found(&before), found(&current)], [60; 2]);
    }
}
