//! Files below the granted directories. Each grant is a capability handle: whatever a path is made of, it cannot lead
//! out of the directory. Nothing here shows where on the host that is.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};

use super::super::ctx::NAME_BYTES;
use super::super::limits::bytes;
use super::quota;
use crate::gateway::{HostError, HostErrorKind};
use crate::plugin::{Access, DirGrant};

/// Names that `list` gives; a directory with more is not for reading in one go.
const LIST_NAMES: usize = 10_000;

/// Tells apart the temporary files of writes that run at the same time.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// The granted directories of one attempt.
pub(super) struct Files {
    roots: Vec<Arc<Root>>,
}

/// One granted directory, opened when first used.
struct Root {
    grant: DirGrant,
    dir: OnceLock<Dir>,
}

/// A path of a guest, in the directory it lies in.
struct Place {
    root: Arc<Root>,
    /// As the guest wrote it.
    path: String,
    /// Relative to the directory.
    inside: PathBuf,
}

impl Files {
    pub(super) fn new(grants: &[DirGrant]) -> Self {
        let root = |grant: &DirGrant| Arc::new(Root { grant: grant.clone(), dir: OnceLock::new() });
        Self { roots: grants.iter().map(root).collect() }
    }

    pub(super) async fn read(&self, path: String, limit: u64) -> Result<Vec<u8>, HostError> {
        let place = self.place(path)?;
        aside(move || place.read(limit)).await
    }

    pub(super) async fn write(&self, path: String, content: Vec<u8>) -> Result<(), HostError> {
        let place = self.place(path)?;
        aside(move || place.write(&content)).await
    }

    pub(super) async fn list(&self, path: String) -> Result<Vec<String>, HostError> {
        let place = self.place(path)?;
        aside(move || place.list()).await
    }

    /// Finds the grant whose guest path is the longest beginning of `path`.
    fn place(&self, path: String) -> Result<Place, HostError> {
        if path.len() > NAME_BYTES || path.contains('\0') || !path.starts_with('/') {
            let shown: String = path.chars().take(64).collect();
            let hint = "paths are absolute, e.g. `/out/a.txt`";
            return Err(HostError::new(HostErrorKind::Invalid, format!("`{shown}` is not a path; {hint}")));
        }
        let inside = |root: &Arc<Root>| {
            let rest = Path::new(&path).strip_prefix(&root.grant.guest).ok()?;
            Some((root.grant.guest.len(), Arc::clone(root), rest.to_owned()))
        };
        let found = self.roots.iter().filter_map(inside).max_by_key(|(length, ..)| *length);
        let Some((_, root, inside)) = found else {
            let hint = "add the directory to the action's `allow.dirs`";
            let message = format!("`{path}` lies in no granted directory; {hint}");
            return Err(HostError::new(HostErrorKind::Denied, message));
        };
        Ok(Place { root, path, inside })
    }
}

/// Runs what may block where it holds up nobody.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(HostError::new(HostErrorKind::Upstream, "the run is being stopped")),
        },
    }
}

impl Root {
    fn open(&self) -> io::Result<&Dir> {
        if let Some(dir) = self.dir.get() {
            return Ok(dir);
        }
        if self.grant.access == Access::Write {
            std::fs::create_dir_all(&self.grant.host)?;
        }
        let dir = Dir::open_ambient_dir(&self.grant.host, ambient_authority())?;
        Ok(self.dir.get_or_init(|| dir))
    }
}

impl Place {
    fn read(&self, limit: u64) -> Result<Vec<u8>, HostError> {
        let file = self.regular_file().map_err(|e| self.error("read", &e))?;
        let Some(file) = file else {
            return Err(self.invalid("is not a regular file"));
        };
        let mut content = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut content).map_err(|e| self.error("read", &e))?;
        if content.len() as u64 > limit {
            let limit = bytes(limit);
            return Err(self.invalid(&format!("is larger than the {limit} of `limits.memory`")));
        }
        Ok(content)
    }

    fn regular_file(&self) -> io::Result<Option<File>> {
        // Opening a pipe would otherwise wait for its other end.
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(nonblocking);
        let file = self.root.open()?.open_with(self.inside_or_dot(), &options)?;
        Ok(file.metadata()?.is_file().then_some(file))
    }

    fn write(&self, content: &[u8]) -> Result<(), HostError> {
        if self.root.grant.access == Access::Read {
            let guest = &self.root.grant.guest;
            let message = format!("cannot write `{}`: `{guest}` is granted for reading; add `write = true`", self.path);
            return Err(HostError::new(HostErrorKind::Denied, message));
        }
        let Some(Component::Normal(name)) = self.inside.components().next_back() else {
            return Err(self.invalid("does not name a file"));
        };
        let parent = self.inside.parent().unwrap_or(Path::new(""));
        self.replace(parent, Path::new(name), content).map_err(|e| self.error("write", &e))
    }

    /// Writes beside and renames, so that nobody ever sees half a file; it lasts once this returns.
    fn replace(&self, parent: &Path, name: &Path, content: &[u8]) -> io::Result<()> {
        let root = self.root.open()?;
        let dir = if parent.as_os_str().is_empty() {
            root.try_clone()?
        } else {
            root.create_dir_all(parent)?;
            root.open_dir(parent)?
        };
        if let Some(limit) = self.root.grant.max_bytes {
            quota::check(root, (&dir, name), content.len() as u64, limit)?;
        }
        let number = WRITES.fetch_add(1, Relaxed);
        let beside = format!(".{}-{number}.partial", process::id());
        let written = (|| {
            let mut file = dir.create(&beside)?;
            file.write_all(content)?;
            file.sync_all()?;
            dir.rename(&beside, &dir, name)
        })();
        if written.is_err() {
            // The first error is the one that matters.
            let _ = dir.remove_file(&beside);
        }
        written?;
        dir.open(".")?.sync_all()
    }

    fn list(&self) -> Result<Vec<String>, HostError> {
        let mut names = self.names().map_err(|e| self.error("list", &e))?;
        if names.len() > LIST_NAMES {
            return Err(self.invalid(&format!("holds more than {LIST_NAMES} names")));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.root.open()?.read_dir(self.inside_or_dot())?.take(LIST_NAMES + 1) {
            let entry = entry?;
            let mut name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                name.push('/');
            }
            names.push(name);
        }
        Ok(names)
    }

    fn inside_or_dot(&self) -> &Path {
        if self.inside.as_os_str().is_empty() { Path::new(".") } else { &self.inside }
    }

    fn invalid(&self, why: &str) -> HostError {
        HostError::new(HostErrorKind::Invalid, format!("`{}` {why}", self.path))
    }

    /// The system's errors name no path of the host, only what went wrong.
    fn error(&self, verb: &str, error: &io::Error) -> HostError {
        use io::ErrorKind as E;
        let (kind, why) = match error.kind() {
            E::NotFound => (HostErrorKind::NotFound, "it does not exist".to_owned()),
            E::PermissionDenied => (HostErrorKind::Denied, error.to_string()),
            E::QuotaExceeded => {
                let guest = &self.root.grant.guest;
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
