//! A database file with many runs, which one process at a time has open.

use std::io;
use std::sync::Arc;

use strata_records::caps::{CapAccounts, CapChange, CapScope, CapState};
use strata_records::served::{RunChanges, ServedFilter, ServedKey};
use strata_records::server_records::ServerRecords;
use strata_records::work::{
    ClaimedRun, ListedWorker, NewSubmission, RunRelease, Tended, WorkerProfile,
};
use strata_records::{DatabaseSettings, FencedDatabase, Intake};
use tokio::sync::Notify;

use super::backend::{DatabaseBackend, WorkerBackend};
use crate::sqlite::shared::{self, FileWorker, HolderMailbox, UnownedRunHandler};
use crate::sqlite_url::SqliteUrl;
use crate::{DatabaseRevisions, Lease, Retention, ServedRun, StorageLocation, StoreError};

impl DatabaseBackend for SqliteUrl {
    fn address(&self) -> String {
        self.to_string()
    }

    fn location(&self, run: &str) -> StorageLocation {
        StorageLocation::of_shared(self.with_run(run))
    }

    fn all_runs(&self) -> StorageLocation {
        StorageLocation::of_shared(self.clone())
    }

    fn prepare(&self) -> Result<DatabaseSettings, StoreError> {
        shared::prepare(self)
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        shared::check_writable(self)
    }

    fn set_intake(&self, intake: Intake) -> Result<(), StoreError> {
        shared::set_intake(self, intake)
    }

    fn require_there(&self) -> Result<(), StoreError> {
        shared::require_database(self)
    }

    fn caps(&self) -> Result<Vec<CapState>, StoreError> {
        self.require_there()?;
        shared::read_caps(self)
    }

    fn change_cap(&self, scope: &CapScope, change: CapChange) -> Result<bool, StoreError> {
        shared::change_cap(self, scope, change)
    }

    fn retention(&self) -> Result<Retention, StoreError> {
        shared::read_retention(self)
    }

    fn set_retention(&self, retention: &Retention) -> Result<(), StoreError> {
        shared::set_retention(self, retention)
    }

    fn workers(&self) -> Result<Vec<ListedWorker>, StoreError> {
        self.require_there()?;
        shared::list_workers(self)
    }

    fn drain_worker(&self, id: &str) -> Result<bool, StoreError> {
        self.require_there()?;
        shared::drain_worker(self, id)
    }

    fn fence(&self) -> Result<FencedDatabase, StoreError> {
        shared::fence(self)
    }

    fn has_run(&self, run: &str) -> Result<bool, StoreError> {
        shared::has_run(&self.with_run(run))
    }

    fn submit(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
        shared::submit(&self.with_run(submission.name), submission)
    }

    fn register(
        &self,
        profile: &WorkerProfile,
        notified: &Arc<Notify>,
    ) -> Result<Box<dyn WorkerBackend>, StoreError> {
        Ok(Box::new(FileWorker::open(self, profile, notified)?))
    }

    fn open_claimed(&self, run: &ClaimedRun) -> Result<Box<dyn Lease>, StoreError> {
        Ok(Box::new(shared::open_claimed(
            &self.with_run(&run.name),
            run,
        )?))
    }

    fn try_write(&self, _: &ClaimedRun, bytes: u64) -> Result<(), StoreError> {
        shared::try_write(self, bytes)
    }

    fn acknowledge_request(&self, run: &ClaimedRun) -> Result<(), StoreError> {
        shared::acknowledge_request(self, run)
    }

    fn records(&self) -> Result<Box<dyn ServerRecords>, StoreError> {
        Ok(Box::new(shared::FileRecords::new(self.clone())))
    }

    fn list_served(
        &self,
        filter: &ServedFilter,
        limit: usize,
    ) -> Result<Vec<ServedRun>, StoreError> {
        let found = shared::list_served(self, filter, limit)?.into_iter();
        let located = found.map(|run| run.map_location(StorageLocation::of_shared));
        Ok(located.collect())
    }

    fn find_served(&self, key: ServedKey<'_>) -> Result<Option<ServedRun>, StoreError> {
        let found = shared::find_served(self, key)?;
        Ok(found.map(|run| run.map_location(StorageLocation::of_shared)))
    }

    fn revisions(&self) -> Result<Option<DatabaseRevisions>, StoreError> {
        shared::revisions(self).map(Some)
    }

    fn watch_runs(&self) -> Result<RunChanges, StoreError> {
        shared::watch_runs(self)
    }
}

impl WorkerBackend for FileWorker {
    fn settings(&self) -> &DatabaseSettings {
        self.settings()
    }

    fn caps(&self) -> Arc<CapAccounts> {
        self.caps()
    }

    fn id(&self) -> &str {
        self.id()
    }

    fn receive_requests(&self, unowned: UnownedRunHandler) -> io::Result<Option<HolderMailbox>> {
        HolderMailbox::start(self.url(), unowned).map(Some)
    }

    fn claim(&mut self, room: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        self.claim(room)
    }

    fn claim_forbidden(
        &mut self,
        room: usize,
        is_forbidden: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        self.claim_forbidden(room, is_forbidden)
    }

    fn tend(&mut self) -> Result<Tended, StoreError> {
        self.tend()
    }

    fn sweep(&mut self) -> Result<u64, StoreError> {
        self.sweep()
    }

    fn stop_claiming(&mut self) -> Result<(), StoreError> {
        self.stop_claiming();
        Ok(())
    }

    fn release(&mut self, run: &ClaimedRun, release: &RunRelease) -> Result<(), StoreError> {
        self.release(run, release)
    }
}
