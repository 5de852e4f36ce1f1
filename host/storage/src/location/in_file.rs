//! A run in a database file that holds many.

use std::io;
use std::path::{Path, PathBuf};

use strata_base::owner::RunRequest;
use strata_records::error::StoreError;
use strata_records::mailbox::{Mailbox, RequestHandler, RequestOutcome};
use strata_records::reader::Reader;
use strata_records::transfer::{CopiedRecords, RunCopy, RunRecords};

use super::StorageLocation;
use super::backend::{Backend, RunContents};
use super::creation::{PreparedBackend, VacantBackend};
use super::run_hold::Keeper;
use super::saved_run::{OpenedRun, SavedForm};
use crate::LockHolder;
use crate::directory::names::SideFile;
use crate::listed_run::{listed_status, newest_status};
use crate::sqlite::shared::{self, VacantName};
use crate::sqlite_url::SqliteUrl;
use crate::{
    Epoch, FileReport, Lease, ListedRun, LocationIdentity, NewSubmission, OwnerWait, ReplacePolicy,
    RunDatabase, RunFilter, RunListing, SubmissionChange, SubmittedRun,
};

impl Backend for SqliteUrl {
    fn path(&self) -> PathBuf {
        self.to_path()
    }

    fn local_paths(&self) -> Vec<PathBuf> {
        shared::storage_files(self)
    }

    fn saved_form(&self) -> Result<SavedForm, StoreError> {
        shared::require_run(self).map(|()| SavedForm::Records)
    }

    fn open(&self, _: OwnerWait) -> Result<OpenedRun, StoreError> {
        Ok(OpenedRun {
            lease: Box::new(shared::take_lease(self)?),
            team_json_differs: false,
        })
    }

    fn hold(&self) -> Result<Keeper, StoreError> {
        match shared::take_lease(self) {
            Ok(lease) => Ok(Keeper::Lease(Box::new(lease))),
            Err(in_use @ StoreError::Locked { .. }) => {
                let held = shared::HeldByHolder::new(self)?;
                held.map(Keeper::Holder).ok_or(in_use)
            }
            Err(error) => Err(error),
        }
    }

    fn read(&self) -> Result<Box<dyn Reader>, StoreError> {
        shared::open_reader(self)
    }

    fn holder(&self) -> Result<LockHolder, StoreError> {
        shared::holder(self)
    }

    fn list(&self, limit: usize) -> Result<Vec<ListedRun>, StoreError> {
        let mut runs = Vec::new();
        shared::read_runs(self, limit, |run, reader| {
            runs.push(ListedRun {
                location: StorageLocation::of_shared(self.with_run(&run.name)),
                key: run.key,
                name: run.name,
                status: listed_status(newest_status(reader))?,
            });
            Ok(())
        })?;
        Ok(runs)
    }

    fn list_overviews(&self, _: &RunFilter) -> Result<Vec<RunListing>, StoreError> {
        let listed = shared::list_overviews(self)?.into_iter();
        let located = listed.map(|run| run.map_location(StorageLocation::of_shared));
        Ok(located.collect())
    }

    fn open_records(&self) -> Result<Box<dyn CopiedRecords>, StoreError> {
        Ok(Box::new(RunRecords::new(shared::open_named(self)?)?))
    }

    fn insert_copy(
        &self,
        copy: &RunCopy<'_>,
        records: &dyn CopiedRecords,
    ) -> Result<(), StoreError> {
        shared::insert_copy(self, copy, records)
    }

    fn require_vacant(&self) -> Result<(), StoreError> {
        shared::require_vacant(self)
    }

    fn place_run(&self, _: &str, contents: RunContents<'_>) -> Result<(), StoreError> {
        shared::place_run(self, contents.base, contents.definition, contents.blobs)
    }

    /// Does nothing: creating the run does everything.
    fn prepare<'a>(
        &'a self,
        contents: RunContents<'a>,
    ) -> Result<Box<dyn PreparedBackend<'a> + 'a>, StoreError> {
        Ok(Box::new(PreparedName {
            url: self,
            contents,
        }))
    }

    fn examine_file(&self) -> Result<Option<FileReport>, StoreError> {
        shared::examine(self).map(Some)
    }

    fn database(&self) -> Option<RunDatabase> {
        Some(RunDatabase::in_file(&self.file))
    }

    fn identity(&self) -> Result<LocationIdentity, StoreError> {
        shared::run_identity(self)
    }

    fn receive_requests(&self, epoch: Epoch, handler: RequestHandler) -> io::Result<Mailbox> {
        shared::receive_requests(self, epoch, handler).map(Mailbox::new)
    }

    fn request_owner(&self, request: RunRequest) -> RequestOutcome {
        shared::request_owner(self, request)
    }

    fn run_name(&self) -> Option<&str> {
        self.run.as_deref()
    }

    fn open_submission(&self) -> Result<Option<SubmittedRun>, StoreError> {
        Ok(shared::FileRun::open(self)?.map(SubmittedRun::new))
    }

    fn request_work(&self) -> Result<(), StoreError> {
        shared::request_work(self)
    }

    fn place_submission(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
        shared::submit(self, submission)
    }

    fn change_submission(&self, change: &SubmissionChange) -> Result<(), StoreError> {
        shared::change_submission(self, change)
    }

    fn delete_run(&self, by: Option<&str>) -> Result<(), StoreError> {
        shared::delete_run(self, by)
    }

    fn obstacle(&self) -> Option<StoreError> {
        shared::obstacle(self)
    }

    fn is_storage_file(&self, file: &Path) -> bool {
        shared::is_storage_file(self, file)
    }

    fn changing_files(&self) -> Vec<PathBuf> {
        vec![self.file.clone(), SideFile::Wal.beside(&self.file)]
    }
}

/// A run that is about to be created.
#[derive(Debug)]
struct PreparedName<'a> {
    url: &'a SqliteUrl,
    contents: RunContents<'a>,
}

impl<'a> PreparedBackend<'a> for PreparedName<'a> {
    fn vacate(
        self: Box<Self>,
        replace: ReplacePolicy,
    ) -> Result<Box<dyn VacantBackend + 'a>, StoreError> {
        Ok(Box::new(LockedName {
            run: shared::vacate(self.url, replace)?,
            contents: self.contents,
        }))
    }
}

/// A database without a run of the name.
#[derive(Debug)]
struct LockedName<'a> {
    run: VacantName,
    contents: RunContents<'a>,
}

impl VacantBackend for LockedName<'_> {
    fn moved_to(&self) -> Option<&Path> {
        self.run.moved_to.as_deref()
    }

    fn create(self: Box<Self>) -> Result<Box<dyn Lease>, StoreError> {
        let RunContents {
            base,
            definition,
            blobs,
        } = self.contents;
        Ok(Box::new(self.run.create(base, definition, blobs)?))
    }
}
