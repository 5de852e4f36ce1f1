//! What has to outlive a process that serves calls: which run belongs to an idempotency key, and the key by which states are
//! signed.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use strata_base::files::replace::{Replacement, replace};

use super::local_runs::create_private_directory;

/// The directory of idempotency keys, within that of the runs. No run has such a name.
pub(super) const KEYS: &str = ".keys";
/// The maximum size of a file in bytes.
const MAX_BYTES: u64 = 4 << 10;

/// Keeps bytes by their names, which are relative paths.
pub trait CallStore: Send + Sync + 'static {
    /// Keeps bytes under a name, durably, unless there are some. Returns those that are there instead. Blocks.
    ///
    /// # Errors
    /// Fails if they cannot be read or written.
    fn keep(&self, name: &str, bytes: &[u8]) -> io::Result<Option<Vec<u8>>>;
}

/// Keeps them in the files of a directory.
#[derive(Debug)]
pub(super) struct CallFiles {
    directory: PathBuf,
    /// Locked while a file is written.
    writing: Mutex<()>,
}

impl CallFiles {
    /// Opens those of a directory, which is created if it is missing.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        create_private_directory(directory)?;
        fs::create_dir_all(directory.join(KEYS))?;
        Ok(Self {
            directory: directory.to_owned(),
            writing: Mutex::new(()),
        })
    }
}

/// Reads a file. Returns `None` if there is none.
fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let damaged = || {
        let text = format!("`{}` is damaged; remove it", file.display());
        io::Error::new(ErrorKind::InvalidData, text)
    };
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(damaged()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    fs::File::open(file)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= MAX_BYTES {
        Ok(Some(bytes))
    } else {
        Err(damaged())
    }
}

impl CallStore for CallFiles {
    fn keep(&self, name: &str, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.directory.join(name);
        if let Some(present) = read(&file)? {
            return Ok(Some(present));
        }
        replace(&file, Replacement::Private, |new| new.write_all(bytes))?;
        // Another process may have written it at the same time, and the last one counts.
        Ok(read(&file)?.filter(|present| present != bytes))
    }
}
