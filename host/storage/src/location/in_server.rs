//! A run in a database server.

use std::io;
use std::path::{Path, PathBuf};

use strata_base::owner::RunRequest;
use strata_postgres::{self as postgres, Database, VacantRun};
use strata_records::error::StoreError;
use strata_records::mailbox::{Mailbox, RequestHandler, RequestOutcome};
use strata_records::reader::Reader;
use strata_records::transfer::{CopiedRecords, RunCopy};

use super::StorageLocation;
use super::backend::{Backend, RunContents};
use super::creation::{PreparedBackend, VacantBackend};
use super::saved_run::{OpenedRun, SavedForm};
use crate::LockHolder;
use crate::listed_run::{listed_status, newest_status};
use crate::{
    DatabaseReport, Epoch, Lease, ListedRun, LocationIdentity, NewSubmission, OwnerWait,
    ReplacePolicy, RunDatabase, RunFilter, RunListing, RunStatistics, SubmissionChange,
    SubmittedRun,
};

impl Backend for Database {
    fn path(&self) -> PathBuf {
        self.to_path()
    }

    fn saved_form(&self) -> Result<SavedForm, StoreError> {
        postgres::require_run(self).map(|()| SavedForm::Records)
    }

    fn open(&self, wait: OwnerWait) -> Result<OpenedRun, StoreError> {
        Ok(OpenedRun {
            lease: Box::new(postgres::take_lease(self, wait)?),
            team_json_differs: false,
        })
    }

    fn read(&self) -> Result<Box<dyn Reader>, StoreError> {
        postgres::open_reader(self)
    }

    fn holder(&self) -> Result<LockHolder, StoreError> {
        postgres::holder(self)
    }

    fn list(&self, limit: usize) -> Result<Vec<ListedRun>, StoreError> {
        let mut runs = Vec::new();
        for run in postgres::list_runs(self, limit)? {
            let reader = postgres::open_run(self, &run);
            let status = reader.and_then(|reader| newest_status(reader.as_ref()));
            runs.push(ListedRun {
                location: StorageLocation::of_database(self.with_run(&run.name)),
                key: run.key,
                name: run.name,
                status: listed_status(status)?,
            });
        }
        Ok(runs)
    }

    fn list_overviews(&self, filter: &RunFilter) -> Result<Vec<RunListing>, StoreError> {
        let listed = postgres::list_overviews(self, filter)?.into_iter();
        let located = listed.map(|run| run.map_location(StorageLocation::of_database));
        Ok(located.collect())
    }

    fn statistics(&self) -> Result<RunStatistics, StoreError> {
        postgres::read_statistics(self)
    }

    fn open_records(&self) -> Result<Box<dyn CopiedRecords>, StoreError> {
        postgres::open_copied(self)
    }

    fn insert_copy(
        &self,
        copy: &RunCopy<'_>,
        records: &dyn CopiedRecords,
    ) -> Result<(), StoreError> {
        postgres::insert_copy(self, copy, records)
    }

    fn require_vacant(&self) -> Result<(), StoreError> {
        postgres::require_vacant(self)
    }

    fn place_run(&self, _: &str, contents: RunContents<'_>) -> Result<(), StoreError> {
        postgres::place_run(self, contents.base, contents.definition, contents.blobs)
    }

    /// Does nothing: creating the run does everything.
    fn prepare<'a>(
        &'a self,
        contents: RunContents<'a>,
    ) -> Result<Box<dyn PreparedBackend<'a> + 'a>, StoreError> {
        Ok(Box::new(PreparedName {
            database: self,
            contents,
        }))
    }

    fn examine_database(&self) -> Result<Option<DatabaseReport>, StoreError> {
        postgres::examine(self).map(Some)
    }

    fn is_server(&self) -> bool {
        true
    }

    fn database(&self) -> Option<RunDatabase> {
        Some(RunDatabase::of_server(self))
    }

    fn identity(&self) -> Result<LocationIdentity, StoreError> {
        let identity = postgres::run_identity(self)?;
        Ok(LocationIdentity {
            path: self.to_path(),
            number: identity.key,
            created_ns: Some(identity.created_ns),
        })
    }

    fn receive_requests(&self, epoch: Epoch, handler: RequestHandler) -> io::Result<Mailbox> {
        postgres::receive_requests(self, epoch, handler).map(Mailbox::new)
    }

    fn request_owner(&self, request: RunRequest) -> RequestOutcome {
        postgres::request_owner(self, &request)
    }

    fn run_name(&self) -> Option<&str> {
        self.run()
    }

    fn open_submission(&self) -> Result<Option<SubmittedRun>, StoreError> {
        postgres::RunSubmission::open(self)
            .map(SubmittedRun::new)
            .map(Some)
    }

    fn request_work(&self) -> Result<(), StoreError> {
        postgres::request_work(self)
    }

    fn place_submission(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
        postgres::submit(self, submission)
    }

    fn change_submission(&self, change: &SubmissionChange) -> Result<(), StoreError> {
        postgres::change_submission(self, change)
    }

    fn delete_run(&self, by: Option<&str>) -> Result<(), StoreError> {
        postgres::delete_run(self, by)
    }
}

/// A run that is about to be created.
#[derive(Debug)]
struct PreparedName<'a> {
    database: &'a Database,
    contents: RunContents<'a>,
}

impl<'a> PreparedBackend<'a> for PreparedName<'a> {
    fn vacate(
        self: Box<Self>,
        replace: ReplacePolicy,
    ) -> Result<Box<dyn VacantBackend + 'a>, StoreError> {
        Ok(Box::new(VacantName {
            run: postgres::vacate(self.database, replace)?,
            contents: self.contents,
        }))
    }
}

/// A database without a run of the name.
#[derive(Debug)]
struct VacantName<'a> {
    run: VacantRun,
    contents: RunContents<'a>,
}

impl VacantBackend for VacantName<'_> {
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
