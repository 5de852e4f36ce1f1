//! Staged directories: temporary copies that guests that use WASI get instead of directories which
//! they may write, or in which they must see other contents than those on disk. They are filled
//! before the attempt and compared after it. WASI has many file functions, and a real directory
//! behaves correctly for all of them. The cost of copying is proportional to the contents, which
//! are bounded.

use std::collections::BTreeMap;
use std::fs::{File, FileTimes};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::UNIX_EPOCH;

use cap_std::fs::Dir;
use strata_base::files::blob::{Blobs, digest_of};
use strata_base::files::scratch::{ScratchDirectory, ScratchKind};
use strata_base::text::units::format_bytes;
use strata_core::record::file::{FileChange, PathContent};

use super::super::quota;
use super::disk::{DiskEntry, HostDirectory};
use super::files_fault::FilesFault;
use super::path::STORAGE_REASON;
use super::path_mapping::PathMapping;
use super::removal;
use super::size_limit::SizeLimit;
use super::{MAX_STORED_BYTES, OpenFiles};

/// The temporary directories of attempts. Others must neither read the copies in them nor place files there.
static SCRATCH: ScratchKind = ScratchKind::new("files-", remove_staged);

/// The maximum size of the staged directories, with what the guest adds. Copying more for each
/// attempt would take too long.
pub(super) const MAX_STAGED_BYTES: u64 = 256 << 20;
/// The maximum number of files and directories.
const MAX_STAGED_FILES: usize = 10_000;

/// A path, the content that replaces the one on disk, and the bytes if it is a file.
pub(super) type ContentOverride = (PathBuf, PathContent, Option<Arc<[u8]>>);

/// A directory to stage.
pub(super) struct StageRequest {
    pub tree: Arc<PathMapping>,
    /// The guest path of the directory.
    pub guest: String,
    pub root: Arc<HostDirectory>,
    /// The size limit; `None` if it has none of its own.
    pub max_bytes: Option<u64>,
    /// The contents that replace those on disk, by path, with the bytes of files.
    pub overrides: Vec<ContentOverride>,
}

/// The staged directories of one attempt. They are removed when this is dropped.
pub(super) struct StagedDirectories {
    /// Removed on drop.
    _scratch: ScratchDirectory,
    dirs: Vec<StagedDirectory>,
    size_limits: Vec<SizeLimit>,
    open_files: OpenFiles,
}

struct StagedDirectory {
    tree: Arc<PathMapping>,
    guest: String,
    /// The directory that was copied.
    original: Arc<HostDirectory>,
    copy: Arc<HostDirectory>,
    /// What was in it before the attempt.
    before: StagedContents,
}

/// How much may still be staged.
struct StageBudget {
    bytes: u64,
    files: usize,
    waiter: Weak<()>,
}

impl StageBudget {
    fn take(&mut self, length: u64) -> io::Result<()> {
        if self.waiter.strong_count() == 0 {
            return Err(io::Error::other("nobody waits for it any more"));
        }
        let left = self
            .files
            .checked_sub(1)
            .zip(self.bytes.checked_sub(length));
        (self.files, self.bytes) = left.ok_or_else(too_large_error)?;
        Ok(())
    }
}

/// Returns the error of a directory that is too large to be staged.
pub(super) fn too_large_error() -> io::Error {
    let limit = format_bytes(MAX_STAGED_BYTES);
    io::Error::other(format!(
        "it holds more than {limit} or {MAX_STAGED_FILES} files; grant a smaller directory"
    ))
}

/// What is in a staged directory before an attempt, by path.
#[derive(Default)]
struct StagedContents {
    /// The files and directories, with their state in the copy.
    entries: BTreeMap<PathBuf, (PathContent, DiskEntry)>,
    /// The contents of the symbolic links. Guests can follow them, but not change them.
    links: BTreeMap<PathBuf, PathBuf>,
}

/// Copies the contents of a directory, except those that `overrides` replace, and writes the
/// latter. Returns what is in the copy.
fn fill_copy(
    root: &HostDirectory,
    copy: &HostDirectory,
    overrides: &[ContentOverride],
    budget: &mut StageBudget,
) -> io::Result<StagedContents> {
    let by_path: BTreeMap<&Path, &PathContent> = overrides
        .iter()
        .map(|(path, content, _)| (path.as_path(), content))
        .collect();
    let is_gone = |above: &Path| {
        by_path
            .get(above)
            .is_some_and(|content| **content != PathContent::Directory)
    };
    let hidden = |path: &Path| by_path.contains_key(path) || path.ancestors().skip(1).any(is_gone);
    let mut contents = StagedContents::default();
    copy_contents(root, &hidden, copy, &mut contents, budget)?;
    for (path, content, bytes) in overrides {
        if *content != PathContent::Absent {
            budget.take(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))?;
            write_copy(copy, path, bytes.as_deref())?;
            let state = copy.inspect(path)?;
            contents
                .entries
                .insert(path.clone(), (content.clone(), state));
        }
    }
    // After everything else, because what is written to the copy must not be written through a link.
    contents
        .links
        .retain(|path, target| symlink(target, copy.host().join(path)).is_ok());
    Ok(contents)
}

/// Removes what is in a temporary directory, however deeply guests have nested it.
fn remove_staged(directory: &File, _: &Path) -> io::Result<()> {
    removal::remove_contents(&Dir::from_std_file(directory.try_clone()?))
}

type StageResult<T> = Result<T, FilesFault>;

impl StagedDirectories {
    /// Copies directories. Stops with an error when the value that `until` points to is dropped,
    /// which means that nobody waits for the result.
    pub(super) fn create(wanted: Vec<StageRequest>, until: Weak<()>) -> StageResult<Self> {
        let scratch = ScratchDirectory::new(&SCRATCH).map_err(|e| {
            FilesFault::temporary(format!("cannot make a directory for staged files: {e}"))
        })?;
        let opened = OpenFiles::default();
        let (mut dirs, mut caps) = (
            Vec::new(),
            vec![SizeLimit::for_all(
                scratch.path(),
                &opened,
                MAX_STAGED_BYTES,
            )],
        );
        let mut budget = StageBudget {
            bytes: MAX_STAGED_BYTES,
            files: MAX_STAGED_FILES,
            waiter: until,
        };
        for (i, wanted) in wanted.into_iter().enumerate() {
            let copy = HostDirectory::new(scratch.path().join(i.to_string()));
            let StageRequest {
                tree,
                guest,
                root,
                max_bytes,
                overrides,
            } = wanted;
            let fail = |error: io::Error| FilesFault::staging(&guest, &error);
            copy.create().map_err(fail)?;
            let number = opened.add_staged(copy.host()).map_err(fail)?;
            let before = fill_copy(&root, &copy, &overrides, &mut budget).map_err(fail)?;
            let copy = Arc::new(copy);
            if let Some(granted) = max_bytes {
                caps.push(
                    SizeLimit::for_directory(&guest, &copy, &opened, number, granted)
                        .map_err(fail)?,
                );
            }
            dirs.push(StagedDirectory {
                tree,
                guest,
                original: root,
                copy,
                before,
            });
        }
        Ok(Self {
            _scratch: scratch,
            dirs,
            size_limits: caps,
            open_files: opened,
        })
    }

    /// Returns the copy of a directory.
    pub(super) fn copy_of(&self, tree: &PathMapping) -> Option<Arc<HostDirectory>> {
        self.dirs
            .iter()
            .find(|dir| *dir.tree == *tree)
            .map(|dir| Arc::clone(&dir.copy))
    }

    /// Returns the size limits.
    pub(super) fn size_limits(&self) -> Vec<SizeLimit> {
        self.size_limits.clone()
    }

    /// Returns the list of files that the guest has open.
    pub(super) fn open_files(&self) -> OpenFiles {
        self.open_files.clone()
    }

    /// Returns the changes of the attempt, by path, and the contents that they refer to.
    pub(super) fn changes(&self) -> StageResult<(Vec<FileChange>, Blobs)> {
        for cap in &self.size_limits {
            if let Some(fault) = cap.final_fault() {
                return Err(fault);
            }
        }
        let mut found = StagedChanges::default();
        for dir in &self.dirs {
            dir.find_changes(&mut found).map_err(|error| {
                FilesFault::storing(&format!("`{}`", dir.guest), &error.to_string())
            })?;
        }
        let StagedChanges {
            mut changes, blobs, ..
        } = found;
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        // If directories overlap, the first one decides.
        changes.dedup_by(|a, b| a.path == b.path);
        Ok((changes, blobs))
    }
}

/// The changes found in the staged directories.
#[derive(Default)]
struct StagedChanges {
    changes: Vec<FileChange>,
    /// The contents to store.
    blobs: Blobs,
    /// The size of the contents.
    bytes: u64,
}

impl StagedChanges {
    fn store(&mut self, root: &HostDirectory, inside: &Path) -> io::Result<PathContent> {
        let left = MAX_STORED_BYTES - self.bytes;
        let Some(content) = root.read(inside, left)? else {
            let limit = format_bytes(MAX_STORED_BYTES);
            return Err(io::Error::other(format!(
                "an action writes and replaces at most {limit} of files"
            )));
        };
        let (digest, length) = (digest_of(&content), content.len() as u64);
        self.bytes += length;
        self.blobs.insert(digest.clone(), content.into());
        Ok(PathContent::File {
            digest,
            bytes: length,
        })
    }
}

impl StagedDirectory {
    fn find_changes(&self, changes: &mut StagedChanges) -> io::Result<()> {
        let mut now = BTreeMap::new();
        walk(&self.copy, &mut |inside, found| {
            now.insert(inside.to_owned(), found);
            if now.len() > MAX_STAGED_FILES {
                Err(io::Error::other(format!(
                    "there are more than {MAX_STAGED_FILES} of them"
                )))
            } else {
                Ok(())
            }
        })?;
        for (inside, found) in &now {
            let (before, stamp) = match self.before.entries.get(inside) {
                Some((before, stamp)) => (before.clone(), Some(stamp)),
                None => (PathContent::Absent, None),
            };
            let after = match found {
                found if stamp == Some(found) => continue,
                DiskEntry::Directory => PathContent::Directory,
                DiskEntry::File { .. } => changes.store(&self.copy, inside)?,
                DiskEntry::Other | DiskEntry::Absent => {
                    if self.is_unchanged_link(inside)? {
                        continue;
                    }
                    let name = inside.display();
                    return Err(io::Error::other(format!(
                        "`{name}` is a symbolic link, which is not kept"
                    )));
                }
            };
            self.add_change(inside, before, after, changes)?;
        }
        for link in self.before.links.keys() {
            if !self.is_unchanged_link(link)? {
                return Err(io::Error::other(format!(
                    "`{}` was a symbolic link, which an action cannot remove or replace",
                    link.display()
                )));
            }
        }
        for (inside, (before, _)) in self
            .before
            .entries
            .iter()
            .filter(|(inside, _)| !now.contains_key(*inside))
        {
            self.add_change(inside, before.clone(), PathContent::Absent, changes)?;
        }
        Ok(())
    }

    /// Returns whether a path is a symbolic link as it was before the attempt.
    fn is_unchanged_link(&self, inside: &Path) -> io::Result<bool> {
        let now = match self.copy.inspect(inside)? {
            DiskEntry::Other => self.copy.read_link(inside)?,
            _ => None,
        };
        Ok(now.is_some() && now.as_ref() == self.before.links.get(inside))
    }

    fn add_change(
        &self,
        inside: &Path,
        before: PathContent,
        after: PathContent,
        changes: &mut StagedChanges,
    ) -> io::Result<()> {
        let change = FileChange {
            path: self.tree.recorded_path_of(inside),
            before,
            after,
        };
        if !change.is_recorded() {
            return Ok(());
        }
        if self.original.must_not_replace(inside, &change.after) {
            let why = format!(
                "`{}` is not to be changed: {STORAGE_REASON}",
                inside.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        // If the content is different now, somebody else has changed the file. That is handled when
        // the new content is written to the disk.
        if change
            .before
            .digest()
            .is_some_and(|digest| !changes.blobs.contains_key(digest))
            && matches!(self.original.inspect(inside), Ok(DiskEntry::File { .. }))
        {
            match changes.store(&self.original, inside) {
                // The file was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                before => {
                    before?;
                }
            }
        }
        changes.changes.push(change);
        Ok(())
    }
}

/// Copies all regular files and directories that are not hidden, and finds the symbolic links. Devices
/// are not visible to the guest.
fn copy_contents(
    original: &HostDirectory,
    hidden: &dyn Fn(&Path) -> bool,
    copy: &HostDirectory,
    copied: &mut StagedContents,
    budget: &mut StageBudget,
) -> io::Result<()> {
    walk(original, &mut |inside, found| {
        if hidden(inside) {
            return Ok(());
        }
        let content = match found {
            DiskEntry::Directory => {
                budget.take(0)?;
                write_copy(copy, inside, None)?;
                PathContent::Directory
            }
            DiskEntry::File { .. } => {
                let content = match original.read(inside, budget.bytes) {
                    // The file was removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    content => content?.ok_or_else(too_large_error)?,
                };
                budget.take(content.len() as u64)?;
                write_copy(copy, inside, Some(&content))?;
                PathContent::File {
                    digest: digest_of(&content),
                    bytes: content.len() as u64,
                }
            }
            DiskEntry::Absent => return Ok(()),
            DiskEntry::Other => {
                budget.take(0)?;
                if let Ok(Some(target)) = original.read_link(inside) {
                    copied.links.insert(inside.to_owned(), target);
                }
                return Ok(());
            }
        };
        let state = copy.inspect(inside)?;
        copied.entries.insert(inside.to_owned(), (content, state));
        Ok(())
    })
}

/// Writes a file with these bytes, or creates a directory, in a copy. It need be neither atomic nor
/// durable. The timestamps are the same in every attempt, so a different one shows that the guest
/// changed the file.
fn write_copy(copy: &HostDirectory, inside: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
    let path = copy.host().join(inside);
    let Some(bytes) = bytes else {
        return std::fs::create_dir_all(&path);
    };
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::write(&path, bytes)?;
    File::open(&path)?.set_times(
        FileTimes::new()
            .set_modified(UNIX_EPOCH)
            .set_accessed(UNIX_EPOCH),
    )
}

/// Visits everything below a directory, parents before their contents.
fn walk(
    root: &HostDirectory,
    visit: &mut dyn FnMut(&Path, DiskEntry) -> io::Result<()>,
) -> io::Result<()> {
    let mut open = vec![PathBuf::new()];
    while let Some(at) = open.pop() {
        let names = match root.list(&at, MAX_STAGED_FILES + 1) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            names => names?,
        };
        for (name, found) in names {
            let inside = at.join(name);
            if quota::is_too_deep(&inside) {
                return Err(quota::too_deep_error());
            }
            visit(&inside, found)?;
            if found == DiskEntry::Directory {
                open.push(inside);
            }
        }
    }
    Ok(())
}
