//! Turns of a role whose model calls tools: what a reply says, which tools there are, and what
//! becomes of each call that the model asks for.
//!
//! A reply is recorded as the host checked it. Whatever depends on the definition of the team (which
//! calls are made, which ones a human is asked about, which ones end the activation) is part of the
//! record, so that it means the same when the definition has changed.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::conversation::AssistantPart;
use crate::record::host_call::{CallOutcome, FinishReason, HostCall};
use crate::record::id::{ActionId, RoleId};
use crate::record::json::Json;
use crate::record::message::Draft;
use crate::record::money::Usd;

/// What a tool of a role stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ToolRef {
    /// An action of the role.
    Action(ActionId),
    /// Handing over to another role.
    Handoff(RoleId),
    /// An activation of another role.
    Role(RoleId),
}

/// A reply of the model of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReply {
    /// The name of the model that replied.
    pub model: String,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// What the reply cost.
    pub cost: Usd,
    /// The reply, exactly as it was received. It is sent back in the turns that follow.
    pub message: ReplyMessage,
    /// What follows from it.
    pub outcome: TurnOutcome,
}

/// The parts of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplyMessage {
    /// These parts.
    Parts(Vec<AssistantPart>),
    /// The answer to the last model call that the attempt recorded. It is not stored again.
    OfLastCall,
}

impl ReplyMessage {
    /// Returns the parts. `calls` are the recorded host calls of the attempt. Returns `None` if they
    /// contain no reply.
    pub fn resolve<'a>(&'a self, calls: &[HostCall]) -> Option<Cow<'a, [AssistantPart]>> {
        match self {
            Self::Parts(parts) => Some(Cow::Borrowed(parts)),
            Self::OfLastCall => last_model_call(calls)?.reply_parts().map(Cow::Owned),
        }
    }
}

/// Returns the last call of a model that was answered.
pub(crate) fn last_model_call(calls: &[HostCall]) -> Option<&HostCall> {
    let mut newest_first = calls.iter().rev();
    newest_first.find(|call| call.outcome == CallOutcome::Answered && call.model.is_some())
}

/// What follows from a reply of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnOutcome {
    /// The model calls tools. There is one plan for each of its calls, in its order.
    Calls(Vec<CallPlan>),
    /// The model answers, which ends the activation.
    Answer(Draft),
    /// The model answers something that does not match the schema of the answer. It is told this
    /// reason in the next turn.
    Misfit(String),
}

/// What is to become of a call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPlan {
    /// The provider's id of the call.
    pub id: String,
    /// The name of the tool in the team; if there is no such tool, the name that the model used.
    pub tool: String,
    /// The decision.
    pub decision: CallDecision,
}

/// The decision about a call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallDecision {
    /// It is made.
    Make(CallTarget),
    /// It is made if a human approves.
    AskFirst(CallTarget, Approval),
    /// It is not made, and the model is told this reason.
    Reject(String),
}

/// A later decision about a tool call that has not ended, because its tool has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallRevision {
    /// It is made only if a human approves.
    AskFirst(Approval),
    /// It is not made, and the model is told this reason.
    Reject(String),
}

/// What a call is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTarget {
    /// The tool.
    pub tool: ToolRef,
    /// What follows from the success of the call.
    pub effect: CallEffect,
}

/// What follows from the success of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallEffect {
    /// The model is told the result.
    Continues,
    /// The activation ends, and its output is made of the result.
    Ends,
}

/// How a human is asked to approve a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The JSON Schema of the tool's arguments, which arguments that a human sets must conform to.
    pub input_schema: Option<Json>,
    /// The answer that is used if nobody answers in time.
    pub default: Option<Json>,
    /// The deadline, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
}
