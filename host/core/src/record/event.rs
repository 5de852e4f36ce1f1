//! Events: the recorded facts a run consists of. How an event changes the environment is in
//! `stepper::apply`.
//!
//! Events are encoded by position (postcard), and records outlive the program that wrote them. A
//! record of another layout cannot be read, so a change of a variant, or of any type it contains,
//! needs a new format byte in the store, except that variants may be added at the end. The records
//! that make up a commit are in `commit`.

mod commit;
mod status;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::edit::Edit;
use crate::record::fault::Fault;
use crate::record::file::FileChange;
use crate::record::host_call::{
    AnswerSource, CallPolicy, DoubtResolution, HostCall, Intent, RecordedCallUse,
};
use crate::record::id::{CheckpointId, Digest, MessageId, RequestId, RoleId, RunId, Slot};
use crate::record::message::Message;
use crate::record::money::Usd;
use crate::record::request::{HumanAnswer, HumanRequest};
use crate::record::rules::Rules;
use crate::record::spending::{Account, Reservation};
use crate::record::work::{CallResult, Work};

pub use commit::{ConflictingWriter, JoinRelease, RoutingResult};
pub use status::Status;

/// One recorded fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The run started and its idea was published.
    RunStarted {
        /// The name of the run.
        run: RunId,
        /// The idea: the text the run starts from.
        idea: String,
        /// The budget of the whole team in dollars; `None` for no limit.
        budget: Option<Usd>,
        /// The component in each slot.
        components: BTreeMap<Slot, Digest>,
        /// Who received the idea.
        routed: RoutingResult,
        /// The first checkpoint.
        checkpoint: CheckpointId,
        /// The rules the run is under.
        rules: Rules,
    },
    /// The run continues after a stop or a crash.
    RunResumed {
        /// The checkpoint it continues from. Events recorded after that checkpoint still count.
        checkpoint: Option<CheckpointId>,
        /// The open or next step.
        step: u64,
        /// The budget from now on; `None` for no limit.
        budget: Option<Usd>,
        /// Which recorded host calls are served again.
        call_policy: CallPolicy,
        /// Finished calls of open activations. They are not made again.
        finished: Vec<(RoleId, Work)>,
        /// The rules from now on.
        rules: Rules,
        /// The total spent so far, including by other lineages.
        spent: Usd,
    },
    /// A component was replaced.
    ComponentChanged {
        /// The slot.
        slot: Slot,
        /// The component that was in it.
        old: Option<Digest>,
        /// The component that is in it now.
        new: Digest,
    },
    /// A message arrived from outside the team.
    MessageSent {
        /// The message.
        message: Message,
        /// Who received it.
        routed: RoutingResult,
    },
    /// A step started: these roles took their mail, or continue the work they have open.
    StepStarted {
        /// Its number.
        step: u64,
        /// The roles, in order.
        roles: Vec<RoleId>,
    },
    /// An attempt started.
    CallStarted {
        /// The role that makes the attempt.
        role: RoleId,
        /// The call that is attempted.
        work: Work,
        /// The number of the attempt, starting at 1.
        attempt: u32,
        /// The component; `None` when the host itself chooses the next action.
        digest: Option<Digest>,
        /// What happens to the host calls recorded by earlier attempts.
        call_reuse: RecordedCallUse,
        /// Descriptions of the external writes among the forgotten calls. They took effect and may
        /// be made again.
        forgotten: Vec<String>,
    },
    /// An attempt made a host call and received the answer.
    HostCalled {
        /// The role that makes the attempt.
        role: RoleId,
        /// The call that is attempted.
        work: Work,
        /// The call.
        call: HostCall,
        /// Where the answer came from.
        source: AnswerSource,
        /// The host call in one line, for people. The request itself is kept only as a digest.
        summary: String,
    },
    /// An attempt succeeded.
    CallFinished {
        /// The role that made the attempt.
        role: RoleId,
        /// The call that was attempted.
        work: Work,
        /// The number of the attempt, starting at 1.
        attempt: u32,
        /// The result.
        result: CallResult,
    },
    /// An attempt failed.
    CallFailed {
        /// The role that made the attempt.
        role: RoleId,
        /// The call that was attempted.
        work: Work,
        /// The number of the attempt, starting at 1.
        attempt: u32,
        /// The component; `None` when the host itself chooses the next action.
        digest: Option<Digest>,
        /// Why it failed.
        fault: Fault,
        /// The pause before the automatic retry, in milliseconds; `None` if it is not retried
        /// automatically.
        retry_ms: Option<u32>,
    },
    /// The pause before a retry is over.
    RetryDue {
        /// The role that tries again.
        role: RoleId,
    },
    /// The step cannot be committed: several roles wrote the same key of a scope without a reducer.
    StepConflicted {
        /// The number of the step.
        step: u64,
        /// The scope.
        scope: String,
        /// The key.
        key: String,
        /// The roles that wrote it.
        writers: Vec<ConflictingWriter>,
    },
    /// The results of a step took effect, all at once.
    StepCommitted {
        /// The number of the step.
        step: u64,
        /// The checkpoint after the commit.
        checkpoint: CheckpointId,
        /// The checkpoint before the commit.
        parent: Option<CheckpointId>,
        /// Who received its messages, in the order of publication.
        routed: Vec<RoutingResult>,
        /// What joins released because of these messages, in order.
        released: Vec<JoinRelease>,
    },
    /// The run stopped.
    RunEnded {
        /// The final status.
        status: Status,
        /// The checkpoint at the stop, if the state differs from that of the last checkpoint.
        checkpoint: Option<CheckpointId>,
        /// The checkpoint before that.
        parent: Option<CheckpointId>,
    },
    /// A human is asked. An attempt that asks ends with this event.
    RequestOpened {
        /// The role that asks.
        role: RoleId,
        /// The call that asks.
        work: Work,
        /// The request.
        request: HumanRequest,
    },
    /// A request was answered.
    RequestAnswered {
        /// The role that asked.
        role: RoleId,
        /// The request.
        request: RequestId,
        /// The answer.
        answer: HumanAnswer,
        /// The checkpoint after the answer.
        checkpoint: CheckpointId,
        /// The checkpoint before the answer.
        parent: Option<CheckpointId>,
    },
    /// Another lineage branched off here.
    Forked {
        /// The name of the new lineage.
        lineage: String,
        /// The checkpoint at which it branched off.
        from: CheckpointId,
        /// Its first checkpoint.
        checkpoint: CheckpointId,
        /// The open or next step.
        step: u64,
        /// The values that the operator changed.
        edits: Vec<Edit>,
        /// The account as it stands now. Going back to an earlier checkpoint refunds nothing.
        account: Account,
    },
    /// An attempt is about to make a host call that may change something outside.
    HostCallBegun {
        /// The role that makes the attempt.
        role: RoleId,
        /// The call that is attempted.
        work: Work,
        /// The intended host call.
        intent: Intent,
    },
    /// Money and tokens are reserved for a host call that an attempt is about to make.
    MoneyReserved {
        /// The role that makes the attempt.
        role: RoleId,
        /// The call that is attempted.
        work: Work,
        /// The reservation.
        reserved: Reservation,
    },
    /// An attempt wants to make a host call that a budget no longer allows. The attempt ends and is
    /// made again when the budget has been raised.
    CallSuspended {
        /// The role that made the attempt.
        role: RoleId,
        /// The call that was attempted.
        work: Work,
        /// The number of the attempt, starting at 1.
        attempt: u32,
    },
    /// The operator decided what becomes of a host call in doubt.
    DoubtSettled {
        /// The role that made the call.
        role: RoleId,
        /// The call of the activation during which it was made.
        work: Work,
        /// Its index among the external writes of that call.
        index: u32,
        /// A description for people.
        description: String,
        /// The decision.
        resolution: DoubtResolution,
    },
    /// An attempt that succeeds did not repeat external writes that an earlier attempt had made.
    WritesUnclaimed {
        /// The role that makes the attempt.
        role: RoleId,
        /// The call that is attempted.
        work: Work,
        /// Those writes: their indices among the external writes of the call, ascending, and
        /// descriptions for people.
        writes: Vec<(u32, String)>,
    },
    /// The oldest message in the outbox was delivered.
    HandedOver {
        /// The message.
        id: MessageId,
    },
    /// The oldest message in the outbox could not be delivered. A resume tries again.
    HandOverFailed {
        /// The message.
        id: MessageId,
        /// The reason.
        why: String,
    },
    /// Joins fired between steps because the team is quiet.
    JoinReleased {
        /// What they released, in order.
        released: Vec<JoinRelease>,
    },
    /// The file changes of an attempt. The event of its success follows at once.
    FilesWritten {
        /// The role that makes the attempt.
        role: RoleId,
        /// The call that is attempted.
        work: Work,
        /// The changes, sorted by path.
        files: Vec<FileChange>,
    },
    /// Files were written to their final paths.
    FilesPlaced {
        /// How many of the pending placements were carried out, oldest first.
        count: u32,
        /// Files that somebody else had changed there, each with the name under which it was kept
        /// beside.
        aside: Vec<(String, String)>,
    },
}
