//! The definition of a role whose model works in a loop with tools. Descriptions and schemas of
//! tools are in the host, because nothing that is decided here depends on them.

use alloc::string::String;
use alloc::vec::Vec;

use super::RetryPolicy;
use crate::record::fault::{FaultHandling, FaultKind};
use crate::record::turn::{CallTarget, ToolRef};

/// How the model of a role works with tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLoop {
    /// How many replies of the model one activation may take; at least 1.
    pub max_turns: u32,
    /// How many tool calls one activation may make. Further calls are rejected.
    pub max_calls: u32,
    /// In which order the calls of a turn are made.
    pub order: CallOrder,
    /// What becomes of faults of tool calls.
    pub faults: ToolFaults,
    /// What the model is told about the past of the role.
    pub history: HistoryUse,
    /// Whether the model has to call a tool.
    pub tool_choice: ToolChoice,
    /// Instructions in addition to the texts of the role.
    pub instructions: String,
    /// How often a failed request to the model is repeated.
    pub retry: RetryPolicy,
    /// The tools, in the order in which the model is told about them.
    pub tools: Vec<Tool>,
}

/// A tool of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name in events and in `team.json`, unique in the role.
    pub name: String,
    /// What a call of it is made to.
    pub target: CallTarget,
    /// Whether a human has to approve each call.
    pub approval: Option<ApprovalRule>,
    /// What becomes of its faults; `None` for what the role says.
    pub faults: Option<ToolFaults>,
    /// Whether it may run at the same time as other calls of a turn.
    pub order: CallOrder,
}

/// How calls of a tool are approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalRule {
    /// How long an answer is awaited, in milliseconds; `None` for ever.
    pub expires_ms: Option<u64>,
    /// Whether the call is approved if nobody answers in time. `None` counts as no.
    pub default: Option<bool>,
}

/// Whether calls may be made at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrder {
    /// At the same time as others.
    Parallel,
    /// Never at the same time as another call of the turn.
    Exclusive,
}

/// What becomes of a fault of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFaults {
    /// The kind of the fault decides.
    Auto,
    /// The model is told.
    Return,
    /// It is a fault of the run.
    Stop,
}

/// What a model is told about the past of its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryUse {
    /// The earlier messages that the role handled, and its answers.
    Role,
    /// Nothing.
    None,
}

/// Whether a model has to call a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// It decides.
    Auto,
    /// It has to call one.
    Required,
    /// It must not call any.
    None,
    /// It has to call this one.
    Tool(String),
}

impl ToolLoop {
    /// Returns the definition of a tool.
    pub fn tool(&self, tool: ToolRef) -> Option<&Tool> {
        self.tools.iter().find(|known| known.target.tool == tool)
    }

    /// Returns what becomes of a fault of a call of this tool.
    pub fn fault_handling(&self, tool: ToolRef, kind: FaultKind) -> FaultHandling {
        let own = self.tool(tool).and_then(|tool| tool.faults);
        match own.unwrap_or(self.faults) {
            ToolFaults::Return => FaultHandling::Returned,
            ToolFaults::Stop => FaultHandling::Stops,
            ToolFaults::Auto => match kind {
                FaultKind::Error
                | FaultKind::Denied
                | FaultKind::OutputInvalid
                | FaultKind::OutputLimit
                | FaultKind::Cpu
                | FaultKind::Fuel
                | FaultKind::Memory
                | FaultKind::Timeout
                | FaultKind::Stack => FaultHandling::Returned,
                FaultKind::Trap
                | FaultKind::Host
                | FaultKind::StateConflict
                | FaultKind::Think
                | FaultKind::Turns
                | FaultKind::Interrupted => FaultHandling::Stops,
            },
        }
    }

    /// Returns whether a call of this tool must not run at the same time as others.
    pub(crate) fn is_exclusive(&self, tool: ToolRef) -> bool {
        self.order == CallOrder::Exclusive
            || self
                .tool(tool)
                .is_some_and(|tool| tool.order == CallOrder::Exclusive)
    }
}
