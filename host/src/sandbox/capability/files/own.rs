//! What the host itself saves. It may lie in a granted directory, and is nobody's there: neither seen nor changed.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The storage directory of the team that runs, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own(Option<Arc<Path>>);

impl Own {
    /// What is saved in this directory, which is there.
    pub fn of(storage: &Path) -> Self {
        Self(Some(fs::canonicalize(storage).unwrap_or_else(|_| storage.to_owned()).into()))
    }

    /// Where it lies in a directory: its place there, or none of its own where the directory lies in it.
    pub(in crate::sandbox) fn inside(&self, directory: &Path) -> Option<PathBuf> {
        let storage = self.0.as_deref()?;
        // Who is not there holds nothing.
        let directory = fs::canonicalize(directory).ok()?;
        match storage.strip_prefix(&directory) {
            Ok(inside) => Some(inside.to_owned()),
            Err(_) => directory.starts_with(storage).then(PathBuf::new),
        }
    }

    /// Whether this is one of its files, by whatever name it was found.
    pub(in crate::sandbox) fn has(&self, file: &File) -> bool {
        let (Some(storage), Ok(meta)) = (self.0.as_deref(), file.metadata()) else { return false };
        let entries = fs::read_dir(storage).into_iter().flatten().flatten();
        let node = (meta.dev(), meta.ino());
        entries.filter_map(|entry| entry.metadata().ok()).any(|meta| (meta.dev(), meta.ino()) == node)
    }
}
