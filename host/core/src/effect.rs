//! Effects: what the stepper wants done next. Doing it is the driver's part.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::{Event, HostCall, Journal, Status, Work};
use crate::id::{Digest, RoleId};
use crate::message::Message;
use crate::team::Task;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Record this, then apply it.
    Record(Event),
    /// Record that this attempt starts, then start it.
    Call(Invocation),
    /// Nothing, until something happens that needs no decision: an attempt or a pause ends, a message gets out, the run is
    /// started.
    Wait,
    /// Nothing any more.
    Halt(Status),
}

/// An attempt to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// Whose.
    pub role: RoleId,
    /// At what.
    pub work: Work,
    /// The task, where it carries one out.
    pub task: Option<Task>,
    /// Counts from 1.
    pub attempt: u32,
    /// The component; none when the host itself thinks.
    pub digest: Option<Digest>,
    /// What happens to the recorded host calls of earlier attempts.
    pub journal: Journal,
    /// The recorded host calls it is served first.
    pub recorded: Vec<HostCall>,
    /// Stable over all attempts.
    pub idempotency_key: String,
    /// What its random numbers are drawn from: the same in every lineage, so that going back shows the same.
    pub seed: String,
    /// The mail the activation handles.
    pub news: Vec<Arc<Message>>,
    /// What its earlier calls returned.
    pub outputs: Vec<Arc<Message>>,
}
