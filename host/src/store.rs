//! The store: what a run leaves on disk, and the only code that touches the storage directory.
//!
//! A storage directory holds `team.db`, the events and snapshots of a run; `team.json`, the same state for people
//! and for other programs; and `team.lock` while a process works on it. What an event does to a state is the core's
//! business: the store keeps events and gives them back.

mod blob;
mod codec;
mod directory;
mod each;
mod error;
mod file;
mod group;
mod lineage;
mod list;
mod lock;
mod memory;
mod named;
mod progress;
mod reader;
mod schema;
mod socket;
pub mod speed;
mod sqlite;
pub mod team_json;

#[cfg(test)]
mod bits;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod script;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_core::environment::Environment;
use strata_core::event::{Event, Source, Status};
use strata_core::id::{CheckpointId, Digest};
use strata_core::money::Usd;

use crate::blob::Blobs;

pub use directory::{Content, Created, Directory, Opened, Replace, Vacant};
pub(crate) use each::{PIECE, each};
pub use error::StoreError;
pub(crate) use error::of_file;
pub use group::GroupLog;
pub use lock::{Holder, Lock};
pub use memory::MemoryStore;
pub use named::{follow_link, link_to_last, named_directories};
pub use reader::{Beginning, Reader};
pub use socket::Socket;
pub use sqlite::SqliteStore;

/// The number of the first public event line of a run.
pub const FIRST_LINE: u64 = 1;

/// An event with what is known of it beside what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The number of the first public event line it yields.
    pub line: u64,
    /// How many public event lines it yields.
    pub lines: u32,
    /// When it was recorded, in milliseconds since 1970.
    pub time_ms: i64,
    /// What happened.
    pub event: Event,
}

/// What an append has to survive before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, however abrupt.
    Process,
    /// The loss of power.
    Full,
}

/// A state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// The newest of the current lineage.
    Head,
    /// That of a checkpoint, of any lineage.
    Checkpoint(CheckpointId),
    /// The newest of a lineage.
    Lineage(String),
}

/// A state, as something to start from and what happened since.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// Where to start.
    pub base: Environment,
    /// What is to be applied to it, oldest first.
    pub tail: Vec<Record>,
    /// The number of the public event line after the last of the storage.
    pub next_line: u64,
}

/// The team file a run was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedDefinition {
    /// How messages call it: its path as the operator gave it.
    pub name: String,
    /// The absolute directory that its relative paths start from.
    pub base: PathBuf,
    /// Its text.
    pub text: String,
    /// The components that the operator put in place of its own: `ROLE.ACTION=FILE` each, the file absolute.
    pub components: Vec<String>,
}

impl SavedDefinition {
    /// The file that it was read from, which may be another by now, or gone.
    pub fn file(&self) -> PathBuf {
        self.base
            .join(Path::new(&self.name).file_name().unwrap_or_default())
    }
}

/// A checkpoint, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRow {
    /// Its name.
    pub id: CheckpointId,
    /// The lineage it belongs to.
    pub lineage: String,
    /// The step that it follows or interrupts; the next step for the state a run starts from.
    pub step: u64,
    /// The one before it, where this storage knows it.
    pub parent: Option<CheckpointId>,
    /// What made it.
    pub source: Origin,
    /// How the run stood when it was the newest.
    pub status: Status,
    /// When it was made, in milliseconds since 1970; none for a state read from a file.
    pub time_ms: Option<i64>,
}

/// What made a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A run began.
    Entry,
    /// A state was read from `team.json`.
    Import,
    /// A step was committed.
    Step,
    /// Another lineage left here.
    Fork,
    /// A run stopped within a step, with this status.
    Stop(Status),
    /// A request was answered.
    Answer,
}

impl Origin {
    /// The name that is shown.
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

/// A line of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageRow {
    /// Its name.
    pub name: String,
    /// How many events lead to its newest state, from the beginning of the run.
    pub events: u64,
    /// Whether a run goes on with it by itself.
    pub current: bool,
}

/// What was freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many checkpoints cannot be gone back to any more.
    pub checkpoints: u64,
    /// How many events were dropped.
    pub events: u64,
    /// How many bytes the disk got back.
    pub bytes: u64,
}

/// Applies what happened to the state before it; says why that cannot be done.
pub type SumUp<'a> = dyn FnMut(Saved) -> Result<Environment, String> + 'a;

/// What keeps a run. All of it is synchronous: it is called on the thread that drives the run.
pub trait Store: Send {
    /// Appends events: all of them or none. When it returns they survive what `durability` says, and so does everything
    /// that was appended before. On an error none of them counts for this run, which ends; they may be there all the same
    /// when the storage is opened again.
    ///
    /// They belong to the current lineage. Where the first of them is a fork they begin another, at the checkpoint
    /// that it names; that one becomes the current if the run goes on with it: if more events come with it.
    fn append(&mut self, records: &[Record], durability: Durability) -> Result<(), StoreError>;

    /// Whether the events since the last snapshot outweigh it.
    fn snapshot_due(&self) -> bool;

    /// Saves the state after all appended events, to start from when the run is loaded. Nothing else depends on it. The
    /// next one is due after as much again, also where this one could not be saved.
    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError>;

    /// A saved state.
    fn load(&self, at: &At) -> Result<Saved, StoreError>;

    /// Goes on with another lineage from now on, which becomes the current one.
    fn turn_to(&mut self, lineage: &str) -> Result<(), StoreError>;

    /// All lineages, in the order in which they began.
    fn lineages(&self) -> Result<Vec<LineageRow>, StoreError>;

    /// What calls that were answered have cost in all lineages together.
    fn spent(&self) -> Result<Usd, StoreError>;

    /// All checkpoints of all lineages, oldest first.
    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError>;

    /// Forgets all checkpoints of the current lineage but the first and the newest `keep`: they are no longer listed
    /// and cannot be gone back to. Kept is also where another lineage left, and where somebody is waited for. What
    /// happened stays recorded.
    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError>;

    /// Does the same in all lineages, and drops the events that no kept checkpoint needs. All of it, or nothing.
    fn prune(&mut self, keep: u32, sum_up: &mut SumUp<'_>) -> Result<Pruned, StoreError>;

    /// At most `limit` events of those that lead to the newest state of the current lineage and were not dropped,
    /// oldest first, without the first `from`.
    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// Keeps the bytes of files. They survive whatever events survive that are appended after them.
    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError>;

    /// The bytes of a file; none where they are not kept here.
    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError>;

    /// The team file the run goes by.
    fn definition(&self) -> Result<SavedDefinition, StoreError>;

    /// Replaces the team file the run goes by.
    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError>;

    /// Replaces `team.json` with what `fill` writes, at once. Nobody ever finds a part of it; that it is the new one
    /// survives what `durability` says, and everything from the next full append on.
    fn write_team_json(
        &mut self,
        fill: &Fill<'_>,
        durability: Durability,
    ) -> Result<(), StoreError>;
}

/// Writes what a file is to hold, in pieces of some size: each is one write to the disk.
pub type Fill<'a> = dyn Fn(&mut dyn std::io::Write) -> std::io::Result<()> + 'a;

/// The checkpoints of a state without records: the one that it is, if it is one.
pub fn checkpoints_held(env: &Environment) -> Vec<CheckpointRow> {
    let alone = list::Marks {
        name: env.lineage.name.clone(),
        ..list::Marks::default()
    };
    list::list(env, &[alone])
        .into_iter()
        .map(|listed| listed.row)
        .collect()
}

/// The public line after these records.
fn next_line(last: Option<&Record>) -> u64 {
    last.map_or(FIRST_LINE, |record| record.line + u64::from(record.lines))
}

/// Whether an event makes a checkpoint, or says how the run stood at the newest one.
fn marks(event: &Event) -> bool {
    matches!(event, Event::RunEnded { .. }) || checkpoint_of(event).is_some()
}

/// The checkpoint that an event makes.
pub(crate) fn checkpoint_of(event: &Event) -> Option<&CheckpointId> {
    match event {
        Event::RunStarted { checkpoint, .. }
        | Event::StepCommitted { checkpoint, .. }
        | Event::RequestAnswered { checkpoint, .. }
        | Event::Forked { checkpoint, .. } => Some(checkpoint),
        Event::RunEnded { checkpoint, .. } => checkpoint.as_ref(),
        _ => None,
    }
}

/// What an event cost.
fn cost_of(event: &Event) -> Usd {
    match event {
        Event::HostCalled {
            call,
            source: Source::Live,
            ..
        } => call.cost,
        _ => Usd::ZERO,
    }
}
