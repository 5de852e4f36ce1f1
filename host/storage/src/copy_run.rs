//! Copies a run with all its records to another location.

use strata_records::error::StoreError;
use strata_records::transfer::RunCopy;

use super::StorageLocation;

/// Copies the run that is kept at `from`, with all its records, to `to`, in a database, where no run may be saved yet.
/// Nobody may change it meanwhile.
///
/// # Errors
/// Fails if there are no records, if they are damaged, or if a run of that name exists. Nothing is copied in these
/// cases.
pub fn copy_records(
    from: &StorageLocation,
    to: &StorageLocation,
    copy: &RunCopy<'_>,
) -> Result<(), StoreError> {
    let records = from.backend()?.open_records()?;
    to.backend()?.insert_copy(copy, &*records)
}
