//! The action that an event is about.

use schemars::JsonSchema;
use serde::Serialize;

use super::NestedNumber;

/// The action that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActionRef {
    /// the step, counted from 0
    pub step: u64,
    /// the role
    pub role: String,
    /// the index of the action in its role, counted from 0; -1 for what is no action
    pub index: i32,
    /// the name of the action; `think` for a choice, `answer` for a person's answer, `turn` for a
    /// reply of a role's model, the name of the tool for a tool that is no action
    pub action: String,
    /// the number of the turn in which the model called the tool, counted from 0
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// the position of the call in that turn, counted from 0
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<u32>,
    /// the number of the call within that call, counted from 0, if code made it; in deeper nesting, the
    /// numbers from the outermost to this one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested: Option<NestedNumber>,
    /// the tool call that the role works for; absent if it handles mail
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<RoleCaller>,
}

/// A tool call by which a role called another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RoleCaller {
    /// the role that called
    pub role: String,
    /// the number of the turn, counted from 0
    pub turn: u32,
    /// the position of the call in the turn, counted from 0
    pub tool_call: u32,
    /// the number of the call within that call, counted from 0, if code made it; in deeper nesting, the
    /// numbers from the outermost to this one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested: Option<NestedNumber>,
}

impl ActionRef {
    /// Returns `ROLE.ACTION`.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.role, self.action)
    }
}
