//! What is recorded of a run, wherever it is kept: the rows and what they mean, the changes of a run as values, and the one
//! kind of lease that makes them.
//!
//! A database brings its rows (`rows::RunRows`) and writes changes (`run_writer::RunWriter`). In exchange it gets a reader
//! of states, lineages and events (`reader`) and a lease (`stored_lease`), which are the same for every database. Beside
//! them is what is said of runs that many processes share: work, caps, lists, and requests to owners.
//!
//! ```
//! use strata_records::check_run_name;
//!
//! assert_eq!(check_run_name("nightly-1"), Ok("nightly-1".to_owned()));
//! assert!(check_run_name("a/b").is_err());
//! ```
//!
//! This crate opens no file and no connection, and knows no kind of place in which runs are kept: `strata-postgres` and
//! `strata-storage` do. What it reads may have been written by anybody: checksums and the core's own validation decide
//! whether it is returned. A run has
//! at most 2^22 lineages of 2^39 events each.

pub mod appending;
pub mod caps;
pub mod checkpoint_list;
pub mod codec;
pub mod current_lineage;
pub mod database_settings;
pub mod database_url;
pub mod deleted_run;
pub mod encoded_events;
pub mod error;
pub mod lease_status;
pub mod lineage;
pub mod listing;
pub mod mailbox;
pub mod overview;
pub mod prune_note;
pub mod prune_plan;
pub mod reader;
pub mod record_hold;
pub mod retention;
pub mod rows;
pub mod run_change;
pub mod run_writer;
pub mod served;
pub mod server_record;
pub mod server_records;
pub mod snapshot;
pub mod statistics;
pub mod stored_lease;
pub mod transfer;
pub mod work;

#[cfg(any(test, feature = "test-support"))]
pub mod scripted_records;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_base::files::blob::Blobs;
use strata_core::record::event::{
    AttemptEvent, Event, Forked, HostCalled, MessageSent, RequestAnswered, RunEnded, RunStarted,
    Status, StepCommitted,
};
use strata_core::record::host_call::AnswerSource;
use strata_core::record::id::{CheckpointId, Digest};
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;

pub use appending::{Append, Appending, OtherWork};
#[cfg(any(test, feature = "test-support"))]
pub use caps::MemoryCap;
pub use caps::{
    CapAccounts, CapAdmission, CapChange, CapCharge, CapDraw, CapScope, CapState, CapStore,
    MAX_CAP_DOLLARS, RunCaps,
};
pub use database_settings::{DatabaseSettings, FencedDatabase, Intake};
pub use database_url::{MAX_NAME_CHARS, check_run_name, check_stored_name};
pub use deleted_run::DeletedRun;
pub use error::StoreError;
pub use lease_status::{Heartbeat, LEASE_TIME, LeaseStatus};
pub use listing::{ListedOwner, QueuedRun, RunFilter};
pub use mailbox::{IncomingRequest, MailId, MailReply, Mailbox, RequestHandler, RequestOutcome};
pub use overview::{AppendedState, LifecycleState, RunOverview, has_ended};
pub use prune_note::PruneNote;
pub use reader::{EarliestState, Reader, RecordedRun};
pub use reader::{RECORDS_PER_BATCH, read_in_batches};
pub use record_hold::RecordHold;
pub use retention::{Retention, SpanText};
pub use served::{ChangedRun, RunChanges, ServedFilter, ServedPosition, stored_run_name};
pub use server_record::ServerRecord;
pub use server_records::ServerRecords;
pub use statistics::{ReadyRuns, RunStatistics};
pub use strata_base::files::durability::Durability;
pub use strata_team_json::SavedDefinition;
pub use transfer::RunCopy;
pub use work::{
    ClaimedRun, DEFAULT_TENANT, Handover, ListedWorker, NewSubmission, RegistrationHealth,
    RunFailure, RunNeeds, RunRelease, RunSchedule, Shortage, SubmissionChange, SubmissionIdentity,
    SubmissionState, SubmittedRun, Tended, WorkerProfile,
};

/// The name of the file with the state for people.
pub const TEAM_JSON: &str = "team.json";

/// How long a change waits for a server that cannot be reached: a restart or a change of the primary
/// takes less. Nothing is lost if it takes longer, but the run has to be resumed.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// The number of the first public event line of a run.
pub const FIRST_LINE: u64 = 1;

/// An event, with its time and the numbers of its public event lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The number of the first public event line that the event yields.
    pub line: u64,
    /// How many public event lines it yields.
    pub lines: u32,
    /// When it was recorded, in milliseconds since 1970.
    pub time_ms: i64,
    /// What happened.
    pub event: Event,
}

/// What distinguishes a run from another at the same location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationIdentity {
    /// The path without links, or the URL.
    pub path: PathBuf,
    /// The number of the directory or of the run.
    pub number: u64,
    /// When it was created, in nanoseconds since 1970, if that is known.
    pub created_ns: Option<u64>,
}

/// Numbers the leases of a run: each has a larger one than those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// What happens if a run has an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerWait {
    /// The heartbeat is watched until it rises, or until its process counts as dead.
    Watch,
    /// The run is in use, unless its owner has not been heard of for a long time.
    Brief,
}

/// Who works on what is kept somewhere, and keeps others from changing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHolder {
    /// Nobody.
    Nobody,
    /// A process.
    Process {
        /// Its id; `None` if it has not written it yet.
        pid: Option<u32>,
    },
}

/// What happens to an unfinished team when a fresh run is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacePolicy {
    /// Starting the fresh run fails.
    Never,
    /// The team is moved aside.
    Unfinished,
}

/// Selects the state of a run that is to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateSelector {
    /// The newest state of the current lineage.
    Head,
    /// The state of a checkpoint, in any lineage.
    Checkpoint(CheckpointId),
    /// The newest state of a lineage.
    Lineage(String),
}

/// A state that was loaded: an earlier state, and the events that lead from it to the selected one.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedState {
    /// The earlier state.
    pub base: Environment,
    /// The events to apply to `base`, oldest first.
    pub tail: Vec<Record>,
    /// The number of the public event line after the last line of the storage.
    pub next_line: u64,
}

impl LoadedState {
    /// Returns the status of the run in this state.
    pub fn status(&self) -> Status {
        for record in self.tail.iter().rev() {
            match &record.event {
                Event::RunEnded(ended) => return ended.status,
                Event::RunStarted(_) | Event::RunResumed(_) => return Status::Running,
                _ => {}
            }
        }
        self.base.status
    }

    /// Whether a resume would have nothing to do.
    pub fn is_finished(&self) -> bool {
        // A message that came later is not handled yet, unless it was routed to nobody.
        let counts = |event: &Event| !matches!(event, Event::MessageSent(MessageSent { routed, .. }) if routed.to.is_empty());
        let last = self.tail.iter().rfind(|record| counts(&record.event));
        match last.map(|record| &record.event) {
            Some(Event::RunEnded(RunEnded { status, .. })) => *status == Status::Done,
            Some(_) => false,
            None => self.base.is_finished(),
        }
    }
}

/// A checkpoint, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRow {
    /// Its id.
    pub id: CheckpointId,
    /// The lineage it belongs to.
    pub lineage: String,
    /// The step after which, or within which, it was made. For the state that a run starts from,
    /// the next step.
    pub step: u64,
    /// The previous checkpoint, if this storage knows it.
    pub parent: Option<CheckpointId>,
    /// What made it.
    pub source: CheckpointOrigin,
    /// The status of the run when this was its newest checkpoint.
    pub status: Status,
    /// When it was made, in milliseconds since 1970. `None` for a state that was read from a file.
    pub time_ms: Option<i64>,
}

/// What made a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointOrigin {
    /// A run began.
    Entry,
    /// A state was read from `team.json`.
    Import,
    /// A step was committed.
    Step,
    /// Another lineage branched off here.
    Fork,
    /// A run stopped within a step, with this status.
    Stop(Status),
    /// A request was answered.
    Answer,
}

impl CheckpointOrigin {
    /// Returns the name that is shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Import => "import",
            Self::Step => "step",
            Self::Answer => "answer",
            Self::Fork => "fork",
            Self::Stop(Status::Failed) => "fault",
            Self::Stop(Status::Interrupted) => "interrupt",
            Self::Stop(Status::OutOfBudget) => "budget",
            Self::Stop(Status::StepLimit) => "limit",
            Self::Stop(status) => status.name(),
        }
    }
}

/// A lineage, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageRow {
    /// Its name.
    pub name: String,
    /// How many events lead to its newest state, from the beginning of the run.
    pub events: u64,
    /// Whether this is the lineage that a run continues by default.
    pub current: bool,
}

/// What pruning has freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    /// How many checkpoints were removed.
    pub checkpoints: u64,
    /// How many events were dropped.
    pub events: u64,
    /// By how many bytes the files became smaller.
    pub bytes: u64,
}

/// What a database has of what runs need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseReport {
    /// The major version of the server.
    pub version: i64,
    /// Whether nothing can be written, as on a standby.
    pub is_read_only: bool,
    /// Whether commits reach the disk of the server.
    pub is_synced: bool,
    /// The server's setting of that name.
    pub synchronous_commit: String,
    /// Whether the tables exist or can be created.
    pub can_create_tables: bool,
    /// What this user may do, if the tables exist.
    pub rights: Option<DatabaseRights>,
    /// For how many seconds the oldest transaction has been open.
    pub longest_transaction_s: i64,
    /// What time it is by the server's clock, in milliseconds since 1970.
    pub server_time_ms: i64,
    /// How many runs there are.
    pub runs: i64,
    /// What is set for it, if it has the tables.
    pub settings: Option<DatabaseSettings>,
}

/// What a database file has of what runs need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// How many runs there are; `None` if there is no file.
    pub runs: Option<u64>,
    /// Whether runs may be added.
    pub intake: Intake,
    /// Its random name, if it has one.
    pub incarnation: Option<String>,
    /// What this user may do.
    pub rights: DatabaseRights,
    /// Which process has it open to change it.
    pub holder: LockHolder,
}

/// What a user may do with the runs of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseRights {
    /// Read some or all of them.
    Read,
    /// Add, run and change them.
    Run,
    /// All of that, and bring the tables to another version.
    Administer,
}

/// Applies the events of a loaded state to its base, and returns the result. Fails with a
/// description.
pub type BuildState<'a> = dyn FnMut(LoadedState) -> Result<Environment, String> + 'a;

/// The right to change a run, and access to what is recorded of it. The methods block the thread that
/// calls them, which drives the run. What a run does while guests are called can be waited for in
/// another way: those methods begin with `begin`.
///
/// A run has one owner at a time, the one that took the newest lease. Each change carries the epoch
/// of its lease; if there is a newer one, nothing is changed and the method fails with
/// `StoreError::Fenced`.
pub trait Lease: Send {
    /// Returns its epoch.
    fn epoch(&self) -> Epoch;

    /// Returns what is recorded of the run.
    fn recorded(&self) -> &dyn RecordedRun;

    /// Appends events: all of them or none. When it returns, they survive what `durability` says,
    /// and so does everything that was appended before. After an error the run ends, and none of
    /// the events counts for it; they may nevertheless be present when the run is opened again. Fails
    /// with `StoreError::Lost` if the storage has less than it had acknowledged, and what is missing is not known
    /// here any more.
    ///
    /// The events belong to the current lineage. If the first one is a fork, they start a new
    /// lineage, at the checkpoint that the fork names. If more events follow in the same call, the
    /// run continues with the new lineage, which becomes the current one.
    fn append(&mut self, records: &[Record], durability: Durability) -> Result<(), StoreError> {
        self.begin_append(Append::new(records, durability))
            .finish_blocking()
    }

    /// Begins to append events. A storage that has to wait for a server returns what can be awaited. One
    /// that is on this machine has done it when this returns, unless the owner has other work and the
    /// disk can work by itself meanwhile.
    fn begin_append<'a>(&'a mut self, append: Append<'a>) -> Appending<'a>;

    /// Begins to save the bytes of files, in the same way.
    fn begin_put_blobs<'a>(&'a mut self, blobs: Blobs) -> Appending<'a> {
        Appending::Done(self.put_blobs(&blobs))
    }

    /// Begins to save a snapshot, in the same way.
    fn begin_save_snapshot<'a>(&'a mut self, env: &'a Environment) -> Appending<'a> {
        Appending::Done(self.save_snapshot(env))
    }

    /// Begins to forget checkpoints, in the same way.
    fn begin_keep_checkpoints<'a>(&'a mut self, keep: u32) -> Appending<'a> {
        Appending::Done(self.keep_checkpoints(keep))
    }

    /// Returns whether this is certainly still the newest lease, from now on.
    fn status(&self) -> LeaseStatus {
        LeaseStatus::permanent()
    }

    /// Stores again what a server lost of what was appended, if it went back to an earlier state and that is
    /// possible. Each change does this, too. Fails if it is not possible; succeeds if the server cannot be reached.
    fn ensure_stored(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Says how long a change waits for a server that cannot be reached. At first, it is `DEFAULT_PATIENCE`.
    fn set_patience(&mut self, _patience: Duration) {}

    /// Returns the caps above the run.
    fn caps(&self) -> RunCaps {
        RunCaps::default()
    }

    /// Whether the events since the last snapshot are larger than that snapshot.
    fn snapshot_due(&self) -> bool;

    /// Saves the state after all appended events as a snapshot, to start from when the run is
    /// loaded. Nothing else depends on it. The next snapshot is due after as many events again,
    /// even if this one could not be saved.
    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError>;

    /// Loads a state.
    fn load(&self, at: &StateSelector) -> Result<LoadedState, StoreError> {
        self.recorded().load(at)
    }

    /// Makes another lineage the current one.
    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError>;

    /// Returns all lineages, in the order in which they were created.
    fn lineages(&self) -> Result<Vec<LineageRow>, StoreError> {
        self.recorded().lineages()
    }

    /// Returns the total cost of answered calls, in all lineages.
    fn spent(&self) -> Result<Usd, StoreError> {
        self.recorded().spent()
    }

    /// Returns all checkpoints of all lineages, oldest first.
    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        self.recorded().checkpoints()
    }

    /// Forgets all checkpoints of the current lineage except the first and the newest `keep`: they
    /// are no longer listed and cannot be loaded. Checkpoints where another lineage branched off,
    /// and those where the run waits for a person, are kept, too. The events stay recorded.
    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError>;

    /// Forgets checkpoints as `keep_checkpoints` does, but in all lineages, and drops the events that
    /// no remaining checkpoint needs. Either all of this happens, or nothing.
    fn prune(&mut self, keep: u32, build_state: &mut BuildState<'_>) -> Result<Pruned, StoreError>;

    /// Returns at most `limit` events, oldest first, after skipping the first `from`. They are
    /// those that lead to the newest state of the current lineage and were not dropped.
    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.recorded().records(from, limit)
    }

    /// Saves the bytes of files. They survive whatever the events survive that are appended after
    /// them.
    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError>;

    /// Returns the bytes of a file, or `None` if they are not stored here.
    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.recorded().blob(digest)
    }

    /// Returns the team file of the run.
    fn definition(&self) -> Result<SavedDefinition, StoreError> {
        self.recorded().definition()
    }

    /// Replaces the team file of the run.
    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError>;

    /// Says when workers take up the run, if they do so.
    fn set_schedule(&mut self, _schedule: RunSchedule) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the note with this name, or `None` if there is none.
    fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.recorded().note(name)
    }

    /// Replaces a note: a short text that another part of the program remembers about the run. It
    /// survives what `durability` says.
    fn set_note(
        &mut self,
        name: &str,
        text: &str,
        durability: Durability,
    ) -> Result<(), StoreError>;
}

/// Writes the content of a file. Each `write` is one write to the disk, so it should be called with
/// large pieces.
pub type WriteContent<'a> = dyn Fn(&mut dyn std::io::Write) -> std::io::Result<()> + 'a;

/// Returns the checkpoints of a state without records: the one that the state is, if it is one.
pub fn checkpoints_of_state(env: &Environment) -> Vec<CheckpointRow> {
    let alone = checkpoint_list::LineageHistory {
        name: env.lineage.name.clone(),
        ..checkpoint_list::LineageHistory::default()
    };
    checkpoint_list::list_checkpoints(env, &[alone])
        .into_iter()
        .map(|listed| listed.row)
        .collect()
}

/// Returns the number of the public line that follows these records.
pub fn next_line(last: Option<&Record>) -> u64 {
    last.map_or(FIRST_LINE, |record| record.line + u64::from(record.lines))
}

/// Whether an event makes a checkpoint, or sets the status of the newest one.
pub fn concerns_checkpoint(event: &Event) -> bool {
    matches!(event, Event::RunEnded(_)) || checkpoint_of(event).is_some()
}

/// Returns the checkpoint that an event makes.
pub fn checkpoint_of(event: &Event) -> Option<&CheckpointId> {
    match event {
        Event::RunStarted(RunStarted { checkpoint, .. })
        | Event::StepCommitted(StepCommitted { checkpoint, .. })
        | Event::Attempt(_, AttemptEvent::RequestAnswered(RequestAnswered { checkpoint, .. }))
        | Event::Forked(Forked { checkpoint, .. }) => Some(checkpoint),
        Event::RunEnded(RunEnded { checkpoint, .. }) => checkpoint.as_ref(),
        _ => None,
    }
}

/// Returns what an event cost.
pub fn cost_of(event: &Event) -> Usd {
    match event {
        Event::Attempt(
            _,
            AttemptEvent::HostCalled(HostCalled {
                call,
                source: AnswerSource::Live,
                ..
            }),
        ) => call.cost,
        _ => Usd::ZERO,
    }
}
