//! The events of a run as a whole: its start, its resumes and its end, the components that were
//! replaced, and the lineages that branch off.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{RoutingResult, Status};
use crate::record::conversation::Part;
use crate::record::edit::Edit;
use crate::record::host_call::CallPolicy;
use crate::record::id::{CheckpointId, Digest, RunId, Slot};
use crate::record::money::Usd;
use crate::record::questions::AskedQuestions;
use crate::record::rules::Rules;
use crate::record::spending::Account;
use crate::record::work::CallKey;

/// The run started and its idea was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The name of the run.
    pub run: RunId,
    /// The idea: the text the run starts from.
    pub idea: String,
    /// The images and files that belong to it.
    pub parts: Vec<Part>,
    /// The budget of the whole team in dollars; `None` for no limit.
    pub budget: Option<Usd>,
    /// The component in each slot.
    pub components: BTreeMap<Slot, Digest>,
    /// Who received the idea.
    pub routed: RoutingResult,
    /// The first checkpoint.
    pub checkpoint: CheckpointId,
    /// The rules the run is under.
    pub rules: Rules,
}

/// The run continues after a stop or a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResumed {
    /// The checkpoint it continues from. Events recorded after that checkpoint still count.
    pub checkpoint: Option<CheckpointId>,
    /// The open or next step.
    pub step: u64,
    /// The budget from now on; `None` for no limit.
    pub budget: Option<Usd>,
    /// Which recorded host calls are served again.
    pub call_policy: CallPolicy,
    /// Finished calls of open activations. They are not made again.
    pub finished: Vec<CallKey>,
    /// The rules from now on.
    pub rules: Rules,
    /// The total spent so far, including by other lineages.
    pub spent: Usd,
    /// Questions that other lineages asked, if this one may not know them.
    pub questions: AskedQuestions,
    /// Who asked for it; `None` if nobody did by name, or a worker continues the run by itself.
    pub by: Option<String>,
}

/// A component was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentChanged {
    /// The slot.
    pub slot: Slot,
    /// The component that was in it.
    pub old: Option<Digest>,
    /// The component that is in it now.
    pub new: Digest,
}

/// A cap above the run is used up: no call that costs something is made until the run is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapReached {
    /// What the cap applies to: `all` runs of the database, or those that were submitted with this name.
    pub scope: String,
    /// The cap in dollars.
    pub cap: Usd,
}

/// The state was taken over from somebody else, so what humans are said to have decided in it does
/// not count: approvals of tool calls that were not made yet, and answers of which nothing is
/// committed. They are asked again, without the defaults and deadlines of before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentWithdrawn {}

/// The run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The final status.
    pub status: Status,
    /// The checkpoint at the stop, if the state differs from that of the last checkpoint.
    pub checkpoint: Option<CheckpointId>,
    /// The checkpoint before that.
    pub parent: Option<CheckpointId>,
    /// Who ended it; `None` if it ended by itself.
    pub by: Option<String>,
}

/// Another lineage branched off here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forked {
    /// The name of the new lineage.
    pub lineage: String,
    /// The checkpoint at which it branched off.
    pub from: CheckpointId,
    /// Its first checkpoint.
    pub checkpoint: CheckpointId,
    /// The open or next step.
    pub step: u64,
    /// The values that the operator changed.
    pub edits: Vec<Edit>,
    /// The account as it stands now. Going back to an earlier checkpoint refunds nothing.
    pub account: Account,
    /// The questions that humans were asked in all lineages.
    pub questions: AskedQuestions,
}
