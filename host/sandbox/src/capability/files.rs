//! The files below the granted directories as one attempt sees them: the disk, overlaid with the
//! recorded changes of the run, overlaid with the changes of the attempt. Nothing is written to the
//! disk before the attempt has succeeded and its changes are recorded. Errors never reveal where on
//! the host a directory is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use strata_base::files::blob::{Blobs, digest_of};
use strata_base::text::units::format_bytes;
use strata_core::record::file::{FileChange, PathContent};
use strata_services::gateway::{Gateway, GuestRequest, HostAnswer, HostError, HostErrorKind};
use strata_services::plugin::{Access, DirGrant};

use super::super::FileView;
use super::quota;
use disk::{DiskEntry, HostDirectory};
use path::GuestPath;
use path_mapping::{PathMapping, strip_directory};
use stage::StagedDirectories;

pub(crate) mod disk;
mod files_fault;
mod hidden_storage;
mod open_files;
mod path;
mod path_mapping;
mod placement;
mod removal;
mod size_limit;
mod stage;
mod staging;
mod temporary_file;

pub(crate) use files_fault::FilesFault;
pub use hidden_storage::HiddenStorage;
pub(crate) use open_files::OpenFiles;
pub use path_mapping::resolve_links;
pub use placement::is_visible_in;
pub use placement::{Directories, PlaceError, PlacementOutcome};

/// The maximum number of names in a listing. Larger directories are refused.
pub(super) const MAX_LISTED_NAMES: usize = 10_000;
/// The maximum size of what one attempt may write to files and of what it may replace, in bytes
/// together. It is held in memory until the attempt ends, and stored in the database.
const MAX_STORED_BYTES: u64 = 64 << 20;
/// The maximum number of paths that one attempt may change. Each is recorded.
const MAX_CHANGES: usize = 10_000;

/// The granted directories of one attempt.
pub(crate) struct AttemptFiles {
    grants: Vec<GrantedDirectory>,
    view: Arc<FileView>,
    gateway: Option<Gateway>,
    changes: BTreeMap<String, PathChange>,
    blobs: Blobs,
    bytes: u64,
    /// The copies of directories in which a guest that uses WASI works.
    staged: Option<StagedDirectories>,
}

/// A granted directory.
struct GrantedDirectory {
    grant: DirGrant,
    tree: Arc<PathMapping>,
    root: Arc<HostDirectory>,
}

/// A change of the attempt at one path.
struct PathChange {
    before: PathContent,
    after: PathContent,
}

/// What an attempt sees at a path.
enum VisibleEntry {
    Absent,
    Directory,
    /// A stored file.
    Blob(PathContent),
    /// A file on disk, with its size in bytes.
    File(u64),
    Other,
}

type FileResult<T> = Result<T, HostError>;

impl AttemptFiles {
    pub(crate) fn new(grants: &[DirGrant], view: &Arc<FileView>, gateway: Option<Gateway>) -> Self {
        let granted = |grant: &DirGrant| GrantedDirectory {
            tree: Arc::new(PathMapping::new(&view.base, &grant.host)),
            root: Arc::new(HostDirectory::hiding(
                grant.host.clone(),
                view.hidden.clone(),
            )),
            grant: grant.clone(),
        };
        let grants = grants.iter().map(granted).collect();
        let (changes, blobs) = (BTreeMap::new(), Blobs::new());
        Self {
            grants,
            view: Arc::clone(view),
            gateway,
            changes,
            blobs,
            bytes: 0,
            staged: None,
        }
    }

    /// Returns the files that the host saves, if they are in a directory that the guest can reach.
    pub(crate) fn hidden_storage(&self) -> HiddenStorage {
        let is_reached = self
            .grants
            .iter()
            .any(|granted| granted.root.contains_hidden());
        if is_reached {
            self.view.hidden.clone()
        } else {
            HiddenStorage::default()
        }
    }

    /// Returns the content of a file.
    pub(crate) async fn read(&self, path: String, limit: u64) -> FileResult<Vec<u8>> {
        let target = self.resolve(path)?;
        match self.look_up(&target).await? {
            VisibleEntry::Absent => Err(target.io_error("read", &io::ErrorKind::NotFound.into())),
            VisibleEntry::Directory => Err(target.invalid_error("is not a regular file")),
            VisibleEntry::File(_) | VisibleEntry::Other => read_from_disk(target, limit).await,
            VisibleEntry::Blob(content) => match self.load_blob(&content).await {
                Some(bytes) if bytes.len() as u64 > limit => Err(target.too_large_error(limit)),
                Some(bytes) => Ok(bytes.to_vec()),
                // The content is missing if it was not copied when the team was moved.
                None => read_from_disk(target, limit).await,
            },
        }
    }

    /// Creates or replaces a file, and creates the directories above it.
    pub(crate) async fn write(&mut self, path: String, content: Vec<u8>) -> FileResult<()> {
        let target = self.resolve_writable(path, "write")?;
        self.reserve_bytes(content.len() as u64)?;
        let seen = self.look_up(&target).await?;
        match seen {
            VisibleEntry::Directory => {
                return Err(target.io_error("write", &io::ErrorKind::IsADirectory.into()));
            }
            VisibleEntry::Other => return Err(target.special_file_error()),
            VisibleEntry::Absent | VisibleEntry::Blob(_) | VisibleEntry::File(_) => {}
        }
        let mut above: Vec<GuestPath> = target
            .inside
            .ancestors()
            .skip(1)
            .map(|inside| target.with_inside(inside))
            .collect();
        // The granted directory itself exists or is created, unless something else is at its path.
        let of_all = above.pop();
        if of_all.is_some_and(|of_all| {
            matches!(
                self.overlay_content(&of_all.recorded_path),
                Some(PathContent::File { .. })
            )
        }) || !target.root.can_exist()
        {
            return Err(target.invalid_error(&format!(
                "does not lie in a directory: `{}` is none",
                target.guest
            )));
        }
        for target in above.into_iter().rev() {
            match self.look_up(&target).await? {
                VisibleEntry::Directory => {}
                VisibleEntry::Absent => {
                    self.record_change(&target, PathContent::Absent, PathContent::Directory)?
                }
                VisibleEntry::Other => return Err(target.special_file_error()),
                VisibleEntry::Blob(_) | VisibleEntry::File(_) => {
                    return Err(target.invalid_error("does not lie in a directory"));
                }
            }
        }
        let old = match &seen {
            VisibleEntry::Blob(PathContent::File { bytes, .. }) | VisibleEntry::File(bytes) => {
                *bytes
            }
            _ => 0,
        };
        self.check_size_limit(&target, content.len() as u64, old)
            .await?;
        if self.staged.is_some() {
            let at = target;
            return run_blocking(move || {
                at.root
                    .write(&at.inside, &content)
                    .map_err(|e| at.io_error("write", &e))
            })
            .await;
        }
        let before = self.content_before(&target, seen).await?;
        let after = self.store_blob(content.into());
        self.record_change(&target, before, after)
    }

    /// Removes a file or an empty directory.
    pub(crate) async fn remove(&mut self, path: String) -> FileResult<()> {
        let target = self.resolve_writable(path, "remove")?;
        let seen = self.look_up(&target).await?;
        match seen {
            VisibleEntry::Absent => {
                return Err(target.io_error("remove", &io::ErrorKind::NotFound.into()));
            }
            VisibleEntry::Directory if !self.list_names(&target).await?.is_empty() => {
                return Err(target.invalid_error("is a directory that is not empty"));
            }
            VisibleEntry::Other => return Err(target.special_file_error()),
            VisibleEntry::Directory
                if target
                    .root
                    .must_not_replace(&target.inside, &PathContent::Absent) =>
            {
                return Err(target.storage_error("remove"));
            }
            VisibleEntry::Directory | VisibleEntry::Blob(_) | VisibleEntry::File(_) => {}
        }
        if self.staged.is_some() {
            return run_blocking(move || {
                target
                    .root
                    .remove(&target.inside)
                    .map_err(|e| target.io_error("remove", &e))
            })
            .await;
        }
        let before = self.content_before(&target, seen).await?;
        self.record_change(&target, before, PathContent::Absent)
    }

    /// Returns the names in a directory, sorted.
    pub(crate) async fn list(&self, path: String) -> FileResult<Vec<String>> {
        let target = self.resolve(path)?;
        match self.look_up(&target).await? {
            VisibleEntry::Directory => self.list_names(&target).await,
            VisibleEntry::Absent => Err(target.io_error("list", &io::ErrorKind::NotFound.into())),
            _ => Err(target.io_error("list", &io::ErrorKind::NotADirectory.into())),
        }
    }

    /// Takes the changes of the attempt, by path, and the contents that they refer to.
    fn take_changes(&mut self) -> (Vec<FileChange>, Blobs) {
        let changes = std::mem::take(&mut self.changes).into_iter();
        let changes = changes.map(|(path, PathChange { before, after })| FileChange {
            path,
            before,
            after,
        });
        let changes: Vec<FileChange> = changes.filter(FileChange::is_recorded).collect();
        let needed: BTreeSet<_> = changes
            .iter()
            .flat_map(|change| [&change.before, &change.after])
            .filter_map(PathContent::digest)
            .collect();
        let mut blobs = std::mem::take(&mut self.blobs);
        blobs.retain(|digest, _| needed.contains(digest));
        (changes, blobs)
    }

    /// Checks that a file of this size fits into a directory with a size limit if it replaces one
    /// of size `old`.
    async fn check_size_limit(&self, target: &GuestPath, length: u64, old: u64) -> FileResult<()> {
        let Some(limit) = target.max_bytes else {
            return Ok(());
        };
        let below = self
            .changes
            .iter()
            .filter(|(path, _)| target.mapping.path_inside(path).is_some());
        let (removed, added) = below.fold((old, length), |(removed, added), (_, change)| {
            (
                removed.saturating_add(content_bytes(&change.before)),
                added.saturating_add(content_bytes(&change.after)),
            )
        });
        let (at, view, staged) = (
            target.clone(),
            Arc::clone(&self.view),
            self.staged.is_some(),
        );
        run_blocking(move || {
            // Files of the role's finished actions may not have been written to the disk yet, and
            // may be written at any moment.
            let awaited = |(path, content): (&String, &PathContent)| {
                let placed_bytes = match at.root.inspect(Path::new(&*at.mapping.path_inside(path)?))
                {
                    Ok(DiskEntry::File { bytes, .. }) => bytes,
                    _ => 0,
                };
                Some(content_bytes(content).saturating_sub(placed_bytes))
            };
            let count = || {
                let awaited = view
                    .files
                    .iter()
                    .filter_map(awaited)
                    .fold(0, u64::saturating_add);
                Ok(at.root.size()?.saturating_add(awaited))
            };
            // Nothing else that an attempt sees changes while it runs, except in staged copies.
            let size = if staged {
                count()
            } else {
                at.root.cached_size(count)
            };
            let size = size.map_err(|e| at.io_error("write", &e))?;
            quota::check_size(size.saturating_add(added).saturating_sub(removed), limit)
                .map_err(|e| at.io_error("write", &e))
        })
        .await
    }

    fn record_change(
        &mut self,
        target: &GuestPath,
        before: PathContent,
        after: PathContent,
    ) -> FileResult<()> {
        if self.changes.len() >= MAX_CHANGES && !self.changes.contains_key(&target.recorded_path) {
            return Err(target.invalid_error(&format!(
                "is one too many: an action changes at most {MAX_CHANGES} paths"
            )));
        }
        let change = self
            .changes
            .entry(target.recorded_path.clone())
            .or_insert(PathChange {
                before,
                after: PathContent::Absent,
            });
        change.after = after;
        Ok(())
    }

    /// Returns what is at a path that the attempt is about to change. The content of a file is
    /// stored: roles that must not see the change yet still see it, and it is restored if the
    /// change is undone.
    async fn content_before(
        &mut self,
        target: &GuestPath,
        seen: VisibleEntry,
    ) -> FileResult<PathContent> {
        match seen {
            _ if self.changes.contains_key(&target.recorded_path) => Ok(PathContent::Absent),
            VisibleEntry::Blob(content) => Ok(content),
            VisibleEntry::File(length) => {
                self.reserve_bytes(length)?;
                let found = read_from_disk(target.clone(), MAX_STORED_BYTES).await?;
                Ok(self.store_blob(found.into()))
            }
            VisibleEntry::Directory => Ok(PathContent::Directory),
            VisibleEntry::Absent | VisibleEntry::Other => Ok(PathContent::Absent),
        }
    }

    fn reserve_bytes(&mut self, more: u64) -> FileResult<()> {
        let total = self.bytes.saturating_add(more);
        if total > MAX_STORED_BYTES {
            let limit = format_bytes(MAX_STORED_BYTES);
            let message = format!("an action writes and replaces at most {limit} of files");
            return Err(HostError::new(HostErrorKind::Invalid, message));
        }
        self.bytes = total;
        Ok(())
    }

    fn store_blob(&mut self, bytes: Arc<[u8]>) -> PathContent {
        let (digest, length) = (digest_of(&bytes), bytes.len() as u64);
        self.blobs.insert(digest.clone(), bytes);
        PathContent::File {
            digest,
            bytes: length,
        }
    }

    async fn load_blob(&self, content: &PathContent) -> Option<Arc<[u8]>> {
        let digest = content.digest()?;
        if let Some(bytes) = self.blobs.get(digest) {
            return Some(Arc::clone(bytes));
        }
        match self
            .gateway
            .as_ref()?
            .request(GuestRequest::StoredFile(digest.clone()))
            .await
        {
            Some(HostAnswer::File(bytes)) => bytes,
            _ => None,
        }
    }

    /// Returns the content that the attempt or the run has decided for a path, if any.
    fn overlay_content(&self, name: &str) -> Option<&PathContent> {
        self.changes
            .get(name)
            .map(|change| &change.after)
            .or_else(|| self.view.files.get(name))
    }

    async fn look_up(&self, target: &GuestPath) -> FileResult<VisibleEntry> {
        if target.inside.as_os_str().is_empty() && target.access == Access::Write {
            return Ok(VisibleEntry::Directory);
        }
        match self.overlay_content(&target.recorded_path) {
            Some(PathContent::Absent) => return Ok(VisibleEntry::Absent),
            Some(PathContent::Directory) => return Ok(VisibleEntry::Directory),
            Some(content) => return Ok(VisibleEntry::Blob(content.clone())),
            None => {}
        }
        // Nothing on disk is visible below a path that was removed or replaced by a file.
        let removed = |inside: &Path| {
            let decided = self.overlay_content(&target.with_inside(inside).recorded_path);
            matches!(
                decided,
                Some(PathContent::Absent | PathContent::File { .. })
            )
        };
        if target.inside.ancestors().skip(1).any(removed) {
            return Ok(VisibleEntry::Absent);
        }
        let at = target.clone();
        let found = run_blocking(move || {
            at.root
                .inspect(&at.inside)
                .map_err(|e| at.io_error("open", &e))
        })
        .await?;
        Ok(match found {
            DiskEntry::Absent => VisibleEntry::Absent,
            DiskEntry::Directory => VisibleEntry::Directory,
            DiskEntry::File { bytes, .. } => VisibleEntry::File(bytes),
            DiskEntry::Other => VisibleEntry::Other,
        })
    }

    /// Returns the names in an existing directory. Names of directories end in `/`.
    async fn list_names(&self, target: &GuestPath) -> FileResult<Vec<String>> {
        let at = target.clone();
        let on_disk = run_blocking(
            move || match at.root.list(&at.inside, MAX_LISTED_NAMES + 1) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    Ok(Vec::new())
                }
                names => names.map_err(|e| at.io_error("list", &e)),
            },
        );
        let mut names: BTreeMap<String, bool> = on_disk
            .await?
            .into_iter()
            .map(|(name, found)| (name, found == DiskEntry::Directory))
            .collect();
        let directory = target.inside.to_string_lossy();
        let decided = self.view.files.iter();
        let decided = decided.chain(
            self.changes
                .iter()
                .map(|(path, change)| (path, &change.after)),
        );
        for (path, content) in decided {
            let inside = target.mapping.path_inside(path);
            let below = inside
                .as_deref()
                .and_then(|inside| strip_directory(&directory, inside));
            let Some(name) = below.filter(|rest| !rest.is_empty() && !rest.contains('/')) else {
                continue;
            };
            match content {
                PathContent::Absent => names.remove(name),
                PathContent::Directory => names.insert(name.into(), true),
                PathContent::File { .. } => names.insert(name.into(), false),
            };
        }
        if names.len() > MAX_LISTED_NAMES {
            return Err(target.invalid_error(&format!("holds more than {MAX_LISTED_NAMES} names")));
        }
        let format_name = |(name, directory)| if directory { format!("{name}/") } else { name };
        Ok(names.into_iter().map(format_name).collect())
    }
}

fn content_bytes(content: &PathContent) -> u64 {
    match content {
        PathContent::File { bytes, .. } => *bytes,
        PathContent::Absent | PathContent::Directory => 0,
    }
}

async fn read_from_disk(target: GuestPath, limit: u64) -> FileResult<Vec<u8>> {
    run_blocking(move || match target.root.read(&target.inside, limit) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(target.too_large_error(limit)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(target.invalid_error("is not a regular file"))
        }
        Err(error) => Err(target.io_error("read", &error)),
    })
    .await
}

/// Runs blocking work on a thread of its own.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(HostError::new(
                HostErrorKind::Upstream,
                "the run is being stopped",
            )),
        },
    }
}
