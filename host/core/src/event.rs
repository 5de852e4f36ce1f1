//! Events: the facts a run consists of. What they do to the environment is in `stepper::apply`.
//!
//! The encoding is positional, and records outlive the program that wrote them. So new variants come at the end, and
//! the fields of a variant, as those of all it holds, stay as they are: an old record lacks the bytes of a new field and
//! cannot be read. What has to say more is a new variant, or gets a new format byte in the store. What a commit says in
//! detail is in `commit`.

mod commit;
mod status;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::budget::{Account, Reserved};
use crate::edit::Edit;
use crate::environment::scope::Write;
use crate::fault::Fault;
use crate::file::FileChange;
use crate::host_call::{Intent, Verdict};
use crate::id::{ActionId, CheckpointId, Digest, MessageId, RequestId, RoleId, RunId, Slot};
use crate::message::{Draft, Message};
use crate::money::Usd;
use crate::request::{Answer, Request};
use crate::rules::Rules;
use crate::team::Task;

pub use crate::host_call::{CallPolicy, HostCall, HostCallKind, Journal, Outcome, Source};
pub use commit::{Released, Routed, Writer};
pub use status::Status;

/// A fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The run began: its idea was published.
    RunStarted {
        /// The run's name.
        run: RunId,
        /// The idea.
        idea: String,
        /// What may be spent.
        budget: Option<Usd>,
        /// The components in their places.
        components: BTreeMap<Slot, Digest>,
        /// Where the idea went.
        routed: Routed,
        /// The entry state.
        checkpoint: CheckpointId,
        /// The rules it is run under.
        rules: Rules,
    },
    /// The run goes on after a stop or a crash.
    RunResumed {
        /// The checkpoint it goes on from; what was recorded since then holds.
        checkpoint: Option<CheckpointId>,
        /// The open or next step.
        step: u64,
        /// What may be spent from now on.
        budget: Option<Usd>,
        /// Which recorded host calls are served again.
        calls: CallPolicy,
        /// Finished work of open activations, which is not done again.
        kept: Vec<(RoleId, Work)>,
        /// The rules from now on.
        rules: Rules,
        /// What was spent in all, by other lineages too.
        spent: Usd,
    },
    /// A component was replaced.
    ComponentChanged {
        /// Where.
        slot: Slot,
        /// What was there.
        old: Option<Digest>,
        /// What is there now.
        new: Digest,
    },
    /// A message came from outside the team.
    MessageSent {
        /// The message.
        message: Message,
        /// Where it went.
        routed: Routed,
    },
    /// A step began: these roles took their mailboxes, or go on with what they had begun.
    StepStarted {
        /// Its number.
        step: u64,
        /// The roles, in order.
        roles: Vec<RoleId>,
    },
    /// An attempt began.
    CallStarted {
        /// Whose.
        role: RoleId,
        /// At what.
        work: Work,
        /// Counts from 1.
        attempt: u32,
        /// The component; none when the host itself thinks.
        digest: Option<Digest>,
        /// What happens to the recorded host calls of earlier attempts.
        journal: Journal,
        /// Writes among those that are forgotten, for people: they took effect, and may be made again.
        forgotten: Vec<String>,
    },
    /// An attempt called the host and has its answer.
    HostCalled {
        /// Whose attempt.
        role: RoleId,
        /// At what.
        work: Work,
        /// The call.
        call: HostCall,
        /// Where the answer came from.
        source: Source,
        /// The call for people, in a line; its request is kept as a digest only.
        what: String,
    },
    /// An attempt succeeded.
    CallFinished {
        /// Whose.
        role: RoleId,
        /// At what.
        work: Work,
        /// Counts from 1.
        attempt: u32,
        /// What came of it.
        result: Finished,
    },
    /// An attempt failed.
    CallFailed {
        /// Whose.
        role: RoleId,
        /// At what.
        work: Work,
        /// Counts from 1.
        attempt: u32,
        /// The component; none when the host itself thinks.
        digest: Option<Digest>,
        /// Why.
        fault: Fault,
        /// When it is tried again by itself: the pause before that, in milliseconds.
        retry_ms: Option<u32>,
    },
    /// The pause before another try is over.
    RetryDue {
        /// Whose.
        role: RoleId,
    },
    /// The step cannot be committed: several roles wrote one key of a scope without a reducer.
    StepConflicted {
        /// The step.
        step: u64,
        /// The scope.
        scope: String,
        /// The key.
        key: String,
        /// Who wrote it.
        writers: Vec<Writer>,
    },
    /// The results of a step took effect, all at once.
    StepCommitted {
        /// Its number.
        step: u64,
        /// The state afterwards.
        checkpoint: CheckpointId,
        /// The state before.
        parent: Option<CheckpointId>,
        /// Where its messages went, in the order in which they were published.
        routed: Vec<Routed>,
        /// What its messages made joins let go, in order.
        released: Vec<Released>,
    },
    /// The run stopped.
    RunEnded {
        /// Why.
        status: Status,
        /// The state at the stop, where it is not that of the last checkpoint.
        checkpoint: Option<CheckpointId>,
        /// The state before.
        parent: Option<CheckpointId>,
    },
    /// A person is asked. An attempt that asks ends with it.
    RequestOpened {
        /// Who asks.
        role: RoleId,
        /// At what.
        work: Work,
        /// What is asked.
        request: Request,
    },
    /// A request has its answer.
    RequestAnswered {
        /// Who asked.
        role: RoleId,
        /// What was asked.
        request: RequestId,
        /// The answer.
        answer: Answer,
        /// The state with it.
        checkpoint: CheckpointId,
        /// The state before.
        parent: Option<CheckpointId>,
    },
    /// Another lineage left here.
    Forked {
        /// Its name.
        lineage: String,
        /// The checkpoint it left at.
        from: CheckpointId,
        /// Its first checkpoint.
        checkpoint: CheckpointId,
        /// The open or next step.
        step: u64,
        /// What the operator changed.
        edits: Vec<Edit>,
        /// The money, as it stands now: going back gives nothing back.
        account: Account,
    },
    /// An attempt is about to make a host call that may change the world.
    HostCallBegun {
        /// Whose attempt.
        role: RoleId,
        /// At what.
        work: Work,
        /// The call.
        intent: Intent,
    },
    /// Money and tokens are held back for a call that an attempt is about to make.
    MoneyReserved {
        /// Whose attempt.
        role: RoleId,
        /// At what.
        work: Work,
        /// For what, and how much.
        reserved: Reserved,
    },
    /// An attempt wants to make a call that no budget allows any more. It ends, and is made again when there is more.
    CallSuspended {
        /// Whose attempt.
        role: RoleId,
        /// At what.
        work: Work,
        /// Counts from 1.
        attempt: u32,
    },
    /// The operator said what is to become of a call in doubt.
    DoubtSettled {
        /// Whose call.
        role: RoleId,
        /// At what.
        work: Work,
        /// Its place among the calls that were begun.
        place: u32,
        /// What it is, for people.
        what: String,
        /// What was said.
        verdict: Verdict,
    },
    /// An attempt that succeeds did not make calls that an earlier one had made.
    WritesUnclaimed {
        /// Whose attempt.
        role: RoleId,
        /// At what.
        work: Work,
        /// Those calls: their places among the ones that were begun, in order, and what they are, for people.
        writes: Vec<(u32, String)>,
    },
    /// The oldest message on its way out was handed over.
    HandedOver {
        /// The message.
        id: MessageId,
    },
    /// The oldest message on its way out could not be handed over. A resume tries again.
    HandOverFailed {
        /// The message.
        id: MessageId,
        /// Why.
        why: String,
    },
    /// Joins fired between steps: the team is quiet.
    JoinReleased {
        /// What they let go, in order.
        released: Vec<Released>,
    },
    /// What an attempt did to files. Its success follows at once.
    FilesWritten {
        /// Whose attempt.
        role: RoleId,
        /// At what.
        work: Work,
        /// What it did, by path.
        files: Vec<FileChange>,
    },
    /// Files lie in their places.
    FilesPlaced {
        /// How many of what was to be placed, oldest first.
        count: u32,
        /// What somebody else had changed there, and the names under which that was kept beside.
        aside: Vec<(String, String)>,
    },
}

/// What a role is doing: one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Work {
    /// It chooses its next action.
    Think {
        /// How many choices it made before.
        round: u32,
    },
    /// It plans.
    Plan,
    /// It runs an action.
    Act {
        /// Which.
        action: ActionId,
        /// For which task of the plan.
        task: Option<u32>,
    },
    /// A person answers for it: the work of human roles.
    Answer,
}

/// What came of a successful attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finished {
    /// A choice: an action's index, or -1 to end the activation.
    Chosen(i32),
    /// A plan.
    Planned {
        /// Its tasks.
        tasks: Vec<Task>,
        /// What was published beside.
        emissions: Vec<Draft>,
        /// What was written.
        writes: Vec<Write>,
    },
    /// An output.
    Returned {
        /// It.
        output: Draft,
        /// What was published beside.
        emissions: Vec<Draft>,
        /// What was written.
        writes: Vec<Write>,
    },
}
