//! Effects: what the stepper wants to be done next. The driver carries them out.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::record::event::{Event, Status};
use crate::record::host_call::{HostCall, RecordedCallUse};
use crate::record::id::{Digest, RoleId};
use crate::record::json::Json;
use crate::record::message::Message;
use crate::record::role_call::RoleCallPath;
use crate::record::work::{CallKey, Task, Work};

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Record this event, then apply it.
    Record(Event),
    /// Record that this attempt starts, then start it.
    Call(Invocation),
    /// Do nothing until something happens that needs no decision: an attempt or a pause ends, a
    /// message in the outbox is delivered, or the run is started.
    Wait,
    /// The run has ended; nothing is left to do.
    Halt(Status),
}

/// An attempt to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// The role that makes it.
    pub role: RoleId,
    /// The calls of roles that led to its activation.
    pub via: RoleCallPath,
    /// The call that is attempted.
    pub work: Work,
    /// The planned task, if the call carries one out.
    pub task: Option<Task>,
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// The component; `None` when the host itself chooses the next action.
    pub digest: Option<Digest>,
    /// What happens to the host calls recorded by earlier attempts.
    pub call_reuse: RecordedCallUse,
    /// The recorded host calls that are served before new ones are made.
    pub recorded_calls: Vec<HostCall>,
    /// The key by which a service recognizes a repetition. All attempts at this call have one key.
    pub idempotency_key: String,
    /// The seed of its random numbers. It is the same in every lineage, so that a call that is
    /// repeated after going back draws the same numbers.
    pub seed: String,
    /// The arguments, if the call is one of a tool.
    pub arguments: Option<Json>,
    /// The messages that the activation handles.
    pub news: Vec<Arc<Message>>,
    /// The outputs of its earlier calls.
    pub outputs: Vec<Arc<Message>>,
}

impl Invocation {
    /// Returns the call that is attempted, with its role.
    pub fn key(&self) -> CallKey {
        CallKey {
            role: self.role,
            via: self.via,
            work: self.work,
        }
    }
}
