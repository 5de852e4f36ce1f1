//! A directory of the host and the operations below it: look up, read, replace, remove. Each
//! component of a path is opened from the directory above without following symbolic links, so no
//! path leads out of the directory even if it changes concurrently. Only reading a file follows
//! links, and only those that stay inside.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, PermissionsExt as _};
use rustix::fs::{Mode, OFlags, RenameFlags, openat, renameat_with};
use rustix::io::Errno;
use strata_core::record::file::PathContent;

use super::super::quota;
use super::hidden_storage::HiddenStorage;
use super::temporary_file::{self, TemporaryFile};

/// A directory, opened on first use.
#[derive(Debug)]
pub(super) struct HostDirectory {
    host: PathBuf,
    dir: OnceLock<Dir>,
    cached_size: OnceLock<u64>,
    hidden: HiddenStorage,
    /// The paths in this directory at which the host saves files.
    hidden_paths: OnceLock<Vec<PathBuf>>,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskEntry {
    Absent,
    Directory,
    File {
        bytes: u64,
        /// The inode number and modification time. They change with every change of the file,
        /// unless a program resets the time on purpose.
        stamp: (u64, i64, i64),
    },
    /// A symbolic link, a device or a pipe.
    Other,
}

impl HostDirectory {
    pub(super) fn new(host: PathBuf) -> Self {
        Self::hiding(host, HiddenStorage::default())
    }

    /// Returns a directory in which the files that the host saves there are hidden.
    pub(super) fn hiding(host: PathBuf, hidden: HiddenStorage) -> Self {
        Self {
            host,
            dir: OnceLock::new(),
            cached_size: OnceLock::new(),
            hidden,
            hidden_paths: OnceLock::new(),
        }
    }

    /// Returns the paths in this directory at which the host saves files.
    fn hidden_paths(&self) -> &[PathBuf] {
        self.hidden_paths
            .get_or_init(|| self.hidden.paths_in(&self.host))
    }

    /// Returns whether files of the host are in this directory.
    pub(super) fn contains_hidden(&self) -> bool {
        !self.hidden_paths().is_empty()
    }

    /// Returns whether a path is one of the host's files or below one.
    pub(super) fn is_hidden(&self, inside: &Path) -> bool {
        self.hidden_paths()
            .iter()
            .any(|own| inside.starts_with(own))
    }

    /// Returns whether this content must not be written to a path because that would replace a file
    /// of the host.
    pub(super) fn must_not_replace(&self, inside: &Path, content: &PathContent) -> bool {
        let mut own = self.hidden_paths().iter();
        let holds_own = own.any(|own| own.starts_with(inside));
        self.is_hidden(inside) || holds_own && *content != PathContent::Directory
    }

    pub(super) fn host(&self) -> &Path {
        &self.host
    }

    fn open(&self) -> io::Result<&Dir> {
        if let Some(dir) = self.dir.get() {
            return Ok(dir);
        }
        let dir = Dir::open_ambient_dir(&self.host, ambient_authority())?;
        Ok(self.dir.get_or_init(|| dir))
    }

    /// Returns the size of all files below the directory; 0 if it does not exist.
    pub(super) fn size(&self) -> io::Result<u64> {
        match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            dir => quota::directory_size(dir?, self.hidden_paths()),
        }
    }

    /// Returns the cached count, or computes it with `count`.
    pub(super) fn cached_size(&self, count: impl FnOnce() -> io::Result<u64>) -> io::Result<u64> {
        match self.cached_size.get() {
            Some(counted) => Ok(*counted),
            None => count().map(|counted| *self.cached_size.get_or_init(|| counted)),
        }
    }

    /// Returns whether the directory exists or can be created.
    pub(super) fn can_exist(&self) -> bool {
        match std::fs::metadata(&self.host) {
            Ok(meta) => meta.is_dir(),
            Err(error) => error.kind() != io::ErrorKind::NotADirectory,
        }
    }

    /// Creates the directory itself if it is missing.
    pub(super) fn create(&self) -> io::Result<()> {
        std::fs::create_dir_all(&self.host)
    }

    /// Opens a directory below. `inside` must have only normal components.
    fn open_dir(&self, inside: &Path) -> io::Result<Dir> {
        let mut dir = self.open()?.try_clone()?;
        for name in inside {
            dir = open_subdirectory(&dir, name)?;
        }
        Ok(dir)
    }

    /// Opens the parent directory of a path, and returns it with the last component. Fails for the
    /// directory itself.
    fn open_parent<'a>(&self, inside: &'a Path) -> io::Result<(Dir, &'a Path)> {
        let name = inside
            .file_name()
            .map(Path::new)
            .ok_or(io::ErrorKind::InvalidInput)?;
        Ok((
            self.open_dir(inside.parent().unwrap_or(Path::new("")))?,
            name,
        ))
    }

    /// Returns what is at a path.
    pub(super) fn inspect(&self, inside: &Path) -> io::Result<DiskEntry> {
        if self.is_hidden(inside) {
            return Ok(DiskEntry::Absent);
        }
        let found = (|| {
            if inside.as_os_str().is_empty() {
                return self.open().map(|_| DiskEntry::Directory);
            }
            let (dir, name) = self.open_parent(inside)?;
            inspect_in(&dir, name)
        })();
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DiskEntry::Absent),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Ok(self.entry_below(inside))
            }
            found => found,
        }
    }

    /// Opening a symbolic link as a directory fails with the same error as opening a file as one.
    /// Only below a file is nothing.
    fn entry_below(&self, inside: &Path) -> DiskEntry {
        match self.first_non_directory(inside) {
            Ok(Some((_, DiskEntry::Other))) => DiskEntry::Other,
            _ => DiskEntry::Absent,
        }
    }

    /// Returns the first path above `inside` that is not a directory, and what it is.
    pub(super) fn first_non_directory<'a>(
        &self,
        inside: &'a Path,
    ) -> io::Result<Option<(&'a Path, DiskEntry)>> {
        let above = inside.parent().unwrap_or(Path::new(""));
        let mut dir = match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            dir => dir?.try_clone()?,
        };
        let mut deep = above.components().count();
        for name in above {
            deep -= 1;
            dir = match open_subdirectory(&dir, name) {
                Ok(next) => next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    let at = above.ancestors().nth(deep).unwrap_or(above);
                    return match inspect_in(&dir, Path::new(name))? {
                        DiskEntry::Directory => Err(error),
                        found => Ok(Some((at, found))),
                    };
                }
            };
        }
        Ok(None)
    }

    /// Returns the content of a file; `None` if it has more than `limit` bytes. Links are followed
    /// if they stay inside.
    pub(super) fn read(&self, inside: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        // Opening a pipe would otherwise block until the other end is opened.
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(nonblocking);
        let file = self.open()?.open_with(inside, &options)?;
        // A link may lead to a file of the host.
        if self.contains_hidden() && self.hidden.contains(&file.try_clone()?.into_std()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a regular file",
            ));
        }
        let mut content = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut content)?;
        Ok((content.len() as u64 <= limit).then_some(content))
    }

    /// Returns the content of a symbolic link; `None` if there is something else.
    pub(super) fn read_link(&self, inside: &Path) -> io::Result<Option<PathBuf>> {
        let (dir, name) = self.open_parent(inside)?;
        if dir.symlink_metadata(name)?.is_symlink() {
            dir.read_link_contents(name).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns at most `limit` names in a directory, with what they are. Names that are not UTF-8
    /// are left out.
    pub(super) fn list(&self, inside: &Path, limit: usize) -> io::Result<Vec<(String, DiskEntry)>> {
        if self.is_hidden(inside) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let dir = self.open_dir(inside)?;
        let mut names = Vec::new();
        for entry in dir.entries()? {
            if names.len() == limit {
                break;
            }
            let entry = entry?;
            let (Ok(name), kind) = (entry.file_name().into_string(), entry.file_type()?) else {
                continue;
            };
            if temporary_file::is_temporary_name(&name)
                || self
                    .hidden_paths()
                    .iter()
                    .any(|own| *own == inside.join(&name))
            {
                continue;
            }
            let found = if kind.is_file() {
                match inspect_file(&dir, Path::new(&name)) {
                    Ok(found) => found,
                    // The file was removed meanwhile.
                    Err(_) => continue,
                }
            } else if kind.is_dir() {
                DiskEntry::Directory
            } else {
                DiskEntry::Other
            };
            names.push((name, found));
        }
        Ok(names)
    }

    /// Writes a file under a temporary name and renames it, so that it is never seen half written.
    /// It is durable when this returns. Missing directories above are created.
    pub(super) fn write(&self, inside: &Path, content: &[u8]) -> io::Result<()> {
        self.create_dirs(inside.parent().unwrap_or(Path::new("")))?;
        let (dir, name) = self.open_parent(inside)?;
        let TemporaryFile {
            name: beside,
            mut file,
        } = TemporaryFile::create(&dir, name)?;
        let written = (|| {
            // Keeps the permissions of the file that is replaced.
            if let Ok(meta) = dir.symlink_metadata(name)
                && meta.is_file()
            {
                file.set_permissions(Permissions::from_mode(meta.permissions().mode()))?;
            }
            file.write_all(content)?;
            file.sync_all()?;
            dir.rename(&beside, &dir, name)
        })();
        if written.is_err() {
            // The error of writing is the one to report.
            let _ = dir.remove_file(&beside);
        }
        written?;
        sync_dir(&dir)
    }

    /// Creates a directory and those above it.
    pub(super) fn create_dirs(&self, inside: &Path) -> io::Result<()> {
        self.create()?;
        let mut dir = self.open()?.try_clone()?;
        for name in inside {
            dir = match open_subdirectory(&dir, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match dir.create_dir(Path::new(name)) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        created => {
                            created?;
                            sync_dir(&dir)?;
                        }
                    }
                    open_subdirectory(&dir, name)?
                }
                next => next?,
            };
        }
        Ok(())
    }

    /// Removes a file or an empty directory.
    pub(super) fn remove(&self, inside: &Path) -> io::Result<()> {
        let (dir, name) = self.open_parent(inside)?;
        if dir.symlink_metadata(name)?.is_dir() {
            dir.remove_dir(name)?;
        } else {
            dir.remove_file(name)?;
        }
        sync_dir(&dir)
    }

    /// Creates a hard link with another name in the same directory. Fails if the name exists.
    pub(super) fn link(&self, inside: &Path, name: &str) -> io::Result<()> {
        let (dir, old) = self.open_parent(inside)?;
        dir.hard_link(old, &dir, name)?;
        sync_dir(&dir)
    }

    /// Renames an entry within its directory. Fails if the new name exists.
    pub(super) fn rename(&self, inside: &Path, name: &str) -> io::Result<()> {
        let (dir, old) = self.open_parent(inside)?;
        match renameat_with(&dir, old, &dir, name, RenameFlags::NOREPLACE) {
            // Not every file system supports this flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                match inspect_in(&dir, Path::new(name)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        dir.rename(old, &dir, name)?
                    }
                    found => return found.and(Err(io::ErrorKind::AlreadyExists.into())),
                }
            }
            renamed => renamed?,
        }
        sync_dir(&dir)
    }
}

/// Opens a subdirectory without following symbolic links.
pub(super) fn open_subdirectory(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    Ok(Dir::from_std_file(File::from(openat(
        dir,
        name,
        flags,
        Mode::empty(),
    )?)))
}

fn inspect_in(dir: &Dir, name: &Path) -> io::Result<DiskEntry> {
    let meta = dir.symlink_metadata(name)?;
    if meta.is_file() {
        inspect_file(dir, name)
    } else if meta.is_dir() {
        Ok(DiskEntry::Directory)
    } else {
        Ok(DiskEntry::Other)
    }
}

fn inspect_file(dir: &Dir, name: &Path) -> io::Result<DiskEntry> {
    let meta = openat(
        dir,
        name,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let meta = File::from(meta).metadata()?;
    Ok(DiskEntry::File {
        bytes: meta.len(),
        stamp: (meta.ino(), meta.mtime(), meta.mtime_nsec()),
    })
}

fn sync_dir(dir: &Dir) -> io::Result<()> {
    dir.open(".")?.sync_all()
}
