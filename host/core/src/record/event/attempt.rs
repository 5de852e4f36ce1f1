//! The events of attempts: the start and the end of each, what it asks of the host and of humans,
//! what it writes, and what is decided about it. Which call an attempt makes is beside the event.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::asking_call::AskingCall;
use crate::record::fault::{Fault, FaultHandling};
use crate::record::file::FileChange;
use crate::record::host_call::{AnswerSource, DoubtResolution, HostCall, Intent, RecordedCallUse};
use crate::record::human_request::{HumanAnswer, HumanRequest};
use crate::record::id::{CheckpointId, Digest, RequestId};
use crate::record::json::Json;
use crate::record::memory::MemoryRequest;
use crate::record::server_tool::ToolList;
use crate::record::spending::Reservation;
use crate::record::turn::{CallDecision, CallRevision, SkillDigest};
use crate::record::work::CallResult;

/// What happened to a call of an activation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AttemptEvent {
    /// An attempt started.
    CallStarted(CallStarted),
    /// An attempt made a host call and received the answer.
    HostCalled(HostCalled),
    /// An attempt succeeded.
    CallFinished(CallFinished),
    /// An attempt failed.
    CallFailed(CallFailed),
    /// The pause before a retry is over.
    RetryDue,
    /// A human is asked. An attempt that asks ends with this event.
    RequestOpened(RequestOpened),
    /// A request was answered.
    RequestAnswered(RequestAnswered),
    /// An attempt is about to make a host call that may change something outside.
    HostCallBegun(HostCallBegun),
    /// Money and tokens are reserved for a host call that an attempt is about to make.
    MoneyReserved(MoneyReserved),
    /// An attempt ended because it cannot go on for now.
    CallSuspended(CallSuspended),
    /// The operator decided what becomes of a host call in doubt.
    DoubtSettled(DoubtSettled),
    /// An attempt that succeeds did not repeat external writes that an earlier attempt had made.
    WritesUnclaimed(WritesUnclaimed),
    /// The file changes of an attempt.
    FilesWritten(FilesWritten),
    /// What is to become of an open tool call was decided again.
    CallRevised(CallRevised),
    /// What an attempt that succeeds has logged.
    Logged(Logged),
    /// An attempt looked for paths that it may not see.
    LookupsDenied(LookupsDenied),
    /// An attempt has given the text of a skill to the model.
    SkillLoaded(SkillDigest),
    /// An attempt that succeeds asks to replace a part of the conversation of its role.
    MemoryRequested(MemoryRequest),
    /// An attempt at a tool call calls a tool.
    NestedCallMade(NestedCallMade),
    /// The tools of MCP servers that the activation works with were listed.
    ToolsListed(ToolsListed),
    /// The receiver of a host call asks humans. The attempt ends with this event.
    CallAsks(CallAsks),
}

/// An attempt started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStarted {
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// The component; `None` when the host itself chooses the next action.
    pub digest: Option<Digest>,
    /// What happens to the host calls recorded by earlier attempts.
    pub call_reuse: RecordedCallUse,
    /// Descriptions of the external writes among the forgotten calls. They took effect and may be
    /// made again.
    pub forgotten: Vec<String>,
}

/// An attempt made a host call and received the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCalled {
    /// The host call.
    pub call: HostCall,
    /// Where the answer came from.
    pub source: AnswerSource,
    /// The host call in one line, for people. The request itself is kept only as a digest.
    pub summary: String,
}

/// An attempt succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFinished {
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// The result.
    pub result: CallResult,
}

/// An attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailed {
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// The component; `None` when the host itself chooses the next action.
    pub digest: Option<Digest>,
    /// Why it failed.
    pub fault: Fault,
    /// The pause before the automatic retry, in milliseconds; `None` if it is not retried
    /// automatically.
    pub retry_ms: Option<u32>,
    /// What becomes of the fault.
    pub handling: FaultHandling,
}

/// A human is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOpened {
    /// The request.
    pub request: HumanRequest,
}

/// A request was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestAnswered {
    /// The request.
    pub request: RequestId,
    /// The answer.
    pub answer: HumanAnswer,
    /// The name of the person who answered, if it is known.
    pub person: Option<String>,
    /// The checkpoint after the answer.
    pub checkpoint: CheckpointId,
    /// The checkpoint before the answer.
    pub parent: Option<CheckpointId>,
}

/// An attempt is about to make a host call that may change something outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCallBegun {
    /// The intended host call.
    pub intent: Intent,
}

/// Money and tokens are reserved for a host call that an attempt is about to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoneyReserved {
    /// The reservation.
    pub reserved: Reservation,
}

/// An attempt cannot go on for now. It ends, and is made again when it can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSuspended {
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// What it would have to wait for.
    pub reason: SuspendReason,
}

/// What a suspended attempt would have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuspendReason {
    /// A host call that a budget no longer allows.
    Budget,
    /// A call of a tool, which waits for a human or for a role.
    NestedCall,
    /// A guard that sees what a called role answered: the role is done.
    Review,
}

impl SuspendReason {
    /// Returns the name used in the public events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Budget => "out-of-budget",
            Self::NestedCall => "tool-call",
            Self::Review => "guard",
        }
    }
}

/// The operator decided what becomes of a host call in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoubtSettled {
    /// The index of the host call among the external writes of the call.
    pub index: u32,
    /// A description for people.
    pub description: String,
    /// The decision.
    pub resolution: DoubtResolution,
}

/// An attempt that succeeds did not repeat external writes that an earlier attempt had made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritesUnclaimed {
    /// Those writes: their indices among the external writes of the call, ascending, and
    /// descriptions for people.
    pub writes: Vec<(u32, String)>,
}

/// The file changes of an attempt. The event of its success follows at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesWritten {
    /// The changes, sorted by path.
    pub files: Vec<FileChange>,
}

/// What is to become of an open tool call was decided again when the run was resumed, because its
/// tool has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRevised {
    /// The decision.
    pub revision: CallRevision,
}

/// What an attempt that succeeds has logged or written to its standard streams. The event of its
/// success follows at once. What an attempt logged that fails is part of its fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// The last lines.
    pub lines: Vec<String>,
    /// How many lines came before these.
    pub left_out: u64,
}

/// An attempt looked for paths outside of the granted directories, and was not told that it may not see
/// them, or went on. The event of its end follows at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupsDenied {
    /// The paths, in the order in which it looked for them first.
    pub paths: Vec<String>,
}

/// An attempt at a tool call calls a tool. The call that it makes is an attempt of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedCallMade {
    /// The number of the call within the outer one, starting at 0.
    pub number: u16,
    /// What is to become of it; `None` if an earlier attempt made the same call, which is continued, or
    /// whose result is served again.
    pub plan: Option<NestedCallPlan>,
}

/// What is to become of a call that code makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedCallPlan {
    /// A digest of the tool and the arguments, by which later attempts recognise the call.
    pub request: String,
    /// The name of the tool in the team; if there is no such tool, the name that the code used.
    pub tool: String,
    /// The arguments.
    pub arguments: Json,
    /// The decision.
    pub decision: CallDecision,
}

/// The tools of MCP servers were listed for the first turn of an activation. All its turns work with
/// these lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsListed {
    /// The lists, in the order of the team file.
    pub lists: Arc<[ToolList]>,
}

/// The receiver of a host call asks humans before it answers. The attempt ends, and the next one continues
/// the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAsks {
    /// The call, with its questions.
    pub call: AskingCall,
}
