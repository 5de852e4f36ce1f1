//! The files that the host itself saves. They may be in a granted directory, but guests can neither
//! read nor change them.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::path_mapping::resolve_links;

/// The storage directory of the running team, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenStorage(Option<Arc<Path>>);

impl HiddenStorage {
    /// Creates the value for a run that is kept at this path; with `None`, on another machine.
    pub fn new(storage: Option<&Path>) -> Self {
        Self(storage.map(|path| resolve_links(path).into()))
    }

    /// Returns the storage directory, if there is one.
    pub fn storage(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// Returns the path of the storage directory in a directory; an empty path if the directory is
    /// in the storage directory.
    pub(in crate::sandbox) fn path_in(&self, directory: &Path) -> Option<PathBuf> {
        let storage = self.0.as_deref()?;
        let directory = resolve_links(directory);
        match storage.strip_prefix(&directory) {
            Ok(inside) => Some(inside.to_owned()),
            Err(_) => directory.starts_with(storage).then(PathBuf::new),
        }
    }

    /// Returns whether an open file is in the storage directory, whatever name it was opened by.
    pub(in crate::sandbox) fn contains(&self, opened: &File) -> bool {
        let Some(storage) = self.0.as_deref() else {
            return false;
        };
        // Only systems with `/proc` tell the path of an open file.
        let named = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        named.is_ok_and(|path| path.starts_with(storage)) || contains_file(storage, opened)
    }
}

/// Returns whether a file is in a directory, perhaps under another name.
fn contains_file(directory: &Path, opened: &File) -> bool {
    let Ok(meta) = opened.metadata() else {
        return false;
    };
    let node = (meta.dev(), meta.ino());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .any(|meta| (meta.dev(), meta.ino()) == node)
}
