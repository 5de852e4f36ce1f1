//! The store: what a run leaves on disk, and the only code that touches the storage directory.
//!
//! A storage directory holds `team.db`, the events and snapshots of a run; `team.json`, the same state for people
//! and for other programs; and `team.lock` while a process works on it. What an event does to a state is the core's
//! business: the store keeps events and gives them back.

mod codec;
mod directory;
mod error;
mod file;
mod lock;
mod memory;
mod reader;
mod schema;
mod socket;
mod sqlite;
pub mod team_json;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod script;

use std::path::PathBuf;

use strata_core::environment::Environment;
use strata_core::event::{Event, Status};
use strata_core::id::CheckpointId;

pub use directory::{Content, Created, Directory, Opened, Replace};
pub use error::StoreError;
pub use lock::Lock;
pub use memory::MemoryStore;
pub use reader::Reader;
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
    /// The newest.
    Head,
    /// That of a checkpoint.
    Checkpoint(CheckpointId),
}

/// A state, as something to start from and what happened since.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// Where to start.
    pub base: Environment,
    /// What is to be applied to it, oldest first.
    pub tail: Vec<Record>,
    /// The number of the public event line after the last.
    pub next_line: u64,
}

/// The team file a run was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// A checkpoint, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRow {
    /// Its name.
    pub id: CheckpointId,
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
    /// A run stopped within a step, with this status.
    Stop(Status),
}

impl Origin {
    /// The name that is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Import => "import",
            Self::Step => "step",
            Self::Stop(Status::Failed) => "fault",
            Self::Stop(Status::Interrupted) => "interrupt",
            Self::Stop(Status::OutOfBudget) => "budget",
            Self::Stop(Status::StepLimit) => "limit",
            Self::Stop(status) => status.name(),
        }
    }
}

/// What keeps a run. All of it is synchronous: it is called on the thread that drives the run.
pub trait Store: Send {
    /// Appends events: all of them or, on an error, none. When it returns they survive what `durability` says, and
    /// so does everything that was appended before.
    fn append(&mut self, records: &[Record], durability: Durability) -> Result<(), StoreError>;

    /// Whether the events since the last snapshot outweigh it.
    fn snapshot_due(&self) -> bool;

    /// Saves the state after all appended events, to start from when the run is loaded. Nothing else depends on it.
    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError>;

    /// A saved state.
    fn load(&self, at: &At) -> Result<Saved, StoreError>;

    /// All checkpoints, oldest first.
    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError>;

    /// Forgets all checkpoints but the first and the newest `keep`: they are no longer listed and cannot be gone back
    /// to. What happened stays recorded.
    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError>;

    /// At most `limit` events, oldest first, without the first `from`.
    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// The team file the run goes by.
    fn definition(&self) -> Result<SavedDefinition, StoreError>;

    /// Replaces the team file the run goes by.
    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError>;

    /// Replaces `team.json`, at once and durably.
    fn write_team_json(&mut self, text: &str) -> Result<(), StoreError>;
}

/// The public line after these records.
fn next_line(last: Option<&Record>) -> u64 {
    last.map_or(FIRST_LINE, |record| record.line + u64::from(record.lines))
}

/// Whether an event makes a checkpoint, or says how the run stood at the newest one.
fn marks(event: &Event) -> bool {
    matches!(event, Event::RunStarted { .. } | Event::StepCommitted { .. } | Event::RunEnded { .. })
}

/// The checkpoint that an event makes.
fn checkpoint_of(event: &Event) -> Option<&CheckpointId> {
    match event {
        Event::RunStarted { checkpoint, .. } | Event::StepCommitted { checkpoint, .. } => Some(checkpoint),
        Event::RunEnded { checkpoint, .. } => checkpoint.as_ref(),
        _ => None,
    }
}

/// The list of checkpoints: that of the state at the beginning, then those that the marking events make.
fn list_checkpoints(base: &Environment, marking: &[Record]) -> Vec<CheckpointRow> {
    let imported = base.checkpoint.iter().map(|id| CheckpointRow {
        id: id.clone(),
        step: base.step,
        parent: None,
        source: Origin::Import,
        status: base.status,
        time_ms: None,
    });
    let mut rows: Vec<CheckpointRow> = imported.collect();
    let mut next_step = base.step;
    for Record { time_ms, event, .. } in marking {
        let (step, parent, source, status) = match event {
            Event::RunStarted { .. } => (next_step, None, Origin::Entry, Status::Running),
            Event::StepCommitted { step, parent, .. } => {
                next_step = step + 1;
                (*step, parent.as_ref(), Origin::Step, Status::Running)
            }
            Event::RunEnded { status, parent, .. } => (next_step, parent.as_ref(), Origin::Stop(*status), *status),
            _ => continue,
        };
        let above = rows.iter().rposition(|row| Some(&row.id) == parent);
        match checkpoint_of(event) {
            Some(id) => {
                // Where the parent was forgotten, its nearest ancestor stands in for it.
                let above = above.or(rows.len().checked_sub(1)).map(|above| rows[above].id.clone());
                let (id, time_ms) = (id.clone(), Some(*time_ms));
                rows.push(CheckpointRow { id, step, parent: above, source, status, time_ms });
            }
            // The run ended where it had been saved already.
            None => above.into_iter().for_each(|above| rows[above].status = status),
        }
    }
    rows
}
