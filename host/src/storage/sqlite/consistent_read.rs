//! Opens a database without holding its lock, and notices when another process writes it meanwhile.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::rows::{SqliteReader, SqliteRows, check_pages};
use crate::storage::directory::{StorageDirectory, WAL_FILE};
use crate::storage::error::StoreError;
use crate::storage::lineage::DIRECTORY_RUN;
use crate::storage::{file, schema};

/// What a reader sees of a concurrent writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// Each commit, once it is complete.
    Commits,
    /// Nothing: the file is read as if it never changed. The state of the file tells whether that
    /// is still true.
    Immutable(FileState),
}

/// The state of a database file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    /// The device and the inode, which identify the file.
    identity: (u64, u64),
    /// The size and the modification time, which change when the file is written.
    written: (u64, i64, i64),
    /// Whether there is a log beside it that is not empty.
    has_log: bool,
}

impl FileState {
    /// Returns the current state, or `None` if it cannot be read.
    fn read(path: &Path) -> Option<Self> {
        // The log comes first: it is removed after the database was written.
        let has_log = has_log(path);
        let meta = std::fs::metadata(path).ok()?;
        let written = (meta.size(), meta.mtime(), meta.mtime_nsec());
        Some(Self {
            identity: (meta.dev(), meta.ino()),
            written,
            has_log,
        })
    }
}

impl SqliteReader {
    /// Opens the database of a directory, which another process may be writing. Creates and changes
    /// nothing.
    pub(in crate::storage) fn open(directory: &StorageDirectory) -> Result<Self, StoreError> {
        file::require_regular_files(directory.path())?;
        let path = directory.database();
        schema::require_own_database(&path)?;
        let reader = Self::from_rows(SqliteRows::open_unlocked(path, DIRECTORY_RUN.0)?);
        // Otherwise, the loss of rows on a damaged page could go unnoticed.
        reader.read_consistently(check_pages)?;
        reader.read_consistently(|reader| reader.check_complete().map(drop))?;
        Ok(reader)
    }
}

impl SqliteRows {
    /// Opens a database for reading a run, without its lock and without checking whether it is
    /// complete.
    pub(in crate::storage) fn open_unlocked(path: PathBuf, run: i64) -> Result<Self, StoreError> {
        // Without a log the file is complete. Reading it as immutable then avoids locks, and files
        // beside it that SQLite would otherwise create.
        let mode = match FileState::read(&path) {
            Some(glance) if !glance.has_log => ReadMode::Immutable(glance),
            _ => ReadMode::Commits,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let open = Connection::open_with_flags(uri(&path, mode), flags);
        let conn = open.map_err(|e| StoreError::sqlite(&path, "open", e))?;
        let reader = SqliteReader::from_rows(Self::from_connection(conn, path, run)?);
        let same = reader.begin_read()?;
        reader.selected_lineage()?;
        drop(same);
        Ok(Self {
            mode,
            ..reader.rows
        })
    }

    /// Whether the file was written since it was opened as immutable: then SQLite may have read a mix
    /// of old and new pages. Another file with its name is another database; the open one can still
    /// be read.
    pub(super) fn is_immutable_file_changed(&self) -> bool {
        let ReadMode::Immutable(then) = self.mode else {
            return false;
        };
        FileState::read(&self.path).is_some_and(|now| now.identity == then.identity && now != then)
    }
}

/// Whether there is a write-ahead log beside a database that is not empty.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(path.with_file_name(WAL_FILE)).is_ok_and(|log| log.len() > 0)
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
    use crate::storage::damage::saved;
    use crate::storage::{Durability, Lease, Reader, Record, ReplacePolicy, script};

    #[test]
    fn who_began_to_read_before_a_run_goes_on_sees_what_that_does() {
        let (_temp, directory, records, end) = saved(60);
        let found = |reader: &SqliteReader| reader.records(0, usize::MAX).unwrap().len();
        let before = SqliteReader::open(&directory).unwrap();
        let mut store = directory.open().unwrap().lease;
        // A run that has not recorded anything yet has an empty log.
        assert_eq!(
            std::fs::metadata(directory.path().join("team.db-wal"))
                .unwrap()
                .len(),
            0
        );
        let begun = SqliteReader::open(&directory).unwrap();
        assert_eq!([found(&before), found(&begun)], [60, 60]);
        let more: Vec<Record> = records[..20].to_vec();
        for n in 1..4 {
            store.append(&more, Durability::Process).unwrap();
            assert_eq!([found(&before), found(&begun)], [60 + 20 * n; 2]);
            // And when the log is gone again.
            drop(store);
            assert_eq!([found(&before), found(&begun)], [60 + 20 * n; 2]);
            store = directory.open().unwrap().lease;
        }
        drop(store);
        // What is created with the same name is another team.
        drop(
            directory
                .create(ReplacePolicy::Unfinished, &end, &script::definition())
                .unwrap(),
        );
        assert_eq!([found(&before), found(&begun)], [60; 2]);
    }
}
