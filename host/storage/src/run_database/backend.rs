//! What each kind of database does from which workers take runs: a file with many runs (`in_file`), or a server
//! (`in_server`). Which one it is is decided when an address is parsed.

use std::io;
use std::sync::Arc;

use strata_records::caps::{CapAccounts, CapChange, CapScope, CapState};
use strata_records::served::{RunChanges, ServedFilter, ServedKey};
use strata_records::server_records::ServerRecords;
use strata_records::work::{
    ClaimedRun, ListedWorker, NewSubmission, RegistrationHealth, RunRelease, Tended, WorkerProfile,
};
use strata_records::{DatabaseSettings, FencedDatabase, Intake};
use tokio::sync::Notify;

use crate::sqlite::shared::{HolderMailbox, UnownedRunHandler};
use crate::{DatabaseRevisions, Lease, Retention, ServedRun, StorageLocation, StoreError};

/// A database in which submitted runs are kept. What the methods do is described at those of `RunDatabase`.
pub(super) trait DatabaseBackend {
    /// Returns its URL without a password.
    fn address(&self) -> String;

    fn location(&self, run: &str) -> StorageLocation;

    fn all_runs(&self) -> StorageLocation;

    fn prepare(&self) -> Result<DatabaseSettings, StoreError>;

    fn check_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn set_intake(&self, intake: Intake) -> Result<(), StoreError>;

    fn caps(&self) -> Result<Vec<CapState>, StoreError>;

    /// Changes a cap to one that is not too large.
    fn require_there(&self) -> Result<(), StoreError>;

    fn change_cap(&self, scope: &CapScope, change: CapChange) -> Result<bool, StoreError>;

    fn retention(&self) -> Result<Retention, StoreError>;

    fn set_retention(&self, retention: &Retention) -> Result<(), StoreError>;

    fn workers(&self) -> Result<Vec<ListedWorker>, StoreError>;

    fn drain_worker(&self, id: &str) -> Result<bool, StoreError>;

    fn fence(&self) -> Result<FencedDatabase, StoreError>;

    fn has_run(&self, run: &str) -> Result<bool, StoreError>;

    fn submit(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError>;

    fn register(
        &self,
        profile: &WorkerProfile,
        notified: &Arc<Notify>,
    ) -> Result<Box<dyn WorkerBackend>, StoreError>;

    fn open_claimed(&self, run: &ClaimedRun) -> Result<Box<dyn Lease>, StoreError>;

    fn try_write(&self, run: &ClaimedRun, bytes: u64) -> Result<(), StoreError>;

    fn acknowledge_request(&self, run: &ClaimedRun) -> Result<(), StoreError>;

    fn records(&self) -> Result<Box<dyn ServerRecords>, StoreError>;

    fn list_served(
        &self,
        filter: &ServedFilter,
        limit: usize,
    ) -> Result<Vec<ServedRun>, StoreError>;

    fn find_served(&self, key: ServedKey<'_>) -> Result<Option<ServedRun>, StoreError>;

    fn revisions(&self) -> Result<Option<DatabaseRevisions>, StoreError> {
        Ok(None)
    }

    fn watch_runs(&self) -> Result<RunChanges, StoreError>;
}

/// A worker's entry in a database. What the methods do is described at those of `WorkerRegistration`.
pub(super) trait WorkerBackend: Send {
    fn settings(&self) -> &DatabaseSettings;

    fn caps(&self) -> Arc<CapAccounts>;

    fn is_lost(&self) -> bool {
        false
    }

    fn id(&self) -> &str;

    fn health(&self) -> RegistrationHealth {
        RegistrationHealth { server: None }
    }

    fn receive_requests(&self, _unowned: UnownedRunHandler) -> io::Result<Option<HolderMailbox>> {
        Ok(None)
    }

    fn claim(&mut self, room: usize) -> Result<Vec<ClaimedRun>, StoreError>;

    fn claim_forbidden(
        &mut self,
        room: usize,
        is_forbidden: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ClaimedRun>, StoreError>;

    fn tend(&mut self) -> Result<Tended, StoreError>;

    fn sweep(&mut self) -> Result<u64, StoreError>;

    fn stop_claiming(&mut self) -> Result<(), StoreError>;

    fn release(&mut self, run: &ClaimedRun, release: &RunRelease) -> Result<(), StoreError>;
}
