//! Files that are replaced as a whole: a reader sees the old one or the new one, after a loss of power too.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Fill;
use super::directory::{BESIDE, DATABASE, TEAM_JSON};
use super::error::StoreError;
use super::lock::LOCK_FILE;

/// How much of a file is in memory at a time, where it need not be there as a whole.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// The names of the files in which a team is saved.
pub(super) const NAMES: [&str; 7] = [
    DATABASE, BESIDE[0], BESIDE[1], BESIDE[2], BESIDE[3], TEAM_JSON, LOCK_FILE,
];

/// A file that is complete and durable, under another name than it will have.
#[derive(Debug)]
pub(super) struct Prepared {
    /// What tells what it holds from anything else; see `Sum`.
    pub(super) sum: String,
    directory: PathBuf,
    new: PathBuf,
    path: PathBuf,
}

/// Writes what a file will be replaced with. Only the holder of the directory's lock may do so: there is one name for
/// the file in the making.
pub(super) fn prepare(
    directory: &Path,
    name: &str,
    fill: &Fill<'_>,
) -> Result<Prepared, StoreError> {
    let (path, new) = (directory.join(name), directory.join(format!(".{name}.new")));
    let write = || {
        remove(&new)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&new)?;
        let mut out = Summing {
            file,
            sum: Sum::default(),
        };
        fill(&mut out)?;
        out.file.sync_all()?;
        Ok(out.sum.finish())
    };
    let sum = write().map_err(|e| {
        // What is left of the new file would only take up room, perhaps the room that was missing.
        let _ = remove(&new);
        StoreError::io(&path, "write", e)
    })?;
    Ok(Prepared {
        sum,
        directory: directory.into(),
        new,
        path,
    })
}

/// Tells what a file holds from what it held before somebody edited it: its length and CRC-32. Nobody gains by making two
/// files alike, and all of a long run is summed up at its end.
#[derive(Default)]
struct Sum {
    bytes: u64,
    crc: crc32fast::Hasher,
}

impl Sum {
    fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc.update(bytes);
    }

    fn finish(self) -> String {
        format!("{:08x}-{}", self.crc.finalize(), self.bytes)
    }
}

/// A file that knows what was written to it.
struct Summing {
    file: File,
    sum: Sum,
}

impl Write for Summing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Prepared {
    /// What tells the file from others of its name; it keeps this when it is published.
    pub(super) fn stamp(&self) -> Option<String> {
        stamp(&self.new)
    }

    /// Puts the file in its place, durably.
    pub(super) fn publish(self) -> Result<(), StoreError> {
        let directory = self.directory.clone();
        self.put_in_place()?;
        sync_directory(&directory)
    }

    /// The same, but for the sync of the directory, without which the one before may be back after a loss of power.
    pub(super) fn put_in_place(self) -> Result<(), StoreError> {
        std::fs::rename(&self.new, &self.path).map_err(|e| StoreError::io(&self.path, "write", e))
    }
}

/// What changes with each change of a file, and can be had without reading it: its place on the disk, its size and
/// when it was written. None when it is not there.
pub(super) fn stamp(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    Some(format!(
        "{}/{}/{}.{}",
        meta.ino(),
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec()
    ))
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let sync = || File::open(directory)?.sync_all();
    sync().map_err(|e| StoreError::io(directory, "save", e))
}

/// Lets a file, if it is there, have another place as well: by a link, or where the file system has none, as a copy.
pub(super) fn put_into(path: &Path, new: &Path) -> Result<(), StoreError> {
    let copy = |_| std::fs::copy(path, new).and_then(|_| File::open(new)?.sync_all());
    match std::fs::hard_link(path, new).or_else(copy) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(StoreError::io(new, "create", e)),
        _ => Ok(()),
    }
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Refuses a directory in which something else than a file has one of our names. Through a symbolic link, what is written
/// would go, and what is read would come from, wherever whoever made the directory likes; a pipe lets its reader wait
/// for ever.
pub(super) fn require_files(directory: &Path) -> Result<(), StoreError> {
    for path in NAMES.map(|name| directory.join(name)) {
        let what = match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_symlink() => "it is a symbolic link",
            Ok(meta) if !meta.is_file() => "it is no regular file",
            // What cannot be looked at is told by whoever opens it.
            _ => continue,
        };
        return Err(StoreError::Foreign {
            path,
            what: what.into(),
        });
    }
    Ok(())
}

/// The bytes of a file; none when it is not there.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io(path, "read", e)),
    }
}

/// What tells a file from what it held before; none when it is not there.
pub(super) fn sum_of(path: &Path) -> Result<Option<String>, StoreError> {
    let sum = || -> io::Result<String> {
        let (mut file, mut sum, mut piece) =
            (File::open(path)?, Sum::default(), vec![0; PIECE_BYTES]);
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

/// The same of some bytes.
pub(super) fn sum(bytes: &[u8]) -> String {
    let mut sum = Sum::default();
    sum.update(bytes);
    sum.finish()
}
