//! How the team in a storage directory is moved aside, into `old-1`, `old-2` and so on within it, and
//! how the oldest of these are removed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use strata_records::error::StoreError;

use super::deletions::Deletions;
use super::names::{DATABASE, PROGRESS_FILE, WAL_FILE, WAL_INDEX_FILE};
use super::{StorageDirectory, file};
use crate::TEAM_JSON;
use crate::lock::{LOCK_FILE, StorageLock};
use crate::schema;

/// The prefix of the directories into which earlier teams are moved; a number follows.
pub(super) const ASIDE_PREFIX: &str = "old-";
/// How many of these directories are kept when the oldest are removed.
pub const KEPT_ASIDE: usize = 5;

impl StorageDirectory {
    /// Moves the saved team into a directory of its own.
    pub(super) fn move_aside(&self) -> Result<PathBuf, StoreError> {
        let database = self.database();
        if database.exists() {
            match schema::require_own_database(&database) {
                Err(e @ StoreError::Foreign { .. }) => return Err(e),
                // Closing the database moves the log into it. If that fails, both are moved as they
                // are.
                _ => {
                    let _ = Connection::open(&database)
                        .and_then(|conn| conn.close().map_err(|(_, e)| e));
                }
            }
        }
        let aside = self.create_aside()?;
        // The log also stays here until there is another database: wherever this is interrupted, one of
        // the two directories has the complete state.
        for name in [WAL_FILE, PROGRESS_FILE] {
            file::link_or_copy(&self.path.join(name), &aside.join(name))?;
        }
        file::sync_directory(&aside)?;
        file::sync_directory(&self.path)?;
        for name in [TEAM_JSON, DATABASE, WAL_INDEX_FILE] {
            match std::fs::rename(self.path.join(name), aside.join(name)) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(StoreError::io(&aside, "move to", e));
                }
                _ => {}
            }
        }
        file::sync_directory(&aside)?;
        file::sync_directory(&self.path)?;
        Ok(aside)
    }

    /// Returns the directory of the team that was moved aside last.
    pub(super) fn newest_aside(&self) -> Option<PathBuf> {
        let newest = self.numbered_asides().pop()?;
        Some(self.aside(newest))
    }

    /// Removes the oldest of the teams that were moved aside, so that the last [`KEPT_ASIDE`] are left,
    /// and returns their directories. One that is in use, or holds anything that the host did not save
    /// there, is left as it is.
    pub fn remove_oldest_aside(&self) -> Vec<PathBuf> {
        let mut numbers = self.numbered_asides();
        numbers.truncate(numbers.len().saturating_sub(KEPT_ASIDE));
        numbers
            .into_iter()
            .map(|number| self.aside(number))
            .filter(|aside| remove_saved(aside).is_ok())
            .collect()
    }

    /// Returns the numbers of the teams that were moved aside, the oldest first.
    pub(super) fn numbered_asides(&self) -> Vec<u32> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten();
        let number = |entry: std::fs::DirEntry| {
            let name = entry.file_name();
            let number: u32 = name.to_str()?.strip_prefix(ASIDE_PREFIX)?.parse().ok()?;
            // Not another spelling, such as `old-01`, and no symbolic link.
            let is_own =
                name == *format!("{ASIDE_PREFIX}{number}") && entry.file_type().ok()?.is_dir();
            is_own.then_some(number)
        };
        let mut numbers: Vec<u32> = entries.flatten().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn aside(&self, number: u32) -> PathBuf {
        self.path.join(format!("{ASIDE_PREFIX}{number}"))
    }

    /// Creates the directory for the next team. Its number is greater than that of any that is there.
    fn create_aside(&self) -> Result<PathBuf, StoreError> {
        let newest = self.numbered_asides().pop().unwrap_or(0);
        for number in newest.saturating_add(1)..=u32::MAX {
            let aside = self.aside(number);
            match std::fs::create_dir(&aside) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(StoreError::io(&aside, "create", e)),
                Ok(()) => return Ok(aside),
            }
        }
        let e = std::io::Error::other("no number is left for its directory");
        Err(StoreError::io(&self.path, "move a team aside in", e))
    }
}
impl StorageDirectory {
    /// Deletes the directory with the saved team, and notes beside it who does that. Fails if a process works on the team,
    /// and if the directory holds files of others.
    pub(crate) fn delete_team(&self, by: Option<&str>) -> Result<(), StoreError> {
        drop(StorageLock::acquire(&self.path)?);
        let deletions = Deletions::beside(&self.path);
        remove_saved(&self.path).map_err(|error| StoreError::io(&self.path, "delete", error))?;
        if let (Some(deletions), Some(by)) = (deletions, by)
            && let Err(error) = deletions.note(by)
        {
            tracing::warn!(
                "who deleted `{}` is not noted: {error}",
                self.path.display()
            );
        }
        Ok(())
    }
}

/// Removes a directory with what the host saves in one. Fails, and leaves it as it is, if it is in use
/// or holds anything else.
fn remove_saved(directory: &Path) -> std::io::Result<()> {
    /// Every file of a storage directory. The lock is last: it is held while the others are removed.
    const SAVED: [&str; 6] = [
        TEAM_JSON,
        DATABASE,
        WAL_FILE,
        WAL_INDEX_FILE,
        PROGRESS_FILE,
        LOCK_FILE,
    ];
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let is_saved = SAVED.iter().any(|name| entry.file_name() == **name);
        if !is_saved || entry.file_type()?.is_dir() {
            return Err(std::io::Error::other("it holds files of others"));
        }
    }
    let _lock = StorageLock::acquire(directory).map_err(std::io::Error::other)?;
    for name in SAVED {
        match std::fs::remove_file(directory.join(name)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    std::fs::remove_dir(directory)
}
