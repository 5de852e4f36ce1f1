//! Resolves the paths of guests to granted directories, and creates the errors about them.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use strata_base::text::units::format_bytes;
use strata_core::record::fault::FaultCause;
use strata_core::record::host_call::Grant;
use strata_services::gateway::{HostError, HostErrorKind};
use strata_services::plugin::Access;

use super::super::quota::{self, MAX_LEVELS};
use super::disk::HostDirectory;
use super::path_mapping::PathMapping;
use super::{AttemptFiles, FileResult, GrantedDirectory};
use crate::ctx::MAX_NAME_BYTES;

/// The reason for refusing access to a path where the host saves files.
pub(super) const STORAGE_REASON: &str = "the host saves the team there";

/// The cause of refusals of paths that `allow.dirs` does not cover.
const NOT_GRANTED: FaultCause = FaultCause::NotGranted(Grant::Dirs);

/// A path of a guest, resolved to a granted directory.
#[derive(Clone)]
pub(super) struct GuestPath {
    pub(super) root: Arc<HostDirectory>,
    pub(super) access: Access,
    pub(super) max_bytes: Option<u64>,
    /// The guest path of the directory.
    pub(super) guest: String,
    /// The path as the guest wrote it.
    pub(super) path: String,
    /// The path relative to the directory, with only normal components.
    pub(super) inside: PathBuf,
    /// The path as it is recorded.
    pub(super) recorded_path: String,
    /// The directory, for recorded paths.
    pub(super) mapping: Arc<PathMapping>,
}

impl GuestPath {
    /// Returns the path of a directory above in the same grant.
    pub(super) fn with_inside(&self, inside: &Path) -> Self {
        Self {
            inside: inside.into(),
            recorded_path: self.mapping.recorded_path_of(inside),
            ..self.clone()
        }
    }

    pub(super) fn too_large_error(&self, limit: u64) -> HostError {
        let limit = format_bytes(limit);
        self.invalid_error(&format!("is larger than the {limit} of `limits.memory`"))
    }

    /// Returns the error of writing to a path at or below a special file. Links are not followed.
    pub(super) fn special_file_error(&self) -> HostError {
        let message = format!(
            "cannot change `{}`: a symbolic link or another special file is in its way",
            self.path
        );
        HostError::new(HostErrorKind::Denied, message).caused_by(FaultCause::SymbolicLink)
    }

    /// Returns the error of changing a file that the host saves.
    pub(super) fn storage_error(&self, verb: &str) -> HostError {
        let message = format!("cannot {verb} `{}`: {STORAGE_REASON}", self.path);
        HostError::new(HostErrorKind::Denied, message).caused_by(FaultCause::StorageDirectory)
    }

    pub(super) fn invalid_error(&self, why: &str) -> HostError {
        HostError::new(HostErrorKind::Invalid, format!("`{}` {why}", self.path))
    }

    /// Converts an error of the system. The message names no path of the host.
    pub(super) fn io_error(&self, verb: &str, error: &io::Error) -> HostError {
        use io::ErrorKind as E;
        let (kind, why) = match error.kind() {
            E::NotFound => (HostErrorKind::NotFound, "it does not exist".to_owned()),
            E::PermissionDenied => (HostErrorKind::Denied, error.to_string()),
            E::QuotaExceeded => {
                let guest = &self.guest;
                (
                    HostErrorKind::Denied,
                    format!("{error}; raise `max_size` of `{guest}` in `allow.dirs`"),
                )
            }
            E::IsADirectory | E::NotADirectory | E::InvalidInput | E::InvalidFilename => {
                (HostErrorKind::Invalid, error.to_string())
            }
            _ => (HostErrorKind::Upstream, error.to_string()),
        };
        let error = HostError::new(kind, format!("cannot {verb} `{}`: {why}", self.path));
        // An `upstream` error here is a failing disk, for which there is no advice.
        HostError {
            cause: (kind == HostErrorKind::Denied).then_some(NOT_GRANTED),
            ..error
        }
    }
}

impl AttemptFiles {
    /// Resolves a path that the guest may change.
    pub(super) fn resolve_writable(&self, path: String, verb: &str) -> FileResult<GuestPath> {
        let target = self.resolve(path)?;
        if target.access == Access::Read {
            let hint = "is granted for reading; add `write = true`";
            let message = format!("cannot {verb} `{}`: `{}` {hint}", target.path, target.guest);
            return Err(HostError::new(HostErrorKind::Denied, message).caused_by(NOT_GRANTED));
        }
        if target.inside.as_os_str().is_empty() {
            return Err(target.invalid_error("does not name a file"));
        }
        if target.root.is_hidden(&target.inside) {
            return Err(target.storage_error(verb));
        }
        Ok(target)
    }

    /// Returns whether a path lies in no granted directory. A relative path is taken for one from the
    /// root, which is where guests begin.
    pub(crate) fn is_outside(&self, path: &str) -> bool {
        let Some(inside) = normalize(Path::new(path.trim_start_matches('/'))) else {
            return true;
        };
        let path = Path::new("/").join(inside);
        let is_above = |granted: &GrantedDirectory| path.starts_with(&granted.grant.guest);
        !self.grants.iter().any(is_above)
    }

    /// Resolves a path with the grant that has the longest matching guest path.
    pub(super) fn resolve(&self, path: String) -> FileResult<GuestPath> {
        let excerpt = || path.chars().take(64).collect::<String>();
        if path.len() > MAX_NAME_BYTES || path.contains('\0') {
            return Err(HostError::new(
                HostErrorKind::Invalid,
                format!("`{}` is not a path", excerpt()),
            ));
        }
        if !path.starts_with('/') {
            let hint = "paths are absolute, e.g. `/out/a.txt`";
            let message = format!("`{}` lies in no granted directory; {hint}", excerpt());
            return Err(HostError::new(HostErrorKind::Denied, message).caused_by(NOT_GRANTED));
        }
        let below =
            |granted: &&GrantedDirectory| Path::new(&path).starts_with(&granted.grant.guest);
        let found = self
            .grants
            .iter()
            .filter(below)
            .max_by_key(|granted| granted.grant.guest.len());
        let Some(GrantedDirectory { grant, tree, root }) = found else {
            let hint = "add the directory to the action's `allow.dirs`";
            let message = format!("`{path}` lies in no granted directory; {hint}");
            return Err(HostError::new(HostErrorKind::Denied, message).caused_by(NOT_GRANTED));
        };
        let rest = Path::new(&path)
            .strip_prefix(&grant.guest)
            .unwrap_or(Path::new(""));
        let Some(inside) = normalize(rest) else {
            let message = format!(
                "`{path}` leads outside of the granted directory `{}`",
                grant.guest
            );
            return Err(HostError::new(HostErrorKind::Denied, message).caused_by(NOT_GRANTED));
        };
        if quota::is_too_deep(&inside) {
            let message = format!(
                "`{path}` is not a path: more than {MAX_LEVELS} names below `{}`",
                grant.guest
            );
            return Err(HostError::new(HostErrorKind::Invalid, message));
        }
        if quota::has_long_name(&inside) {
            let message = format!(
                "`{}…` is not a path: a name in it is longer than {} bytes",
                excerpt(),
                quota::MAX_NAME_BYTES
            );
            return Err(HostError::new(HostErrorKind::Invalid, message));
        }
        let (root, guest, tree, name) = (
            Arc::clone(root),
            grant.guest.clone(),
            Arc::clone(tree),
            tree.recorded_path_of(&inside),
        );
        Ok(GuestPath {
            root,
            access: grant.access,
            max_bytes: grant.max_bytes,
            guest,
            path,
            inside,
            recorded_path: name,
            mapping: tree,
        })
    }
}

/// Removes `.` and `..` from a path; `None` if it leads out. Links are not followed, so `a/../b` is
/// `b`.
fn normalize(path: &Path) -> Option<PathBuf> {
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
