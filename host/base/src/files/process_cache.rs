//! A cache directory of this process alone, for what a run needs if the user's cache cannot be used: there is no home, it
//! cannot be written, or it is full. It has the same parts. It lies among the temporary files and is removed at the end.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::scratch::{ScratchDirectory, ScratchKind};

static KIND: ScratchKind = ScratchKind::new("cache-", remove_contents);

static CREATED: Mutex<Option<ScratchDirectory>> = Mutex::new(None);

/// The directory.
#[derive(Debug)]
pub struct ProcessCache {
    /// Its path.
    pub path: PathBuf,
    /// Whether it was not there before.
    pub is_new: bool,
}

/// Returns the directory, which is created at the first call.
///
/// # Errors
/// Fails if the directory for temporary files cannot be used.
pub fn create() -> io::Result<ProcessCache> {
    let mut created = lock();
    let (directory, is_new) = match created.take() {
        Some(directory) => (directory, false),
        None => (ScratchDirectory::new(&KIND)?, true),
    };
    let path = created.insert(directory).path().to_owned();
    Ok(ProcessCache { path, is_new })
}

/// Returns the directory if it was created.
pub fn existing() -> Option<PathBuf> {
    lock().as_ref().map(|created| created.path().to_owned())
}

/// Removes the directory, if it was created. What was loaded from it stays in memory. A process that ends without this
/// leaves the directory to the next one, which removes it.
pub fn remove() {
    *lock() = None;
}

fn lock() -> MutexGuard<'static, Option<ScratchDirectory>> {
    CREATED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove_contents(_: &File, path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_until_it_is_removed() {
        assert_eq!(existing(), None);
        let first = create().expect("a directory");
        assert!(first.is_new);
        let again = create().expect("a directory");
        assert!(!again.is_new);
        let first = first.path;
        assert_eq!(again.path, first);
        assert_eq!(existing().as_ref(), Some(&first));
        fs::create_dir_all(first.join("a/b")).expect("a directory");
        fs::write(first.join("file"), "").expect("a file");
        remove();
        assert!(!first.exists());
        assert_eq!(existing(), None);
        assert!(create().expect("a directory").is_new);
        remove();
    }
}
