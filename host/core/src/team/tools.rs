//! The definition of a role whose model works in a loop with tools, as far as the core decides by
//! it. What the model is sent (instructions, descriptions, schemas) and how calls are approved is in
//! the host.

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
    /// How many calls in a row may be equal and have equal results. The next one is rejected, and the
    /// activation fails with the one after it. `None` for no limit.
    pub repeat: Option<u32>,
    /// In which order the calls of a turn are made.
    pub order: CallOrder,
    /// What becomes of faults of tool calls.
    pub faults: ToolFaults,
    /// How often a failed request to the model is repeated.
    pub retry: RetryPolicy,
    /// What writes the summaries of its conversations.
    pub summariser: Summariser,
    /// Whether a guard sees the results of calls before the model does.
    pub reviews_results: bool,
    /// The tools, in the order in which the model is told about them.
    pub tools: Vec<Tool>,
    /// How many calls of the tools of an MCP server one activation may make, for servers with such a limit.
    pub server_limits: Vec<ServerLimit>,
}

/// How many calls of the tools of an MCP server one activation may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimit {
    /// The name of the server in the team file.
    pub server: String,
    /// The number of calls, of all its tools together.
    pub max_calls: u32,
}

/// A tool of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name in events and in `team.json`, unique in the role.
    pub name: String,
    /// What a call of it is made to.
    pub target: CallTarget,
    /// What becomes of its faults; `None` for what the role says.
    pub faults: Option<ToolFaults>,
    /// Whether it may run at the same time as other calls of a turn.
    pub order: CallOrder,
    /// How many calls of it one activation may make; `None` for no limit of its own.
    pub max_calls: Option<u32>,
}

/// What writes the summaries of the conversations of a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Summariser {
    /// A model.
    #[default]
    Model,
    /// A component.
    Component,
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

impl ToolLoop {
    /// Returns the definition of a tool.
    pub fn tool(&self, tool: ToolRef) -> Option<&Tool> {
        let tool = tool.definition();
        self.tools.iter().find(|known| known.target.tool == tool)
    }

    /// Returns how many calls of the tools of a server one activation may make, if that is limited.
    pub fn server_limit(&self, server: &str) -> Option<u32> {
        let mut limits = self.server_limits.iter();
        Some(limits.find(|limit| limit.server == server)?.max_calls)
    }

    /// Returns what becomes of a fault of a call of this tool.
    pub fn fault_handling(&self, tool: ToolRef, kind: FaultKind) -> FaultHandling {
        let own = self.tool(tool).and_then(|tool| tool.faults);
        match own.unwrap_or(self.faults) {
            // The call did nothing wrong: it is made again.
            _ if kind == FaultKind::Interrupted => FaultHandling::Stops,
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
                // What a server does is no failure of the host.
                FaultKind::Host if matches!(tool, ToolRef::Server { .. }) => {
                    FaultHandling::Returned
                }
                FaultKind::Trap
                | FaultKind::Host
                | FaultKind::Guard(_)
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
