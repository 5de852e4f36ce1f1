//! Files that are replaced as a whole: a reader sees the old one or the new one, after a loss of power too.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::StoreError;

/// Replaces a file. Only the holder of the directory's lock may do so: there is one name for the file in the making.
pub(super) fn replace(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let (path, new) = (directory.join(name), directory.join(format!(".{name}.new")));
    let write = || {
        remove(&new)?;
        let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)
    };
    write().map_err(|e| {
        // What is left of the new file would only take up room, perhaps the room that was missing.
        let _ = remove(&new);
        StoreError::io(&path, "write", e)
    })?;
    sync_directory(directory)
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let sync = || File::open(directory)?.sync_all();
    sync().map_err(|e| StoreError::io(directory, "save", e))
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The bytes of a file; none when it is not there.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io(path, "read", e)),
    }
}

/// The SHA-256 of some bytes, in lower-case hex.
pub(super) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
