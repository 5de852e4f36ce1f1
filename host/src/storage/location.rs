//! Where a run is kept. The path that an operator gives becomes a location once; code outside of
//! `storage` uses a run through its location and does not know how it is kept.

use std::fmt;
use std::path::{Path, PathBuf};

use strata_core::state::environment::Environment;

use super::directory::{DirectoryContent, StorageDirectory, VacantDirectory};
use super::error::StoreError;
use super::lock::LockHolder;
use super::reader::Reader;
use super::sqlite::rows::SqliteReader;
use super::{Lease, ReplacePolicy, SavedDefinition, TeamJsonFile};
use crate::blob::Blobs;

/// Where a run is kept: a storage directory, given by its own path or by that of its `team.json`.
/// There need not be anything yet.
///
/// ```
/// use strata_host::storage::StorageLocation;
///
/// let location = StorageLocation::new("workspace/storage/team");
/// assert_eq!(location.directory(), std::path::Path::new("workspace/storage/team"));
/// assert!(location.read().is_err(), "nothing is saved there");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageLocation {
    /// As it was given.
    path: PathBuf,
}

/// In which form a run is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedForm {
    /// With its records.
    Records,
    /// As a `team.json` alone.
    TeamJson,
}

/// What is saved of a run.
pub enum SavedRun {
    /// Its records.
    Records(Box<dyn Reader>),
    /// The content of a `team.json` alone.
    TeamJson(Vec<u8>),
}

/// A run that was opened.
pub struct OpenedRun {
    /// The right to change it.
    pub lease: Box<dyn Lease>,
    /// Whether another program changed its `team.json`. The records take precedence.
    pub team_json_differs: bool,
}

/// A location that is locked for a new run.
#[derive(Debug)]
pub struct VacantLocation {
    directory: VacantDirectory,
}

impl VacantLocation {
    /// Returns where the previous run was moved, if there was one.
    pub fn moved_to(&self) -> Option<&Path> {
        self.directory.moved_to.as_deref()
    }

    /// Creates a run that starts from `base`. `blobs` are the bytes of the files that `base` refers
    /// to.
    pub fn create(
        self,
        base: &Environment,
        definition: &SavedDefinition,
        blobs: &Blobs,
    ) -> Result<Box<dyn Lease>, StoreError> {
        Ok(Box::new(self.directory.create(base, definition, blobs)?))
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for StorageLocation {
    fn from(path: &P) -> Self {
        Self::new(path.as_ref())
    }
}

impl From<PathBuf> for StorageLocation {
    fn from(path: PathBuf) -> Self {
        Self::new(path)
    }
}

impl fmt::Display for StorageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl StorageLocation {
    /// Refers to what is kept at a path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path as it was given, for messages and commands.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory in which the files of the run lie.
    pub fn directory(&self) -> &Path {
        StorageDirectory::path_for(&self.path)
    }

    /// Refers to the directory, whether or not there is something.
    fn as_directory(&self) -> StorageDirectory {
        StorageDirectory::new(self.directory())
    }

    /// Returns the directory if there is something.
    fn existing(&self) -> Result<StorageDirectory, StoreError> {
        StorageDirectory::locate(&self.path)
    }

    /// Returns in which form a run is saved here. Fails if there is none.
    pub fn saved_form(&self) -> Result<SavedForm, StoreError> {
        match self.existing()?.require_team()? {
            DirectoryContent::Database => Ok(SavedForm::Records),
            _ => Ok(SavedForm::TeamJson),
        }
    }

    /// Locks the location for a new run. A finished run is moved aside, an unfinished one only if
    /// `replace` says so.
    pub fn vacate(&self, replace: ReplacePolicy) -> Result<VacantLocation, StoreError> {
        let directory = self.as_directory().vacate(replace)?;
        Ok(VacantLocation { directory })
    }

    /// Takes a lease of the run that is saved here. Fails with `StoreError::Locked` if another
    /// process holds one.
    pub fn open(&self) -> Result<OpenedRun, StoreError> {
        let opened = self.existing()?.open()?;
        Ok(OpenedRun {
            lease: Box::new(opened.lease),
            team_json_differs: opened.team_json_differs,
        })
    }

    /// Opens the records of the run for reading, whoever holds a lease. Fails with
    /// `StoreError::NoRecords` if there is a `team.json` alone.
    pub fn read(&self) -> Result<Box<dyn Reader>, StoreError> {
        let directory = self.existing()?;
        match directory.require_team()? {
            DirectoryContent::Database => Ok(Box::new(SqliteReader::open(&directory)?)),
            _ => Err(StoreError::NoRecords {
                path: self.path.clone(),
            }),
        }
    }

    /// Reads what is saved of the run, in whichever form, whoever holds a lease.
    pub fn read_saved(&self) -> Result<SavedRun, StoreError> {
        let directory = self.existing()?;
        match directory.require_team()? {
            DirectoryContent::Database => {
                Ok(SavedRun::Records(Box::new(SqliteReader::open(&directory)?)))
            }
            _ => Ok(SavedRun::TeamJson(directory.read_team_json()?)),
        }
    }

    /// Returns which process holds a lease of the run.
    pub fn holder(&self) -> Result<LockHolder, StoreError> {
        self.existing()?.holder()
    }

    /// Returns the `team.json` of the run, to write it.
    pub fn team_json(&self) -> TeamJsonFile {
        self.as_directory().projection()
    }

    /// Returns the content of its `team.json`.
    pub fn read_team_json(&self) -> Result<Vec<u8>, StoreError> {
        self.existing()?.read_team_json()
    }

    /// Returns whether another program changed the `team.json` beside its records.
    pub fn is_team_json_edited(&self) -> Result<bool, StoreError> {
        let directory = self.existing()?;
        match directory.require_team()? {
            DirectoryContent::Database => {
                directory.is_team_json_edited(&SqliteReader::open(&directory)?)
            }
            _ => Ok(false),
        }
    }

    /// Creates records from a `team.json` alone, and takes a lease. `bytes` is the content of that
    /// file, and `base` the state that it describes.
    pub fn import_team_json(
        &self,
        bytes: &[u8],
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<Box<dyn Lease>, StoreError> {
        let lease = self.existing()?.import_team_json(bytes, base, definition)?;
        Ok(Box::new(lease))
    }

    /// Fails if a run is saved here, in whatever form.
    pub fn require_vacant(&self) -> Result<(), StoreError> {
        match self.as_directory().content()? {
            DirectoryContent::TeamJson | DirectoryContent::Database => Err(StoreError::Occupied {
                path: self.path.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Saves a `team.json` here, where no run may be saved yet.
    pub fn place_team_json(&self, text: &str) -> Result<(), StoreError> {
        self.as_directory().place_team_json(text)
    }

    /// Saves a run that starts from `base`, with its `team.json` and the bytes of its files, where
    /// no run may be saved yet.
    pub fn place_run(
        &self,
        text: &str,
        base: &Environment,
        definition: &SavedDefinition,
        blobs: &Blobs,
    ) -> Result<(), StoreError> {
        self.as_directory()
            .place_team(text, base, definition, blobs)
    }

    /// Returns why nothing can be created here, if something else is where it has to be.
    pub fn obstacle(&self) -> Option<StoreError> {
        self.as_directory().obstacle()
    }

    /// Whether a file is one of those in which the run is saved, or has the name of one.
    pub fn is_storage_file(&self, file: &Path) -> bool {
        self.existing()
            .is_ok_and(|directory| directory.is_storage_file(file))
    }

    /// Returns the files that change whenever the run is saved.
    pub fn changing_files(&self) -> Vec<PathBuf> {
        let directory = self.as_directory();
        vec![directory.database(), directory.team_json()]
    }

    /// Whether two locations are the same, however they are given.
    pub fn is_same(&self, other: &Self) -> bool {
        let resolve = |location: &Self| {
            let directory = location.existing()?;
            let path = directory.path();
            Ok::<_, StoreError>(std::fs::canonicalize(path).unwrap_or_else(|_| path.into()))
        };
        matches!((resolve(self), resolve(other)), (Ok(one), Ok(other)) if one == other)
    }
}
