//! Runs as they are listed with what their states say, which are read for that.

use strata_core::record::event::Status;
use strata_records::error::StoreError;

use super::location::StorageLocation;
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
pub(crate) fn listed_status(
    read: Result<Option<Status>, StoreError>,
) -> Result<Option<Status>, StoreError> {
    match read {
        Err(error @ StoreError::Unreachable { .. }) => Err(error),
        read => Ok(read.ok().flatten()),
    }
}

/// Returns the status of the newest state of a run.
pub(crate) fn newest_status(reader: &dyn Reader) -> Result<Option<Status>, StoreError> {
    Ok(Some(reader.load(&StateSelector::Head)?.status()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "postgres")]
    #[test]
    fn a_run_of_a_database_that_cannot_be_reached_is_not_listed_as_unreadable() {
        // Nothing listens at this port.
        let location = StorageLocation::new("postgres://nobody@127.0.0.1:1/runs?run=one");
        let reader = location.read();
        let listed = listed_status(reader.and_then(|reader| newest_status(reader.as_ref())));
        assert!(
            matches!(listed, Err(StoreError::Unreachable { .. })),
            "{listed:?}"
        );
    }
}
