//! What errors of SQLite mean.

use std::io;
use std::path::Path;

use rusqlite::{ErrorCode, ffi};
use strata_records::error::StoreError;

/// What an error of SQLite means.
pub(crate) fn sqlite_error(
    path: &Path,
    action: &'static str,
    source: rusqlite::Error,
) -> StoreError {
    let path = path.to_path_buf();
    match source.sqlite_error_code() {
        // Our statements are right: one that SQLite does not understand meets tables that are not.
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::TypeMismatch
            | ErrorCode::Unknown,
        ) => StoreError::Corrupt {
            path,
            what: source.to_string(),
        },
        // SQLite does not say why; the file system does. It may be about another file beside it.
        Some(ErrorCode::CannotOpen) if let Some(error) = cannot_open(&path) => {
            StoreError::io(&path, action, error)
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            let source = io::Error::new(io::ErrorKind::PermissionDenied, source);
            StoreError::Permission {
                path,
                action,
                source,
            }
        }
        // Another program holds it for longer than it was waited for.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Locked { path, pid: None }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full {
            path,
            action,
            inodes: false,
            needed: 0,
        },
        Some(_) => StoreError::Database {
            path,
            action,
            source: source.into(),
        },
        // A row that does not have the columns or the types it was given: SQLite never saw a reason to complain.
        None => StoreError::Corrupt {
            path,
            what: source.to_string(),
        },
    }
}

/// Returns the error if SQLite could not sync a file: then it is not known what the disk has of it, whatever a later sync
/// says.
pub(crate) fn failed_sync(path: &Path, source: &rusqlite::Error) -> Option<StoreError> {
    let code = source.sqlite_error()?.extended_code;
    let syncs = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC];
    syncs
        .contains(&code)
        .then(|| StoreError::write_failed(path, source))
}

/// Why a file cannot be opened, or none be made beside it.
fn cannot_open(path: &Path) -> Option<io::Error> {
    match std::fs::File::open(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Some(error),
        _ => {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            tempfile::tempfile_in(above.unwrap_or(Path::new("."))).err()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sync_that_failed_leaves_open_what_the_disk_has() {
        let check = |code: i32, expected: bool| {
            let source = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let failed = failed_sync(Path::new("x"), &source);
            let is_failed = matches!(failed, Some(StoreError::WriteFailed { .. }));
            assert_eq!(is_failed, expected, "{code}");
        };
        check(ffi::SQLITE_IOERR_FSYNC, true);
        check(ffi::SQLITE_IOERR_DIR_FSYNC, true);
        check(ffi::SQLITE_IOERR_WRITE, false);
        check(ffi::SQLITE_FULL, false);
        check(ffi::SQLITE_BUSY, false);
    }
}
