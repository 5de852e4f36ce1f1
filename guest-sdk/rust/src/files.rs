//! Files in the directories that the team file grants (`allow.dirs`), by their guest paths.

use crate::{Failure, HostError, host};

/// Returns the contents of a file.
///
/// # Errors
/// Fails if the path is not granted or is not that of a regular file.
pub fn read(path: &str) -> Result<Vec<u8>, HostError> {
    host::files::read(path)
}

/// Returns the contents of a UTF-8 text file.
///
/// # Errors
/// Fails in the same cases as [`read`], and if the content is not UTF-8.
pub fn read_text(path: &str) -> Result<String, Failure> {
    String::from_utf8(read(path)?)
        .map_err(|_| Failure::error(format!("reading `{path}`: it is not UTF-8 text")))
}

/// Creates or replaces a file. Missing directories are created.
///
/// # Errors
/// Fails if writing there is not granted.
pub fn write(path: &str, content: impl AsRef<[u8]>) -> Result<(), HostError> {
    host::files::write(path, content.as_ref())
}

/// Removes a file or an empty directory.
///
/// # Errors
/// Fails if writing there is not granted, if nothing exists there, or if the directory is not
/// empty.
pub fn remove(path: &str) -> Result<(), HostError> {
    host::files::remove(path)
}

/// Returns the names in a directory, sorted. Names of directories end in `/`.
///
/// # Errors
/// Fails if the path is not granted or is not that of a directory.
pub fn list(path: &str) -> Result<Vec<String>, HostError> {
    host::files::list(path)
}
