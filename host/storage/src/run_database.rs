//! A database from which workers take runs: a file, which one process has open, or a server, which many processes share.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use strata_core::record::money::Usd;
use tokio::sync::Notify;

use super::caps::{CapAccounts, CapChange, CapScope, CapState, MAX_CAP_DOLLARS};
use super::database_set::{DatabaseSettings, FencedDatabase, Intake};
use super::database_url::DatabaseUrl;
#[cfg(not(feature = "postgres"))]
use super::no_database as database;
#[cfg(feature = "postgres")]
use super::postgres as database;
use super::served::{RunChanges, ServedFilter, ServedKey, ServedRun, stored_run_name};
use super::server_records::ServerRecords;
use super::sqlite::shared::{self, HolderMailbox, UnownedRunHandler};
use super::sqlite_url::SqliteUrl;
use super::work::{
    ClaimedRun, ListedWorker, NewSubmission, RegistrationHealth, RunRelease, Tended, WorkerProfile,
};
use super::{Lease, Retention, StorageLocation, StoreError};

/// A database in which submitted runs are kept.
#[derive(Clone, PartialEq, Eq)]
pub struct RunDatabase {
    kind: DatabaseKind,
}

#[derive(Clone, PartialEq, Eq)]
enum DatabaseKind {
    File(SqliteUrl),
    Server(DatabaseUrl),
}

impl fmt::Debug for RunDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shows its URL without a password.
impl fmt::Display for RunDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            DatabaseKind::File(url) => url.fmt(f),
            DatabaseKind::Server(url) => url.fmt(f),
        }
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
        Ok(Self::of_server(&DatabaseUrl::parse(url)?))
    }

    /// Returns the database of a URL.
    pub(super) fn of_server(url: &DatabaseUrl) -> Self {
        Self {
            kind: DatabaseKind::Server(DatabaseUrl {
                run: None,
                ..url.clone()
            }),
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
        match &self.kind {
            DatabaseKind::File(url) => StorageLocation::of_shared(url.with_run(run)),
            DatabaseKind::Server(url) => StorageLocation::of_database(url.with_run(run)),
        }
    }

    /// Returns the location that stands for all of its runs.
    pub fn all_runs(&self) -> StorageLocation {
        match &self.kind {
            DatabaseKind::File(url) => StorageLocation::of_shared(url.clone()),
            DatabaseKind::Server(url) => StorageLocation::of_database(url.clone()),
        }
    }

    /// Creates the tables, unless they exist, and returns what is set for the database.
    pub fn prepare(&self) -> Result<DatabaseSettings, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::prepare(url),
            DatabaseKind::Server(url) => database::prepare(url),
        }
    }

    /// Says whether runs may be added.
    pub fn set_intake(&self, intake: Intake) -> Result<(), StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::set_intake(url, intake),
            DatabaseKind::Server(url) => database::set_intake(url, intake),
        }
    }

    /// Returns all caps.
    pub fn caps(&self) -> Result<Vec<CapState>, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::read_caps(url),
            DatabaseKind::Server(url) => database::read_caps(url),
        }
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
        match &self.kind {
            DatabaseKind::File(url) => shared::change_cap(url, scope, change),
            DatabaseKind::Server(url) => database::change_cap(url, scope, change),
        }
    }

    /// Returns for how long runs are kept that have ended.
    pub fn retention(&self) -> Result<Retention, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::read_retention(url),
            DatabaseKind::Server(url) => database::read_retention(url),
        }
    }

    /// Says for how long runs are kept that have ended. Workers delete the others.
    pub fn set_retention(&self, retention: &Retention) -> Result<(), StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::set_retention(url, retention),
            DatabaseKind::Server(url) => database::set_retention(url, retention),
        }
    }

    /// Returns the workers that are registered. A file has one at most: the process that has it open.
    pub fn workers(&self) -> Result<Vec<ListedWorker>, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::list_workers(url),
            DatabaseKind::Server(url) => database::list_workers(url),
        }
    }

    /// Tells a worker to take no more runs and to end. Returns whether there is one with this id.
    pub fn drain_worker(&self, id: &str) -> Result<bool, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::drain_worker(url, id),
            DatabaseKind::Server(url) => database::drain_worker(url, id),
        }
    }

    /// Declares that the database was restored from a backup: nobody owns a run any more, owners of the
    /// time before can change nothing, and workers of that time stop.
    pub fn fence(&self) -> Result<FencedDatabase, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::fence(url),
            DatabaseKind::Server(url) => database::fence(url),
        }
    }

    /// Returns whether there is a run of this name.
    pub fn has_run(&self, run: &str) -> Result<bool, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::has_run(&url.with_run(run)),
            DatabaseKind::Server(url) => database::has_run(&url.with_run(run)),
        }
    }

    /// Puts a run into the database. Files that it has already are not sent.
    ///
    /// # Errors
    /// Fails with `StoreError::NameTaken` if there is a run of that name, and with `StoreError::RecordTaken` if there is
    /// one of its records.
    pub fn submit(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::submit(&url.with_run(submission.name), submission),
            DatabaseKind::Server(url) => {
                database::submit(&url.with_run(submission.name), submission)
            }
        }
    }

    /// Registers this process as a worker, with a heartbeat. `notified` fires when runs may have become
    /// due. The worker of a file is the process that has it open.
    pub fn register(
        &self,
        profile: &WorkerProfile,
        notified: &Arc<Notify>,
    ) -> Result<WorkerRegistration, StoreError> {
        let registration = match &self.kind {
            DatabaseKind::File(url) => {
                let worker = shared::FileWorker::open(url, profile, notified)?;
                Registration::File(Box::new(worker))
            }
            DatabaseKind::Server(url) => {
                let worker = database::DatabaseWorker::open(url, profile, notified)?;
                Registration::Server(Box::new(worker))
            }
        };
        Ok(WorkerRegistration { registration })
    }

    /// Returns a lease of a run that a worker of this process took. Dropping it does not give the run
    /// up; `WorkerRegistration::release` does.
    pub fn open_claimed(&self, run: &ClaimedRun) -> Result<Box<dyn Lease>, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => {
                let url = url.with_run(&run.name);
                Ok(Box::new(shared::open_claimed(&url, run)?))
            }
            DatabaseKind::Server(url) => {
                let url = url.with_run(&run.name);
                Ok(Box::new(database::open_claimed(&url, run)?))
            }
        }
    }

    /// Fails unless the database takes a write of this size for a run. Nothing is kept of it.
    pub fn try_write(&self, run: &ClaimedRun, bytes: u64) -> Result<(), StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::try_write(url, bytes),
            DatabaseKind::Server(url) => database::try_write(url, run, bytes),
        }
    }

    /// Notes that a request to take up a run was met: the run has been resumed.
    pub fn acknowledge_request(&self, run: &ClaimedRun) -> Result<(), StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::acknowledge_request(url, run),
            DatabaseKind::Server(url) => database::acknowledge_request(url, run),
        }
    }

    /// Returns where a server keeps its records.
    pub fn records(&self) -> Result<Box<dyn ServerRecords>, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => Ok(Box::new(shared::FileRecords::new(url.clone()))),
            DatabaseKind::Server(url) => database::open_records(url),
        }
    }

    /// Lists at most `limit` runs that a filter accepts, the newest first.
    pub fn list_served(
        &self,
        filter: &ServedFilter,
        limit: usize,
    ) -> Result<Vec<ServedRun>, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::list_served(url, filter, limit),
            DatabaseKind::Server(url) => database::list_served(url, filter, limit),
        }
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
        match &self.kind {
            DatabaseKind::File(url) => shared::find_served(url, key),
            DatabaseKind::Server(url) => database::find_served(url, key),
        }
    }

    /// Tells which runs change from now on.
    pub fn watch_runs(&self) -> Result<RunChanges, StoreError> {
        match &self.kind {
            DatabaseKind::File(url) => shared::watch_runs(url),
            DatabaseKind::Server(url) => database::watch_runs(url),
        }
    }
}

/// A worker's entry in a database. The worker counts as dead when this was dropped, or when its
/// heartbeat stands still for too long.
pub struct WorkerRegistration {
    registration: Registration,
}

enum Registration {
    File(Box<shared::FileWorker>),
    Server(Box<database::DatabaseWorker>),
}

impl WorkerRegistration {
    /// Returns what was set for the database when this worker began.
    pub fn settings(&self) -> &DatabaseSettings {
        match &self.registration {
            Registration::File(worker) => worker.settings(),
            Registration::Server(worker) => worker.settings(),
        }
    }

    /// Returns what this process may spend of caps.
    fn caps(&self) -> Arc<CapAccounts> {
        match &self.registration {
            Registration::File(worker) => worker.caps(),
            Registration::Server(worker) => worker.caps(),
        }
    }

    /// Returns whether others took this worker for dead and gave its runs away.
    pub fn is_lost(&self) -> bool {
        match &self.registration {
            Registration::File(_) => false,
            Registration::Server(worker) => worker.is_lost(),
        }
    }

    /// Returns the id under which others see it.
    pub fn id(&self) -> &str {
        match &self.registration {
            Registration::File(worker) => worker.id(),
            Registration::Server(worker) => worker.id(),
        }
    }

    /// Returns a view of how well the database is reached, which goes on while this lasts.
    pub fn health(&self) -> RegistrationHealth {
        match &self.registration {
            Registration::File(_) => RegistrationHealth { server: None },
            Registration::Server(worker) => worker.health(),
        }
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
        match &self.registration {
            Registration::File(worker) => HolderMailbox::start(worker.url(), unowned).map(Some),
            Registration::Server(_) => Ok(None),
        }
    }

    /// Takes at most `room` runs that are due.
    pub fn claim(&mut self, room: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        match &mut self.registration {
            Registration::File(worker) => worker.claim(room),
            Registration::Server(worker) => worker.claim(room),
        }
    }

    /// Takes at most `room` runs that name a secret for which `is_forbidden` returns true, that nobody has
    /// taken yet, and that no worker was there to take for 10 s. Somebody has to refuse them, or whoever
    /// submitted them would not learn what they lack.
    pub fn claim_forbidden(
        &mut self,
        room: usize,
        is_forbidden: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        match &mut self.registration {
            Registration::File(worker) => worker.claim_forbidden(room, is_forbidden),
            Registration::Server(worker) => worker.claim_forbidden(room, is_forbidden),
        }
    }

    /// Makes runs of dead processes and runs whose time has come available. A process counts as dead when this one
    /// saw its heartbeat stand still for 10 s.
    pub fn tend(&mut self) -> Result<Tended, StoreError> {
        match &mut self.registration {
            Registration::File(worker) => worker.tend(),
            Registration::Server(worker) => worker.tend(),
        }
    }

    /// Deletes runs for a moment that have ended and are kept no longer, now and then. Returns how many.
    pub fn sweep(&mut self) -> Result<u64, StoreError> {
        match &mut self.registration {
            Registration::File(worker) => worker.sweep(),
            Registration::Server(worker) => worker.sweep(),
        }
    }

    /// Says that this worker takes no more runs, so that nobody waits for it.
    pub fn stop_claiming(&mut self) -> Result<(), StoreError> {
        match &mut self.registration {
            Registration::File(worker) => worker.stop_claiming(),
            Registration::Server(worker) => worker.stop_claiming()?,
        }
        Ok(())
    }

    /// Gives up a run that was taken, unless it was taken over.
    pub fn release(&mut self, run: &ClaimedRun, release: &RunRelease) -> Result<(), StoreError> {
        match &mut self.registration {
            Registration::File(worker) => worker.release(run, release),
            Registration::Server(worker) => worker.release(run, release),
        }
    }
}

impl ClaimedRun {
    /// Lets the caps of another database apply to the run than those of its own.
    pub fn with_caps_of(self, worker: &WorkerRegistration) -> Self {
        Self {
            caps: worker.caps(),
            ..self
        }
    }
}

#[cfg(test)]
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
