//! A path of a guest: where it leads, and what is said of it when something goes wrong.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::disk::Root;
use super::tree::Tree;
use crate::gateway::{HostError, HostErrorKind};
use crate::plugin::Access;
use crate::sandbox::limits::bytes;

/// A path of a guest, in the directory it lies in.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) root: Arc<Root>,
    pub(super) access: Access,
    pub(super) max_bytes: Option<u64>,
    /// The guest's name of the directory.
    pub(super) guest: String,
    /// As the guest wrote it.
    pub(super) path: String,
    /// Relative to the directory, names only.
    pub(super) inside: PathBuf,
    /// Its name in the records.
    pub(super) name: String,
    /// The directory.
    pub(super) tree: Arc<Tree>,
}

impl Place {
    /// A directory above, in the same grant.
    pub(super) fn at(&self, inside: &Path) -> Self {
        Self { inside: inside.into(), name: self.tree.name_of(inside), ..self.clone() }
    }

    pub(super) fn too_large(&self, limit: u64) -> HostError {
        let limit = bytes(limit);
        self.invalid(&format!("is larger than the {limit} of `limits.memory`"))
    }

    /// What is no regular file is not written through, wherever it leads.
    pub(super) fn linked(&self) -> HostError {
        let what = "a symbolic link or another special file is in its way";
        HostError::new(HostErrorKind::Denied, format!("cannot change `{}`: {what}", self.path))
    }

    pub(super) fn invalid(&self, why: &str) -> HostError {
        HostError::new(HostErrorKind::Invalid, format!("`{}` {why}", self.path))
    }

    /// The system's errors name no path of the host, only what went wrong.
    pub(super) fn error(&self, verb: &str, error: &io::Error) -> HostError {
        use io::ErrorKind as E;
        let (kind, why) = match error.kind() {
            E::NotFound => (HostErrorKind::NotFound, "it does not exist".to_owned()),
            E::PermissionDenied => (HostErrorKind::Denied, error.to_string()),
            E::QuotaExceeded => {
                let guest = &self.guest;
                (HostErrorKind::Denied, format!("{error}; raise `max_size` of `{guest}` in `allow.dirs`"))
            }
            E::IsADirectory | E::NotADirectory | E::InvalidInput | E::InvalidFilename => {
                (HostErrorKind::Invalid, error.to_string())
            }
            _ => (HostErrorKind::Upstream, error.to_string()),
        };
        HostError::new(kind, format!("cannot {verb} `{}`: {why}", self.path))
    }
}

/// A path without `.` and `..`; none where it leads out. As no link is followed, `a/../b` is `b`.
pub(super) fn names_only(path: &Path) -> Option<PathBuf> {
    let mut names = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir if names.pop() => {}
            _ => return None,
        }
    }
    Some(names)
}
