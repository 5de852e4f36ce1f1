//! The files of a submitted team on the machine that runs it: where they are unpacked, and the directory
//! in which its actions work.
//!
//! A bundle contains the files in `team/`, which lie beside the team file, `components/`, and `workspace/`,
//! with what is in the granted directories at first. In what is saved of a run, paths begin with
//! [`SAVED_ROOT`].

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use strata_base::files::caches::CacheName;
use strata_base::files::sha256::{Sha256, sha256};
use strata_base::files::{process_cache, user};
use strata_base::text::component_replacement::ComponentReplacement;
use strata_core::record::id::{Digest, to_hex};

use strata_storage::{SavedDefinition, StorageLocation};

/// What stands for the directory of a bundle in what is saved of a run.
const SAVED_ROOT: &str = "/bundle";
/// The directory of the team file in a bundle.
pub(crate) const TEAM: &str = "team";
/// The directory of the components in a bundle.
pub(crate) const COMPONENTS: &str = "components";
/// The directory in a bundle with what is in the workspace at first.
pub(crate) const WORKSPACE: &str = "workspace";

/// Where the workspaces of submitted runs are that are not run by a worker.
pub(crate) const WORKSPACES: &str = "workspaces";

/// The maximum number of files in a bundle.
pub(crate) const MAX_FILES: usize = 10_000;
/// The maximum size of all files of a bundle in bytes. They are read into memory one by one.
pub(crate) const MAX_BYTES: u64 = 256 << 20;
/// The maximum length of a path in a bundle in bytes.
const MAX_PATH_BYTES: usize = 1024;

/// The reason why the files of a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// Whoever submitted it wrote something that cannot be in a bundle.
    #[error("the bundle is not valid: {0}")]
    Invalid(String),
    /// The files cannot be written.
    #[error("cannot unpack the files of a submitted team into `{}`: {source}", path.display())]
    Unwritable {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no directory for them.
    #[error(
        "neither `XDG_CACHE_HOME` nor `HOME` names a directory for the files of submitted teams"
    )]
    NoCache,
}

impl BundleError {
    pub(crate) fn not_submitted() -> Self {
        Self::Invalid("the run was not submitted, so the files of its team are elsewhere".into())
    }
}

/// Returns the path of the workspace of a run, below the directory for workspaces. No other run has the
/// same.
pub(crate) fn workspace_in(workspaces: &Path, run: &StorageLocation) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = run
        .run_name()
        .unwrap_or_default()
        .chars()
        .map(plain)
        .collect();
    let number = to_hex(&sha256(run.to_string())[..6]);
    workspaces.join(format!("{name}-{number}"))
}

/// Returns the path of a file of a bundle in what is saved of a run.
pub(crate) fn saved_path(inside: &str) -> PathBuf {
    Path::new(SAVED_ROOT).join(inside)
}

/// Returns the path that a file of a submitted team had for whoever submitted it, relative to the team
/// file where that is known. `base` is the directory of the team file on this machine, or in what is
/// saved.
pub(crate) fn submitted_path(path: &Path, base: &Path) -> PathBuf {
    if let Ok(beside) = path.strip_prefix(base) {
        return beside.to_owned();
    }
    let components = base.with_file_name(COMPONENTS);
    match path.strip_prefix(components) {
        // Each component is in a directory of its own.
        Ok(inside) => inside.components().skip(1).collect(),
        Err(_) => path.to_owned(),
    }
}

/// Returns the path in its bundle that a component of a submitted team has, if it is in there. `base` is
/// the directory of the team file on this machine.
pub(crate) fn path_in_bundle(component: &Path, base: &Path) -> Option<String> {
    let inside = component
        .strip_prefix(base.with_file_name(COMPONENTS))
        .ok()?;
    Some(format!("{COMPONENTS}/{}", inside.display()))
}

/// Returns whether a saved team file is that of a submitted run.
pub(crate) fn is_submitted(saved: &SavedDefinition) -> bool {
    is_saved_base(&saved.base)
}

/// Returns whether this is the directory of a team file in what is saved of a submitted run.
pub(crate) fn is_saved_base(base: &Path) -> bool {
    base == saved_path(TEAM)
}

/// Returns the saved team file of a submitted run with the paths that its files have in `root`.
pub(crate) fn unpacked_definition(saved: &SavedDefinition, root: &Path) -> SavedDefinition {
    let components = saved.components.iter();
    SavedDefinition {
        base: root.join(TEAM),
        components: components
            .map(|replacement| unpacked_replacement(replacement, root))
            .collect(),
        ..saved.clone()
    }
}

/// Returns a saved replacement of a component with the path that its file has in `root`, if it is one of
/// the bundle.
fn unpacked_replacement(replacement: &ComponentReplacement, root: &Path) -> ComponentReplacement {
    for reading in replacement.readings() {
        if let Ok(inside) = reading.file.strip_prefix(SAVED_ROOT) {
            return ComponentReplacement::new(reading.slot, root.join(inside));
        }
    }
    replacement.clone()
}

/// Unpacks the files of a bundle, unless that was done before, and returns where they are: in the user's cache or, if that
/// cannot be used, in that of this process. Files with the same paths and contents are unpacked once. `fetch` returns the
/// bytes of a file.
pub(crate) fn unpack<E: From<BundleError>>(
    files: &BTreeMap<String, Digest>,
    fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, E>,
) -> Result<PathBuf, E> {
    check_paths(files)?;
    let own = match user::cache_dir() {
        Some(cache) => unpack_into(&CacheName::Bundles.path_in(&cache), files, fetch),
        None => Err(UnpackFailure::Unwritable(BundleError::NoCache)),
    };
    let unusable = match own {
        Ok(root) => return Ok(root),
        Err(UnpackFailure::Fetch(error)) => return Err(error),
        Err(UnpackFailure::Unwritable(unusable)) => unusable,
    };
    let Ok(temporary) = process_cache::create() else {
        return Err(unusable.into());
    };
    if temporary.is_new {
        tracing::warn!(
            "{unusable}; they are unpacked for this process alone, and again by the next; to keep them: \
             `export XDG_CACHE_HOME=DIRECTORY`"
        );
    }
    match unpack_into(&CacheName::Bundles.path_in(&temporary.path), files, fetch) {
        Ok(root) => Ok(root),
        Err(UnpackFailure::Fetch(error)) => Err(error),
        Err(UnpackFailure::Unwritable(_)) => Err(unusable.into()),
    }
}

/// Why files were not unpacked into a directory.
enum UnpackFailure<E> {
    /// The directory cannot be used.
    Unwritable(BundleError),
    /// The files are not to be had, or not valid.
    Fetch(E),
}

/// Unpacks files of a bundle into a directory of its own in `bundles`.
fn unpack_into<E: From<BundleError>>(
    bundles: &Path,
    files: &BTreeMap<String, Digest>,
    fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, E>,
) -> Result<PathBuf, UnpackFailure<E>> {
    let unwritable = |source| {
        UnpackFailure::Unwritable(BundleError::Unwritable {
            path: bundles.to_owned(),
            source,
        })
    };
    user::create_private_dir(bundles)
        .map_err(|error| unwritable(io::Error::other(error.to_string())))?;
    let bundles = bundles.canonicalize().map_err(unwritable)?;
    let root = bundles.join(bundle_name(files));
    if root.is_dir() {
        return Ok(root);
    }
    let unpacked = tempfile::tempdir_in(&bundles).map_err(unwritable)?;
    let mut bytes_left = MAX_BYTES;
    for (path, digest) in files {
        let bytes = fetch(digest).map_err(UnpackFailure::Fetch)?;
        bytes_left = bytes_left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            let too_many = format!("its files have more than {MAX_BYTES} bytes");
            UnpackFailure::Fetch(BundleError::Invalid(too_many).into())
        })?;
        write_new(unpacked.path(), Path::new(path), &bytes).map_err(unwritable)?;
    }
    // Another run may have unpacked the same files in the meantime.
    match fs::rename(unpacked.path(), &root) {
        Err(error) if !root.is_dir() => Err(unwritable(error)),
        _ => Ok(root),
    }
}

/// Fails if a path leads out of the bundle.
pub(crate) fn check_paths(files: &BTreeMap<String, Digest>) -> Result<(), BundleError> {
    if files.len() > MAX_FILES {
        let what = format!(
            "it has {} files, and at most {MAX_FILES} are unpacked",
            files.len()
        );
        return Err(BundleError::Invalid(what));
    }
    for path in files.keys() {
        let mut parts = Path::new(path).components();
        let is_plain = parts.all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || path.is_empty() || path.contains('\0') || path.len() > MAX_PATH_BYTES {
            let what = format!(
                "`{}` cannot be the path of a file in it",
                path.escape_debug()
            );
            return Err(BundleError::Invalid(what));
        }
    }
    Ok(())
}

/// Returns a name that only bundles with the same files have.
fn bundle_name(files: &BTreeMap<String, Digest>) -> String {
    let mut sum = Sha256::new();
    for (path, digest) in files {
        for part in [path, &digest.0] {
            sum.update(&(part.len() as u64).to_le_bytes());
            sum.update(part.as_bytes());
        }
    }
    to_hex(&sum.finish())
}

fn write_new(root: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = root.join(path);
    if let Some(parent) = file.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    fs::write(file, bytes)
}

/// Creates the workspace of a run anew, with the files that were submitted for it except those that
/// `is_replaced`, by their paths in it.
pub(crate) fn create_workspace(
    workspace: &Path,
    root: &Path,
    is_replaced: &dyn Fn(&str) -> bool,
) -> Result<(), BundleError> {
    let unwritable = |source| BundleError::Unwritable {
        path: workspace.to_owned(),
        source,
    };
    remove_workspace(workspace).map_err(unwritable)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(workspace)
        .map_err(unwritable)?;
    let initial = root.join(WORKSPACE);
    copy_files(&initial, Path::new(""), workspace, is_replaced).map_err(unwritable)
}

/// Removes the workspace of a run, if there is one.
pub(crate) fn remove_workspace(workspace: &Path) -> io::Result<()> {
    match fs::remove_dir_all(workspace) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies the files of an unpacked bundle, with what is in its workspace beside the team file.
pub(crate) fn copy_bundle(from: &Path, to: &Path) -> Result<(), BundleError> {
    let all = |_: &str| false;
    for (part, target) in [(COMPONENTS, COMPONENTS), (TEAM, TEAM), (WORKSPACE, TEAM)] {
        let target = to.join(target);
        let copied = fs::create_dir_all(&target)
            .and_then(|()| copy_files(&from.join(part), Path::new(""), &target, &all));
        copied.map_err(|source| BundleError::Unwritable {
            path: target,
            source,
        })?;
    }
    Ok(())
}

/// Removes a copied file that is about to be replaced. A file that remains is found by what replaces it.
pub(crate) fn remove_copied_file(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && !user::is_not_found(&error)
    {
        tracing::debug!("cannot remove `{}`: {error}", path.display());
    }
}

fn copy_files(
    from: &Path,
    inside: &Path,
    to: &Path,
    is_replaced: &dyn Fn(&str) -> bool,
) -> io::Result<()> {
    let entries = match fs::read_dir(from.join(inside)) {
        Err(error) if user::is_not_found(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let inside = inside.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(to.join(&inside))?;
            copy_files(from, &inside, to, is_replaced)?;
        } else if !is_replaced(&inside.to_string_lossy()) {
            write_new(to, &inside, &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_submitted_team_are_named_as_their_author_knows_them() {
        let check = |path: &str, expected: &str| {
            let base = Path::new("/cache/bundles/1a2b/team");
            assert_eq!(submitted_path(Path::new(path), base), Path::new(expected));
        };
        check("/cache/bundles/1a2b/team/team.toml", "team.toml");
        check("/cache/bundles/1a2b/team/lib/a.py", "lib/a.py");
        check("/cache/bundles/1a2b/components/9f8e/a.py", "a.py");
        check("/elsewhere/a.wasm", "/elsewhere/a.wasm");
    }
}
