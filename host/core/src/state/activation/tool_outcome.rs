//! What a person decides about a tool call, and what becomes of it.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::UncommittedMessage;
use crate::record::fault::Fault;
use crate::record::message::Draft;
use crate::record::scope_write::Write;
use crate::record::turn::Approval;

/// Whether a human has to approve a tool call before it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Consent {
    /// It needs no approval.
    NotNeeded,
    /// A human has to be asked like this, or is being asked.
    Needed(Approval),
    /// It was approved.
    Given,
}

/// What became of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolOutcome {
    /// It returned a result.
    Returned(ToolReturn),
    /// It failed, and the model is told.
    Failed(Fault),
    /// It was not made for this reason, and the model is told.
    Rejected(String),
    /// A human did not approve it for this reason, and the model is told.
    Declined(String),
}

/// What a tool call returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReturn {
    /// The result.
    pub output: Draft,
    /// The messages it published.
    pub emissions: Vec<UncommittedMessage>,
    /// Its writes to scopes.
    pub writes: Vec<Write>,
    /// Whether the result says that the call failed.
    pub is_error: bool,
}
