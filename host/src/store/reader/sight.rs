//! Opening a database without its lock, and what is seen of whoever writes it meanwhile.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{Reader, check_pages};
use crate::store::directory::{Directory, LOG};
use crate::store::error::StoreError;
use crate::store::{file, schema};

/// How often it is looked again because somebody else began or ended to write while it was read.
const LOOKS: usize = 8;

/// What a reader sees of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Each commit, once it is complete.
    Commits,
    /// Nothing: the file as it lay there when nobody was writing it.
    Still(Glance),
}

/// How a database lay there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glance {
    /// Its place on the disk.
    place: (u64, u64),
    /// What changes when it is written: its size, and when that was.
    written: (u64, i64, i64),
    /// Whether there is something in the log beside it.
    has_log: bool,
}

impl Glance {
    /// None where none can be looked at.
    fn at(path: &Path) -> Option<Self> {
        // The log first: it is removed after the database was written.
        let has_log = has_log(path);
        let meta = std::fs::metadata(path).ok()?;
        let written = (meta.size(), meta.mtime(), meta.mtime_nsec());
        Some(Self {
            place: (meta.dev(), meta.ino()),
            written,
            has_log,
        })
    }
}

impl Reader {
    /// Opens the database of a directory, which another process may be writing. Nothing is created or changed.
    pub fn open(directory: &Directory) -> Result<Self, StoreError> {
        file::require_files(directory.path())?;
        let path = directory.database();
        schema::recognise(&path)?;
        let reader = Self::look(path)?;
        // Rows that a damaged page has lost would be missed by nobody.
        reader.steadily(check_pages)?;
        reader.steadily(|reader| reader.check_complete().map(drop))?;
        Ok(reader)
    }

    fn look(path: PathBuf) -> Result<Self, StoreError> {
        // Without a log beside it the file is complete, and reading it needs neither locks nor files beside it, which
        // SQLite would otherwise create.
        let sight = match Glance::at(&path) {
            Some(glance) if !glance.has_log => Sight::Still(glance),
            _ => Sight::Commits,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let open = Connection::open_with_flags(uri(&path, sight), flags);
        let conn = open.map_err(|e| StoreError::sqlite(&path, "open", e))?;
        let reader = Self::ready(conn, path)?;
        let same = reader.stand_still()?;
        reader.line()?;
        drop(same);
        Ok(Self { sight, ..reader })
    }

    /// Reads something. A writer that started after we had looked may change the file under our eyes, and we would go on
    /// seeing it as it was: then we look again.
    pub(in crate::store) fn steadily<T>(
        &self,
        read: impl Fn(&Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut again: Option<Self> = None;
        for _ in 0..LOOKS {
            let reader = again.as_ref().unwrap_or(self);
            if !reader.is_past() {
                let found = read(reader);
                if !reader.is_past() {
                    return found;
                }
            }
            again = Some(Self {
                turned: self.turned,
                ..Self::look(self.path.clone())?
            });
        }
        read(again.as_ref().unwrap_or(self))
    }

    /// Whether the database is not as it lay there any more. Another file in its place is another database, and this one
    /// is read to its end.
    fn is_past(&self) -> bool {
        let Sight::Still(then) = self.sight else {
            return false;
        };
        Glance::at(&self.path).is_some_and(|now| now.place == then.place && now != then)
    }
}

/// Whether there is something in a write-ahead log beside a database.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(path.with_file_name(LOG)).is_ok_and(|log| log.len() > 0)
}

/// A path as SQLite takes it with options.
fn uri(path: &Path, sight: Sight) -> String {
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
    if matches!(sight, Sight::Still(_)) {
        uri.push_str("?immutable=1");
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::damage::saved;
    use crate::store::{Durability, Record, Replace, Store, script};

    #[test]
    fn who_began_to_read_before_a_run_goes_on_sees_what_that_does() {
        let (_temp, directory, records, end) = saved(60);
        let found = |reader: &Reader| reader.records(0, usize::MAX).unwrap().len();
        let before = Reader::open(&directory).unwrap();
        let mut store = directory.open().unwrap().store;
        // A run that has not recorded anything yet has an empty log.
        assert_eq!(
            std::fs::metadata(directory.path().join("team.db-wal"))
                .unwrap()
                .len(),
            0
        );
        let begun = Reader::open(&directory).unwrap();
        assert_eq!([found(&before), found(&begun)], [60, 60]);
        let more: Vec<Record> = records[..20].to_vec();
        for n in 1..4 {
            store.append(&more, Durability::Process).unwrap();
            assert_eq!([found(&before), found(&begun)], [60 + 20 * n; 2]);
            // And when there is no log any more.
            drop(store);
            assert_eq!([found(&before), found(&begun)], [60 + 20 * n; 2]);
            store = directory.open().unwrap().store;
        }
        drop(store);
        // What is made in its place is another team.
        drop(
            directory
                .create(Replace::Unfinished, &end, &script::definition())
                .unwrap(),
        );
        assert_eq!([found(&before), found(&begun)], [60; 2]);
    }
}
