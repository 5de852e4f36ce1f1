//! Directories for what an attempt works on. They are gone with it, or, where the process was killed, with the next
//! process that makes one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Once;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

const PREFIX: &str = "strata-files-";

/// A directory of one attempt, below the system's temporary directory.
pub(super) struct Scratch {
    dir: TempDir,
    /// Locked as long as it is in use. The system lets go of it, however the process ends.
    _lock: File,
}

impl Scratch {
    pub(super) fn new() -> io::Result<Self> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| sweep(&std::env::temp_dir()));
        loop {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
            let lock = File::open(dir.path())?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // Before it was locked it may have been taken for one that was left.
            if is(dir.path(), &lock) {
                return Ok(Self { dir, _lock: lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes what killed processes left. What cannot be removed is another user's, or in nobody's way.
fn sweep(temp: &Path) {
    let ours = |name: &str| name.starts_with(PREFIX);
    let entries = fs::read_dir(temp).into_iter().flatten().flatten();
    for path in entries.filter(|entry| entry.file_name().to_str().is_some_and(ours)).map(|entry| entry.path()) {
        let Ok(lock) = File::open(&path) else { continue };
        // A link would lead elsewhere.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && is(&path, &lock) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Whether this is what lies at a path.
fn is(path: &Path, file: &File) -> bool {
    let (Ok(named), Ok(own)) = (path.symlink_metadata(), file.metadata()) else { return false };
    named.is_dir() && (named.dev(), named.ino()) == (own.dev(), own.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_is_in_use_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = temp.path().join(name);
            fs::create_dir_all(path.join("inside")).unwrap();
            path
        };
        let (left, used, other) = (make("strata-files-left"), make("strata-files-used"), make("other"));
        let link = temp.path().join("strata-files-link");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let lock = File::open(&used).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        sweep(temp.path());
        assert_eq!([&left, &used, &other].map(|path| path.join("inside").exists()), [false, true, true]);
        drop(lock);
        sweep(temp.path());
        assert!(!used.exists() && link.is_symlink());
    }
}
