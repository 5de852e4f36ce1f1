//! Events: the recorded facts a run consists of. How an event changes the environment is in
//! `stepper::apply`.
//!
//! Each event is a struct of its own. Those of the run as a whole are in `run`, those of steps in
//! `step`, those of messages and files on their way in `delivery`. What happens to one call of an
//! activation is in `attempt`: these events share a variant, because whoever follows attempts wants
//! the call first and only then what happened to it.
//!
//! Events are encoded by position (postcard), and records outlive the program that wrote them. A
//! record of another layout cannot be read, so a change of a struct, or of any type it contains,
//! needs a new format byte in the store, except that variants may be added at the end.

mod attempt;
mod delivery;
mod run;
mod server;
mod status;
mod step;

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::record::work::CallKey;

pub use attempt::{
    AttemptEvent, CallAsks, CallFailed, CallFinished, CallRevised, CallStarted, CallSuspended,
    DoubtSettled, FilesWritten, HostCallBegun, HostCalled, Logged, LookupsDenied, MoneyReserved,
    NestedCallMade, NestedCallPlan, RequestAnswered, RequestOpened, SuspendReason, ToolsListed,
    WritesUnclaimed,
};
pub use delivery::{
    FailedCondition, FilesPlaced, HandOverFailed, HandedOver, JoinRelease, JoinReleased,
    MessageSent, RoutingResult,
};
pub use run::{
    CapReached, ComponentChanged, ConsentWithdrawn, Forked, RunEnded, RunResumed, RunStarted,
};
pub use server::{ServerChanged, ServerState, ServerToolOmitted};
pub use status::Status;
pub use step::{ConflictingWriter, StepCommitted, StepConflicted, StepStarted};

/// One recorded fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The run started and its idea was published.
    RunStarted(RunStarted),
    /// The run continues after a stop or a crash.
    RunResumed(RunResumed),
    /// A component was replaced.
    ComponentChanged(ComponentChanged),
    /// A message arrived from outside the team.
    MessageSent(MessageSent),
    /// A step started.
    StepStarted(StepStarted),
    /// Something happened to a call of an activation.
    Attempt(CallKey, AttemptEvent),
    /// The step cannot be committed.
    StepConflicted(StepConflicted),
    /// The results of a step took effect, all at once.
    StepCommitted(StepCommitted),
    /// The run stopped.
    RunEnded(RunEnded),
    /// Another lineage branched off here.
    Forked(Forked),
    /// The oldest message in the outbox was delivered.
    HandedOver(HandedOver),
    /// The oldest message in the outbox could not be delivered.
    HandOverFailed(HandOverFailed),
    /// Joins fired between steps.
    JoinReleased(JoinReleased),
    /// Files were written to their final paths.
    FilesPlaced(FilesPlaced),
    /// A cap above the run is used up.
    CapReached(CapReached),
    /// What humans decided before was withdrawn.
    ConsentWithdrawn(ConsentWithdrawn),
    /// The state of an MCP server changed.
    ServerChanged(ServerChanged),
    /// A tool of an MCP server is not offered.
    ServerToolOmitted(ServerToolOmitted),
}

impl Event {
    /// Notes who asked for it, in an event that says so.
    pub fn with_author(mut self, author: Option<String>) -> Self {
        match &mut self {
            Self::RunResumed(resumed) => resumed.by = author,
            Self::RunEnded(ended) => ended.by = author,
            _ => {}
        }
        self
    }
}
