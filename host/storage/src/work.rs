//! Runs that processes share out among themselves: a database from which workers take runs, what a
//! worker says about itself, and when a run is taken up again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use strata_base::files::blob::Blobs;
use strata_core::record::event::Status;
use strata_core::record::id::Digest;
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;
use tokio::sync::{Notify, watch};

use super::caps::{CapAccounts, CapChange, CapScope, CapState, MAX_CAP_DOLLARS};
use super::database_set::{DatabaseSettings, FencedDatabase, Intake};
use super::database_url::DatabaseUrl;
use super::lease_status::LeaseStatus;
#[cfg(not(feature = "postgres"))]
use super::no_database as database;
#[cfg(feature = "postgres")]
use super::postgres as database;
use super::{Heartbeat, Lease, Retention, SavedDefinition, StorageLocation, StoreError};

/// When a worker takes up a run that nobody owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunSchedule {
    /// As soon as one has room.
    Now,
    /// When somebody asks for it, and at this time, in milliseconds since 1970, if there is one.
    Later(Option<i64>),
    /// When somebody asks for it.
    OnRequest,
}

impl RunSchedule {
    /// Returns when a run is taken up that ended with this status. `due_ms` is when the first of its
    /// open requests expires.
    pub fn after(status: Status, due_ms: Option<i64>) -> Self {
        match status {
            Status::Running | Status::Interrupted => Self::Now,
            Status::Waiting => Self::Later(due_ms),
            Status::Done
            | Status::Failed
            | Status::OutOfBudget
            | Status::Stalled
            | Status::StepLimit
            | Status::InDoubt
            | Status::Cancelled
            | Status::Paused => Self::OnRequest,
        }
    }
}

/// What a worker says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerProfile {
    /// The name of its machine.
    pub host: String,
    /// What it has that only some runs need.
    pub labels: Vec<String>,
    /// The names of the secrets that it has.
    pub secrets: Vec<String>,
    /// How many runs it runs at a time.
    pub room: usize,
}

/// A worker that is registered in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedWorker {
    /// Its id.
    pub id: String,
    /// What it says about itself.
    pub profile: WorkerProfile,
    /// The version of its program.
    pub version: String,
    /// How many runs it owns.
    pub runs: u64,
    /// How long ago its heartbeat rose last, in milliseconds, by the server's clock.
    pub beat_age_ms: i64,
    /// Whether it was told to take no more runs and to end.
    pub is_draining: bool,
}

/// What a worker needs to run a submitted team.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunNeeds {
    /// Labels that it has to have.
    pub labels: Vec<String>,
    /// The names of secrets that it has to have.
    pub secrets: Vec<String>,
}

/// Whether workers take a run that is put into a database with its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// They do.
    Queued,
    /// They never do: whoever put it there continues it.
    Detached,
}

/// A run that is put into a database with its files.
#[derive(Debug)]
pub struct NewSubmission<'a> {
    /// The name of the run.
    pub name: &'a str,
    /// The name of its team.
    pub team: &'a str,
    /// The state that it starts from.
    pub base: &'a Environment,
    /// Its team file.
    pub definition: &'a SavedDefinition,
    /// The bytes of the files that `base` refers to.
    pub blobs: &'a Blobs,
    /// The files that the team needs, by path.
    pub files: &'a BTreeMap<String, Digest>,
    /// The bytes of these files.
    pub contents: &'a Blobs,
    /// What a worker needs for it.
    pub needs: &'a RunNeeds,
    /// What is noted with it to find it by.
    pub tags: &'a BTreeMap<String, String>,
    /// Whether workers take it.
    pub handover: Handover,
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<&'a CapScope>,
}

/// A run that a worker took.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "runs are claimed only from a database")
)]
pub struct ClaimedRun {
    /// Its name.
    pub name: String,
    /// Whether somebody asked for it since it was last taken.
    pub is_requested: bool,
    /// How many bytes its storage could not take when the run failed last; 0 if that is not why, or not known.
    pub needed_bytes: u64,
    pub(super) key: i64,
    pub(super) epoch: i64,
    pub(super) owner: Arc<str>,
    /// Whether the worker is known to own it still.
    pub(super) lease_status: LeaseStatus,
    /// The cap that applies to it besides that of all runs.
    pub(super) scope: Option<CapScope>,
    /// What this process may spend of caps.
    pub(super) caps: Arc<CapAccounts>,
}

impl ClaimedRun {
    /// Returns the cap that applies to it besides that of all runs.
    pub fn scope(&self) -> Option<&CapScope> {
        self.scope.as_ref()
    }

    /// Lets the caps of another database apply to the run than those of its own.
    pub fn with_caps_of(self, worker: &WorkerRegistration) -> Self {
        Self {
            caps: worker.registration.caps(),
            ..self
        }
    }
}

/// How a worker gives up a run that it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRelease {
    /// When it is taken up again; `None` if that is known already.
    pub schedule: Option<RunSchedule>,
    /// Why it could not be run.
    pub problem: Option<String>,
    /// Whether somebody's request to take it up has yet to be met.
    pub keeps_request: bool,
    /// The failure after which it is tried again, later each time.
    pub failure: Option<RunFailure>,
}

/// A failure of what a run needs of its storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFailure {
    /// What happened.
    pub what: String,
    /// About how many bytes could not be written; 0 if that is not why, or not known.
    pub needed_bytes: u64,
}

impl RunRelease {
    /// Returns the release of a run that cannot be run, for this reason.
    pub fn refused(problem: String) -> Self {
        Self {
            schedule: Some(RunSchedule::OnRequest),
            problem: Some(problem),
            keeps_request: false,
            failure: None,
        }
    }

    /// Returns the release of a run that failed because of its storage and is tried again.
    pub fn failed(error: &StoreError) -> Self {
        let needed_bytes = match error {
            StoreError::Full { needed, .. } => *needed,
            _ => 0,
        };
        Self {
            schedule: None,
            problem: None,
            keeps_request: true,
            failure: Some(RunFailure {
                what: error.to_string(),
                needed_bytes,
            }),
        }
    }
}

/// A change of a submitted run that nobody owns.
#[derive(Clone, Debug, Default)]
pub struct SubmissionChange {
    /// Its new team file; `None` if that and its files stay as they are.
    pub definition: Option<SavedDefinition>,
    /// The files of the new team, by path.
    pub files: BTreeMap<String, Digest>,
    /// The bytes of those files that may not be stored yet.
    pub contents: Blobs,
    /// The names of the secrets that the new team needs.
    pub secrets: Vec<String>,
    /// A note to replace: its name and its text.
    pub note: Option<(String, String)>,
    /// Whether workers are asked to take the run.
    pub resumes: bool,
}

/// What is known of a submitted run without reading its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionState {
    /// When it is taken up; `None` if no worker ever takes it.
    pub schedule: Option<RunSchedule>,
    /// Whether a process owns it.
    pub is_owned: bool,
    /// Why a worker could not run it.
    pub problem: Option<String>,
    /// Whether a worker is there that takes it, by the server's clock.
    pub has_worker: bool,
    /// The secrets that its team names and that none of the workers has that are there and have its
    /// labels.
    pub missing_secrets: Vec<String>,
}

/// What is kept of a run in a database besides its records, read over one connection.
pub struct SubmittedRun {
    submission: database::RunSubmission,
}

impl SubmittedRun {
    pub(super) fn open(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let submission = database::RunSubmission::open(url)?;
        Ok(Self { submission })
    }

    /// Returns the digests of the files that were submitted with it, by path.
    pub fn files(&self) -> Result<BTreeMap<String, Digest>, StoreError> {
        self.submission.files()
    }

    /// Returns the bytes of a submitted file. Fails if they are not those that were submitted.
    pub fn bytes(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.submission.bytes(digest)
    }

    /// Returns its state.
    pub fn state(&self) -> Result<SubmissionState, StoreError> {
        self.submission.state()
    }
}

/// A database in which submitted runs are kept.
#[derive(Clone, PartialEq, Eq)]
pub struct RunDatabase {
    url: DatabaseUrl,
}

impl fmt::Debug for RunDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Shows its URL without a password.
impl fmt::Display for RunDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl RunDatabase {
    /// Parses the URL of a database. A run that it names is left out.
    ///
    /// # Errors
    /// Fails if it is not a URL of a database.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        if !DatabaseUrl::is_url(url) {
            return Err(StoreError::InvalidUrl {
                // What follows may contain a password.
                url: format!("{}://…", url.split("://").next().unwrap_or_default()),
                what: "it does not begin with `postgres://`".into(),
            });
        }
        let parsed = DatabaseUrl::parse(url)?;
        Ok(Self {
            url: DatabaseUrl {
                run: None,
                ..parsed
            },
        })
    }

    /// Returns the location of a run in it.
    pub fn location(&self, run: &str) -> StorageLocation {
        StorageLocation::of_database(self.url.with_run(run))
    }

    /// Returns the location that stands for all of its runs.
    pub fn all_runs(&self) -> StorageLocation {
        StorageLocation::of_database(self.url.clone())
    }

    /// Creates the tables, unless they exist, and returns what is set for the database.
    pub fn prepare(&self) -> Result<DatabaseSettings, StoreError> {
        database::prepare(&self.url)
    }

    /// Says whether runs may be added.
    pub fn set_intake(&self, intake: Intake) -> Result<(), StoreError> {
        database::set_intake(&self.url, intake)
    }

    /// Returns all caps.
    pub fn caps(&self) -> Result<Vec<CapState>, StoreError> {
        database::read_caps(&self.url)
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
        database::change_cap(&self.url, scope, change)
    }

    /// Returns for how long runs are kept that have ended.
    pub fn retention(&self) -> Result<Retention, StoreError> {
        database::read_retention(&self.url)
    }

    /// Says for how long runs are kept that have ended. Workers delete the others.
    pub fn set_retention(&self, retention: &Retention) -> Result<(), StoreError> {
        database::set_retention(&self.url, retention)
    }

    /// Returns the workers that are registered.
    pub fn workers(&self) -> Result<Vec<ListedWorker>, StoreError> {
        database::list_workers(&self.url)
    }

    /// Tells a worker to take no more runs and to end. Returns whether there is one with this id.
    pub fn drain_worker(&self, id: &str) -> Result<bool, StoreError> {
        database::drain_worker(&self.url, id)
    }

    /// Declares that the database was restored from a backup: nobody owns a run any more, owners of the
    /// time before can change nothing, and workers of that time stop.
    pub fn fence(&self) -> Result<FencedDatabase, StoreError> {
        database::fence(&self.url)
    }

    /// Returns whether there is a run of this name.
    pub fn has_run(&self, run: &str) -> Result<bool, StoreError> {
        database::has_run(&self.url.with_run(run))
    }

    /// Puts a run into the database. Files that it has already are not sent.
    ///
    /// # Errors
    /// Fails with `StoreError::NameTaken` if there is a run of that name.
    pub fn submit(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
        database::submit(&self.url.with_run(submission.name), submission)
    }

    /// Registers this process as a worker, with a heartbeat. `notified` fires when runs may have become
    /// due.
    pub fn register(
        &self,
        profile: &WorkerProfile,
        notified: &Arc<Notify>,
    ) -> Result<WorkerRegistration, StoreError> {
        let registration = database::DatabaseWorker::open(&self.url, profile, notified)?;
        Ok(WorkerRegistration { registration })
    }

    /// Returns a lease of a run that a worker of this process took. Dropping it does not give the run
    /// up; `WorkerRegistration::release` does.
    pub fn open_claimed(&self, run: &ClaimedRun) -> Result<Box<dyn Lease>, StoreError> {
        let url = self.url.with_run(&run.name);
        Ok(Box::new(database::open_claimed(&url, run)?))
    }

    /// Fails unless the database takes a write of this size for a run. Nothing is kept of it.
    pub fn try_write(&self, run: &ClaimedRun, bytes: u64) -> Result<(), StoreError> {
        database::try_write(&self.url, run, bytes)
    }

    /// Notes that a request to take up a run was met: the run has been resumed.
    pub fn acknowledge_request(&self, run: &ClaimedRun) -> Result<(), StoreError> {
        database::acknowledge_request(&self.url, run)
    }
}

/// What a worker found when it looked at other processes and at the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tended {
    /// How many processes were dead.
    pub dead: usize,
    /// Whether there are runs that are due and have no owner, perhaps none that this worker can take.
    pub may_claim: bool,
    /// Whether this worker was told to take no more runs and to end.
    pub is_draining: bool,
}

/// How well a worker reaches its database.
#[derive(Clone, Debug)]
pub struct RegistrationHealth {
    pub(super) newest: watch::Receiver<Heartbeat>,
    pub(super) reconnections: watch::Receiver<u64>,
}

impl RegistrationHealth {
    /// Returns how long ago the last heartbeat was sent that was answered; `None` if others took the worker for dead.
    pub fn heartbeat_age(&self) -> Option<Duration> {
        match *self.newest.borrow() {
            Heartbeat::Answered { sent } => Some(sent.elapsed()),
            Heartbeat::Refused => None,
        }
    }

    /// Returns how often the server was connected to again.
    pub fn reconnections(&self) -> u64 {
        *self.reconnections.borrow()
    }
}

/// A worker's entry in a database. The worker counts as dead when this was dropped, or when its
/// heartbeat stands still for too long.
pub struct WorkerRegistration {
    registration: database::DatabaseWorker,
}

impl WorkerRegistration {
    /// Returns what was set for the database when this worker began.
    pub fn settings(&self) -> &DatabaseSettings {
        self.registration.settings()
    }

    /// Returns whether others took this worker for dead and gave its runs away.
    pub fn is_lost(&self) -> bool {
        self.registration.is_lost()
    }

    /// Returns the id under which others see it.
    pub fn id(&self) -> &str {
        self.registration.id()
    }

    /// Returns a view of how well the server is reached, which goes on while this lasts.
    pub fn health(&self) -> RegistrationHealth {
        self.registration.health()
    }

    /// Takes at most `room` runs that are due.
    pub fn claim(&mut self, room: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        self.registration.claim(room)
    }

    /// Takes at most `room` runs that name a secret for which `is_forbidden` returns true, that nobody has
    /// taken yet, and that no worker was there to take for 10 s. Somebody has to refuse them, or whoever
    /// submitted them would not learn what they lack.
    pub fn claim_forbidden(
        &mut self,
        room: usize,
        is_forbidden: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        self.registration.claim_forbidden(room, is_forbidden)
    }

    /// Makes runs of dead processes and runs whose time has come available. A process counts as dead when this one
    /// saw its heartbeat stand still for 10 s.
    pub fn tend(&mut self) -> Result<Tended, StoreError> {
        self.registration.tend()
    }

    /// Deletes runs for a moment that have ended and are kept no longer, now and then. Returns how many.
    pub fn sweep(&mut self) -> Result<u64, StoreError> {
        self.registration.sweep()
    }

    /// Says that this worker takes no more runs, so that nobody waits for it.
    pub fn stop_claiming(&mut self) -> Result<(), StoreError> {
        self.registration.stop_claiming()
    }

    /// Gives up a run that was taken, unless it was taken over.
    pub fn release(&mut self, run: &ClaimedRun, release: &RunRelease) -> Result<(), StoreError> {
        self.registration.release(run, release)
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
