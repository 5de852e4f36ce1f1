//! What the host itself saves. It may lie in a granted directory, and is nobody's there: neither read nor changed.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::tree::real_path;

/// The storage directory of the team that runs, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own(Option<Arc<Path>>);

impl Own {
    /// What is saved in this directory.
    pub fn of(storage: &Path) -> Self {
        Self(Some(real_path(storage).into()))
    }

    /// The directory in which it is saved, if it is.
    pub fn storage(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// Where it lies in a directory; an empty path where the directory itself lies in it.
    pub(in crate::sandbox) fn inside(&self, directory: &Path) -> Option<PathBuf> {
        let storage = self.0.as_deref()?;
        let directory = real_path(directory);
        match storage.strip_prefix(&directory) {
            Ok(inside) => Some(inside.to_owned()),
            Err(_) => directory.starts_with(storage).then(PathBuf::new),
        }
    }

    /// Whether what was opened is part of it, by whatever name it was found.
    pub(in crate::sandbox) fn has(&self, opened: &File) -> bool {
        let Some(storage) = self.0.as_deref() else {
            return false;
        };
        // Where the system tells what is open.
        let named = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        named.is_ok_and(|path| path.starts_with(storage)) || has_node(storage, opened)
    }
}

/// Whether this is a file in a directory, perhaps under another name.
fn has_node(directory: &Path, opened: &File) -> bool {
    let Ok(meta) = opened.metadata() else {
        return false;
    };
    let node = (meta.dev(), meta.ino());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .any(|meta| (meta.dev(), meta.ino()) == node)
}
