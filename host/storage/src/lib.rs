//! Where runs are kept.
//!
//! Code outside uses a run through its `StorageLocation`: it creates the run, takes a `Lease` to
//! change it, opens a `Reader`, or sends a request to the owner. A lease saves events and
//! loads them; what an event does to a state is defined in the core. A `RunDatabase` is what workers take runs from.
//!
//! A run lies in a storage directory (`directory`): `team.db` holds its events and snapshots
//! (`sqlite`), `team.json` the same state for people and other programs, and `team.lock`
//! is there while a process works on it. Or it lies in a database file with many runs
//! (`sqlite/shared`), in PostgreSQL (`strata-postgres`), or in memory.
//!
//! What is read and written is the same everywhere (`strata-records`). Which kind of place it is is decided once, when an
//! address is parsed: what they do differently is in `location`, for one run, and in `run_database`, for many, one
//! implementation of a trait for each kind.
//!
//! ```
//! use strata_storage::StorageLocation;
//!
//! let location = StorageLocation::new("workspace/storage/team");
//! assert!(location.list(20)?.is_empty(), "nothing is saved there");
//! # Ok::<(), strata_storage::StoreError>(())
//! ```
//!
//! This crate touches storage directories and database files, and nothing else does. Without its feature `postgres` it
//! refuses the address of a server. What it reads may have been written
//! by anybody: checksums and the core's own validation decide whether it is returned. It knows neither team files
//! nor components.

mod copy_run;
mod database_set;
mod directory;
mod listed_run;
mod location;
mod owner_socket;
mod revision;
mod run_database;
mod sqlite;
mod sqlite_url;
mod team_json_file;

#[cfg(test)]
mod tests;

pub use copy_run::copy_records;
pub use database_set::{DatabaseSet, NameOrigin, SelectedDatabase, require_distinct};
pub use directory::KEPT_ASIDE;
pub use directory::default_location::{default_directories, resolve_link};
pub use directory::file::measure_sync;
#[cfg(test)]
use directory::lock::StorageLock;
use directory::{StorageDirectory, file, lock, progress};
pub use listed_run::ListedRun;
pub use location::{
    OpenedRun, PreparedRun, RunHold, SavedForm, SavedRun, StorageLocation, VacantLocation,
};
pub use revision::DatabaseRevisions;
pub use run_database::{RunDatabase, WorkerRegistration};
#[cfg(test)]
use sqlite::SqliteLease;
pub use sqlite::create_in_memory;
#[cfg(feature = "test-support")]
pub use sqlite::create_with_damage;
#[cfg(test)]
use sqlite::rows::SqliteReader;
pub use sqlite::shared::{HolderMailbox, UnownedRunHandler};
use sqlite::{blob, schema};
#[cfg(any(test, feature = "test-support"))]
pub use strata_records::MemoryCap;
pub use strata_records::{
    Append, AppendedState, Appending, BuildState, CapAccounts, CapAdmission, CapChange, CapCharge,
    CapDraw, CapScope, CapState, CapStore, ChangedRun, CheckpointOrigin, CheckpointRow, ClaimedRun,
    DEFAULT_PATIENCE, DEFAULT_TENANT, DatabaseReport, DatabaseRights, DatabaseSettings, DeletedRun,
    Durability, EarliestState, Epoch, FIRST_LINE, FencedDatabase, FileReport, Handover, Heartbeat,
    IncomingRequest, Intake, LEASE_TIME, Lease, LeaseStatus, LifecycleState, LineageRow,
    ListedOwner, ListedWorker, LoadedState, LocationIdentity, LockHolder, MAX_CAP_DOLLARS,
    MAX_NAME_CHARS, MailId, MailReply, Mailbox, NewSubmission, OtherWork, PruneNote, Pruned,
    QueuedRun, RECORDS_PER_BATCH, Reader, ReadyRuns, Record, RecordHold, RecordedRun,
    RegistrationHealth, ReplacePolicy, RequestHandler, RequestOutcome, Retention, RunCaps,
    RunChanges, RunCopy, RunFailure, RunFilter, RunNeeds, RunOverview, RunRelease, RunSchedule,
    RunStatistics, SavedDefinition, ServedFilter, ServedPosition, ServerRecord, ServerRecords,
    Shortage, SpanText, StateSelector, StoreError, SubmissionChange, SubmissionIdentity,
    SubmissionState, SubmittedRun, Tended, WorkerProfile, WriteContent, check_run_name,
    check_stored_name, checkpoint_of, checkpoints_of_state, has_ended, read_in_batches,
    stored_run_name,
};
use strata_records::{OwnerWait, TEAM_JSON, listing, served};
pub use team_json_file::TeamJsonFile;

/// A run, as it is listed without reading its state.
pub type RunListing = listing::RunListing<StorageLocation>;

/// A run of a server.
pub type ServedRun = served::ServedRun<StorageLocation>;
