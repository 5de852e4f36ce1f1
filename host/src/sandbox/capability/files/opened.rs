//! The files and directories that a guest that uses WASI has open, and where they were found. A
//! file that was removed or replaced in a staged directory still takes space as long as it is open.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::sha256::Sha256;

/// The open files, shared by the code that opens them and the code that counts them.
#[derive(Clone, Default)]
pub(in crate::sandbox) struct Opened(Arc<Mutex<List>>);

#[derive(Default)]
struct List {
    /// The staged directories.
    staged: Vec<Node>,
    /// The number of granted directories, which remain open.
    granted: usize,
    open: Vec<Open>,
}

impl List {
    fn find(&self, file: &Arc<File>) -> Option<&Open> {
        self.open
            .iter()
            .find(|open| std::ptr::eq(open.file.as_ptr(), Arc::as_ptr(file)))
    }
}

/// The device and inode number of a file or directory.
type Node = (u64, u64);

struct Open {
    file: Weak<File>,
    /// The number of the staged directory in which it was opened, if any.
    below: Option<usize>,
    at: Spot,
}

/// Identifies where a guest found a file: its own name for the granted directory and the names of
/// the path. Unlike inode numbers, it is the same in every attempt that does the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sandbox) struct Spot([u8; 16]);

impl Spot {
    /// Returns the location of a granted directory with this guest path.
    fn of(name: &str) -> Self {
        Self([0; 16]).below(name.as_bytes())
    }

    /// Returns the location of a path from here, assuming that it has no links. As in WASI, `..`
    /// does not lead above the start.
    pub(in crate::sandbox) fn at(self, path: &str) -> Self {
        let mut steps = vec![self];
        for component in Path::new(path).components() {
            match component {
                Component::Normal(name) => {
                    steps.push(steps[steps.len() - 1].below(name.as_encoded_bytes()))
                }
                Component::ParentDir if steps.len() > 1 => {
                    steps.pop();
                }
                _ => {}
            }
        }
        steps[steps.len() - 1]
    }

    fn below(self, name: &[u8]) -> Self {
        let digest = Sha256::new().with(self.0).with(name).finish();
        Self(std::array::from_fn(|i| digest[i]))
    }

    /// Returns the location as two numbers.
    pub(in crate::sandbox) fn halves(self) -> (u64, u64) {
        let number = u128::from_le_bytes(self.0);
        (number as u64, (number >> 64) as u64)
    }
}

impl Opened {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a staged directory and returns its number.
    pub(super) fn stage(&self, directory: &Path) -> io::Result<usize> {
        let mut list = self.list();
        list.staged.push(node(&std::fs::metadata(directory)?));
        Ok(list.staged.len() - 1)
    }

    /// Adds a granted directory, which is open from the start.
    pub(in crate::sandbox) fn grant(&self, directory: &Arc<File>, name: &str) {
        let mut list = self.list();
        // Directories that are not staged are not written to.
        let below = directory
            .metadata()
            .ok()
            .and_then(|meta| list.staged.iter().position(|s| *s == node(&meta)));
        list.open.push(Open {
            file: Arc::downgrade(directory),
            below,
            at: Spot::of(name),
        });
        list.granted += 1;
    }

    /// Adds a file that was opened by this path from a directory.
    pub(in crate::sandbox) fn add(&self, directory: &Arc<File>, path: &str, file: &Arc<File>) {
        let mut list = self.list();
        let Some((below, at)) = list
            .find(directory)
            .map(|open| (open.below, open.at.at(path)))
        else {
            return;
        };
        list.open.push(Open {
            file: Arc::downgrade(file),
            below,
            at,
        });
    }

    /// Returns how many files and directories are open besides the granted ones.
    pub(in crate::sandbox) fn count(&self) -> usize {
        let mut list = self.list();
        list.open.retain(|open| open.file.strong_count() > 0);
        list.open.len().saturating_sub(list.granted)
    }

    /// Returns the location of an open file.
    pub(in crate::sandbox) fn spot(&self, file: &Arc<File>) -> Option<Spot> {
        Some(self.list().find(file)?.at)
    }

    /// Returns the size of open files without a name that were opened in one staged directory, or
    /// in any.
    pub(super) fn removed(&self, below: Option<usize>) -> u64 {
        let mut list = self.list();
        list.open.retain(|open| open.file.strong_count() > 0);
        let wanted =
            |open: &&Open| open.below.is_some() && (below.is_none() || below == open.below);
        let open = list.open.iter().filter(wanted);
        let files = open.filter_map(|open| open.file.upgrade()?.metadata().ok());
        let mut seen = BTreeSet::new();
        let removed =
            files.filter(|meta| meta.is_file() && meta.nlink() == 0 && seen.insert(node(meta)));
        removed.map(|meta| meta.len()).fold(0, u64::saturating_add)
    }
}

fn node(meta: &Metadata) -> Node {
    (meta.dev(), meta.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_is_the_same_by_whichever_way_it_is_reached_from_a_directory() {
        let check = |path: &str, same: &str| {
            assert_eq!(
                Spot::of("/out").at(path),
                Spot::of("/out").at("a").at(same),
                "{path}"
            );
        };
        check("a/b", "b");
        check("./a//b/", "b");
        check("a/c/../b", "b/.");
        check("a/b/c", "b/./c");
        check("a", "");
        assert_ne!(Spot::of("/out").at("ab"), Spot::of("/out").at("a/b"));
        assert_ne!(Spot::of("/out").at("a"), Spot::of("/in").at("a"));
    }
}
