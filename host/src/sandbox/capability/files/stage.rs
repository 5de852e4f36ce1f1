//! Staged directories: temporary copies that guests that use WASI get instead of directories which
//! they may write, or in which they must see other contents than those on disk. They are filled
//! before the attempt and compared after it. WASI has many file functions, and a real directory
//! behaves correctly for all of them. The cost of copying is proportional to the contents, which
//! are bounded.

use std::collections::BTreeMap;
use std::fs::{File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::UNIX_EPOCH;

use strata_core::fault::FaultCause;
use strata_core::file::{Content, FileChange};

use super::super::quota;
use super::cap::Cap;
use super::disk::{Found, Root};
use super::path::OWN;
use super::scratch::Scratch;
use super::tree::Tree;
use super::{KEPT_BYTES, Opened};
use crate::blob::{Blobs, digest_of};
use crate::sandbox::limits::format_bytes;

/// Why the directories of an attempt cannot be staged, or the files it left there cannot be stored.
#[derive(Debug)]
pub(in crate::sandbox) struct FilesFault {
    pub(in crate::sandbox) cause: FaultCause,
    pub(in crate::sandbox) message: String,
}

impl FilesFault {
    /// Returns the error of a directory that cannot be staged.
    pub(super) fn staging(guest: &str, error: &io::Error) -> Self {
        Self {
            cause: FaultCause::Staging,
            message: format!("cannot stage `{guest}`: {error}"),
        }
    }

    /// Returns the error of files in `place` that cannot be stored.
    pub(super) fn keeping(location: &str, why: &str) -> Self {
        Self {
            cause: FaultCause::Keeping,
            message: format!("cannot keep files of {location}: {why}"),
        }
    }

    /// Returns the error of the host's own temporary files.
    pub(super) fn temporary(message: String) -> Self {
        Self {
            cause: FaultCause::TemporaryFiles,
            message,
        }
    }
}

/// The maximum size of the staged directories, with what the guest adds. Copying more for each
/// attempt would take too long.
pub(super) const STAGED_BYTES: u64 = 256 << 20;
/// The maximum number of files and directories.
const STAGED_FILES: usize = 10_000;

/// A directory to stage.
pub(super) struct Wanted {
    pub tree: Arc<Tree>,
    /// The guest path of the directory.
    pub guest: String,
    pub root: Arc<Root>,
    /// The size limit; `None` if it has none of its own.
    pub max_bytes: Option<u64>,
    /// The contents that replace those on disk, by path, with the bytes of files.
    pub instead: Vec<(PathBuf, Content, Option<Arc<[u8]>>)>,
}

/// The staged directories of one attempt. They are removed when this is dropped.
pub(super) struct Stage {
    /// Removed on drop.
    _scratch: Scratch,
    dirs: Vec<Staged>,
    caps: Vec<Cap>,
    opened: Opened,
}

struct Staged {
    tree: Arc<Tree>,
    guest: String,
    /// The directory that was copied.
    original: Arc<Root>,
    copy: Arc<Root>,
    /// The contents before the attempt, with their state in the copy.
    held: BTreeMap<PathBuf, (Content, Found)>,
}

/// How much may still be staged.
struct Room {
    bytes: u64,
    files: usize,
    until: Weak<()>,
}

impl Room {
    fn take(&mut self, length: u64) -> io::Result<()> {
        if self.until.strong_count() == 0 {
            return Err(io::Error::other("nobody waits for it any more"));
        }
        let left = self
            .files
            .checked_sub(1)
            .zip(self.bytes.checked_sub(length));
        (self.files, self.bytes) = left.ok_or_else(too_much)?;
        Ok(())
    }
}

/// Returns the error of a directory that is too large to be staged.
pub(super) fn too_much() -> io::Error {
    let limit = format_bytes(STAGED_BYTES);
    io::Error::other(format!(
        "it holds more than {limit} or {STAGED_FILES} files; grant a smaller directory"
    ))
}

type Made<T> = Result<T, FilesFault>;

impl Stage {
    /// Copies directories. Stops with an error when the value that `until` points to is dropped,
    /// which means that nobody waits for the result.
    pub(super) fn make(wanted: Vec<Wanted>, until: Weak<()>) -> Made<Self> {
        let scratch = Scratch::new().map_err(|e| {
            FilesFault::temporary(format!("cannot make a directory for staged files: {e}"))
        })?;
        let opened = Opened::default();
        let (mut dirs, mut caps) = (
            Vec::new(),
            vec![Cap::of_all(scratch.path(), &opened, STAGED_BYTES)],
        );
        let mut budget = Room {
            bytes: STAGED_BYTES,
            files: STAGED_FILES,
            until,
        };
        for (i, wanted) in wanted.into_iter().enumerate() {
            let copy = Root::new(scratch.path().join(i.to_string()));
            let Wanted {
                tree,
                guest,
                root,
                max_bytes,
                instead,
            } = wanted;
            let fail = |error: io::Error| FilesFault::staging(&guest, &error);
            copy.create().map_err(fail)?;
            let number = opened.stage(copy.host()).map_err(fail)?;
            let mut held = BTreeMap::new();
            let by_path: BTreeMap<&Path, &Content> = instead
                .iter()
                .map(|(at, content, _)| (at.as_path(), content))
                .collect();
            let is_gone = |above: &Path| {
                by_path
                    .get(above)
                    .is_some_and(|content| **content != Content::Directory)
            };
            let hidden =
                |path: &Path| by_path.contains_key(path) || path.ancestors().skip(1).any(is_gone);
            fill(&root, &hidden, &copy, &mut held, &mut budget).map_err(fail)?;
            for (inside, content, bytes) in &instead {
                if *content != Content::Absent {
                    budget
                        .take(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
                        .map_err(fail)?;
                    put(&copy, inside, bytes.as_deref()).map_err(fail)?;
                    held.insert(
                        inside.clone(),
                        (content.clone(), copy.look(inside).map_err(fail)?),
                    );
                }
            }
            let copy = Arc::new(copy);
            if let Some(granted) = max_bytes {
                caps.push(Cap::of(&guest, &copy, &opened, number, granted).map_err(fail)?);
            }
            dirs.push(Staged {
                tree,
                guest,
                original: root,
                copy,
                held,
            });
        }
        Ok(Self {
            _scratch: scratch,
            dirs,
            caps,
            opened,
        })
    }

    /// Returns the copy of a directory.
    pub(super) fn copy_of(&self, tree: &Tree) -> Option<Arc<Root>> {
        self.dirs
            .iter()
            .find(|dir| *dir.tree == *tree)
            .map(|dir| Arc::clone(&dir.copy))
    }

    /// Returns the size limits.
    pub(super) fn caps(&self) -> Vec<Cap> {
        self.caps.clone()
    }

    /// Returns the list of files that the guest has open.
    pub(super) fn opened(&self) -> Opened {
        self.opened.clone()
    }

    /// Returns the changes of the attempt, by path, and the contents that they refer to.
    pub(super) fn changes(&self) -> Made<(Vec<FileChange>, Blobs)> {
        for cap in &self.caps {
            if let Some(fault) = cap.broken() {
                return Err(fault);
            }
        }
        let mut found = StagedChanges::default();
        for dir in &self.dirs {
            dir.compare(&mut found).map_err(|error| {
                FilesFault::keeping(&format!("`{}`", dir.guest), &error.to_string())
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
    fn keep(&mut self, root: &Root, inside: &Path) -> io::Result<Content> {
        let left = KEPT_BYTES - self.bytes;
        let Some(content) = root.read(inside, left)? else {
            let limit = format_bytes(KEPT_BYTES);
            return Err(io::Error::other(format!(
                "an action writes and replaces at most {limit} of files"
            )));
        };
        let (digest, length) = (digest_of(&content), content.len() as u64);
        self.bytes += length;
        self.blobs.insert(digest.clone(), content.into());
        Ok(Content::File {
            digest,
            bytes: length,
        })
    }
}

impl Staged {
    fn compare(&self, changes: &mut StagedChanges) -> io::Result<()> {
        let mut now = BTreeMap::new();
        walk(&self.copy, &mut |inside, found| {
            now.insert(inside.to_owned(), found);
            match now.len() > STAGED_FILES {
                true => Err(io::Error::other(format!(
                    "there are more than {STAGED_FILES} of them"
                ))),
                false => Ok(()),
            }
        })?;
        for (inside, found) in &now {
            let (before, stamp) = match self.held.get(inside) {
                Some((before, stamp)) => (before.clone(), Some(stamp)),
                None => (Content::Absent, None),
            };
            let after = match found {
                found if stamp == Some(found) => continue,
                Found::Directory => Content::Directory,
                Found::File { .. } => changes.keep(&self.copy, inside)?,
                Found::Other | Found::Absent => {
                    let name = inside.display();
                    return Err(io::Error::other(format!(
                        "`{name}` is a symbolic link, which is not kept"
                    )));
                }
            };
            self.change(inside, before, after, changes)?;
        }
        for (inside, (before, _)) in self
            .held
            .iter()
            .filter(|(inside, _)| !now.contains_key(*inside))
        {
            self.change(inside, before.clone(), Content::Absent, changes)?;
        }
        Ok(())
    }

    fn change(
        &self,
        inside: &Path,
        before: Content,
        after: Content,
        changes: &mut StagedChanges,
    ) -> io::Result<()> {
        let change = FileChange {
            path: self.tree.name_of(inside),
            before,
            after,
        };
        if !change.is_one() {
            return Ok(());
        }
        if self.original.is_kept_from(inside, &change.after) {
            let why = format!("`{}` is not to be changed: {OWN}", inside.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        // If the content is different now, somebody else has changed the file. That is handled when
        // the new content is written to the disk.
        if change
            .before
            .digest()
            .is_some_and(|digest| !changes.blobs.contains_key(digest))
            && matches!(self.original.look(inside), Ok(Found::File { .. }))
        {
            match changes.keep(&self.original, inside) {
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

/// Copies all regular files and directories that are not hidden. Links and devices are not visible
/// to the guest.
fn fill(
    original: &Root,
    hidden: &dyn Fn(&Path) -> bool,
    copy: &Root,
    held: &mut BTreeMap<PathBuf, (Content, Found)>,
    budget: &mut Room,
) -> io::Result<()> {
    walk(original, &mut |inside, found| {
        if hidden(inside) {
            return Ok(());
        }
        let content = match found {
            Found::Directory => {
                budget.take(0)?;
                put(copy, inside, None)?;
                Content::Directory
            }
            Found::File { .. } => {
                let content = match original.read(inside, budget.bytes) {
                    // The file was removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    content => content?.ok_or_else(too_much)?,
                };
                budget.take(content.len() as u64)?;
                put(copy, inside, Some(&content))?;
                Content::File {
                    digest: digest_of(&content),
                    bytes: content.len() as u64,
                }
            }
            Found::Absent | Found::Other => return Ok(()),
        };
        held.insert(inside.to_owned(), (content, copy.look(inside)?));
        Ok(())
    })
}

/// Writes a file with these bytes, or creates a directory, in a copy. It need be neither atomic nor
/// durable. The timestamps are the same in every attempt, so a different one shows that the guest
/// changed the file.
fn put(copy: &Root, inside: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
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
fn walk(root: &Root, visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>) -> io::Result<()> {
    let mut open = vec![PathBuf::new()];
    while let Some(at) = open.pop() {
        let names = match root.names(&at, STAGED_FILES + 1) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            names => names?,
        };
        for (name, found) in names {
            let inside = at.join(name);
            if quota::is_too_deep(&inside) {
                return Err(quota::too_deep());
            }
            visit(&inside, found)?;
            if found == Found::Directory {
                open.push(inside);
            }
        }
    }
    Ok(())
}
