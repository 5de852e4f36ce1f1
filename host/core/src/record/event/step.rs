//! The events of steps: their start, their commit, and what prevents a commit.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{JoinRelease, RoutingResult};
use crate::record::id::{CheckpointId, Digest, RoleId};
use crate::record::work::CallKey;

/// A step started: these roles took their mail, or continue the work they have open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStarted {
    /// Its number.
    pub step: u64,
    /// The roles, in order.
    pub roles: Vec<RoleId>,
}

/// The step cannot be committed: several roles wrote the same key of a scope without a reducer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepConflicted {
    /// The number of the step.
    pub step: u64,
    /// The scope.
    pub scope: String,
    /// The key.
    pub key: String,
    /// The roles that wrote it.
    pub writers: Vec<ConflictingWriter>,
}

/// A role that is set back to before a call, because what that call wrote conflicts with the writes
/// of other roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictingWriter {
    /// The call.
    pub call: CallKey,
    /// The number of the attempt that wrote, starting at 1.
    pub attempt: u32,
    /// The component; `None` when the host itself chooses the next action.
    pub digest: Option<Digest>,
}

/// The results of a step took effect, all at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCommitted {
    /// The number of the step.
    pub step: u64,
    /// The checkpoint after the commit.
    pub checkpoint: CheckpointId,
    /// The checkpoint before the commit.
    pub parent: Option<CheckpointId>,
    /// Who received its messages, in the order of publication.
    pub routed: Vec<RoutingResult>,
    /// What joins released because of these messages, in order.
    pub released: Vec<JoinRelease>,
}
