//! Whether another process writes a database that is being read.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::directory::names::SideFile;

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

impl ReadMode {
    /// Returns how a database is read that has this file now.
    pub(super) fn for_file(path: &Path) -> Self {
        match FileState::read(path) {
            Some(glance) if !glance.has_log => Self::Immutable(glance),
            _ => Self::Commits,
        }
    }

    /// Whether the file was written since it was opened as immutable: then SQLite may have read a
    /// mix of old and new pages. Another file with its name is another database; the open one can
    /// still be read.
    pub(super) fn is_file_changed(self, path: &Path) -> bool {
        let Self::Immutable(then) = self else {
            return false;
        };
        FileState::read(path).is_some_and(|now| now.identity == then.identity && now != then)
    }
}

/// Whether there is a write-ahead log beside a database that is not empty.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(SideFile::Wal.beside(path)).is_ok_and(|log| log.len() > 0)
}
