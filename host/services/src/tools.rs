//! Roles whose model works in a loop with tools, as far as only the host goes by it: what the model
//! is sent, and how calls are checked and approved. What decides about the course of the loop is in
//! the core, in `team::tools`.
//!
//! `manifest` creates these values, `launch` completes them with what the components say of
//! themselves, and `driver::turns` uses them.

use std::time::Duration;

use strata_core::record::conversation::ToolChoice;

use crate::plugin::CompiledSchema;

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
