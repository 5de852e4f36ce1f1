//! A run that is about to be created at a location.

use std::fmt::Debug;
use std::path::Path;

use strata_records::error::StoreError;

use crate::{Lease, ReplacePolicy};

/// A run that is about to be created. Nothing of it is stored yet.
#[derive(Debug)]
pub struct PreparedRun<'a>(pub(super) Box<dyn PreparedBackend<'a> + 'a>);

/// A location that is locked for a new run.
#[derive(Debug)]
pub struct VacantLocation<'a>(Box<dyn VacantBackend + 'a>);

impl<'a> PreparedRun<'a> {
    /// Locks its location for it. A finished run there is moved aside, an unfinished one only if
    /// `replace` says so.
    pub fn vacate(self, replace: ReplacePolicy) -> Result<VacantLocation<'a>, StoreError> {
        self.0.vacate(replace).map(VacantLocation)
    }
}

impl VacantLocation<'_> {
    /// Returns where the previous run was moved, if there was one.
    pub fn moved_to(&self) -> Option<&Path> {
        self.0.moved_to()
    }

    /// Returns whether the location can be told from all others before the run is created.
    pub fn has_identity(&self) -> bool {
        self.0.has_identity()
    }

    /// Creates the run.
    pub fn create(self) -> Result<Box<dyn Lease>, StoreError> {
        self.0.create()
    }
}

/// What `PreparedRun` does in one kind of place.
pub(crate) trait PreparedBackend<'a>: Debug + Send {
    fn vacate(
        self: Box<Self>,
        replace: ReplacePolicy,
    ) -> Result<Box<dyn VacantBackend + 'a>, StoreError>;
}

/// What `VacantLocation` does in one kind of place.
pub(crate) trait VacantBackend: Debug + Send {
    fn moved_to(&self) -> Option<&Path>;

    fn has_identity(&self) -> bool {
        false
    }

    fn create(self: Box<Self>) -> Result<Box<dyn Lease>, StoreError>;
}
