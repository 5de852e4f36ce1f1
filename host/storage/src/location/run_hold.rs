//! A run that is kept, so that nobody changes it while it is copied elsewhere.

use strata_records::error::StoreError;

use super::StorageLocation;
use crate::Lease;
use crate::sqlite::shared::HeldByHolder;

/// A run that nobody else can change. Dropping it gives the run up.
pub struct RunHold {
    location: StorageLocation,
    keeper: Keeper,
}

/// Who keeps it.
pub(crate) enum Keeper {
    Lease(Box<dyn Lease>),
    /// The process that has the file of many runs open in which it is.
    Holder(HeldByHolder),
}

impl RunHold {
    pub(super) fn new(location: StorageLocation, keeper: Keeper) -> Self {
        Self { location, keeper }
    }

    /// Deletes the run. For a while, it is remembered who did it.
    ///
    /// # Errors
    /// Fails if it could not be kept for so long, and if it cannot be deleted.
    pub fn delete(self, by: Option<&str>) -> Result<(), StoreError> {
        match self.keeper {
            Keeper::Lease(lease) => {
                drop(lease);
                self.location.delete_run(by)
            }
            Keeper::Holder(held) => held.delete(by),
        }
    }
}
