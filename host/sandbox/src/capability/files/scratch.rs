//! Temporary directories of attempts. They are removed at the end of the attempt or, if the process
//! was killed, by the next process that creates one. Only the user can enter them: others must
//! neither read the copies nor place files there.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;

use cap_std::fs::Dir;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use strata_base::files::user;

use super::removal;

const PREFIX: &str = "files-";
/// The prefix in the public temporary directory, which is used if the user's own one is unusable.
const PUBLIC_PREFIX: &str = "strata-files-";

/// The temporary directory of one attempt.
pub(super) struct ScratchDirectory {
    path: PathBuf,
    /// The directory itself, locked while it is in use. The system releases the lock however the
    /// process ends.
    lock: File,
}

impl ScratchDirectory {
    pub(super) fn new() -> io::Result<Self> {
        static SWEPT: Once = Once::new();
        let parent = user::temporary_dir();
        if let Ok(parent) = &parent {
            SWEPT.call_once(|| remove_leftovers(parent));
        }
        loop {
            let mut builder = tempfile::Builder::new();
            builder.permissions(Permissions::from_mode(0o700));
            let dir = match &parent {
                Ok(parent) => builder.prefix(PREFIX).tempdir_in(parent),
                // Leftovers are not removed from there, because they may be anybody's.
                Err(_) => builder
                    .prefix(PUBLIC_PREFIX)
                    .tempdir()
                    .map_err(|error| user::temporary_dir_error(&error)),
            };
            let path = dir?.keep();
            let lock = open_directory(&path)?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // Another process may have removed the directory as a leftover before it was locked.
            if is_same_directory(&path, &lock) {
                return Ok(Self { path, lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path, &self.lock) {
            tracing::warn!("cannot remove `{}`: {error}", self.path.display());
        }
    }
}

/// Removes the leftovers of killed processes.
fn remove_leftovers(parent: &Path) {
    let has_prefix = |name: &str| name.starts_with(PREFIX);
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for path in entries
        .filter(|entry| entry.file_name().to_str().is_some_and(has_prefix))
        .map(|entry| entry.path())
    {
        let Ok(lock) = open_directory(&path) else {
            continue;
        };
        let own = lock
            .metadata()
            .is_ok_and(|meta| user::is_owned_by_user(&meta));
        if own
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            && is_same_directory(&path, &lock)
        {
            // Leftovers that cannot be removed do no harm.
            let _ = remove(&path, &lock);
        }
    }
}

/// Opens a directory without following symbolic links and without blocking.
fn open_directory(path: &Path) -> io::Result<File> {
    let flags =
        OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}

fn remove(path: &Path, lock: &File) -> io::Result<()> {
    removal::remove_contents(&Dir::from_std_file(lock.try_clone()?))?;
    fs::remove_dir(path)
}

/// Returns whether the path still refers to this directory.
fn is_same_directory(path: &Path, file: &File) -> bool {
    let (Ok(named), Ok(own)) = (path.symlink_metadata(), file.metadata()) else {
        return false;
    };
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
        let (left, used, other) = (make("files-left"), make("files-used"), make("other"));
        let (link, pipe) = (
            temp.path().join("files-link"),
            temp.path().join("files-pipe"),
        );
        std::os::unix::fs::symlink(&other, &link).unwrap();
        rustix::fs::mkfifoat(CWD, &pipe, Mode::RWXU).unwrap();
        let lock = File::open(&used).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        remove_leftovers(temp.path());
        assert_eq!(
            [&left, &used, &other].map(|path| path.join("inside").exists()),
            [false, true, true]
        );
        drop(lock);
        remove_leftovers(temp.path());
        assert!(!used.exists() && link.is_symlink() && pipe.exists());
    }

    #[test]
    fn it_lies_where_nobody_else_can_enter_and_is_gone_afterwards() {
        let scratch = ScratchDirectory::new().unwrap();
        let path = scratch.path().to_owned();
        assert!(user::is_private(&path.metadata().unwrap()));
        assert!(user::is_private(
            &path.parent().unwrap().metadata().unwrap()
        ));
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
