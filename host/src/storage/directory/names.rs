//! The names of the files of a database in a storage directory.

/// The name of the database.
pub(in crate::storage) const DATABASE: &str = "team.db";
/// SQLite's write-ahead log.
pub(in crate::storage) const WAL_FILE: &str = "team.db-wal";
/// SQLite's index of that log.
pub(in crate::storage) const WAL_INDEX_FILE: &str = "team.db-shm";
/// How far the database got; see `progress`.
pub(in crate::storage) const PROGRESS_FILE: &str = "team.db-progress";
/// SQLite's rollback journal, for a database that is not in WAL mode.
pub(in crate::storage) const ROLLBACK_JOURNAL: &str = "team.db-journal";
/// The files that belong to a database.
pub(in crate::storage) const DATABASE_SIDE_FILES: [&str; 4] =
    [WAL_FILE, WAL_INDEX_FILE, ROLLBACK_JOURNAL, PROGRESS_FILE];
