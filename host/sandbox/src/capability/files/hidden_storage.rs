//! The files that the host itself saves. They may be in a granted directory, but guests can neither
//! read nor change them.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::path_mapping::resolve_links;

/// Where the running team is stored on this machine: a directory, or some files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenStorage(Arc<[PathBuf]>);

impl HiddenStorage {
    /// Creates the value for a run all of which is stored at or under these paths; there are none if it
    /// is stored on another machine.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self(paths.iter().map(|path| resolve_links(path)).collect())
    }

    /// Returns the storage directory, if there is one.
    pub fn storage(&self) -> Option<&Path> {
        match &*self.0 {
            [directory] => Some(directory),
            _ => None,
        }
    }

    /// Returns the hidden paths in a directory; an empty path if the directory itself is hidden.
    pub(crate) fn paths_in(&self, directory: &Path) -> Vec<PathBuf> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let directory = resolve_links(directory);
        let path_in = |hidden: &PathBuf| match hidden.strip_prefix(&directory) {
            Ok(inside) => Some(inside.to_owned()),
            Err(_) => directory.starts_with(hidden).then(PathBuf::new),
        };
        self.0.iter().filter_map(path_in).collect()
    }

    /// Returns whether an open file is hidden, whatever name it was opened by.
    pub(crate) fn contains(&self, opened: &File) -> bool {
        if self.0.is_empty() {
            return false;
        }
        // Only systems with `/proc` tell the path of an open file.
        let named = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        let is_below = |hidden: &PathBuf| {
            named.as_ref().is_ok_and(|path| path.starts_with(hidden)) || is_at(hidden, opened)
        };
        self.0.iter().any(is_below)
    }
}

/// Returns whether a file is the one at a path, or in the directory there, perhaps under another name.
fn is_at(path: &Path, opened: &File) -> bool {
    match (fs::metadata(path), opened.metadata()) {
        (Ok(there), _) if there.is_dir() => contains_file(path, opened),
        (Ok(there), Ok(opened)) => (there.dev(), there.ino()) == (opened.dev(), opened.ino()),
        _ => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_hidden_by_their_paths_and_by_other_names() {
        let home = tempfile::tempdir().unwrap();
        let inside = home.path().join("work");
        fs::create_dir(&inside).unwrap();
        let file = |name: &str| inside.join(name);
        for name in ["runs.db", "runs.db-wal", "mine"] {
            fs::write(file(name), name).unwrap();
        }
        fs::hard_link(file("runs.db"), file("linked")).unwrap();
        let hidden = HiddenStorage::new(vec![file("runs.db"), file("runs.db-wal")]);
        let paths = hidden.paths_in(home.path());
        assert_eq!(
            paths,
            ["work/runs.db", "work/runs.db-wal"].map(PathBuf::from)
        );
        assert_eq!(
            hidden.paths_in(&home.path().join("other")),
            [] as [PathBuf; 0]
        );
        let check = |name: &str, expected: bool| {
            let opened = File::open(file(name)).unwrap();
            assert_eq!(hidden.contains(&opened), expected, "{name}");
        };
        check("runs.db", true);
        check("linked", true);
        check("runs.db-wal", true);
        check("mine", false);
        assert_eq!(hidden.storage(), None);
    }
}
