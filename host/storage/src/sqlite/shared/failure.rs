//! An error that concerns several changes, each of which needs its own.

use std::io;
use std::path::Path;

use strata_records::error::StoreError;

/// Returns the same error of a database at a path once more.
pub(super) fn repeat(error: &StoreError, path: &Path) -> StoreError {
    match error {
        StoreError::Permission {
            path,
            action,
            source,
        } => StoreError::Permission {
            path: path.clone(),
            action,
            source: repeat_source(source),
        },
        StoreError::Io {
            path,
            action,
            source,
        } => StoreError::Io {
            path: path.clone(),
            action,
            source: repeat_source(source),
        },
        StoreError::Full {
            path,
            action,
            inodes,
            needed,
        } => StoreError::Full {
            path: path.clone(),
            action,
            inodes: *inodes,
            needed: *needed,
        },
        StoreError::WriteFailed { path, what } => StoreError::write_failed(path, what),
        StoreError::Displaced { path } => StoreError::Displaced { path: path.clone() },
        StoreError::Corrupt { path, what } => StoreError::corrupt(path, what),
        StoreError::Lost { path, what } => StoreError::lost(path, what),
        StoreError::Locked { path, pid } => StoreError::Locked {
            path: path.clone(),
            pid: *pid,
        },
        StoreError::Database { path, source, .. } => {
            StoreError::io(path, "write", io::Error::other(source.to_string()))
        }
        other => StoreError::io(path, "write", io::Error::other(other.to_string())),
    }
}

fn repeat_source(source: &io::Error) -> io::Error {
    match source.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(source.kind(), source.to_string()),
    }
}
