//! Language models: the types of requests and replies, and the providers that answer them.
//!
//! The driver decides what a call may cost, whether an action may make it, and whether it is
//! replayed. The manifest parses `[llm]`.

pub mod action_choice;
pub mod config;
mod openai;
mod protocol;
mod rate_limit;
mod record;
mod registry;
mod remote;
mod scripted;
mod stream_observer;
mod surrogate;
mod think_tags;
mod tokens;

pub use record::LINE_BEGINNING as RECORD_BEGINNING;
pub use registry::{CompletedCall, FailedCall, Models};
pub use strata_core::record::host_call::FinishReason;
pub use stream_observer::{
    DispatchState, StreamEvent, StreamListener, StreamObserver, StreamObserverFactory,
};
pub use tokens::TokenCounts;

use serde::{Deserialize, Serialize};

use crate::gateway::HostError;
use tokens::UsageWithoutReply;

/// A request to a model. The order of the fields matters: recorded calls are matched by the
/// serialized request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The model. `None` selects the team's model.
    pub model: Option<String>,
    /// The conversation, oldest message first.
    pub messages: Vec<ChatMessage>,
    /// The tools that the model may call.
    pub tools: Vec<ToolDefinition>,
    /// JSON Schema text that the reply has to follow.
    pub output_schema: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The maximum number of output tokens.
    pub max_tokens: Option<u32>,
    /// Texts at which the model stops writing.
    pub stop: Vec<String>,
    /// A seed for sampling.
    pub seed: Option<u32>,
}

impl ModelRequest {
    /// Returns a request to the team's model that contains only the conversation.
    pub fn new(messages: Vec<ChatMessage>) -> Self {
        Self {
            model: None,
            messages,
            tools: Vec::new(),
            output_schema: None,
            temperature: None,
            max_tokens: None,
            stop: Vec::new(),
            seed: None,
        }
    }

    /// Returns all texts that the model receives, which are the texts that are paid for.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let calls = self.messages.iter().flat_map(|turn| &turn.tool_calls);
        let calls = calls.flat_map(|call| [call.name.as_str(), call.arguments.as_str()]);
        let tools = self
            .tools
            .iter()
            .flat_map(|tool| [&tool.name, &tool.description, &tool.parameters]);
        let contents = self.messages.iter().map(|turn| turn.content.as_str());
        contents
            .chain(calls)
            .chain(tools.map(String::as_str))
            .chain(self.output_schema.as_deref())
    }

    /// Returns an id for a tool call in the reply that has none. It contains the number of
    /// messages, which grows with every message, so the ids in a conversation are unique.
    fn tool_call_id(&self, index: usize) -> String {
        format!("call-{}-{}", self.messages.len(), index + 1)
    }
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// Instructions that precede the conversation.
    System,
    /// The one who asks the model.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// A message of a conversation with a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// The author.
    pub speaker: Speaker,
    /// The text.
    pub content: String,
    /// The tool calls that the model made, if it is the author.
    pub tool_calls: Vec<ToolCall>,
    /// The call that this is the result of, if a tool is the author.
    pub tool_call_id: Option<String>,
}

impl ChatMessage {
    /// Returns a message that consists of text only.
    pub fn new(speaker: Speaker, content: impl Into<String>) -> Self {
        Self {
            speaker,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

/// A tool call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// An id that connects the call with its result.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema text for its arguments.
    pub parameters: String,
}

/// The reply of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// The structured reply as JSON text.
    pub data: Option<String>,
    /// The tool calls that it asks for.
    pub tool_calls: Vec<ToolCall>,
    /// The model that answered.
    pub model: String,
    /// The number of tokens in the request.
    pub input_tokens: u32,
    /// The number of tokens in the reply.
    pub output_tokens: u32,
    /// The part of `input_tokens` that the provider read from its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u32,
    /// Why the reply ended.
    #[serde(default, skip_serializing_if = "is_stop")]
    pub finish: FinishReason,
}

impl ModelReply {
    /// Returns the tokens of the request and the reply.
    fn tokens(&self) -> TokenCounts {
        TokenCounts {
            input: self.input_tokens,
            output: self.output_tokens,
            cached: self.cached_tokens,
        }
    }
}

/// A request without a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedRequest {
    /// Why there is none.
    error: HostError,
    /// What it used.
    used: UsageWithoutReply,
}

impl From<HostError> for FailedRequest {
    fn from(error: HostError) -> Self {
        Self {
            error,
            used: UsageWithoutReply::Nothing,
        }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_stop(finish: &FinishReason) -> bool {
    *finish == FinishReason::Stop
}
