//! Files below the directories that the team file grants (`allow.dirs`), by their guest path.

use crate::{Failure, HostError, host};

/// Reads a whole file.
///
/// # Errors
/// Fails if the path is not granted or holds no regular file.
pub fn read(path: &str) -> Result<Vec<u8>, HostError> {
    host::files::read(path)
}

/// Reads a whole file of UTF-8 text.
///
/// # Errors
/// Fails as [`read`] does, and if the content is not UTF-8.
pub fn read_text(path: &str) -> Result<String, Failure> {
    String::from_utf8(read(path)?)
        .map_err(|_| Failure::error(format!("reading `{path}`: it is not UTF-8 text")))
}

/// Creates or replaces a file, with the directories above it.
///
/// # Errors
/// Fails if writing there is not granted.
pub fn write(path: &str, content: impl AsRef<[u8]>) -> Result<(), HostError> {
    host::files::write(path, content.as_ref())
}

/// Removes a file or an empty directory.
///
/// # Errors
/// Fails if writing there is not granted, nothing is there, or the directory is not empty.
pub fn remove(path: &str) -> Result<(), HostError> {
    host::files::remove(path)
}

/// The names in a directory, sorted; those of directories end in `/`.
///
/// # Errors
/// Fails if the path is not granted or no directory.
pub fn list(path: &str) -> Result<Vec<String>, HostError> {
    host::files::list(path)
}
