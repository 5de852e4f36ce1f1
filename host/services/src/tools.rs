//! Roles whose model works in a loop with tools, as far as only the host goes by it: what the model
//! is sent, and how calls are checked and approved. What decides about the course of the loop is in
//! the core, in `team::tools`.
//!
//! `manifest` creates these values, `launch` completes them with what the components say of
//! themselves, and `driver::turns` uses them.

pub mod code_description;

use std::time::Duration;

use strata_core::record::conversation::ToolChoice;
use strata_core::record::turn::HostTool;
use strata_core::state::memory_plan::MemoryBounds;

use crate::mcp::GrantedTools;
use crate::plugin::CompiledSchema;
use crate::skills::Skill;

/// How the model of a role is asked.
#[derive(Clone, Debug)]
pub struct ToolRole {
    /// Instructions in addition to the texts of the role.
    pub instructions: String,
    /// What the model is told about the past of the role.
    pub history: HistoryUse,
    /// Whether the model has to call a tool. A tool is named as the model knows it.
    pub tool_choice: ToolChoice,
    /// The schema of the final answer.
    pub output_schema: Option<CompiledSchema>,
    /// How long a reply of the model may take.
    pub timeout: ModelTimeout,
    /// How much the model is told of the result of a role that it calls, in bytes. The limits of an
    /// action say that of its own results.
    pub role_result_bytes: u64,
    /// The tools, in the order of `ToolLoop::tools`.
    pub tools: Vec<RoleTool>,
    /// The skills that the model can load, by name.
    pub skills: Vec<Skill>,
    /// What bounds its conversations; `None` if all of them is sent.
    pub memory: Option<RoleMemory>,
    /// The MCP servers whose tools it is granted, in the order of the team file.
    pub servers: Vec<GrantedTools>,
    /// Patterns of the tools of servers that only code is offered: `SERVER/TOOL`.
    pub code_only: Vec<String>,
    /// The tools that run code which the model writes.
    pub code: Vec<CodeTool>,
}

/// A tool that runs code which the model writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeTool {
    /// Its index in `ToolRole::tools`.
    pub tool: usize,
    /// Patterns of the names of the tools that the code may call.
    pub granted: Vec<String>,
}

/// What bounds the conversations of a role, and how its model is asked for summaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleMemory {
    /// The bounds.
    pub bounds: MemoryBounds,
    /// The model that writes summaries: its name, or the provider's id. `None` selects the role's.
    pub model: Option<String>,
    /// What it is told in addition.
    pub instructions: String,
}

/// How long the model of a role may take to reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelTimeout {
    /// The time.
    pub duration: Duration,
    /// Who set it if the team file did not, for people.
    pub advice: Option<String>,
}

impl ModelTimeout {
    /// Returns a time that the team file sets, or its default.
    pub fn new(duration: Duration) -> Self {
        Self {
            duration,
            advice: None,
        }
    }

    /// Lowers the time to a bound that is explained by `advice`.
    pub fn bound(&mut self, most: Duration, advice: impl FnOnce() -> String) {
        if self.duration > most || self.advice.is_none() && self.duration == most {
            self.duration = most;
            self.advice = Some(advice());
        }
    }
}

/// A tool of a role, as the model is told about it.
#[derive(Clone, Debug)]
pub struct RoleTool {
    /// The name that the model uses.
    pub model_name: String,
    /// What it does. `None` until the component's own description is known.
    pub description: Option<String>,
    /// The schema of its arguments. `None` if any object will do.
    pub input_schema: Option<CompiledSchema>,
    /// How calls are approved; `None` if they need no approval.
    pub approval: Option<ApprovalRule>,
    /// Whether the team file says that it is found by search instead of being sent.
    pub deferral: Deferral,
    /// How the model gets to know it, as `ToolRole::choose_exposure` decided.
    pub exposure: Exposure,
    /// Who is offered it.
    pub offer: ToolOffer,
}

/// Who is offered a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolOffer {
    /// The model, and code to which it is granted.
    #[default]
    Model,
    /// Only code to which it is granted.
    CodeOnly,
}

/// Whether a tool is left out of requests, so that the model has to search for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deferral {
    /// It is sent.
    #[default]
    Never,
    /// It is not sent.
    Always,
    /// It is not sent if the role's tools together are larger than `MANY_TOOLS_TOKENS`.
    WhenMany,
}

/// How a model gets to know a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// It is part of each request.
    #[default]
    Sent,
    /// The model finds it with `find_tools` and calls it with `call_tool`.
    Searched,
    /// The model cannot use it. This is so for `find_tools` and `call_tool` while there is nothing to
    /// find.
    Withheld,
}

/// The size of all tools of a role from which those with `defer = "auto"` are searched for instead of
/// being sent, in estimated tokens. Models choose worse among more, and each request pays for all.
pub const MANY_TOOLS_TOKENS: usize = 12_000;
/// How many bytes of a request count as one token.
const BYTES_PER_TOKEN: usize = 3;

impl RoleTool {
    /// Returns about how many tokens it takes in a request.
    fn estimated_tokens(&self) -> usize {
        let schema = self.input_schema.as_ref();
        let schema = schema.map_or(0, |schema| schema.ordered().to_string().len());
        let description = self.description.as_ref().map_or(0, String::len);
        (self.model_name.len() + description + schema).div_ceil(BYTES_PER_TOKEN)
    }
}

impl ToolRole {
    /// Decides which tools are sent and which are searched for. To be called again when descriptions
    /// or schemas have become known.
    pub fn choose_exposure(&mut self) {
        let mut deferrals = self.tools.iter().map(|tool| tool.deferral);
        if deferrals.all(|deferral| deferral == Deferral::Never) {
            return;
        }
        let size: usize = self.tools.iter().map(RoleTool::estimated_tokens).sum();
        let are_many = size > MANY_TOOLS_TOKENS;
        for tool in &mut self.tools {
            tool.exposure = match tool.deferral {
                Deferral::Never => Exposure::Sent,
                Deferral::WhenMany if !are_many => Exposure::Sent,
                Deferral::Always | Deferral::WhenMany => Exposure::Searched,
            };
        }
        if !self
            .tools
            .iter()
            .any(|tool| tool.exposure == Exposure::Searched)
        {
            for tool in &mut self.tools {
                if [HostTool::FindTools, HostTool::CallTool]
                    .map(HostTool::name)
                    .contains(&&*tool.model_name)
                {
                    tool.exposure = Exposure::Withheld;
                }
            }
        }
    }

    /// Returns the tools that are part of each request.
    pub fn sent_tools(&self) -> impl Iterator<Item = &RoleTool> {
        self.tools
            .iter()
            .filter(|tool| tool.exposure == Exposure::Sent && tool.offer == ToolOffer::Model)
    }
}

/// What a model is told about the past of its role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryUse {
    /// The earlier messages that the role handled, and its answers.
    #[default]
    Role,
    /// Nothing.
    None,
}

/// How calls of a tool are approved by a human.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalRule {
    /// How long an answer is awaited; `None` for ever.
    pub expires: Option<Duration>,
    /// Whether the call is approved if nobody answers in time. `None` counts as no.
    pub default: Option<bool>,
}
