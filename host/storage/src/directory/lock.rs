//! The lock of a storage directory, or of a database that holds many runs. One process can hold it at a
//! time. Readers do not take it.
//!
//! The system releases it when the process ends, however it ends, so a lock file that was left
//! behind does not lock anything.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use strata_records::error::StoreError;

use crate::{LockHolder, file};

/// The name of the lock file.
pub(crate) const LOCK_FILE: &str = "team.lock";
/// The maximum size of a lock file: a process id, and a path on a line of its own.
pub(crate) const MAX_LOCK_BYTES: usize = 8 << 10;

/// How often to retry if the holder removes its file just as we open it. Each time another process
/// held the lock and released it; more than a few in a row mean that the directory is in use.
const MAX_ATTEMPTS: usize = 8;

/// How often to poll for the release of a holder that cannot be reached. Such a holder sends a
/// message, for example, or is about to run the team and to listen. A holder that runs the team is
/// reported at once.
const MAX_POLLS_PER_HOLDER: u32 = 100;
/// How often to poll in total, if the lock was released but other processes were faster to take it.
const MAX_POLLS: u32 = 6 * MAX_POLLS_PER_HOLDER;
/// The time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A held lock.
#[derive(Debug)]
pub struct StorageLock {
    path: PathBuf,
    /// Holds the lock as long as it is open.
    file: File,
}

impl StorageLock {
    /// Acquires the lock of a directory. Waits a moment if the holder is expected to release it
    /// soon.
    pub fn acquire(directory: &Path) -> Result<Self, StoreError> {
        file::require_regular_files(directory)?;
        Self::acquire_file(directory.join(LOCK_FILE), directory)
    }

    /// Acquires the lock that is a file. `locked` is what it locks, for messages.
    pub(crate) fn acquire_file(path: PathBuf, locked: &Path) -> Result<Self, StoreError> {
        let (mut attempts, mut wait) = (0, LockWait::default());
        while attempts < MAX_ATTEMPTS {
            let open = file::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path);
            let mut file = open.map_err(|e| StoreError::io(&path, "lock", e))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if !is_reachable(&file) && wait.try_poll(&file) => {
                    std::thread::sleep(POLL_INTERVAL);
                    continue;
                }
                Err(Errno::WOULDBLOCK) => return Err(locked_error(locked, &mut file)),
                Err(e) => return Err(StoreError::io(&path, "lock", e.into())),
            }
            if is_file_at(&file, &path) {
                write_pid(&mut file).map_err(|e| StoreError::io(&path, "write", e))?;
                return Ok(Self { path, file });
            }
            attempts += 1;
        }
        Err(StoreError::Locked {
            path: locked.to_path_buf(),
            pid: None,
        })
    }
}

/// Returns who holds the lock of a directory now. The content of the file counts only while the
/// file is locked, since a killed process leaves it behind.
pub(crate) fn directory_holder(directory: &Path) -> Result<LockHolder, StoreError> {
    file::require_regular_files(directory)?;
    lock_holder(&directory.join(LOCK_FILE))
}

/// Returns who holds the lock that is a file.
pub(crate) fn lock_holder(path: &Path) -> Result<LockHolder, StoreError> {
    let mut file = match file::options().read(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(LockHolder::Nobody),
        Err(e) => return Err(StoreError::io(path, "open", e)),
    };
    // A shared lock, so that two concurrent queries do not take each other for a holder.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(LockHolder::Nobody),
        Err(Errno::WOULDBLOCK) => Ok(LockHolder::Process {
            pid: read_pid(&mut file),
        }),
        Err(e) => Err(StoreError::io(path, "lock", e.into())),
    }
}

/// Returns since when the lock that is a file has its holder, in milliseconds since 1970. The holder writes it when it takes
/// the lock, and perhaps once more soon after.
pub(crate) fn held_since_ms(path: &Path) -> Option<i64> {
    let written = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = written.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

impl Drop for StorageLock {
    fn drop(&mut self) {
        // Removed while the lock is still held: a process that has opened the file notices that it
        // is gone. A file that cannot be removed does no harm. If somebody else removed it, another
        // process may hold the lock by now.
        if is_file_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Limits how often the lock is polled.
#[derive(Default)]
struct LockWait {
    /// How often the lock was polled in total.
    polls: u32,
    /// How often it was polled since the current holder took it.
    polls_of_holder: u32,
    /// The inode and the time of the holder's lock file: it is written by each holder.
    holder: Option<(u64, i64, i64)>,
}

impl LockWait {
    /// Counts a poll of the lock file that is held, and returns whether the limits allow it.
    fn try_poll(&mut self, file: &File) -> bool {
        let holder = file
            .metadata()
            .ok()
            .map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()));
        if holder == self.holder {
            self.polls_of_holder += 1;
        } else {
            self.polls_of_holder = 1;
        }
        self.holder = holder;
        self.polls += 1;
        self.polls <= MAX_POLLS && self.polls_of_holder <= MAX_POLLS_PER_HOLDER
    }
}

/// Whether an open file is still the one at a path. The former holder may have removed it before we
/// had the lock.
fn is_file_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Whether the holder can be reached: it has written the path of its socket, and that exists.
fn is_reachable(file: &File) -> bool {
    let mut bytes = vec![0; MAX_LOCK_BYTES];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    let at = bytes[..read]
        .split(|byte| *byte == b'\n')
        .nth(1)
        .filter(|path| !path.is_empty());
    at.is_some_and(|path| Path::new(OsStr::from_bytes(path)).exists())
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn locked_error(locked: &Path, file: &mut File) -> StoreError {
    StoreError::Locked {
        path: locked.to_path_buf(),
        pid: read_pid(file),
    }
}

/// Returns the process id in a lock file.
fn read_pid(file: &mut File) -> Option<u32> {
    let mut bytes = Vec::new();
    // The longest process id has ten digits. The path of the holder's socket follows it.
    let read = file.take(16).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    read.ok()
        .and_then(|_| text.lines().next()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_second_lock_names_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let held = StorageLock::acquire(dir.path()).unwrap();
        // flock belongs to the open file: a second one in the same process is refused like that of
        // another process.
        match StorageLock::acquire(dir.path()) {
            Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(held);
        assert!(!dir.path().join(LOCK_FILE).exists());
        StorageLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn a_lock_that_is_held_for_a_moment_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let held = StorageLock::acquire(dir.path()).unwrap();
        std::thread::scope(|threads| {
            let other = threads.spawn(|| StorageLock::acquire(dir.path()));
            std::thread::sleep(POLL_INTERVAL * 5);
            drop(held);
            other.join().unwrap().unwrap();
        });
        // A holder that listens keeps the lock for long, so it is not waited for.
        let lock = StorageLock::acquire(dir.path()).unwrap();
        std::fs::write(&lock.path, format!("1\n{}\n", dir.path().display())).unwrap();
        let asked = Instant::now();
        assert!(matches!(
            StorageLock::acquire(dir.path()),
            Err(StoreError::Locked { pid: Some(1), .. })
        ));
        assert!(asked.elapsed() < POLL_INTERVAL * MAX_POLLS_PER_HOLDER);
    }

    #[test]
    fn patience_begins_anew_with_each_holder_but_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let held_by = |n: u32| {
            let file = File::create(dir.path().join(n.to_string())).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(n.into()))
                .unwrap();
            file
        };
        let waits = |patience: &mut LockWait, file: &File| {
            (0..).take_while(|_| patience.try_poll(file)).count()
        };
        let mut patience = LockWait::default();
        assert_eq!(
            waits(&mut patience, &held_by(0)),
            MAX_POLLS_PER_HOLDER as usize
        );
        let all: usize = (1..10).map(|n| waits(&mut patience, &held_by(n))).sum();
        assert!(
            (3 * MAX_POLLS_PER_HOLDER..=MAX_POLLS - MAX_POLLS_PER_HOLDER).contains(&(all as u32)),
            "{all}"
        );
    }

    #[test]
    fn a_lock_file_left_behind_locks_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOCK_FILE), "999999\n and more").unwrap();
        let held = StorageLock::acquire(dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join(LOCK_FILE)).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(held);
    }

    #[test]
    fn who_holds_a_lock_can_be_asked_and_a_file_left_behind_names_nobody() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(directory_holder(dir.path()).unwrap(), LockHolder::Nobody);
        std::fs::write(dir.path().join(LOCK_FILE), "999999\n").unwrap();
        assert_eq!(directory_holder(dir.path()).unwrap(), LockHolder::Nobody);
        let held = StorageLock::acquire(dir.path()).unwrap();
        assert_eq!(
            directory_holder(dir.path()).unwrap(),
            LockHolder::Process {
                pid: Some(std::process::id())
            }
        );
        drop(held);
        assert_eq!(directory_holder(dir.path()).unwrap(), LockHolder::Nobody);
    }
}
