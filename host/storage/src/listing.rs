//! Lists the runs that are kept at a location.

use strata_core::record::event::Status;

use super::directory::DirectoryContent;
use super::error::StoreError;
use super::lineage::DIRECTORY_RUN;
use super::location::{Place, SavedRun, StorageLocation};
#[cfg(not(feature = "postgres"))]
use super::no_database as database;
#[cfg(feature = "postgres")]
use super::postgres as database;
use super::sqlite::shared;
use super::{Reader, StateSelector};

/// A run, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRun {
    /// Where it is kept.
    pub location: StorageLocation,
    /// Its number there.
    pub key: i64,
    /// Its name there.
    pub name: String,
    /// Its status; `None` if what is saved of it cannot be read.
    pub status: Option<Status>,
}

/// Returns the status that is listed if reading it had this result. Fails if the result says nothing about the run.
fn listed_status(read: Result<Option<Status>, StoreError>) -> Result<Option<Status>, StoreError> {
    match read {
        Err(error @ StoreError::Unreachable { .. }) => Err(error),
        read => Ok(read.ok().flatten()),
    }
}

/// Returns the status of the run that is saved at a location, or `None` if its `team.json` is damaged.
fn saved_status(location: &StorageLocation) -> Result<Option<Status>, StoreError> {
    match location.read_saved()? {
        SavedRun::Records(reader) => newest_status(reader.as_ref()).map(Some),
        SavedRun::TeamJson(bytes) => Ok(strata_team_json::saved_status(&bytes)),
    }
}

fn newest_status(reader: &dyn Reader) -> Result<Status, StoreError> {
    Ok(reader.load(&StateSelector::Head)?.status())
}

impl StorageLocation {
    /// Lists the runs that are kept here, the newest first, whoever holds leases of them. In a directory
    /// there is at most one. Of a database, these are the run that the URL names or else the `limit`
    /// newest ones. Reads the newest state of each of them.
    ///
    /// ```
    /// use strata_storage::StorageLocation;
    ///
    /// # fn main() -> Result<(), strata_storage::StoreError> {
    /// let runs = StorageLocation::new("workspace/storage/team").list(20)?;
    /// assert!(runs.is_empty(), "nothing is saved there");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the directory or the database cannot be read, and if the database cannot be reached any
    /// more while the runs are read.
    pub fn list(&self, limit: usize) -> Result<Vec<ListedRun>, StoreError> {
        let mut runs = Vec::new();
        match self.place()? {
            Place::Directory(directory) => {
                let content = directory.content()?;
                if matches!(
                    content,
                    DirectoryContent::TeamJson | DirectoryContent::Database
                ) {
                    let (key, name) = DIRECTORY_RUN;
                    runs.push(ListedRun {
                        location: self.clone(),
                        key,
                        name: name.to_owned(),
                        status: listed_status(saved_status(self))?,
                    });
                }
            }
            Place::Shared(url) => shared::read_runs(url, limit, |run, reader| {
                runs.push(ListedRun {
                    location: Self::of_shared(url.with_run(&run.name)),
                    key: run.key,
                    name: run.name,
                    status: listed_status(newest_status(reader).map(Some))?,
                });
                Ok(())
            })?,
            Place::Database(url) => {
                for run in database::list_runs(url, limit)? {
                    let reader = database::open_run(url, &run);
                    let status = reader.and_then(|reader| newest_status(reader.as_ref()));
                    runs.push(ListedRun {
                        location: Self::of_database(url.with_run(&run.name)),
                        key: run.key,
                        name: run.name,
                        status: listed_status(status.map(Some))?,
                    });
                }
            }
        }
        Ok(runs)
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_a_database_that_cannot_be_reached_is_not_listed_as_unreadable() {
        // Nothing listens at this port.
        let location = StorageLocation::new("postgres://nobody@127.0.0.1:1/runs?run=one");
        let listed = listed_status(saved_status(&location));
        assert!(
            matches!(listed, Err(StoreError::Unreachable { .. })),
            "{listed:?}"
        );
    }
}
