//! Temporary directories that only this user can enter. They are removed when they are dropped or, if the process was
//! killed, by the next process that creates one of the same kind.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};

use super::user;

/// What the names begin with in the public temporary directory, which is used if the user's own one is unusable.
const PUBLIC_PREFIX: &str = "strata-";

/// What a temporary directory is for.
#[derive(Debug)]
pub struct ScratchKind {
    /// What the names begin with.
    prefix: &'static str,
    /// Removes everything in a directory, which is open.
    remove_contents: fn(&File, &Path) -> io::Result<()>,
    /// Whether leftovers were looked for.
    swept: Once,
}

/// A temporary directory.
#[derive(Debug)]
pub struct ScratchDirectory {
    kind: &'static ScratchKind,
    path: PathBuf,
    /// The directory itself, locked while it is in use. The system releases the lock however the process ends.
    lock: File,
}

impl ScratchKind {
    /// Returns a kind. Its prefix is not the beginning of that of another.
    pub const fn new(
        prefix: &'static str,
        remove_contents: fn(&File, &Path) -> io::Result<()>,
    ) -> Self {
        Self {
            prefix,
            remove_contents,
            swept: Once::new(),
        }
    }

    /// Removes the leftovers of killed processes from a directory.
    pub fn remove_leftovers(&self, parent: &Path) {
        let has_prefix = |name: &str| name.starts_with(self.prefix);
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
                let _ = self.remove(&path, &lock);
            }
        }
    }

    fn remove(&self, path: &Path, lock: &File) -> io::Result<()> {
        (self.remove_contents)(lock, path)?;
        fs::remove_dir(path)
    }
}

impl ScratchDirectory {
    /// Creates a directory of a kind.
    ///
    /// # Errors
    /// Fails if the directory for temporary files cannot be used.
    pub fn new(kind: &'static ScratchKind) -> io::Result<Self> {
        let parent = user::temporary_dir();
        if let Ok(parent) = &parent {
            kind.swept.call_once(|| kind.remove_leftovers(parent));
        }
        loop {
            let mut builder = tempfile::Builder::new();
            builder.permissions(Permissions::from_mode(0o700));
            let dir = match &parent {
                Ok(parent) => builder.prefix(kind.prefix).tempdir_in(parent),
                // Leftovers are not removed from there, because they may be anybody's.
                Err(_) => builder
                    .prefix(&format!("{PUBLIC_PREFIX}{}", kind.prefix))
                    .tempdir()
                    .map_err(|error| user::temporary_dir_error(&error)),
            };
            let path = dir?.keep();
            let lock = open_directory(&path)?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // Another process may have removed the directory as a leftover before it was locked.
            if is_same_directory(&path, &lock) {
                return Ok(Self { kind, path, lock });
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if let Err(error) = self.kind.remove(&self.path, &self.lock) {
            tracing::warn!("cannot remove `{}`: {error}", self.path.display());
        }
    }
}

/// Opens a directory without following symbolic links and without blocking.
fn open_directory(path: &Path) -> io::Result<File> {
    let flags =
        OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
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

    fn remove_contents(_: &File, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path.join("inside"))
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_is_in_use_is_not() {
        let kind = ScratchKind::new("files-", remove_contents);
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
        kind.remove_leftovers(temp.path());
        assert_eq!(
            [&left, &used, &other].map(|path| path.join("inside").exists()),
            [false, true, true]
        );
        drop(lock);
        kind.remove_leftovers(temp.path());
        assert!(!used.exists() && link.is_symlink() && pipe.exists());
    }

    #[test]
    fn it_lies_where_nobody_else_can_enter_and_is_gone_afterwards() {
        static KIND: ScratchKind = ScratchKind::new("test-", remove_contents);
        let scratch = ScratchDirectory::new(&KIND).unwrap();
        let path = scratch.path().to_owned();
        assert!(user::is_private(&path.metadata().unwrap()));
        assert!(user::is_private(
            &path.parent().unwrap().metadata().unwrap()
        ));
        fs::create_dir_all(path.join("inside/b/c")).unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
