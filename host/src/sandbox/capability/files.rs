//! The files below the granted directories as one attempt sees them: the disk, overlaid with the
//! recorded changes of the run, overlaid with the changes of the attempt. Nothing is written to the
//! disk before the attempt has succeeded and its changes are recorded. Errors never reveal where on
//! the host a directory is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use strata_core::file::{Content, FileChange};

use super::super::View;
use super::super::limits::format_bytes;
use super::quota;
use crate::blob::{Blobs, digest_of};
use crate::gateway::{Answer, Ask, Gateway, HostError, HostErrorKind};
use crate::plugin::{Access, DirGrant};
use disk::{Found, Root};
use path::Place;
use stage::Stage;
use tree::{Tree, within};

mod cap;
pub(in crate::sandbox) mod disk;
mod opened;
mod own;
mod partial;
mod path;
mod place;
mod removal;
mod scratch;
mod stage;
mod staging;
mod tree;

pub(in crate::sandbox) use opened::Opened;
pub use own::Own;
pub(crate) use place::is_seen_from;
pub use place::{Directories, PlaceError, Placed};
pub(in crate::sandbox) use stage::FilesFault;
pub use tree::real_path;

/// The maximum number of names in a listing. Larger directories are refused.
pub(super) const LIST_NAMES: usize = 10_000;
/// The maximum size of what one attempt may write to files and of what it may replace, in bytes
/// together. It is held in memory until the attempt ends, and stored in the database.
const KEPT_BYTES: u64 = 64 << 20;
/// The maximum number of paths that one attempt may change. Each is recorded.
const CHANGES: usize = 10_000;

/// The granted directories of one attempt.
pub(in crate::sandbox) struct Files {
    grants: Vec<Granted>,
    view: Arc<View>,
    gateway: Option<Gateway>,
    changes: BTreeMap<String, Change>,
    blobs: Blobs,
    bytes: u64,
    /// The copies of directories in which a guest that uses WASI works.
    stage: Option<Stage>,
}

/// A granted directory.
struct Granted {
    grant: DirGrant,
    tree: Arc<Tree>,
    root: Arc<Root>,
}

/// A change of the attempt at one path.
struct Change {
    before: Content,
    after: Content,
}

/// What an attempt sees at a path.
enum Seen {
    Absent,
    Directory,
    /// A stored file.
    Blob(Content),
    /// A file on disk, with its size in bytes.
    File(u64),
    Other,
}

type Asked<T> = Result<T, HostError>;

impl Files {
    pub(in crate::sandbox) fn new(
        grants: &[DirGrant],
        view: &Arc<View>,
        gateway: Option<Gateway>,
    ) -> Self {
        let granted = |grant: &DirGrant| Granted {
            tree: Arc::new(Tree::of(&view.base, &grant.host)),
            root: Arc::new(Root::without(grant.host.clone(), view.own.clone())),
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
            stage: None,
        }
    }

    /// Returns the files that the host saves, if they are in a directory that the guest can reach.
    pub(in crate::sandbox) fn own(&self) -> Own {
        let is_reached = self
            .grants
            .iter()
            .any(|granted| granted.root.is_beside_own());
        if is_reached {
            self.view.own.clone()
        } else {
            Own::default()
        }
    }

    /// Returns the content of a file.
    pub(in crate::sandbox) async fn read(&self, path: String, limit: u64) -> Asked<Vec<u8>> {
        let target = self.place(path)?;
        match self.look(&target).await? {
            Seen::Absent => Err(target.error("read", &io::ErrorKind::NotFound.into())),
            Seen::Directory => Err(target.invalid("is not a regular file")),
            Seen::File(_) | Seen::Other => on_disk(target, limit).await,
            Seen::Blob(content) => match self.blob(&content).await {
                Some(bytes) if bytes.len() as u64 > limit => Err(target.too_large(limit)),
                Some(bytes) => Ok(bytes.to_vec()),
                // The content is missing if it was not copied when the team was moved.
                None => on_disk(target, limit).await,
            },
        }
    }

    /// Creates or replaces a file, and creates the directories above it.
    pub(in crate::sandbox) async fn write(&mut self, path: String, content: Vec<u8>) -> Asked<()> {
        let target = self.writable(path, "write")?;
        self.afford(content.len() as u64)?;
        let seen = self.look(&target).await?;
        match seen {
            Seen::Directory => {
                return Err(target.error("write", &io::ErrorKind::IsADirectory.into()));
            }
            Seen::Other => return Err(target.linked()),
            Seen::Absent | Seen::Blob(_) | Seen::File(_) => {}
        }
        let mut above: Vec<Place> = target
            .inside
            .ancestors()
            .skip(1)
            .map(|inside| target.at(inside))
            .collect();
        // The granted directory itself exists or is created, unless something else is at its path.
        let of_all = above.pop();
        if of_all
            .is_some_and(|of_all| matches!(self.decided(&of_all.name), Some(Content::File { .. })))
            || !target.root.may_be()
        {
            return Err(target.invalid(&format!(
                "does not lie in a directory: `{}` is none",
                target.guest
            )));
        }
        for target in above.into_iter().rev() {
            match self.look(&target).await? {
                Seen::Directory => {}
                Seen::Absent => self.change(&target, Content::Absent, Content::Directory)?,
                Seen::Other => return Err(target.linked()),
                Seen::Blob(_) | Seen::File(_) => {
                    return Err(target.invalid("does not lie in a directory"));
                }
            }
        }
        let old = match &seen {
            Seen::Blob(Content::File { bytes, .. }) | Seen::File(bytes) => *bytes,
            _ => 0,
        };
        self.fits(&target, content.len() as u64, old).await?;
        if self.stage.is_some() {
            let at = target;
            return aside(move || {
                at.root
                    .put(&at.inside, &content)
                    .map_err(|e| at.error("write", &e))
            })
            .await;
        }
        let before = self.before(&target, seen).await?;
        let after = self.keep(content.into());
        self.change(&target, before, after)
    }

    /// Removes a file or an empty directory.
    pub(in crate::sandbox) async fn remove(&mut self, path: String) -> Asked<()> {
        let target = self.writable(path, "remove")?;
        let seen = self.look(&target).await?;
        match seen {
            Seen::Absent => return Err(target.error("remove", &io::ErrorKind::NotFound.into())),
            Seen::Directory if !self.names(&target).await?.is_empty() => {
                return Err(target.invalid("is a directory that is not empty"));
            }
            Seen::Other => return Err(target.linked()),
            Seen::Directory if target.root.is_kept_from(&target.inside, &Content::Absent) => {
                return Err(target.own("remove"));
            }
            Seen::Directory | Seen::Blob(_) | Seen::File(_) => {}
        }
        if self.stage.is_some() {
            return aside(move || {
                target
                    .root
                    .remove(&target.inside)
                    .map_err(|e| target.error("remove", &e))
            })
            .await;
        }
        let before = self.before(&target, seen).await?;
        self.change(&target, before, Content::Absent)
    }

    /// Returns the names in a directory, sorted.
    pub(in crate::sandbox) async fn list(&self, path: String) -> Asked<Vec<String>> {
        let target = self.place(path)?;
        match self.look(&target).await? {
            Seen::Directory => self.names(&target).await,
            Seen::Absent => Err(target.error("list", &io::ErrorKind::NotFound.into())),
            _ => Err(target.error("list", &io::ErrorKind::NotADirectory.into())),
        }
    }

    /// Takes the changes of the attempt, by path, and the contents that they refer to.
    fn take(&mut self) -> (Vec<FileChange>, Blobs) {
        let changes = std::mem::take(&mut self.changes).into_iter();
        let changes = changes.map(|(path, Change { before, after })| FileChange {
            path,
            before,
            after,
        });
        let changes: Vec<FileChange> = changes.filter(FileChange::is_one).collect();
        let needed: BTreeSet<_> = changes
            .iter()
            .flat_map(|change| [&change.before, &change.after])
            .filter_map(Content::digest)
            .collect();
        let mut blobs = std::mem::take(&mut self.blobs);
        blobs.retain(|digest, _| needed.contains(digest));
        (changes, blobs)
    }

    /// Checks that a file of this size fits into a directory with a size limit if it replaces one
    /// of size `old`.
    async fn fits(&self, target: &Place, length: u64, old: u64) -> Asked<()> {
        let Some(limit) = target.max_bytes else {
            return Ok(());
        };
        let below = self
            .changes
            .iter()
            .filter(|(path, _)| target.tree.inside(path).is_some());
        let (removed, added) = below.fold((old, length), |(removed, added), (_, change)| {
            (
                removed.saturating_add(size(&change.before)),
                added.saturating_add(size(&change.after)),
            )
        });
        let (at, view, staged) = (target.clone(), Arc::clone(&self.view), self.stage.is_some());
        aside(move || {
            // Files of the role's finished actions may not have been written to the disk yet, and
            // may be written at any moment.
            let awaited = |(path, content): (&String, &Content)| {
                let placed_bytes = match at.root.look(Path::new(&*at.tree.inside(path)?)) {
                    Ok(Found::File { bytes, .. }) => bytes,
                    _ => 0,
                };
                Some(size(content).saturating_sub(placed_bytes))
            };
            let count = || {
                let awaited = view
                    .files
                    .iter()
                    .filter_map(awaited)
                    .fold(0, u64::saturating_add);
                Ok(at.root.held()?.saturating_add(awaited))
            };
            // Nothing else that an attempt sees changes while it runs, except in staged copies.
            let held = if staged {
                count()
            } else {
                at.root.counted(count)
            };
            let held = held.map_err(|e| at.error("write", &e))?;
            quota::check(held.saturating_add(added).saturating_sub(removed), limit)
                .map_err(|e| at.error("write", &e))
        })
        .await
    }

    fn change(&mut self, target: &Place, before: Content, after: Content) -> Asked<()> {
        if self.changes.len() >= CHANGES && !self.changes.contains_key(&target.name) {
            return Err(target.invalid(&format!(
                "is one too many: an action changes at most {CHANGES} paths"
            )));
        }
        let change = self.changes.entry(target.name.clone()).or_insert(Change {
            before,
            after: Content::Absent,
        });
        change.after = after;
        Ok(())
    }

    /// Returns what is at a path that the attempt is about to change. The content of a file is
    /// stored: roles that must not see the change yet still see it, and it is restored if the
    /// change is undone.
    async fn before(&mut self, target: &Place, seen: Seen) -> Asked<Content> {
        match seen {
            _ if self.changes.contains_key(&target.name) => Ok(Content::Absent),
            Seen::Blob(content) => Ok(content),
            Seen::File(length) => {
                self.afford(length)?;
                let found = on_disk(target.clone(), KEPT_BYTES).await?;
                Ok(self.keep(found.into()))
            }
            Seen::Directory => Ok(Content::Directory),
            Seen::Absent | Seen::Other => Ok(Content::Absent),
        }
    }

    fn afford(&mut self, more: u64) -> Asked<()> {
        let total = self.bytes.saturating_add(more);
        if total > KEPT_BYTES {
            let limit = format_bytes(KEPT_BYTES);
            let message = format!("an action writes and replaces at most {limit} of files");
            return Err(HostError::new(HostErrorKind::Invalid, message));
        }
        self.bytes = total;
        Ok(())
    }

    fn keep(&mut self, bytes: Arc<[u8]>) -> Content {
        let (digest, length) = (digest_of(&bytes), bytes.len() as u64);
        self.blobs.insert(digest.clone(), bytes);
        Content::File {
            digest,
            bytes: length,
        }
    }

    async fn blob(&self, content: &Content) -> Option<Arc<[u8]>> {
        let digest = content.digest()?;
        if let Some(bytes) = self.blobs.get(digest) {
            return Some(Arc::clone(bytes));
        }
        match self.gateway.as_ref()?.ask(Ask::File(digest.clone())).await {
            Some(Answer::File(bytes)) => bytes,
            _ => None,
        }
    }

    /// Returns the content that the attempt or the run has decided for a path, if any.
    fn decided(&self, name: &str) -> Option<&Content> {
        self.changes
            .get(name)
            .map(|change| &change.after)
            .or_else(|| self.view.files.get(name))
    }

    async fn look(&self, target: &Place) -> Asked<Seen> {
        if target.inside.as_os_str().is_empty() && target.access == Access::Write {
            return Ok(Seen::Directory);
        }
        match self.decided(&target.name) {
            Some(Content::Absent) => return Ok(Seen::Absent),
            Some(Content::Directory) => return Ok(Seen::Directory),
            Some(content) => return Ok(Seen::Blob(content.clone())),
            None => {}
        }
        // Nothing on disk is visible below a path that was removed or replaced by a file.
        let removed = |inside: &Path| {
            let decided = self.decided(&target.at(inside).name);
            matches!(decided, Some(Content::Absent | Content::File { .. }))
        };
        if target.inside.ancestors().skip(1).any(removed) {
            return Ok(Seen::Absent);
        }
        let at = target.clone();
        let found =
            aside(move || at.root.look(&at.inside).map_err(|e| at.error("open", &e))).await?;
        Ok(match found {
            Found::Absent => Seen::Absent,
            Found::Directory => Seen::Directory,
            Found::File { bytes, .. } => Seen::File(bytes),
            Found::Other => Seen::Other,
        })
    }

    /// Returns the names in an existing directory. Names of directories end in `/`.
    async fn names(&self, target: &Place) -> Asked<Vec<String>> {
        let at = target.clone();
        let on_disk = aside(move || match at.root.names(&at.inside, LIST_NAMES + 1) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(Vec::new())
            }
            names => names.map_err(|e| at.error("list", &e)),
        });
        let mut names: BTreeMap<String, bool> = on_disk
            .await?
            .into_iter()
            .map(|(name, found)| (name, found == Found::Directory))
            .collect();
        let directory = target.inside.to_string_lossy();
        let decided = self.view.files.iter();
        let decided = decided.chain(
            self.changes
                .iter()
                .map(|(path, change)| (path, &change.after)),
        );
        for (path, content) in decided {
            let inside = target.tree.inside(path);
            let below = inside
                .as_deref()
                .and_then(|inside| within(&directory, inside));
            let Some(name) = below.filter(|rest| !rest.is_empty() && !rest.contains('/')) else {
                continue;
            };
            match content {
                Content::Absent => names.remove(name),
                Content::Directory => names.insert(name.into(), true),
                Content::File { .. } => names.insert(name.into(), false),
            };
        }
        if names.len() > LIST_NAMES {
            return Err(target.invalid(&format!("holds more than {LIST_NAMES} names")));
        }
        let format_name = |(name, directory)| if directory { format!("{name}/") } else { name };
        Ok(names.into_iter().map(format_name).collect())
    }
}

fn size(content: &Content) -> u64 {
    match content {
        Content::File { bytes, .. } => *bytes,
        Content::Absent | Content::Directory => 0,
    }
}

async fn on_disk(target: Place, limit: u64) -> Asked<Vec<u8>> {
    aside(move || match target.root.read(&target.inside, limit) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(target.too_large(limit)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(target.invalid("is not a regular file"))
        }
        Err(error) => Err(target.error("read", &error)),
    })
    .await
}

/// Runs blocking work on a thread of its own.
pub(in crate::sandbox) async fn aside<T: Send + 'static>(
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
