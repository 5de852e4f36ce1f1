//! What a guest that uses WASI opened, and where. In staged directories, a file that was removed, or replaced, lies in no
//! directory any more, and takes room for as long as it is open.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::sha256::Sha256;

/// What is open, shared by those who open it and those who count it.
#[derive(Clone, Default)]
pub(in crate::sandbox) struct Opened(Arc<Mutex<List>>);

#[derive(Default)]
struct List {
    /// The staged directories.
    staged: Vec<Node>,
    /// How many were granted; they stay open.
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

/// A file or a directory, whatever it is called.
type Node = (u64, u64);

struct Open {
    file: Weak<File>,
    /// Below which of the staged directories it was opened, if it was.
    below: Option<usize>,
    at: Spot,
}

/// Where a guest found something: from its own name of a directory on, by the names that it asked for. The same in every
/// attempt that does the same, which the numbers that a file system gives are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sandbox) struct Spot([u8; 16]);

impl Spot {
    /// A granted directory, by the guest's name of it.
    fn of(name: &str) -> Self {
        Self([0; 16]).below(name.as_bytes())
    }

    /// What a path from here leads to, if no link is on the way. WASI lets none lead above where it begins.
    pub(in crate::sandbox) fn at(self, path: &str) -> Self {
        let mut way = vec![self];
        for component in Path::new(path).components() {
            match component {
                Component::Normal(name) => {
                    way.push(way[way.len() - 1].below(name.as_encoded_bytes()))
                }
                Component::ParentDir if way.len() > 1 => drop(way.pop()),
                _ => {}
            }
        }
        way[way.len() - 1]
    }

    fn below(self, name: &[u8]) -> Self {
        let digest = Sha256::new().with(self.0).with(name).finish();
        Self(std::array::from_fn(|i| digest[i]))
    }

    /// As two numbers.
    pub(in crate::sandbox) fn halves(self) -> (u64, u64) {
        let whole = u128::from_le_bytes(self.0);
        (whole as u64, (whole >> 64) as u64)
    }
}

impl Opened {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a staged directory; gives its number.
    pub(super) fn stage(&self, directory: &Path) -> io::Result<usize> {
        let mut list = self.list();
        list.staged.push(node(&std::fs::metadata(directory)?));
        Ok(list.staged.len() - 1)
    }

    /// A granted directory, which is open from the start.
    pub(in crate::sandbox) fn grant(&self, directory: &Arc<File>, name: &str) {
        let mut list = self.list();
        // Those that are not staged are not written.
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

    /// Something was opened in a directory, by this path from there.
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

    /// How many files and directories are open beside those that were granted.
    pub(in crate::sandbox) fn count(&self) -> usize {
        let mut list = self.list();
        list.open.retain(|open| open.file.strong_count() > 0);
        list.open.len().saturating_sub(list.granted)
    }

    /// Where something was found that is open.
    pub(in crate::sandbox) fn spot(&self, file: &Arc<File>) -> Option<Spot> {
        Some(self.list().find(file)?.at)
    }

    /// The bytes of files that are open and lie in no directory: of those opened below a staged one, or of all.
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
