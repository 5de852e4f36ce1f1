//! Files that are replaced atomically: a reader sees the old content or the new one, even after a
//! loss of power. Also how fast a disk syncs.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use strata_records::error::StoreError;

use crate::TEAM_JSON;
use crate::WriteContent;
use crate::directory::names::{DATABASE, DATABASE_SIDE_FILES};
use crate::lock::LOCK_FILE;

/// The size of the buffer with which files are read piecewise.
pub(crate) const READ_BUFFER_BYTES: usize = 64 << 10;

/// The names of the files in which a team is saved.
pub(crate) const STORAGE_FILES: [&str; 7] = [
    DATABASE,
    DATABASE_SIDE_FILES[0],
    DATABASE_SIDE_FILES[1],
    DATABASE_SIDE_FILES[2],
    DATABASE_SIDE_FILES[3],
    TEAM_JSON,
    LOCK_FILE,
];

/// A file that was written and synced under a temporary name.
#[derive(Debug)]
pub(crate) struct PreparedFile {
    /// Its content checksum; see `ContentChecksum`.
    pub(crate) checksum: String,
    directory: PathBuf,
    new: PathBuf,
    path: PathBuf,
}

/// Writes the file that will replace `name`, under a temporary name. Only the holder of the
/// directory's lock may do so, since there is one temporary name per file.
pub(crate) fn prepare_file(
    directory: &Path,
    name: &str,
    fill: &WriteContent<'_>,
) -> Result<PreparedFile, StoreError> {
    let path = directory.join(name);
    let new = temporary_path(&path);
    let write = || {
        remove_if_exists(&new)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&new)?;
        let mut out = ChecksumWriter {
            file,
            sum: ContentChecksum::default(),
        };
        fill(&mut out)?;
        out.file.sync_all()?;
        Ok(out.sum.finish())
    };
    let sum = write().map_err(|e| {
        // An incomplete file would only take up space, which may be what was missing.
        let _ = remove_if_exists(&new);
        StoreError::io(&path, "write", e)
    })?;
    Ok(PreparedFile {
        checksum: sum,
        directory: directory.into(),
        new,
        path,
    })
}

/// Returns the path of a file until it is complete and replaces the one at `path`.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

/// Returns the directory that a file lies in.
pub(crate) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

/// Detects whether somebody changed a file: its length and CRC-32. It does not have to resist
/// forgery, and it has to be fast, since it covers the complete `team.json` at the end of a long
/// run.
#[derive(Default)]
struct ContentChecksum {
    bytes: u64,
    crc: crc32fast::Hasher,
}

impl ContentChecksum {
    fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc.update(bytes);
    }

    fn finish(self) -> String {
        format!("{:08x}-{}", self.crc.finalize(), self.bytes)
    }
}

/// A file together with the checksum of what was written to it.
struct ChecksumWriter {
    file: File,
    sum: ContentChecksum,
}

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl PreparedFile {
    /// Returns the change stamp of the file. Publishing the file does not change it.
    pub(crate) fn change_stamp(&self) -> Option<String> {
        change_stamp(&self.new)
    }

    /// Removes the file instead of publishing it.
    pub(crate) fn discard(self) {
        // A file that cannot be removed is replaced by the next one.
        let _ = remove_if_exists(&self.new);
    }

    /// Renames the file to its final name, and syncs the directory.
    pub(crate) fn publish(self) -> Result<(), StoreError> {
        let directory = self.directory.clone();
        self.rename_into_place()?;
        sync_directory(&directory)
    }

    /// Renames the file to its final name. Until the directory is synced, a loss of power may bring
    /// back the old file.
    pub(crate) fn rename_into_place(self) -> Result<(), StoreError> {
        std::fs::rename(&self.new, &self.path).map_err(|e| StoreError::io(&self.path, "write", e))
    }
}

/// Returns a value that changes whenever a file is changed, without reading the file: its inode,
/// size and modification time. Returns `None` if the file does not exist.
pub(crate) fn change_stamp(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    Some(format!(
        "{}/{}/{}.{}",
        meta.ino(),
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec()
    ))
}

/// Returns options to open a file of the directory, or to create one. A symbolic link is not followed, also not one that
/// replaced the file after `require_regular_files` looked at it, and nothing waits for a pipe.
pub(crate) fn options() -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.custom_flags(flags.bits() as i32);
    options
}

/// Syncs the entries of a directory.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let sync = || File::open(directory)?.sync_all();
    sync().map_err(|e| StoreError::io(directory, "save", e))
}

/// Makes a file, if it exists, available under a second path: by a hard link, or by a copy if the
/// file system has no hard links.
pub(crate) fn link_or_copy(path: &Path, new: &Path) -> Result<(), StoreError> {
    let copy = |_| std::fs::copy(path, new).and_then(|_| File::open(new)?.sync_all());
    match std::fs::hard_link(path, new).or_else(copy) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(StoreError::io(new, "create", e)),
        _ => Ok(()),
    }
}

/// Removes a file, if it exists.
pub(crate) fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Fails if anything but a regular file has one of our names in a directory. A symbolic link would
/// let whoever created it redirect what is read and written; reading a pipe would block forever.
pub(crate) fn require_regular_files(directory: &Path) -> Result<(), StoreError> {
    require_regular(STORAGE_FILES.map(|name| directory.join(name)))
}

/// Fails if there is anything but a regular file at one of these paths.
pub(crate) fn require_regular(paths: impl IntoIterator<Item = PathBuf>) -> Result<(), StoreError> {
    for path in paths {
        let what = match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_symlink() => "it is a symbolic link",
            Ok(meta) if !meta.is_file() => "it is no regular file",
            // Opening the file reports any other error.
            _ => continue,
        };
        return Err(StoreError::Foreign {
            path,
            what: what.into(),
        });
    }
    Ok(())
}

/// Returns the content of a file, or `None` if it does not exist.
pub(crate) fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let mut bytes = Vec::new();
    let read = options()
        .read(true)
        .open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io(path, "read", e)),
    }
}

/// Returns the content checksum of a file, or `None` if it does not exist.
pub(crate) fn checksum_of_file(path: &Path) -> Result<Option<String>, StoreError> {
    let sum = || -> io::Result<String> {
        let (mut file, mut sum, mut piece) = (
            options().read(true).open(path)?,
            ContentChecksum::default(),
            vec![0; READ_BUFFER_BYTES],
        );
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(sum.finish()),
                length => sum.update(&piece[..length]),
            }
        }
    };
    match sum() {
        Ok(sum) => Ok(Some(sum)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io(path, "read", e)),
    }
}

/// Returns the content checksum of `bytes`.
pub(crate) fn checksum_of_bytes(bytes: &[u8]) -> String {
    let mut sum = ContentChecksum::default();
    sum.update(bytes);
    sum.finish()
}

/// What distinguishes a file or a directory from another at the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    /// Its path without links.
    pub path: PathBuf,
    pub inode: u64,
    /// When it was created, in nanoseconds since 1970, if that is known.
    pub created_ns: Option<u64>,
}

impl FileIdentity {
    /// Returns that of what is at a path now.
    pub(crate) fn read(path: &Path) -> Result<Self, StoreError> {
        let fail = |e| StoreError::io(path, "open", e);
        let path = path.canonicalize().map_err(fail)?;
        let meta = std::fs::metadata(&path).map_err(fail)?;
        let since = |born: SystemTime| born.duration_since(UNIX_EPOCH).ok();
        let created = meta.created().ok().and_then(since);
        Ok(Self {
            path,
            inode: meta.ino(),
            created_ns: created.and_then(|since| u64::try_from(since.as_nanos()).ok()),
        })
    }
}

/// The file that is open at a path, so that it is noticed when it is not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePlace {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FilePlace {
    /// Returns that of the file at a path now.
    pub(crate) fn of(path: &Path) -> Result<Self, StoreError> {
        let meta = std::fs::metadata(path).map_err(|e| StoreError::io(path, "open", e))?;
        Ok(Self {
            path: path.into(),
            device: meta.dev(),
            inode: meta.ino(),
        })
    }

    /// Fails with `StoreError::Displaced` if the file is not there any more, or another one is.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match std::fs::metadata(&self.path) {
            Ok(meta) if (meta.dev(), meta.ino()) == (self.device, self.inode) => Ok(()),
            Err(e) if e.kind() != ErrorKind::NotFound => Err(StoreError::io(&self.path, "open", e)),
            _ => Err(StoreError::Displaced {
                path: self.path.clone(),
            }),
        }
    }
}

/// The size of a database page.
const SYNC_SAMPLE_BYTES: usize = 4096;
/// The number of measurements. It is large enough for the median to ignore a few outliers.
const SYNC_SAMPLES: usize = 21;

/// Returns how long it takes to write and sync a page in a directory, as the median of several measurements. Most of the
/// time of a durable step is spent on this.
pub fn measure_sync(directory: &Path) -> io::Result<Duration> {
    let mut file = tempfile::tempfile_in(directory)?;
    let mut times = Vec::with_capacity(SYNC_SAMPLES);
    for _ in 0..SYNC_SAMPLES {
        let begin = Instant::now();
        file.write_all(&[1; SYNC_SAMPLE_BYTES])?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    times.sort();
    Ok(times[SYNC_SAMPLES / 2])
}
