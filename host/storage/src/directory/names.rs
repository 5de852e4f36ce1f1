//! The names of the files of a database: those beside it, and those of the database in a storage directory.

use std::path::{Path, PathBuf};

/// What the name of a file beside a database ends with, after the name of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideFile {
    /// SQLite's write-ahead log.
    Wal,
    /// SQLite's index of that log.
    WalIndex,
    /// SQLite's rollback journal, for a database that is not in WAL mode.
    RollbackJournal,
    /// How far the database got; see `progress`.
    Progress,
    /// The lock of a database that holds many runs. A storage directory has its own.
    Lock,
}

impl SideFile {
    /// The files that belong to a database, besides its lock.
    pub(crate) const OF_DATABASE: [Self; 4] = [
        Self::Wal,
        Self::WalIndex,
        Self::RollbackJournal,
        Self::Progress,
    ];

    fn suffix(self) -> &'static str {
        match self {
            Self::Wal => "-wal",
            Self::WalIndex => "-shm",
            Self::RollbackJournal => "-journal",
            Self::Progress => "-progress",
            Self::Lock => "-lock",
        }
    }

    /// Returns its path beside a database.
    pub(crate) fn beside(self, database: &Path) -> PathBuf {
        let mut path = database.as_os_str().to_owned();
        path.push(self.suffix());
        path.into()
    }
}

/// The name of the database.
pub(crate) const DATABASE: &str = "team.db";
/// SQLite's write-ahead log.
pub(crate) const WAL_FILE: &str = "team.db-wal";
/// SQLite's index of that log.
pub(crate) const WAL_INDEX_FILE: &str = "team.db-shm";
/// How far the database got; see `progress`.
pub(crate) const PROGRESS_FILE: &str = "team.db-progress";
/// SQLite's rollback journal, for a database that is not in WAL mode.
const ROLLBACK_JOURNAL: &str = "team.db-journal";
/// A database that is not complete yet.
pub(crate) const TEMPORARY_DATABASE: &str = ".team.db.new";
/// The files that belong to a database.
pub(crate) const DATABASE_SIDE_FILES: [&str; 4] =
    [WAL_FILE, WAL_INDEX_FILE, ROLLBACK_JOURNAL, PROGRESS_FILE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_directory_are_named_like_those_beside_any_database() {
        let beside = SideFile::OF_DATABASE.map(|file| file.beside(Path::new(DATABASE)));
        assert_eq!(beside, DATABASE_SIDE_FILES.map(PathBuf::from));
    }
}
