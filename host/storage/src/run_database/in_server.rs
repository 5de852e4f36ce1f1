//! A database in a server, which many processes share.

use std::sync::Arc;

use strata_postgres::{self as postgres, Database, DatabaseWorker};
use strata_records::caps::{CapAccounts, CapChange, CapScope, CapState};
use strata_records::served::{RunChanges, ServedFilter, ServedKey};
use strata_records::server_records::ServerRecords;
use strata_records::work::{
    ClaimedRun, ListedWorker, NewSubmission, RegistrationHealth, RunRelease, Tended, WorkerProfile,
};
use strata_records::{DatabaseSettings, FencedDatabase, Intake};
use tokio::sync::Notify;

use super::backend::{DatabaseBackend, WorkerBackend};
use crate::{Lease, Retention, ServedRun, StorageLocation, StoreError};

impl DatabaseBackend for Database {
    fn address(&self) -> String {
        self.to_string()
    }

    fn location(&self, run: &str) -> StorageLocation {
        StorageLocation::of_database(self.with_run(run))
    }

    fn all_runs(&self) -> StorageLocation {
        StorageLocation::of_database(self.clone())
    }

    fn prepare(&self) -> Result<DatabaseSettings, StoreError> {
        postgres::prepare(self)
    }

    fn set_intake(&self, intake: Intake) -> Result<(), StoreError> {
        postgres::set_intake(self, intake)
    }

    /// A server that cannot be reached says so whatever is asked of it.
    fn require_there(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn caps(&self) -> Result<Vec<CapState>, StoreError> {
        postgres::read_caps(self)
    }

    fn change_cap(&self, scope: &CapScope, change: CapChange) -> Result<bool, StoreError> {
        postgres::change_cap(self, scope, change)
    }

    fn retention(&self) -> Result<Retention, StoreError> {
        postgres::read_retention(self)
    }

    fn set_retention(&self, retention: &Retention) -> Result<(), StoreError> {
        postgres::set_retention(self, retention)
    }

    fn workers(&self) -> Result<Vec<ListedWorker>, StoreError> {
        postgres::list_workers(self)
    }

    fn drain_worker(&self, id: &str) -> Result<bool, StoreError> {
        postgres::drain_worker(self, id)
    }

    fn fence(&self) -> Result<FencedDatabase, StoreError> {
        postgres::fence(self)
    }

    fn has_run(&self, run: &str) -> Result<bool, StoreError> {
        postgres::has_run(&self.with_run(run))
    }

    fn submit(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
        postgres::submit(&self.with_run(submission.name), submission)
    }

    fn register(
        &self,
        profile: &WorkerProfile,
        notified: &Arc<Notify>,
    ) -> Result<Box<dyn WorkerBackend>, StoreError> {
        Ok(Box::new(DatabaseWorker::open(self, profile, notified)?))
    }

    fn open_claimed(&self, run: &ClaimedRun) -> Result<Box<dyn Lease>, StoreError> {
        Ok(Box::new(postgres::open_claimed(
            &self.with_run(&run.name),
            run,
        )?))
    }

    fn try_write(&self, run: &ClaimedRun, bytes: u64) -> Result<(), StoreError> {
        postgres::try_write(self, run, bytes)
    }

    fn acknowledge_request(&self, run: &ClaimedRun) -> Result<(), StoreError> {
        postgres::acknowledge_request(self, run)
    }

    fn records(&self) -> Result<Box<dyn ServerRecords>, StoreError> {
        postgres::open_records(self)
    }

    fn list_served(
        &self,
        filter: &ServedFilter,
        limit: usize,
    ) -> Result<Vec<ServedRun>, StoreError> {
        let found = postgres::list_served(self, filter, limit)?.into_iter();
        let located = found.map(|run| run.map_location(StorageLocation::of_database));
        Ok(located.collect())
    }

    fn find_served(&self, key: ServedKey<'_>) -> Result<Option<ServedRun>, StoreError> {
        let found = postgres::find_served(self, key)?;
        Ok(found.map(|run| run.map_location(StorageLocation::of_database)))
    }

    fn watch_runs(&self) -> Result<RunChanges, StoreError> {
        postgres::watch_runs(self)
    }
}

impl WorkerBackend for DatabaseWorker {
    fn settings(&self) -> &DatabaseSettings {
        self.settings()
    }

    fn caps(&self) -> Arc<CapAccounts> {
        self.caps()
    }

    fn is_lost(&self) -> bool {
        self.is_lost()
    }

    fn health(&self) -> RegistrationHealth {
        self.health()
    }

    fn id(&self) -> &str {
        self.id()
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
        self.stop_claiming()
    }

    fn release(&mut self, run: &ClaimedRun, release: &RunRelease) -> Result<(), StoreError> {
        self.release(run, release)
    }
}
