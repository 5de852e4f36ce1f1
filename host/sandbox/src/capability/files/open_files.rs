//! The files and directories that a guest that uses WASI has open, and where they were found. A
//! file that was removed or replaced in a staged directory still takes space as long as it is open.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use strata_base::files::sha256::Sha256;

/// The open files, shared by the code that opens them and the code that counts them.
#[derive(Clone, Default)]
pub(crate) struct OpenFiles(Arc<Mutex<OpenFileList>>);

#[derive(Default)]
struct OpenFileList {
    /// The staged directories.
    staged: Vec<FileId>,
    /// The number of granted directories, which remain open.
    granted_count: usize,
    open: Vec<OpenFile>,
}

impl OpenFileList {
    fn find(&self, file: &Arc<File>) -> Option<&OpenFile> {
        self.open
            .iter()
            .find(|open| std::ptr::eq(open.file.as_ptr(), Arc::as_ptr(file)))
    }
}

/// The device and inode number of a file or directory.
type FileId = (u64, u64);

struct OpenFile {
    file: Weak<File>,
    /// The number of the staged directory in which it was opened, if any.
    staged_index: Option<usize>,
    location: FileLocation,
}

/// Identifies where a guest found a file: its own name for the granted directory and the names of
/// the path. Unlike inode numbers, it is the same in every attempt that does the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileLocation([u8; 16]);

impl FileLocation {
    /// Returns the location of a granted directory with this guest path.
    fn root(name: &str) -> Self {
        Self([0; 16]).child(name.as_bytes())
    }

    /// Returns the location of a path from here, assuming that it has no links. As in WASI, `..`
    /// does not lead above the start.
    pub(crate) fn join(self, path: &str) -> Self {
        let mut steps = vec![self];
        for component in Path::new(path).components() {
            match component {
                Component::Normal(name) => {
                    steps.push(steps[steps.len() - 1].child(name.as_encoded_bytes()))
                }
                Component::ParentDir if steps.len() > 1 => {
                    steps.pop();
                }
                _ => {}
            }
        }
        steps[steps.len() - 1]
    }

    fn child(self, name: &[u8]) -> Self {
        let digest = Sha256::new().with(self.0).with(name).finish();
        Self(std::array::from_fn(|i| digest[i]))
    }

    /// Returns the location as two numbers.
    pub(crate) fn as_pair(self) -> (u64, u64) {
        let number = u128::from_le_bytes(self.0);
        (number as u64, (number >> 64) as u64)
    }
}

impl OpenFiles {
    fn list(&self) -> MutexGuard<'_, OpenFileList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a staged directory and returns its number.
    pub(super) fn add_staged(&self, directory: &Path) -> io::Result<usize> {
        let mut list = self.list();
        list.staged.push(file_id(&std::fs::metadata(directory)?));
        Ok(list.staged.len() - 1)
    }

    /// Adds a granted directory, which is open from the start.
    pub(crate) fn add_granted(&self, directory: &Arc<File>, name: &str) {
        let mut list = self.list();
        // Directories that are not staged are not written to.
        let below = directory
            .metadata()
            .ok()
            .and_then(|meta| list.staged.iter().position(|s| *s == file_id(&meta)));
        list.open.push(OpenFile {
            file: Arc::downgrade(directory),
            staged_index: below,
            location: FileLocation::root(name),
        });
        list.granted_count += 1;
    }

    /// Adds a file that was opened by this path from a directory.
    pub(crate) fn add(&self, directory: &Arc<File>, path: &str, file: &Arc<File>) {
        let mut list = self.list();
        let Some((below, at)) = list
            .find(directory)
            .map(|open| (open.staged_index, open.location.join(path)))
        else {
            return;
        };
        list.open.push(OpenFile {
            file: Arc::downgrade(file),
            staged_index: below,
            location: at,
        });
    }

    /// Returns how many files and directories are open besides the granted ones.
    pub(crate) fn count(&self) -> usize {
        let mut list = self.list();
        list.open.retain(|open| open.file.strong_count() > 0);
        list.open.len().saturating_sub(list.granted_count)
    }

    /// Returns the location of an open file.
    pub(crate) fn location(&self, file: &Arc<File>) -> Option<FileLocation> {
        Some(self.list().find(file)?.location)
    }

    /// Returns the size of open files without a name that were opened in one staged directory, or
    /// in any.
    pub(super) fn removed_bytes(&self, below: Option<usize>) -> u64 {
        let mut list = self.list();
        list.open.retain(|open| open.file.strong_count() > 0);
        let wanted = |open: &&OpenFile| {
            open.staged_index.is_some() && (below.is_none() || below == open.staged_index)
        };
        let open = list.open.iter().filter(wanted);
        let files = open.filter_map(|open| open.file.upgrade()?.metadata().ok());
        let mut seen = BTreeSet::new();
        let removed =
            files.filter(|meta| meta.is_file() && meta.nlink() == 0 && seen.insert(file_id(meta)));
        removed.map(|meta| meta.len()).fold(0, u64::saturating_add)
    }
}

fn file_id(meta: &Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_is_the_same_by_whichever_way_it_is_reached_from_a_directory() {
        let check = |path: &str, same: &str| {
            assert_eq!(
                FileLocation::root("/out").join(path),
                FileLocation::root("/out").join("a").join(same),
                "{path}"
            );
        };
        check("a/b", "b");
        check("./a//b/", "b");
        check("a/c/../b", "b/.");
        check("a/b/c", "b/./c");
        check("a", "");
        assert_ne!(
            FileLocation::root("/out").join("ab"),
            FileLocation::root("/out").join("a/b")
        );
        assert_ne!(
            FileLocation::root("/out").join("a"),
            FileLocation::root("/in").join("a")
        );
    }
}
