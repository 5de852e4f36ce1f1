//! Writes recorded files to the disk, by recorded path, in the directories that some action may
//! write. It is idempotent. A file that somebody else has changed meanwhile is kept under another
//! name.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use strata_base::files::blob::digest_of;
use strata_core::record::file::PathContent;
use strata_core::record::id::Digest;
use strata_core::state::environment::files::Placement;
use strata_services::plugin::{Access, DirGrant};

use super::super::quota;
use super::disk::{DiskEntry, HostDirectory};
use super::hidden_storage::HiddenStorage;
use super::path_mapping::PathMapping;

/// How many digits of a digest are in the name of a file that is kept.
const ASIDE_DIGITS: usize = 8;
/// The maximum size of files that are compared. Actions never write larger ones.
const MAX_COMPARED_BYTES: u64 = 1 << 30;
/// How many times a path is tried again if somebody else changes it meanwhile, such as another run.
const MAX_TRIES: u32 = 64;
/// The maximum depth of a path: as deep as an action may write, plus the depth of its granted
/// directory below the one in which the path is looked up.
const MAX_LEVELS: usize = 4 * quota::MAX_LEVELS;

/// A file could not be written to its path.
#[derive(Debug, thiserror::Error)]
#[error("cannot put the file `{path}` in its place: {source}")]
pub struct PlaceError {
    path: String,
    source: io::Error,
}

/// The result of writing a file to its path.
#[derive(Debug, PartialEq, Eq)]
pub enum PlacementOutcome {
    /// The content is at the path.
    Written,
    /// The content is at the path, and what somebody else had put there was renamed to this name.
    OtherKept(String),
    /// The content is not at the path, because no action may write there any more.
    NotGranted,
    /// The content is not at the path, because it was not copied when the team was moved. What is
    /// at the path is unchanged.
    ContentMissing,
    /// The content is not at the path and never can be, because the file system does not accept the
    /// name.
    InvalidName,
}

/// All directories that some action may write.
#[derive(Debug, Default)]
pub struct Directories {
    base: PathBuf,
    roots: BTreeMap<PathMapping, HostDirectory>,
    hidden: HiddenStorage,
}

impl Directories {
    /// Selects the writable directories of these grants. Recorded paths are relative to `base`, the
    /// directory of the team file.
    pub fn new<'a>(base: &Path, grants: impl Iterator<Item = &'a DirGrant>) -> Self {
        let writable = grants.filter(|grant| grant.access == Access::Write);
        let roots = writable
            .map(|grant| {
                (
                    PathMapping::new(base, &grant.host),
                    HostDirectory::new(grant.host.clone()),
                )
            })
            .collect();
        Self {
            base: base.into(),
            roots,
            hidden: HiddenStorage::default(),
        }
    }

    /// Returns the same directories, protecting the files that the host itself saves there.
    pub fn hiding(self, own: HiddenStorage) -> Self {
        let root = |(tree, root): (PathMapping, HostDirectory)| {
            (tree, HostDirectory::hiding(root.host().into(), own.clone()))
        };
        Self {
            roots: self.roots.into_iter().map(root).collect(),
            base: self.base,
            hidden: own,
        }
    }

    /// Returns the files that the host itself saves.
    pub fn hidden_storage(&self) -> &HiddenStorage {
        &self.hidden
    }

    /// Returns one directory in which all files are laid out by their recorded paths.
    pub fn single(directory: &Path) -> Self {
        let roots = [(
            PathMapping::new(directory, directory),
            HostDirectory::new(directory.into()),
        )]
        .into();
        Self {
            base: directory.into(),
            roots,
            hidden: HiddenStorage::default(),
        }
    }

    /// Returns the directory of the team file.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Writes a file to its path, or removes it. `known` returns whether the content with a digest
    /// is stored, so that it may be overwritten.
    pub fn place(
        &self,
        placement: &Placement,
        bytes: Option<&[u8]>,
        known: impl Fn(&Digest) -> bool,
    ) -> Result<PlacementOutcome, PlaceError> {
        let fail = |source| PlaceError {
            path: placement.path.clone(),
            source,
        };
        let roots = self.roots.iter().rev();
        let found = roots.filter_map(|(tree, root)| {
            Some((root, PathBuf::from(&*tree.path_inside(&placement.path)?)))
        });
        // The host normalises paths before it records them, but a record of other origin may have
        // paths that no action may write.
        let named = |inside: &Path| {
            inside
                .components()
                .all(|c| matches!(c, Component::Normal(_)))
        };
        let found = found
            .filter(|(_, inside)| named(inside) && inside.components().nth(MAX_LEVELS).is_none());
        let mut found: Vec<_> = found
            .filter(|(_, inside)| !inside.as_os_str().is_empty())
            .collect();
        // A granted directory that was replaced by a file, or is below one, is handled as an entry
        // of the directory above that contains it.
        let at = found
            .iter()
            .position(|(root, _)| root.can_exist())
            .unwrap_or(0);
        match (at < found.len()).then(|| found.swap_remove(at)) {
            None => Ok(PlacementOutcome::NotGranted),
            Some((root, inside)) if root.must_not_replace(&inside, &placement.content) => {
                Ok(PlacementOutcome::NotGranted)
            }
            Some((root, inside)) => {
                let write = PendingWrite {
                    root,
                    inside: &inside,
                    placement,
                    bytes,
                };
                match write_with_retries(write, known) {
                    Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {
                        Ok(PlacementOutcome::InvalidName)
                    }
                    settled => settled.map_err(fail),
                }
            }
        }
    }
}

/// A placement in the directory that contains its path.
#[derive(Clone, Copy)]
struct PendingWrite<'a> {
    root: &'a HostDirectory,
    /// The path relative to the directory.
    inside: &'a Path,
    placement: &'a Placement,
    /// The content of a file; `None` if it is not stored, or if no file is to be written.
    bytes: Option<&'a [u8]>,
}

/// Writes a file to its path. Tries again if somebody else interferes.
fn write_with_retries(
    write: PendingWrite<'_>,
    known: impl Fn(&Digest) -> bool,
) -> io::Result<PlacementOutcome> {
    let mut aside = None;
    for _ in 1..MAX_TRIES {
        match try_write(write, &known, &mut aside) {
            Err(error) if is_interference(&error) => {}
            settled => return settled,
        }
    }
    try_write(write, &known, &mut aside)
}

/// Returns whether an error can occur because a path has changed since it was looked up.
fn is_interference(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, DirectoryNotEmpty, InvalidInput, IsADirectory, NotADirectory, NotFound,
    };
    // `InvalidInput` occurs if a file was replaced by something else before it was read.
    matches!(
        error.kind(),
        AlreadyExists | DirectoryNotEmpty | IsADirectory | NotADirectory | NotFound | InvalidInput
    )
}

/// Tries once to write a file to its path. `aside` has the new name of a file that was renamed, now
/// or in an earlier try.
fn try_write(
    write: PendingWrite<'_>,
    known: impl Fn(&Digest) -> bool,
    aside: &mut Option<String>,
) -> io::Result<PlacementOutcome> {
    let PendingWrite {
        root,
        inside,
        placement,
        bytes,
    } = write;
    let found = root.inspect(inside)?;
    let (current, content) = (read_content(root, inside, found)?, &placement.content);
    if current.as_ref() == Some(content) {
        return Ok(placement_outcome(aside));
    }
    if matches!(content, PathContent::File { .. }) && bytes.is_none() {
        return Ok(PlacementOutcome::ContentMissing);
    }
    let replaceable = current.as_ref() == Some(&placement.expected)
        || matches!(&current, Some(PathContent::Absent))
        || current
            .as_ref()
            .and_then(PathContent::digest)
            .is_some_and(&known);
    if *content != PathContent::Absent {
        clear_ancestor(root, inside, known, aside)?;
    }
    match (found, content) {
        (DiskEntry::Directory, PathContent::Absent) => return remove_directory(root, inside),
        (DiskEntry::Directory, _)
            if placement.expected == PathContent::Directory
                && try_remove_directory(root, inside)? => {}
        // The directory may have files of others, so it must not be removed.
        (DiskEntry::Directory, _) => *aside = Some(rename_aside(root, inside, None)?),
        (_, PathContent::Absent) if !replaceable => {
            return Ok(PlacementOutcome::OtherKept(file_name(inside)));
        }
        // The existing file is replaced by renaming the new one over it, so that the path always
        // has a file.
        (DiskEntry::File { .. }, PathContent::File { .. }) if !replaceable => {
            *aside = Some(link_aside(root, inside, current.as_ref())?)
        }
        _ if !replaceable => *aside = Some(rename_aside(root, inside, current.as_ref())?),
        (DiskEntry::File { .. }, PathContent::Absent | PathContent::Directory) => {
            root.remove(inside)?
        }
        _ => {}
    }
    match content {
        PathContent::Absent => {}
        PathContent::Directory => root.create_dirs(inside)?,
        PathContent::File { .. } => root.write(inside, bytes.ok_or(io::ErrorKind::NotFound)?)?,
    }
    Ok(placement_outcome(aside))
}

fn placement_outcome(aside: &Option<String>) -> PlacementOutcome {
    aside
        .clone()
        .map_or(PlacementOutcome::Written, PlacementOutcome::OtherKept)
}

/// Makes way if something above the path is not a directory: it is removed if its content is
/// stored, otherwise renamed. If two roles disagree about a path, the conflict is reported at the
/// end of the step; until then the changes of both are carried out.
fn clear_ancestor(
    root: &HostDirectory,
    inside: &Path,
    known: impl Fn(&Digest) -> bool,
    aside: &mut Option<String>,
) -> io::Result<()> {
    let Some((above, found)) = root.first_non_directory(inside)? else {
        return Ok(());
    };
    let current = read_content(root, above, found)?;
    if current
        .as_ref()
        .and_then(PathContent::digest)
        .is_some_and(&known)
    {
        return root.remove(above);
    }
    *aside = Some(rename_aside(root, above, current.as_ref())?);
    Ok(())
}

/// Removes a directory, unless it has entries.
fn remove_directory(root: &HostDirectory, inside: &Path) -> io::Result<PlacementOutcome> {
    Ok(if try_remove_directory(root, inside)? {
        PlacementOutcome::Written
    } else {
        PlacementOutcome::OtherKept(file_name(inside))
    })
}

/// Removes a directory, unless it has entries. Returns whether it was removed.
fn try_remove_directory(root: &HostDirectory, inside: &Path) -> io::Result<bool> {
    match root.remove(inside) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Returns the content at a path; `None` if it is something that an action cannot have put there.
fn read_content(
    root: &HostDirectory,
    inside: &Path,
    found: DiskEntry,
) -> io::Result<Option<PathContent>> {
    Ok(match found {
        DiskEntry::Absent => Some(PathContent::Absent),
        DiskEntry::Directory => Some(PathContent::Directory),
        DiskEntry::File { bytes, .. } => {
            let content = root.read(inside, MAX_COMPARED_BYTES)?;
            content.map(|content| PathContent::File {
                digest: digest_of(&content),
                bytes,
            })
        }
        DiskEntry::Other => None,
    })
}

/// Renames what is at a path to a free name.
fn rename_aside(
    root: &HostDirectory,
    inside: &Path,
    content: Option<&PathContent>,
) -> io::Result<String> {
    for aside in aside_names(inside, content) {
        match root.rename(inside, &aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            renamed => return renamed.map(|()| aside),
        }
    }
    unreachable!("some number is free")
}

/// Gives a file a second name. The file also keeps its first name until another one is renamed over
/// it, so that the path is never without a file.
fn link_aside(
    root: &HostDirectory,
    inside: &Path,
    content: Option<&PathContent>,
) -> io::Result<String> {
    for aside in aside_names(inside, content) {
        let beside = inside.with_file_name(&aside);
        match root.inspect(&beside)? {
            DiskEntry::Absent => match root.link(inside, &aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if is_interference(&error) => return Err(error),
                // Not every file system supports hard links.
                Err(_) => return rename_aside(root, inside, content),
                Ok(()) => return Ok(aside),
            },
            // Another run has kept the same file.
            found @ DiskEntry::File { .. }
                if read_content(root, &beside, found)?.as_ref() == content =>
            {
                return Ok(aside);
            }
            _ => {}
        }
    }
    unreachable!("some number is free")
}

/// Returns the names under which the content at a path may be kept, in order.
fn aside_names(inside: &Path, content: Option<&PathContent>) -> impl Iterator<Item = String> {
    let mark = content
        .and_then(PathContent::digest)
        .map_or("other", |digest| &digest.0[..ASIDE_DIGITS])
        .to_owned();
    let name = file_name(inside);
    (1..).map(move |n| {
        let end = if n == 1 {
            format!(".kept-{mark}")
        } else {
            format!(".kept-{mark}-{n}")
        };
        format!(
            "{}{end}",
            &name[..name.floor_char_boundary(quota::MAX_NAME_BYTES - end.len())]
        )
    })
}

fn file_name(inside: &Path) -> String {
    inside
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns whether a recorded path is in one of the granted directories.
pub fn is_visible_in(base: &Path, grants: &[DirGrant], path: &str) -> bool {
    grants.iter().any(|grant| {
        PathMapping::new(base, &grant.host)
            .path_inside(path)
            .is_some()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests;
