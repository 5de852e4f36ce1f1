//! What a guest that uses WASI opened in staged directories. A file that was removed, or replaced, lies in no directory
//! any more, and takes room for as long as it is open.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// When there are so many, it is looked which are closed by now. More than a guest can have open.
const OPEN: usize = 8192;

/// What is open, shared by those who open it and those who count it.
#[derive(Clone, Default)]
pub(in crate::sandbox) struct Opened(Arc<Mutex<List>>);

#[derive(Default)]
struct List {
    /// The staged directories.
    staged: Vec<Node>,
    open: Vec<Open>,
}

/// A file or a directory, whatever it is called.
type Node = (u64, u64);

struct Open {
    file: Weak<File>,
    /// Below which of the staged directories it was opened.
    below: usize,
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

    /// Something was opened in a directory.
    pub(in crate::sandbox) fn add(&self, directory: &Arc<File>, file: &Arc<File>) {
        let mut list = self.list();
        let known = list.open.iter().find(|open| std::ptr::eq(open.file.as_ptr(), Arc::as_ptr(directory)));
        let below = match known {
            Some(open) => Some(open.below),
            // A granted directory itself, of which those that are not staged are not written.
            None => directory.metadata().ok().and_then(|meta| list.staged.iter().position(|s| *s == node(&meta))),
        };
        if let Some(below) = below {
            if list.open.len() >= OPEN {
                list.open.retain(|open| open.file.strong_count() > 0);
            }
            list.open.push(Open { file: Arc::downgrade(file), below });
        }
    }

    /// The bytes of files that are open and lie in no directory: of those opened below a staged one, or of all.
    pub(super) fn removed(&self, below: Option<usize>) -> u64 {
        let mut list = self.list();
        list.open.retain(|open| open.file.strong_count() > 0);
        let open = list.open.iter().filter(|open| below.is_none_or(|below| below == open.below));
        let files = open.filter_map(|open| open.file.upgrade()?.metadata().ok());
        let mut seen = BTreeSet::new();
        let removed = files.filter(|meta| meta.is_file() && meta.nlink() == 0 && seen.insert(node(meta)));
        removed.map(|meta| meta.len()).fold(0, u64::saturating_add)
    }
}

fn node(meta: &Metadata) -> Node {
    (meta.dev(), meta.ino())
}
