//! Runs that processes share out among themselves: what is submitted, what a worker says about itself, and when a run is
//! taken up again. `run_database` is where they are kept.

mod shortage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use strata_base::files::blob::Blobs;
use strata_base::random_id::random_name;
use strata_core::record::event::Status;
use strata_core::record::id::Digest;
use strata_core::state::environment::Environment;
use tokio::sync::watch;

use super::caps::{CapAccounts, CapScope};
use super::lease_status::LeaseStatus;
use super::server_record::ServerRecord;
use super::{Heartbeat, SavedDefinition, StoreError};
pub use shortage::Shortage;

/// The tenant of what belongs to no other. Names of its runs are stored as they are, those of others as `TENANT/NAME`.
pub const DEFAULT_TENANT: &str = "default";

/// The note of how a run is to be resumed, which whoever takes it reads.
pub const RESUME_NOTE: &str = "resume";

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
    /// Whose it is.
    pub identity: SubmissionIdentity,
    /// A note of how whoever takes it first is to continue it: its name and its text.
    pub resume_note: Option<(String, String)>,
    /// What a server remembers with it. None of it may exist yet.
    pub records: &'a [ServerRecord],
}

/// By what the clients of a server know a run, and whose it is.
#[derive(Clone, Debug)]
pub struct SubmissionIdentity {
    /// Its id, which no other run has. It never changes.
    pub id: String,
    /// Its tenant.
    pub tenant: String,
    /// Who submitted it; empty if it was nobody whom a server knows.
    pub submitter: String,
}

impl SubmissionIdentity {
    /// Returns that of a run that no server submits.
    pub fn unserved() -> Self {
        Self {
            id: random_name(),
            tenant: DEFAULT_TENANT.into(),
            submitter: String::new(),
        }
    }
}

/// A run that a worker took.
#[derive(Clone, Debug)]
pub struct ClaimedRun {
    /// Its name.
    pub name: String,
    /// Whether somebody asked for it since it was last taken.
    pub is_requested: bool,
    /// How many bytes its storage could not take when the run failed last; 0 if that is not why, or not known.
    pub needed_bytes: u64,
    /// Its key.
    pub key: i64,
    /// The epoch of the lease.
    pub epoch: i64,
    /// The name under which the worker owns it.
    pub owner: Arc<str>,
    /// Whether the worker is known to own it still.
    pub lease_status: LeaseStatus,
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<CapScope>,
    /// What this process may spend of caps.
    pub caps: Arc<CapAccounts>,
}

impl ClaimedRun {
    /// Returns the cap that applies to it besides that of all runs.
    pub fn scope(&self) -> Option<&CapScope> {
        self.scope.as_ref()
    }

    /// Lets the caps of another database apply to the run than those of its own.
    pub fn with_caps(self, caps: Arc<CapAccounts>) -> Self {
        Self { caps, ..self }
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
    /// What a worker needs for it.
    pub needs: RunNeeds,
    /// What is missing for a worker to take it; `None` if one is there that does.
    pub shortage: Option<Shortage>,
}

/// What one kind of database keeps of a run besides its records. What the methods do is described at those of
/// `SubmittedRun`.
pub trait KeptSubmission: Send {
    /// Returns the digests of the files by path.
    fn files(&self) -> Result<BTreeMap<String, Digest>, StoreError>;

    /// Returns the bytes of a file.
    fn bytes(&self, digest: &Digest) -> Result<Vec<u8>, StoreError>;

    /// Returns the state.
    fn state(&self) -> Result<SubmissionState, StoreError>;
}

/// What is kept of a run in a database besides its records, read over one connection.
pub struct SubmittedRun(Box<dyn KeptSubmission>);

impl SubmittedRun {
    /// Returns what a database keeps.
    pub fn new(kept: impl KeptSubmission + 'static) -> Self {
        Self(Box::new(kept))
    }

    /// Returns the digests of the files that were submitted with it, by path.
    pub fn files(&self) -> Result<BTreeMap<String, Digest>, StoreError> {
        self.0.files()
    }

    /// Returns the bytes of a submitted file. Fails if they are not those that were submitted.
    pub fn bytes(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.0.bytes(digest)
    }

    /// Returns its state.
    pub fn state(&self) -> Result<SubmissionState, StoreError> {
        self.0.state()
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
    /// What became of its heartbeat, and how often the server was connected to again; `None` for a file.
    pub server: Option<(watch::Receiver<Heartbeat>, watch::Receiver<u64>)>,
}

impl RegistrationHealth {
    /// Returns how long ago the last heartbeat was sent that was answered; `None` if others took the worker for dead. A
    /// file always answers.
    pub fn heartbeat_age(&self) -> Option<Duration> {
        let Some((newest, _)) = &self.server else {
            return Some(Duration::ZERO);
        };
        match *newest.borrow() {
            Heartbeat::Answered { sent } => Some(sent.elapsed()),
            Heartbeat::Refused => None,
        }
    }

    /// Returns how often the server was connected to again.
    pub fn reconnections(&self) -> u64 {
        let server = self.server.as_ref();
        server.map_or(0, |(_, reconnections)| *reconnections.borrow())
    }
}
