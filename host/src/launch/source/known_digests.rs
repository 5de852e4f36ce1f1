//! Remembers the digests of component files, so that a file that has not changed since is not hashed
//! again: that of an interpreter takes longer than all else at the start of a run.
//!
//! A file has not changed if it is the same one, with the same size and times of change. The system
//! sets the time of the last change of a file's status, and no program can. As the clock of the file
//! system may be coarse, a digest is only remembered once the last change is some time ago: whatever
//! changes the file later gets another time.

use std::fs::Metadata;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strata_core::record::id::Digest;

use crate::blob::digest_of;
use crate::caches::CacheName;
use crate::clock;
use crate::open;
use crate::replace::{Replacement, replace};
use crate::user;

/// For how many seconds a file must not have changed before its digest is remembered. The times of
/// common file systems have steps of two seconds at most.
const SETTLED_SECONDS: i64 = 5;
/// How many digests are remembered. Another file may take the place of one.
const MAX_ENTRIES: u32 = 4096;
/// The largest entry that is read, in bytes.
const MAX_ENTRY_BYTES: u64 = 1 << 10;
/// The number of digits of the checksum that an entry begins with.
const CHECKSUM_DIGITS: usize = 8;

/// The digests that are remembered, in a private directory of the user.
pub(in crate::launch) struct KnownDigests {
    directory: Option<PathBuf>,
}

/// Which file it is, and when it changed last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileState {
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

/// An entry: the digest of a file in this state.
#[derive(Serialize, Deserialize)]
struct KnownDigest {
    state: FileState,
    digest: Digest,
}

impl KnownDigests {
    /// Returns those in the user's cache directory.
    pub(in crate::launch) fn of_user() -> Self {
        user::cache_dir().map_or_else(Self::none, |cache| {
            Self::in_directory(&CacheName::Digests.path_in(&cache))
        })
    }

    /// Returns none: every file is hashed.
    pub(in crate::launch) fn none() -> Self {
        Self { directory: None }
    }

    fn in_directory(directory: &Path) -> Self {
        let created = user::create_private_dir(directory);
        Self {
            directory: created.is_ok().then(|| directory.to_owned()),
        }
    }

    /// Returns the digest of the bytes that were read from a file in this state.
    pub(super) fn digest(&self, state: &FileState, bytes: &[u8]) -> Digest {
        if let Some(known) = self.find(state) {
            return known;
        }
        let digest = digest_of(bytes);
        if state.is_settled(clock::now_ms()) {
            // The next run hashes it again.
            let _ = self.remember(state, &digest);
        }
        digest
    }

    fn find(&self, state: &FileState) -> Option<Digest> {
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
        let known: KnownDigest = serde_json::from_str(entry).ok()?;
        (known.state == *state).then_some(known.digest)
    }

    fn remember(&self, state: &FileState, digest: &Digest) -> io::Result<()> {
        let Some(path) = self.path(state) else {
            return Ok(());
        };
        let entry = serde_json::to_string(&KnownDigest {
            state: state.clone(),
            digest: digest.clone(),
        })?;
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
    pub(super) fn from_metadata(meta: &Metadata) -> Self {
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

    #[test]
    fn a_file_that_did_not_change_is_not_hashed_again() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c.wasm");
        fs::write(&path, b"code").unwrap();
        let known = KnownDigests::in_directory(&home.path().join("digests"));
        let before = state(&path, 60);
        let digest = known.digest(&before, b"code");
        assert_eq!(digest, digest_of(b"code"));
        // The bytes are not looked at.
        assert_eq!(known.digest(&before, b"something else"), digest);
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
            assert_eq!(known.digest(&changed, b"new"), digest_of(b"new"));
        }
    }

    #[test]
    fn a_file_that_changed_a_moment_ago_is_not_remembered() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c.wasm");
        fs::write(&path, b"code").unwrap();
        let known = KnownDigests::in_directory(&home.path().join("digests"));
        let fresh = state(&path, 0);
        assert_eq!(known.digest(&fresh, b"code"), digest_of(b"code"));
        assert_eq!(known.digest(&fresh, b"next"), digest_of(b"next"));
        let settled = fresh.changed.seconds + SETTLED_SECONDS;
        assert!(!fresh.is_settled(settled * 1000 + 999));
        assert!(fresh.is_settled((settled + 1) * 1000));
    }

    #[test]
    fn a_damaged_entry_counts_as_none() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c.wasm");
        fs::write(&path, b"code").unwrap();
        let known = KnownDigests::in_directory(&home.path().join("digests"));
        let state = state(&path, 60);
        known.digest(&state, b"code");
        let entry = known.path(&state).unwrap();
        let whole = fs::read(&entry).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&entry, &flipped).unwrap();
            assert_eq!(known.find(&state), None, "flipped at {at}");
            fs::write(&entry, &whole[..at]).unwrap();
            assert_eq!(known.find(&state), None, "cut at {at}");
        }
        fs::write(&entry, &whole).unwrap();
        assert_eq!(known.find(&state), Some(digest_of(b"code")));
    }
}
