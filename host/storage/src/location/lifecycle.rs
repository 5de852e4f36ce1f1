//! The beginning and the end of a run at a location: its creation, its submission for workers, and its deletion.

use std::path::{Path, PathBuf};

use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;

use super::database::VacantRun;
use super::{LocationKind, Place, StorageLocation, database};
use crate::database_url::DatabaseUrl;
use crate::directory::{StorageDirectory, VacantDirectory};
use crate::error::StoreError;
use crate::sqlite::DatabaseImage;
use crate::sqlite::shared::{self, VacantName};
use crate::sqlite_url::SqliteUrl;
use crate::{
    Lease, NewSubmission, ReplacePolicy, RunDatabase, SavedDefinition, SubmissionChange,
    SubmissionState, SubmittedRun,
};

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

impl StorageLocation {
    /// Returns the database in which the run is kept, if it is kept in one.
    pub fn database(&self) -> Option<RunDatabase> {
        match &self.kind {
            LocationKind::Shared(url) => Some(RunDatabase::in_file(&url.file)),
            LocationKind::Database(url) => Some(RunDatabase::of_server(url)),
            LocationKind::Directory | LocationKind::Invalid(_) => None,
        }
    }

    /// Returns whether runs can be submitted to where it is kept, with their files.
    pub fn accepts_submissions(&self) -> bool {
        matches!(
            self.kind,
            LocationKind::Database(_) | LocationKind::Shared(_)
        )
    }

    /// Opens what is kept of the run besides its records. `None` if it is kept in a directory, or was not submitted.
    pub fn open_submission(&self) -> Result<Option<SubmittedRun>, StoreError> {
        match self.place()? {
            Place::Directory(_) => Ok(None),
            Place::Shared(url) => SubmittedRun::open_file(url),
            Place::Database(url) => SubmittedRun::open(url).map(Some),
        }
    }

    /// Asks workers to take up the run, if it is one that they take.
    pub fn request_work(&self) -> Result<(), StoreError> {
        match self.place()? {
            Place::Directory(_) => Ok(()),
            Place::Shared(url) => shared::request_work(url),
            Place::Database(url) => database::request_work(url),
        }
    }

    /// Saves a run with the files of its team here, in a database, where no run may be saved yet.
    pub fn place_submission(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
        match self.place()? {
            Place::Directory(_) => Err(StoreError::NoTeam {
                path: self.path.clone(),
                what: "a directory has no place for the files of a team; name a database".into(),
            }),
            Place::Shared(url) => shared::submit(url, submission),
            Place::Database(url) => database::submit(url, submission),
        }
    }

    /// Changes a submitted run that nobody owns. Does nothing if it was not submitted.
    ///
    /// # Errors
    /// Fails with `StoreError::Locked` if a process owns it. Then nothing is changed.
    pub fn change_submission(&self, change: &SubmissionChange) -> Result<(), StoreError> {
        match self.place()? {
            Place::Directory(_) => Ok(()),
            Place::Shared(url) => shared::change_submission(url, change),
            Place::Database(url) => database::change_submission(url, change),
        }
    }

    /// Deletes the run. Fails with `StoreError::Locked` if a process owns it. A database remembers for a while who did it.
    pub fn delete_run(&self, by: Option<&str>) -> Result<(), StoreError> {
        match self.place()? {
            Place::Directory(_) => self.existing_directory()?.delete_team(),
            Place::Shared(url) => shared::delete_run(url, by),
            Place::Database(url) => database::delete_run(url, by),
        }
    }

    /// Returns what is known of the run without reading its records. `None` if it is kept in a
    /// directory.
    pub fn submission_state(&self) -> Result<Option<SubmissionState>, StoreError> {
        let submission = self.open_submission()?;
        submission.map(|submission| submission.state()).transpose()
    }
}
