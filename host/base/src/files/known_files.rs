//! Remembers what was found out about a file, so that a file that has not changed since is not read
//! again: hashing an interpreter, or verifying its compiled code, takes longer than all else at the
//! start of a run.
//!
//! A file has not changed if it is the same one, with the same size and times of change. The system
//! sets the time of the last change of a file's status, and no program can. As the clock of the file
//! system may be coarse, a file is only remembered once its last change is some time ago: whatever
//! changes the file later gets another time.
//!
//! What is not noticed: damage of the disk, and a clock that is set back to the moment of the last
//! change before the file is changed again.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::files::open;
use crate::files::replace::{Replacement, replace};
use crate::files::user;

/// For how many seconds a file must not have changed before it is remembered. The times of common
/// file systems have steps of two seconds at most.
const SETTLED_SECONDS: i64 = 5;
/// How many files are remembered. Another file may take the place of one.
const MAX_ENTRIES: u32 = 4096;
/// The largest entry that is read, in bytes.
const MAX_ENTRY_BYTES: u64 = 1 << 10;
/// The number of digits of the checksum that an entry begins with.
const CHECKSUM_DIGITS: usize = 8;

/// Files that are remembered in a private directory of the user, which contains one kind of finding.
#[derive(Clone)]
pub struct KnownFiles {
    directory: Option<PathBuf>,
}

/// Which file it is, and when it changed last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: FileTime,
    changed: FileTime,
}

/// A time of a file, since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileTime {
    seconds: i64,
    nanoseconds: i64,
}

/// An entry: what was found out about a file in this state.
#[derive(Serialize, Deserialize)]
struct KnownFile<T> {
    state: FileState,
    finding: T,
}

impl KnownFiles {
    /// Returns those in a directory, which is created when the first file is remembered.
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            directory: Some(directory.to_owned()),
        }
    }

    /// Returns none: every file is read.
    pub fn none() -> Self {
        Self { directory: None }
    }

    /// Returns what is remembered of a file in this state.
    pub fn find<T: DeserializeOwned>(&self, state: &FileState) -> Option<T> {
        let path = self.path(state)?;
        let file = open::regular(&path).ok()?;
        if !user::is_private(&file.metadata().ok()?) {
            return None;
        }
        let mut text = String::new();
        file.take(MAX_ENTRY_BYTES).read_to_string(&mut text).ok()?;
        let (sum, entry) = text.split_at_checked(CHECKSUM_DIGITS)?;
        if checksum(entry) != sum {
            return None;
        }
        let known: KnownFile<T> = serde_json::from_str(entry).ok()?;
        (known.state == *state).then_some(known.finding)
    }

    /// Remembers what was found out about a file that was in this state before and after it was read,
    /// if a change from now on would be visible in its state.
    pub fn remember<T: Serialize>(&self, state: &FileState, finding: T) {
        self.remember_at(clock::now_ms(), state, finding);
    }

    /// Remembers what was found out about a file that was in this state at `now_ms`, if a change from
    /// then on would be visible in its state.
    pub fn remember_at<T: Serialize>(&self, now_ms: i64, state: &FileState, finding: T) {
        if state.is_settled(now_ms) {
            // The next run reads the file again.
            let _ = self.write(state, finding);
        }
    }

    fn write<T: Serialize>(&self, state: &FileState, finding: T) -> io::Result<()> {
        let (Some(directory), Some(path)) = (&self.directory, self.path(state)) else {
            return Ok(());
        };
        user::create_private_dir(directory).map_err(io::Error::other)?;
        let state = state.clone();
        let entry = serde_json::to_string(&KnownFile { state, finding })?;
        replace(&path, Replacement::Cached, |new| {
            new.write_all(checksum(&entry).as_bytes())?;
            new.write_all(entry.as_bytes())
        })
    }

    /// Returns the path of the entry of a file.
    fn path(&self, state: &FileState) -> Option<PathBuf> {
        let mut place = crc32fast::Hasher::new();
        place.update(&state.device.to_le_bytes());
        place.update(&state.inode.to_le_bytes());
        let place = place.finalize() % MAX_ENTRIES;
        Some(self.directory.as_ref()?.join(format!("{place:03x}")))
    }
}

impl FileState {
    /// Returns the current state of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from_metadata(&file.metadata()?))
    }

    fn from_metadata(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.size(),
            modified: FileTime {
                seconds: meta.mtime(),
                nanoseconds: meta.mtime_nsec(),
            },
            changed: FileTime {
                seconds: meta.ctime(),
                nanoseconds: meta.ctime_nsec(),
            },
        }
    }

    /// Returns the size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether a change from now on would be visible in the times.
    fn is_settled(&self, now_ms: i64) -> bool {
        let latest = self.changed.seconds.max(self.modified.seconds);
        latest.saturating_add(SETTLED_SECONDS) < now_ms / 1000
    }
}

/// Returns the checksum of an entry: after a loss of power, its file may be there in part.
fn checksum(entry: &str) -> String {
    format!("{:08x}", crc32fast::hash(entry.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the state of a file as if it had changed last so many seconds ago.
    fn state(path: &Path, age_seconds: i64) -> FileState {
        let mut state = FileState::from_metadata(&fs::metadata(path).unwrap());
        state.changed.seconds -= age_seconds;
        state.modified.seconds -= age_seconds;
        state
    }

    fn find(known: &KnownFiles, state: &FileState) -> Option<String> {
        known.find(state)
    }

    #[test]
    fn a_file_is_known_as_long_as_it_does_not_change() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c.wasm");
        fs::write(&path, b"code").unwrap();
        let known = KnownFiles::in_directory(&home.path().join("known"));
        let before = state(&path, 60);
        assert_eq!(find(&known, &before), None);
        known.remember(&before, "fine");
        assert_eq!(find(&known, &before), Some("fine".into()));
        for changed in [
            state(&path, 59),
            FileState {
                bytes: 5,
                ..before.clone()
            },
            FileState {
                inode: before.inode + u64::from(MAX_ENTRIES),
                ..before.clone()
            },
        ] {
            assert_eq!(find(&known, &changed), None);
        }
        assert_eq!(find(&KnownFiles::none(), &before), None);
    }

    #[test]
    fn a_file_that_changed_a_moment_ago_is_not_remembered() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c.wasm");
        fs::write(&path, b"code").unwrap();
        let known = KnownFiles::in_directory(&home.path().join("known"));
        let fresh = state(&path, 0);
        known.remember(&fresh, "fine");
        assert_eq!(find(&known, &fresh), None);
        let settled = fresh.changed.seconds + SETTLED_SECONDS;
        assert!(!fresh.is_settled(settled * 1000 + 999));
        assert!(fresh.is_settled((settled + 1) * 1000));
    }

    #[test]
    fn an_entry_in_a_directory_of_others_is_not_written() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let open = home.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let path = home.path().join("c.wasm");
        fs::write(&path, b"code").unwrap();
        let known = KnownFiles::in_directory(&open);
        let state = state(&path, 60);
        known.remember(&state, "fine");
        assert_eq!(find(&known, &state), None);
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_entry_counts_as_none() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c.wasm");
        fs::write(&path, b"code").unwrap();
        let known = KnownFiles::in_directory(&home.path().join("known"));
        let state = state(&path, 60);
        known.remember(&state, "fine");
        let entry = known.path(&state).unwrap();
        let whole = fs::read(&entry).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&entry, &flipped).unwrap();
            assert_eq!(find(&known, &state), None, "flipped at {at}");
            fs::write(&entry, &whole[..at]).unwrap();
            assert_eq!(find(&known, &state), None, "cut at {at}");
        }
        fs::write(&entry, &whole).unwrap();
        assert_eq!(find(&known, &state), Some("fine".into()));
    }
}
