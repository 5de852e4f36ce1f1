//! What stands for `postgres` in a program that was built without it: everything about a database
//! fails, and says so.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use strata_base::files::blob::Blobs;
use strata_base::owner::RunRequest;
use strata_core::record::id::Digest;
use strata_core::state::environment::Environment;
use tokio::sync::Notify;

use super::caps::{CapAccounts, CapChange, CapScope, CapState};
use super::database_url::DatabaseUrl;
use super::error::StoreError;
use super::lineage::NamedRun;
use super::rows::RunRows;
use super::served::{RunChanges, ServedFilter, ServedKey, ServedRun};
use super::server_records::ServerRecords;
use super::sqlite::SqliteLease;
use super::sqlite::rows::SqliteReader;
use super::transfer::{RunCopy, RunRecords};
use super::{
    ClaimedRun, DatabaseReport, DatabaseSettings, Epoch, FencedDatabase, Intake, ListedWorker,
    NewSubmission, Reader, RegistrationHealth, Retention, RunFilter, RunListing, RunRelease,
    RunStatistics, SavedDefinition, SubmissionChange, SubmissionState, Tended, WorkerProfile,
};
use super::{LockHolder, ReplacePolicy, RequestHandler, RequestOutcome};

pub(super) enum OwnerWait {
    Watch,
    Brief,
}

/// A run that cannot be created.
#[derive(Debug)]
pub(super) struct VacantRun {
    pub(super) moved_to: Option<PathBuf>,
    never: Infallible,
}

/// A mailbox that cannot exist.
pub struct DatabaseMailbox {
    never: Infallible,
}

/// An identity that cannot exist.
pub(super) struct RunIdentity {
    pub(super) key: u64,
    pub(super) created_ns: u64,
}

impl VacantRun {
    pub(super) fn create(
        self,
        _: &Environment,
        _: &SavedDefinition,
        _: &Blobs,
    ) -> Result<SqliteLease, StoreError> {
        match self.never {}
    }
}

impl DatabaseMailbox {
    pub(super) async fn close(self) {
        match self.never {}
    }
}

/// A worker's entry that cannot exist.
pub(super) struct DatabaseWorker {
    never: Infallible,
}

impl DatabaseWorker {
    pub(super) fn open(
        url: &DatabaseUrl,
        _: &WorkerProfile,
        _: &Arc<Notify>,
    ) -> Result<Self, StoreError> {
        unsupported(url)
    }

    pub(super) fn settings(&self) -> &DatabaseSettings {
        match self.never {}
    }

    pub(super) fn caps(&self) -> Arc<CapAccounts> {
        match self.never {}
    }

    pub(super) fn id(&self) -> &str {
        match self.never {}
    }

    pub(super) fn health(&self) -> RegistrationHealth {
        match self.never {}
    }

    pub(super) fn is_lost(&self) -> bool {
        match self.never {}
    }

    pub(super) fn claim(&mut self, _: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        match self.never {}
    }

    pub(super) fn claim_forbidden(
        &mut self,
        _: usize,
        _: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        match self.never {}
    }

    pub(super) fn tend(&mut self) -> Result<Tended, StoreError> {
        match self.never {}
    }

    pub(super) fn sweep(&mut self) -> Result<u64, StoreError> {
        match self.never {}
    }

    pub(super) fn stop_claiming(&mut self) -> Result<(), StoreError> {
        match self.never {}
    }

    pub(super) fn release(&mut self, _: &ClaimedRun, _: &RunRelease) -> Result<(), StoreError> {
        match self.never {}
    }
}

/// A submission that cannot exist.
pub(super) struct RunSubmission {
    never: Infallible,
}

impl RunSubmission {
    pub(super) fn open(url: &DatabaseUrl) -> Result<Self, StoreError> {
        unsupported(url)
    }

    pub(super) fn files(&self) -> Result<BTreeMap<String, Digest>, StoreError> {
        match self.never {}
    }

    pub(super) fn bytes(&self, _: &Digest) -> Result<Vec<u8>, StoreError> {
        match self.never {}
    }

    pub(super) fn state(&self) -> Result<SubmissionState, StoreError> {
        match self.never {}
    }
}

pub(super) fn list_runs(url: &DatabaseUrl, _: usize) -> Result<Vec<NamedRun>, StoreError> {
    unsupported(url)
}

pub(super) fn list_overviews(
    url: &DatabaseUrl,
    _: &RunFilter,
) -> Result<Vec<RunListing>, StoreError> {
    unsupported(url)
}

pub(super) fn open_rows(url: &DatabaseUrl) -> Result<SqliteReader, StoreError> {
    unsupported(url)
}

pub(super) fn insert_copy<R: RunRows>(
    url: &DatabaseUrl,
    _: &RunCopy<'_>,
    _: &RunRecords<'_, R>,
) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn open_records(url: &DatabaseUrl) -> Result<Box<dyn ServerRecords>, StoreError> {
    unsupported(url)
}

pub(super) fn list_served(
    url: &DatabaseUrl,
    _: &ServedFilter,
    _: usize,
) -> Result<Vec<ServedRun>, StoreError> {
    unsupported(url)
}

pub(super) fn find_served(
    url: &DatabaseUrl,
    _: ServedKey<'_>,
) -> Result<Option<ServedRun>, StoreError> {
    unsupported(url)
}

pub(super) fn watch_runs(url: &DatabaseUrl) -> Result<RunChanges, StoreError> {
    unsupported(url)
}

pub(super) fn read_retention(url: &DatabaseUrl) -> Result<Retention, StoreError> {
    unsupported(url)
}

pub(super) fn set_retention(url: &DatabaseUrl, _: &Retention) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn read_statistics(url: &DatabaseUrl) -> Result<RunStatistics, StoreError> {
    unsupported(url)
}

pub(super) fn list_workers(url: &DatabaseUrl) -> Result<Vec<ListedWorker>, StoreError> {
    unsupported(url)
}

pub(super) fn drain_worker(url: &DatabaseUrl, _: &str) -> Result<bool, StoreError> {
    unsupported(url)
}

pub(super) fn change_submission(url: &DatabaseUrl, _: &SubmissionChange) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn delete_run(url: &DatabaseUrl, _: Option<&str>) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn try_write(url: &DatabaseUrl, _: &ClaimedRun, _: u64) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn prepare(url: &DatabaseUrl) -> Result<DatabaseSettings, StoreError> {
    unsupported(url)
}

pub(super) fn set_intake(url: &DatabaseUrl, _: Intake) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn fence(url: &DatabaseUrl) -> Result<FencedDatabase, StoreError> {
    unsupported(url)
}

pub(super) fn read_caps(url: &DatabaseUrl) -> Result<Vec<CapState>, StoreError> {
    unsupported(url)
}

pub(super) fn change_cap(
    url: &DatabaseUrl,
    _: &CapScope,
    _: CapChange,
) -> Result<bool, StoreError> {
    unsupported(url)
}

pub(super) fn has_run(url: &DatabaseUrl) -> Result<bool, StoreError> {
    unsupported(url)
}

pub(super) fn submit(url: &DatabaseUrl, _: &NewSubmission<'_>) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn acknowledge_request(url: &DatabaseUrl, _: &ClaimedRun) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn open_claimed(url: &DatabaseUrl, _: &ClaimedRun) -> Result<SqliteLease, StoreError> {
    unsupported(url)
}

pub(super) fn request_work(url: &DatabaseUrl) -> Result<(), StoreError> {
    unsupported(url)
}

fn unsupported<T>(url: &DatabaseUrl) -> Result<T, StoreError> {
    Err(StoreError::Unsupported {
        path: url.to_path(),
    })
}

pub(super) fn examine(url: &DatabaseUrl) -> Result<DatabaseReport, StoreError> {
    unsupported(url)
}

pub(super) fn require_run(url: &DatabaseUrl) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn require_vacant(url: &DatabaseUrl) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn vacate(url: &DatabaseUrl, _: ReplacePolicy) -> Result<VacantRun, StoreError> {
    unsupported(url)
}

pub(super) fn take_lease(url: &DatabaseUrl, _: OwnerWait) -> Result<SqliteLease, StoreError> {
    unsupported(url)
}

pub(super) fn open_reader(url: &DatabaseUrl) -> Result<Box<dyn Reader>, StoreError> {
    unsupported(url)
}

pub(super) fn open_run(url: &DatabaseUrl, _: &NamedRun) -> Result<Box<dyn Reader>, StoreError> {
    unsupported(url)
}

pub(super) fn holder(url: &DatabaseUrl) -> Result<LockHolder, StoreError> {
    unsupported(url)
}

pub(super) fn run_identity(url: &DatabaseUrl) -> Result<RunIdentity, StoreError> {
    unsupported(url)
}

pub(super) fn place_run(
    url: &DatabaseUrl,
    _: &Environment,
    _: &SavedDefinition,
    _: &Blobs,
) -> Result<(), StoreError> {
    unsupported(url)
}

pub(super) fn receive_requests(
    url: &DatabaseUrl,
    _: Epoch,
    _: RequestHandler,
) -> io::Result<DatabaseMailbox> {
    unsupported(url).map_err(io::Error::other)
}

pub(super) fn request_owner(_: &DatabaseUrl, _: &RunRequest) -> RequestOutcome {
    RequestOutcome::NoOwner
}
