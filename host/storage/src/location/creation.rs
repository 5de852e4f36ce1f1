//! A run that is about to be created at a location.

use std::path::{Path, PathBuf};

use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;

use super::database::VacantRun;
use super::{Place, StorageLocation, database};
use crate::database_url::DatabaseUrl;
use crate::directory::{StorageDirectory, VacantDirectory};
use crate::error::StoreError;
use crate::sqlite::DatabaseImage;
use crate::sqlite::shared::{self, VacantName};
use crate::sqlite_url::SqliteUrl;
use crate::{Lease, ReplacePolicy, SavedDefinition};

/// A run that is about to be created. Nothing of it is stored yet.
#[derive(Debug)]
pub struct PreparedRun<'a> {
    place: PreparedPlace<'a>,
}

#[derive(Debug)]
enum PreparedPlace<'a> {
    Directory {
        directory: StorageDirectory,
        /// Its database, with the run.
        image: DatabaseImage,
    },
    Shared {
        url: &'a SqliteUrl,
        contents: RunContents<'a>,
    },
    Database {
        url: &'a DatabaseUrl,
        contents: RunContents<'a>,
    },
}

/// What a new run in a database has.
#[derive(Clone, Copy, Debug)]
struct RunContents<'a> {
    base: &'a Environment,
    definition: &'a SavedDefinition,
    blobs: &'a Blobs,
}

/// A location that is locked for a new run.
#[derive(Debug)]
pub struct VacantLocation<'a> {
    place: VacantPlace<'a>,
}

#[derive(Debug)]
enum VacantPlace<'a> {
    Directory {
        directory: VacantDirectory,
        image: DatabaseImage,
    },
    Shared {
        run: VacantName,
        contents: RunContents<'a>,
    },
    Database {
        run: Box<VacantRun>,
        contents: RunContents<'a>,
    },
}

impl<'a> PreparedRun<'a> {
    /// Locks its location for it. A finished run there is moved aside, an unfinished one only if
    /// `replace` says so.
    pub fn vacate(self, replace: ReplacePolicy) -> Result<VacantLocation<'a>, StoreError> {
        let place = match self.place {
            PreparedPlace::Directory { directory, image } => VacantPlace::Directory {
                directory: directory.vacate(replace)?,
                image,
            },
            PreparedPlace::Shared { url, contents } => VacantPlace::Shared {
                run: shared::vacate(url, replace)?,
                contents,
            },
            PreparedPlace::Database { url, contents } => VacantPlace::Database {
                run: Box::new(database::vacate(url, replace)?),
                contents,
            },
        };
        Ok(VacantLocation { place })
    }
}

impl VacantLocation<'_> {
    /// Returns where the previous run was moved, if there was one.
    pub fn moved_to(&self) -> Option<&Path> {
        match &self.place {
            VacantPlace::Directory { directory, .. } => directory.moved_to.as_deref(),
            VacantPlace::Shared { run, .. } => run.moved_to.as_deref(),
            VacantPlace::Database { run, .. } => run.moved_to.as_deref(),
        }
    }

    /// Returns whether the location can be told from all others before the run is created.
    pub fn has_identity(&self) -> bool {
        matches!(self.place, VacantPlace::Directory { .. })
    }

    /// Creates the run.
    pub fn create(self) -> Result<Box<dyn Lease>, StoreError> {
        Ok(match self.place {
            VacantPlace::Directory { directory, image } => Box::new(directory.create(&image)?),
            VacantPlace::Shared { run, contents } => {
                Box::new(run.create(contents.base, contents.definition, contents.blobs)?)
            }
            VacantPlace::Database { run, contents } => {
                Box::new(run.create(contents.base, contents.definition, contents.blobs)?)
            }
        })
    }
}

impl StorageLocation {
    /// Removes the oldest teams that were moved aside in a storage directory, so that the last
    /// `KEPT_ASIDE` are left, and returns their directories. A database keeps all its runs.
    pub fn remove_oldest_aside(&self) -> Vec<PathBuf> {
        match self.place() {
            Ok(Place::Directory(directory)) => directory.remove_oldest_aside(),
            Ok(Place::Shared(_) | Place::Database(_)) | Err(_) => Vec::new(),
        }
    }

    /// Prepares a run that starts from `base`. `blobs` are the bytes of the files that `base` refers
    /// to. This changes nothing. For a directory, it builds the database in memory, so that little is
    /// left to do once the directory is locked; for a database, creating the run does everything.
    pub fn prepare<'a>(
        &'a self,
        base: &'a Environment,
        definition: &'a SavedDefinition,
        blobs: &'a Blobs,
    ) -> Result<PreparedRun<'a>, StoreError> {
        let contents = RunContents {
            base,
            definition,
            blobs,
        };
        let place = match self.place()? {
            Place::Directory(directory) => PreparedPlace::Directory {
                image: DatabaseImage::new(directory.path(), base, definition, blobs)?,
                directory,
            },
            Place::Shared(url) => PreparedPlace::Shared { url, contents },
            Place::Database(url) => PreparedPlace::Database { url, contents },
        };
        Ok(PreparedRun { place })
    }
}
