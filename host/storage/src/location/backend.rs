//! What each kind of place does in which runs are kept: a storage directory (`in_directory`), a database file with many
//! runs (`in_file`), or a database server (`in_server`). Which one it is is decided when an address is parsed.

use std::io;
use std::path::{Path, PathBuf};

use strata_base::files::blob::Blobs;
use strata_base::owner::RunRequest;
use strata_core::state::environment::Environment;
use strata_records::error::StoreError;
use strata_records::mailbox::{Mailbox, RequestHandler, RequestOutcome};
use strata_records::reader::Reader;
use strata_records::transfer::{CopiedRecords, RunCopy};

use super::creation::PreparedBackend;
use super::run_hold::Keeper;
use super::saved_run::{OpenedRun, SavedForm, SavedRun};
use crate::LockHolder;
use crate::directory::StorageDirectory;
use crate::{
    DatabaseReport, Epoch, FileReport, ListedRun, LocationIdentity, NewSubmission, OwnerWait,
    RunDatabase, RunFilter, RunListing, RunStatistics, SavedDefinition, SubmissionChange,
    SubmittedRun,
};

/// What a new run has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunContents<'a> {
    pub base: &'a Environment,
    pub definition: &'a SavedDefinition,
    pub blobs: &'a Blobs,
}

/// A place in which a run is kept, or can be. What the methods do is described at those of `StorageLocation`.
pub(crate) trait Backend {
    /// Returns where it is, for messages.
    fn path(&self) -> PathBuf;

    fn local_paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn update_latest_link(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the directory if there is something.
    fn existing_directory(&self) -> Result<StorageDirectory, StoreError> {
        Err(StoreError::NoTeam {
            path: self.path(),
            what: "a database has no `team.json`; `inspect --team-json` prints one".into(),
        })
    }

    fn saved_form(&self) -> Result<SavedForm, StoreError>;

    /// Takes a lease. `wait` says how long an owner is waited for that may have been killed.
    fn open(&self, wait: OwnerWait) -> Result<OpenedRun, StoreError>;

    fn hold(&self) -> Result<Keeper, StoreError> {
        let opened = self.open(OwnerWait::Brief)?;
        Ok(Keeper::Lease(opened.lease))
    }

    fn read(&self) -> Result<Box<dyn Reader>, StoreError>;

    fn read_saved(&self) -> Result<SavedRun, StoreError> {
        self.read().map(SavedRun::Records)
    }

    fn holder(&self) -> Result<LockHolder, StoreError>;

    fn is_team_json_edited(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn require_vacant(&self) -> Result<(), StoreError>;

    fn place_team_json(&self, _text: &str) -> Result<(), StoreError> {
        self.existing_directory().map(drop)
    }

    /// Lists the run that the address names, or else the `limit` newest ones.
    fn list(&self, limit: usize) -> Result<Vec<ListedRun>, StoreError>;

    fn list_overviews(&self, filter: &RunFilter) -> Result<Vec<RunListing>, StoreError>;

    /// Returns what the runs are doing.
    fn statistics(&self) -> Result<RunStatistics, StoreError> {
        let runs = self.list_overviews(&RunFilter::default())?;
        Ok(RunStatistics::of(&runs))
    }

    /// Opens the records of the run for a copy of it.
    fn open_records(&self) -> Result<Box<dyn CopiedRecords>, StoreError>;

    /// Saves the copy of a run: all of it, or nothing.
    fn insert_copy(
        &self,
        copy: &RunCopy<'_>,
        records: &dyn CopiedRecords,
    ) -> Result<(), StoreError>;

    /// Saves a run, and `text` as its `team.json` if it has one.
    fn place_run(&self, text: &str, contents: RunContents<'_>) -> Result<(), StoreError>;

    fn prepare<'a>(
        &'a self,
        contents: RunContents<'a>,
    ) -> Result<Box<dyn PreparedBackend<'a> + 'a>, StoreError>;

    fn remove_oldest_aside(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn examine_database(&self) -> Result<Option<DatabaseReport>, StoreError> {
        Ok(None)
    }

    fn examine_file(&self) -> Result<Option<FileReport>, StoreError> {
        Ok(None)
    }

    /// Whether it is in a database server.
    fn is_server(&self) -> bool {
        false
    }

    fn database(&self) -> Option<RunDatabase> {
        None
    }

    fn identity(&self) -> Result<LocationIdentity, StoreError>;

    fn receive_requests(&self, epoch: Epoch, handler: RequestHandler) -> io::Result<Mailbox>;

    fn request_owner(&self, request: RunRequest) -> RequestOutcome;

    fn run_name(&self) -> Option<&str> {
        None
    }

    fn accepts_submissions(&self) -> bool {
        true
    }

    fn open_submission(&self) -> Result<Option<SubmittedRun>, StoreError>;

    fn request_work(&self) -> Result<(), StoreError>;

    fn place_submission(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError>;

    fn change_submission(&self, change: &SubmissionChange) -> Result<(), StoreError>;

    fn delete_run(&self, by: Option<&str>) -> Result<(), StoreError>;

    fn obstacle(&self) -> Option<StoreError> {
        None
    }

    fn is_storage_file(&self, _file: &Path) -> bool {
        false
    }

    fn changing_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}
