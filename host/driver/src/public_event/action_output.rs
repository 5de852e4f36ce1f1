//! What public events contain of the result of an action, and of a replaced conversation.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use strata_core::record::work::Task;

/// The result of an action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ActionOutput {
    /// the text
    pub content: String,
    /// structured content
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// the recipients that the action named
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// the tasks of a plan, each with `text` and `action`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Value>>")]
    pub tasks: Option<Vec<Task>>,
}

/// The estimated sizes of a request before and after a part of its conversation was replaced.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReplacedTokens {
    /// The number of tokens before.
    pub before: u64,
    /// The number of tokens after.
    pub after: u64,
}
