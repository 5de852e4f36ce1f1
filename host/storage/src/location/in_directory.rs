//! A run in a storage directory.

use std::io;
use std::path::{Path, PathBuf};

use strata_base::owner::RunRequest;
use strata_records::error::StoreError;
use strata_records::lineage::DIRECTORY_RUN;
use strata_records::mailbox::{Mailbox, RequestHandler, RequestOutcome};
use strata_records::reader::Reader;
use strata_records::transfer::{CopiedRecords, RunCopy, RunRecords};

use super::StorageLocation;
use super::backend::{Backend, RunContents};
use super::creation::{PreparedBackend, VacantBackend};
use super::saved_run::{OpenedRun, SavedForm, SavedRun};
use crate::LockHolder;
use crate::directory::default_location::update_latest_link;
use crate::directory::{DirectoryContent, StorageDirectory, VacantDirectory};
use crate::listed_run::{listed_status, newest_status};
use crate::lock::{LOCK_FILE, held_since_ms};
use crate::sqlite::DatabaseImage;
use crate::sqlite::rows::SqliteRows;
use crate::{
    Epoch, Lease, LifecycleState, ListedOwner, ListedRun, LocationIdentity, NewSubmission,
    OwnerWait, ReplacePolicy, RunFilter, RunListing, SubmissionChange, SubmittedRun,
};

/// The path of a storage directory, or that of a `team.json` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirectoryPath(pub(super) PathBuf);

impl DirectoryPath {
    /// Returns the path of the directory, even if that of its `team.json` was given.
    pub(super) fn operand(&self) -> &Path {
        StorageDirectory::path_for(&self.0)
    }

    /// Refers to the directory, whether or not there is something.
    pub(super) fn directory(&self) -> StorageDirectory {
        StorageDirectory::new(self.operand())
    }

    /// Returns the directory and in which form a run is saved there. Fails if there is none.
    fn saved(&self) -> Result<(StorageDirectory, SavedForm), StoreError> {
        let directory = self.existing_directory()?;
        let form = match directory.require_team()? {
            DirectoryContent::Database => SavedForm::Records,
            _ => SavedForm::TeamJson,
        };
        Ok((directory, form))
    }

    /// Returns whether a run is saved in the directory, in whatever form.
    fn is_saved(&self) -> Result<bool, StoreError> {
        Ok(matches!(
            self.directory().content()?,
            DirectoryContent::TeamJson | DirectoryContent::Database
        ))
    }

    /// Lists the run of the directory. Its name is that of the directory.
    fn listing(&self) -> Result<RunListing, StoreError> {
        let name = self.operand().file_name().unwrap_or_default();
        let owner = match self.holder()? {
            LockHolder::Nobody => None,
            LockHolder::Process { pid } => {
                let lock = self.operand().join(LOCK_FILE);
                Some(ListedOwner::local(pid, held_since_ms(&lock)))
            }
        };
        Ok(RunListing {
            location: StorageLocation::in_directory(self.operand().into()),
            name: name.to_string_lossy().into_owned(),
            overview: None,
            state: match owner {
                Some(_) => LifecycleState::Running,
                None => LifecycleState::Resting,
            },
            owner,
            queued: None,
            created_ms: None,
            changed_ms: None,
            ended_ms: None,
        })
    }
}

fn no_place_for_files(path: &Path) -> StoreError {
    StoreError::NoTeam {
        path: path.into(),
        what: "a directory has no place for the files of a team; name a database".into(),
    }
}

impl Backend for DirectoryPath {
    fn path(&self) -> PathBuf {
        self.0.clone()
    }

    fn local_paths(&self) -> Vec<PathBuf> {
        vec![self.operand().into()]
    }

    fn update_latest_link(&self) -> io::Result<()> {
        update_latest_link(self.operand())
    }

    fn existing_directory(&self) -> Result<StorageDirectory, StoreError> {
        StorageDirectory::locate(&self.0)
    }

    fn saved_form(&self) -> Result<SavedForm, StoreError> {
        self.saved().map(|(_, form)| form)
    }

    fn open(&self, _: OwnerWait) -> Result<OpenedRun, StoreError> {
        let opened = self.existing_directory()?.open()?;
        Ok(OpenedRun {
            lease: Box::new(opened.lease),
            team_json_differs: opened.team_json_differs,
        })
    }

    fn read(&self) -> Result<Box<dyn Reader>, StoreError> {
        match self.saved()? {
            (directory, SavedForm::Records) => Ok(Box::new(SqliteRows::open(&directory)?)),
            (_, SavedForm::TeamJson) => Err(StoreError::NoRecords { path: self.path() }),
        }
    }

    fn read_saved(&self) -> Result<SavedRun, StoreError> {
        match self.saved()? {
            (directory, SavedForm::Records) => {
                Ok(SavedRun::Records(Box::new(SqliteRows::open(&directory)?)))
            }
            (directory, SavedForm::TeamJson) => Ok(SavedRun::TeamJson(directory.read_team_json()?)),
        }
    }

    fn holder(&self) -> Result<LockHolder, StoreError> {
        self.existing_directory()?.holder()
    }

    fn is_team_json_edited(&self) -> Result<bool, StoreError> {
        match self.saved()? {
            (directory, SavedForm::Records) => {
                directory.is_team_json_edited(&SqliteRows::open(&directory)?)
            }
            (_, SavedForm::TeamJson) => Ok(false),
        }
    }

    fn list(&self, _: usize) -> Result<Vec<ListedRun>, StoreError> {
        if !self.is_saved()? {
            return Ok(Vec::new());
        }
        let status = self.read_saved().and_then(|saved| match saved {
            SavedRun::Records(reader) => newest_status(reader.as_ref()),
            SavedRun::TeamJson(bytes) => Ok(strata_team_json::saved_status(&bytes)),
        });
        let (key, name) = DIRECTORY_RUN;
        Ok(vec![ListedRun {
            location: StorageLocation::in_directory(self.0.clone()),
            key,
            name: name.to_owned(),
            status: listed_status(status)?,
        }])
    }

    fn list_overviews(&self, _: &RunFilter) -> Result<Vec<RunListing>, StoreError> {
        let listed = self.is_saved()?.then(|| self.listing());
        listed.into_iter().collect()
    }

    fn open_records(&self) -> Result<Box<dyn CopiedRecords>, StoreError> {
        let reader = SqliteRows::open(&self.existing_directory()?)?;
        Ok(Box::new(RunRecords::new(reader)?))
    }

    fn insert_copy(&self, _: &RunCopy<'_>, _: &dyn CopiedRecords) -> Result<(), StoreError> {
        Err(no_place_for_files(self.operand()))
    }

    fn require_vacant(&self) -> Result<(), StoreError> {
        match self.directory().content()? {
            DirectoryContent::TeamJson | DirectoryContent::Database => {
                Err(StoreError::Occupied { path: self.path() })
            }
            DirectoryContent::Absent | DirectoryContent::Empty | DirectoryContent::Foreign => {
                Ok(())
            }
        }
    }

    fn place_team_json(&self, text: &str) -> Result<(), StoreError> {
        self.directory().place_team_json(text)
    }

    fn place_run(&self, text: &str, contents: RunContents<'_>) -> Result<(), StoreError> {
        let RunContents {
            base,
            definition,
            blobs,
        } = contents;
        self.directory().place_team(text, base, definition, blobs)
    }

    /// Builds the database in memory, so that little is left to do once the directory is locked.
    fn prepare<'a>(
        &'a self,
        contents: RunContents<'a>,
    ) -> Result<Box<dyn PreparedBackend<'a> + 'a>, StoreError> {
        let RunContents {
            base,
            definition,
            blobs,
        } = contents;
        let directory = self.directory();
        let image = DatabaseImage::new(directory.path(), base, definition, blobs)?;
        Ok(Box::new(PreparedDirectory { directory, image }))
    }

    fn remove_oldest_aside(&self) -> Vec<PathBuf> {
        self.directory().remove_oldest_aside()
    }

    fn identity(&self) -> Result<LocationIdentity, StoreError> {
        self.directory().identity()
    }

    fn receive_requests(&self, _: Epoch, handler: RequestHandler) -> io::Result<Mailbox> {
        self.directory().receive_requests(handler).map(Mailbox::new)
    }

    fn request_owner(&self, request: RunRequest) -> RequestOutcome {
        self.directory().request_owner(request)
    }

    fn accepts_submissions(&self) -> bool {
        false
    }

    fn open_submission(&self) -> Result<Option<SubmittedRun>, StoreError> {
        Ok(None)
    }

    fn request_work(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn place_submission(&self, _: &NewSubmission<'_>) -> Result<(), StoreError> {
        Err(no_place_for_files(&self.0))
    }

    fn change_submission(&self, _: &SubmissionChange) -> Result<(), StoreError> {
        Ok(())
    }

    fn delete_run(&self, by: Option<&str>) -> Result<(), StoreError> {
        self.existing_directory()?.delete_team(by)
    }

    fn obstacle(&self) -> Option<StoreError> {
        self.directory().obstacle()
    }

    fn is_storage_file(&self, file: &Path) -> bool {
        self.existing_directory()
            .is_ok_and(|directory| directory.is_storage_file(file))
    }

    fn changing_files(&self) -> Vec<PathBuf> {
        let directory = self.directory();
        vec![directory.database(), directory.team_json()]
    }
}

/// A directory in which a run is about to be created.
#[derive(Debug)]
struct PreparedDirectory {
    directory: StorageDirectory,
    /// Its database, with the run.
    image: DatabaseImage,
}

impl<'a> PreparedBackend<'a> for PreparedDirectory {
    fn vacate(
        self: Box<Self>,
        replace: ReplacePolicy,
    ) -> Result<Box<dyn VacantBackend + 'a>, StoreError> {
        Ok(Box::new(LockedDirectory {
            directory: self.directory.vacate(replace)?,
            image: self.image,
        }))
    }
}

/// A directory that is locked for a new run.
#[derive(Debug)]
struct LockedDirectory {
    directory: VacantDirectory,
    image: DatabaseImage,
}

impl VacantBackend for LockedDirectory {
    fn moved_to(&self) -> Option<&Path> {
        self.directory.moved_to.as_deref()
    }

    fn has_identity(&self) -> bool {
        true
    }

    fn create(self: Box<Self>) -> Result<Box<dyn Lease>, StoreError> {
        Ok(Box::new(self.directory.create(&self.image)?))
    }
}
