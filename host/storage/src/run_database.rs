//! A database from which workers take runs: a file, which one process has open, or a server, which many processes share.

mod backend;
mod in_file;
#[cfg(feature = "postgres")]
mod in_server;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use strata_core::record::money::Usd;
#[cfg(feature = "postgres")]
use strata_postgres::Database;
use strata_records::caps::{CapAccounts, CapChange, CapScope, CapState, MAX_CAP_DOLLARS};
use strata_records::database_url::DatabaseUrl;
use strata_records::served::{RunChanges, ServedFilter, ServedKey, stored_run_name};
use strata_records::server_records::ServerRecords;
use strata_records::work::{
    ClaimedRun, ListedWorker, NewSubmission, RegistrationHealth, RunRelease, Tended, WorkerProfile,
};
use strata_records::{DatabaseSettings, FencedDatabase, Intake};
use tokio::sync::Notify;

use super::sqlite::shared::{HolderMailbox, UnownedRunHandler};
use super::sqlite_url::SqliteUrl;
use super::{DatabaseRevisions, Lease, Retention, ServedRun, StorageLocation, StoreError};
use backend::{DatabaseBackend, WorkerBackend};

/// A database in which submitted runs are kept.
#[derive(Clone, PartialEq, Eq)]
pub struct RunDatabase {
    kind: DatabaseKind,
}

#[derive(Clone, PartialEq, Eq)]
enum DatabaseKind {
    File(SqliteUrl),
    #[cfg(feature = "postgres")]
    Server(Database),
}

impl fmt::Debug for RunDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shows its URL without a password.
impl fmt::Display for RunDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.backend().address())
    }
}

impl RunDatabase {
    /// Parses the URL of a database. A run that it names is left out.
    ///
    /// # Errors
    /// Fails if it is not a URL of a database.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        if SqliteUrl::is_url(url) {
            let parsed = SqliteUrl::parse(url)?;
            return Ok(Self::in_file(&parsed.file));
        }
        if !DatabaseUrl::is_url(url) {
            return Err(StoreError::InvalidUrl {
                // What follows may contain a password.
                url: format!("{}://…", url.split("://").next().unwrap_or_default()),
                what: "it does not begin with `postgres://`, or with `sqlite:` for a file".into(),
            });
        }
        let parsed = DatabaseUrl::parse(url)?;
        #[cfg(feature = "postgres")]
        return Ok(Self::of_server(&Database::at(parsed)));
        #[cfg(not(feature = "postgres"))]
        Err(StoreError::Unsupported {
            path: parsed.to_path(),
        })
    }

    /// Parses the URL of a database. Unlike `parse`, it also fails if the URL names a run: what is meant for one run would
    /// be done with all of them, or with another one.
    ///
    /// # Errors
    /// Fails if it is not the URL of a database, or names a run.
    pub fn parse_whole(url: &str) -> Result<Self, StoreError> {
        let database = Self::parse(url)?;
        let run = if SqliteUrl::is_url(url) {
            SqliteUrl::parse(url)?.run
        } else {
            DatabaseUrl::parse(url)?.run
        };
        match run {
            Some(run) => Err(StoreError::InvalidUrl {
                url: database.to_string(),
                what: format!(
                    "it names the run `{run}`, where a database is meant; leave `run=` away"
                ),
            }),
            None => Ok(database),
        }
    }

    /// Returns what does the work.
    fn backend(&self) -> &dyn DatabaseBackend {
        match &self.kind {
            DatabaseKind::File(url) => url,
            #[cfg(feature = "postgres")]
            DatabaseKind::Server(url) => url,
        }
    }

    /// Returns a database in a server.
    #[cfg(feature = "postgres")]
    pub(super) fn of_server(database: &Database) -> Self {
        Self {
            kind: DatabaseKind::Server(database.whole()),
        }
    }

    /// Returns the database in a file, which need not exist yet. One process at a time has it open.
    pub fn in_file(path: &Path) -> Self {
        Self {
            kind: DatabaseKind::File(SqliteUrl {
                file: path.into(),
                run: None,
            }),
        }
    }

    /// Whether it is a file, which one process at a time has open, so that it has one worker at most.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, DatabaseKind::File(_))
    }

    /// Returns the location of a run in it.
    pub fn location(&self, run: &str) -> StorageLocation {
        self.backend().location(run)
    }

    /// Returns the location that stands for all of its runs.
    pub fn all_runs(&self) -> StorageLocation {
        self.backend().all_runs()
    }

    /// Creates the tables, unless they exist, and returns what is set for the database.
    pub fn prepare(&self) -> Result<DatabaseSettings, StoreError> {
        self.backend().prepare()
    }

    /// Fails with `StoreError::WriteFailed` if this process has it open and it is not known any more what the disk has of
    /// it, so that nothing is written before it is opened again.
    pub fn check_writable(&self) -> Result<(), StoreError> {
        self.backend().check_writable()
    }

    /// Says whether runs may be added.
    pub fn set_intake(&self, intake: Intake) -> Result<(), StoreError> {
        self.backend().set_intake(intake)
    }

    /// Returns all caps.
    pub fn caps(&self) -> Result<Vec<CapState>, StoreError> {
        self.backend().caps()
    }

    /// Changes a cap. Returns whether there is one of this scope.
    ///
    /// # Errors
    /// Fails with `StoreError::CapTooLarge` if it would be larger than [`MAX_CAP_DOLLARS`].
    pub fn change_cap(&self, scope: &CapScope, change: CapChange) -> Result<bool, StoreError> {
        let most = Usd::from_dollars(MAX_CAP_DOLLARS);
        if let CapChange::Set(cap) = change
            && cap > most
        {
            let path = self.to_string().into();
            return Err(StoreError::CapTooLarge { path, cap, most });
        }
        self.backend().change_cap(scope, change)
    }

    /// Fails with `StoreError::Absent` if it is a file that was not created yet.
    pub fn require_there(&self) -> Result<(), StoreError> {
        self.backend().require_there()
    }

    /// Returns for how long runs are kept that have ended.
    pub fn retention(&self) -> Result<Retention, StoreError> {
        self.backend().retention()
    }

    /// Says for how long runs are kept that have ended. Workers delete the others.
    pub fn set_retention(&self, retention: &Retention) -> Result<(), StoreError> {
        self.backend().set_retention(retention)
    }

    /// Returns the workers that are registered. A file has one at most: the process that has it open.
    pub fn workers(&self) -> Result<Vec<ListedWorker>, StoreError> {
        self.backend().workers()
    }

    /// Tells a worker to take no more runs and to end. Returns whether there is one with this id.
    pub fn drain_worker(&self, id: &str) -> Result<bool, StoreError> {
        self.backend().drain_worker(id)
    }

    /// Declares that the database was restored from a backup: nobody owns a run any more, owners of the
    /// time before can change nothing, and workers of that time stop.
    pub fn fence(&self) -> Result<FencedDatabase, StoreError> {
        self.backend().fence()
    }

    /// Returns whether there is a run of this name.
    pub fn has_run(&self, run: &str) -> Result<bool, StoreError> {
        self.backend().has_run(run)
    }

    /// Puts a run into the database. Files that it has already are not sent.
    ///
    /// # Errors
    /// Fails with `StoreError::NameTaken` if there is a run of that name, and with `StoreError::RecordTaken` if there is
    /// one of its records.
    pub fn submit(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
        self.backend().submit(submission)
    }

    /// Registers this process as a worker, with a heartbeat. `notified` fires when runs may have become
    /// due. The worker of a file is the process that has it open.
    pub fn register(
        &self,
        profile: &WorkerProfile,
        notified: &Arc<Notify>,
    ) -> Result<WorkerRegistration, StoreError> {
        let worker = self.backend().register(profile, notified)?;
        Ok(WorkerRegistration(worker))
    }

    /// Returns a lease of a run that a worker of this process took. Dropping it does not give the run
    /// up; `WorkerRegistration::release` does.
    pub fn open_claimed(&self, run: &ClaimedRun) -> Result<Box<dyn Lease>, StoreError> {
        self.backend().open_claimed(run)
    }

    /// Fails unless the database takes a write of this size for a run. Nothing is kept of it.
    pub fn try_write(&self, run: &ClaimedRun, bytes: u64) -> Result<(), StoreError> {
        self.backend().try_write(run, bytes)
    }

    /// Notes that a request to take up a run was met: the run has been resumed.
    pub fn acknowledge_request(&self, run: &ClaimedRun) -> Result<(), StoreError> {
        self.backend().acknowledge_request(run)
    }

    /// Returns where a server keeps its records.
    pub fn records(&self) -> Result<Box<dyn ServerRecords>, StoreError> {
        self.backend().records()
    }

    /// Lists at most `limit` runs that a filter accepts, the newest first.
    pub fn list_served(
        &self,
        filter: &ServedFilter,
        limit: usize,
    ) -> Result<Vec<ServedRun>, StoreError> {
        self.backend().list_served(filter, limit)
    }

    /// Returns the run with an id, if there is one.
    pub fn find_served_by_id(&self, id: &str) -> Result<Option<ServedRun>, StoreError> {
        self.find_served(ServedKey::Id(id))
    }

    /// Returns the run of a tenant with a name, if there is one.
    pub fn find_served_by_name(
        &self,
        tenant: &str,
        name: &str,
    ) -> Result<Option<ServedRun>, StoreError> {
        self.find_served(ServedKey::Name(&stored_run_name(tenant, name)))
    }

    /// Returns the run with a key, if there is one.
    pub fn find_served_by_key(&self, key: i64) -> Result<Option<ServedRun>, StoreError> {
        self.find_served(ServedKey::Key(key))
    }

    fn find_served(&self, key: ServedKey<'_>) -> Result<Option<ServedRun>, StoreError> {
        self.backend().find_served(key)
    }

    /// Returns the revisions of the database, which end when this process closes it. Returns `None` if other processes
    /// change it, too.
    pub fn revisions(&self) -> Result<Option<DatabaseRevisions>, StoreError> {
        self.backend().revisions()
    }

    /// Tells which runs change from now on.
    pub fn watch_runs(&self) -> Result<RunChanges, StoreError> {
        self.backend().watch_runs()
    }
}

/// A worker's entry in a database. The worker counts as dead when this was dropped, or when its
/// heartbeat stands still for too long.
pub struct WorkerRegistration(Box<dyn WorkerBackend>);

impl WorkerRegistration {
    /// Returns what was set for the database when this worker began.
    pub fn settings(&self) -> &DatabaseSettings {
        self.0.settings()
    }

    /// Returns what this process may spend of caps.
    pub fn caps(&self) -> Arc<CapAccounts> {
        self.0.caps()
    }

    /// Returns whether others took this worker for dead and gave its runs away.
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    /// Returns the id under which others see it.
    pub fn id(&self) -> &str {
        self.0.id()
    }

    /// Returns a view of how well the database is reached, which goes on while this lasts.
    pub fn health(&self) -> RegistrationHealth {
        self.0.health()
    }

    /// Answers what other processes ask of the one that has a file open, if that is what it takes runs from: they cannot
    /// change it meanwhile. `unowned` does what is asked about runs that nobody owns. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// Fails if no socket can be opened.
    pub fn receive_requests(
        &self,
        unowned: UnownedRunHandler,
    ) -> io::Result<Option<HolderMailbox>> {
        self.0.receive_requests(unowned)
    }

    /// Takes at most `room` runs that are due.
    pub fn claim(&mut self, room: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        self.0.claim(room)
    }

    /// Takes at most `room` runs that name a secret for which `is_forbidden` returns true, that nobody has
    /// taken yet, and that no worker was there to take for 10 s. Somebody has to refuse them, or whoever
    /// submitted them would not learn what they lack.
    pub fn claim_forbidden(
        &mut self,
        room: usize,
        is_forbidden: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        self.0.claim_forbidden(room, is_forbidden)
    }

    /// Makes runs of dead processes and runs whose time has come available. A process counts as dead when this one
    /// saw its heartbeat stand still for 10 s.
    pub fn tend(&mut self) -> Result<Tended, StoreError> {
        self.0.tend()
    }

    /// Deletes runs for a moment that have ended and are kept no longer, now and then. Returns how many.
    pub fn sweep(&mut self) -> Result<u64, StoreError> {
        self.0.sweep()
    }

    /// Says that this worker takes no more runs, so that nobody waits for it.
    pub fn stop_claiming(&mut self) -> Result<(), StoreError> {
        self.0.stop_claiming()
    }

    /// Gives up a run that was taken, unless it was taken over.
    pub fn release(&mut self, run: &ClaimedRun, release: &RunRelease) -> Result<(), StoreError> {
        self.0.release(run, release)
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn a_cap_that_a_database_cannot_store_is_refused_without_asking_it() {
        let database = RunDatabase::parse("postgres://host.invalid/teams").unwrap();
        let set = CapChange::Set(Usd::from_dollars(MAX_CAP_DOLLARS + 1.0));
        let refused = database.change_cap(&CapScope::All, set).unwrap_err();
        assert!(
            matches!(refused, StoreError::CapTooLarge { .. }),
            "{refused}"
        );
        assert!(i64::try_from(Usd::from_dollars(MAX_CAP_DOLLARS).0).is_ok());
    }
}
