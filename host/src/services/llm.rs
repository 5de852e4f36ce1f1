//! Language models: the vocabulary, and the providers behind it.
//!
//! What a call may cost, whether an action may make it and whether it is replayed is decided by the driver; the
//! parsing of `[llm]` is the manifest's.

pub mod config;
mod hearing;
mod models;
mod openai;
mod pace;
mod protocol;
mod record;
mod remote;
mod scripted;
mod surrogate;
pub mod think;
mod thinking;
mod tokens;
mod unanswered;

pub use hearing::{Audience, Departure, Heard, Hearing, Listener};
pub use models::{Completed, Failed, Models};
pub(crate) use record::BEGINNING as RECORD_BEGINNING;
pub use strata_core::host_call::Finish;
pub use tokens::Tokens;
use unanswered::Unanswered;

use serde::{Deserialize, Serialize};

/// What is asked of a model. The order of fields is part of how recorded calls are matched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The model; none takes the team's.
    pub model: Option<String>,
    /// The conversation, oldest turn first.
    pub messages: Vec<Turn>,
    /// Tools the model may ask for.
    pub tools: Vec<Tool>,
    /// JSON Schema text that the reply shall follow.
    pub output_schema: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Upper bound of output tokens.
    pub max_tokens: Option<u32>,
    /// Texts that end the reply.
    pub stop: Vec<String>,
    /// A seed.
    pub seed: Option<u32>,
}

impl Request {
    /// Of the team's model, with nothing but the conversation.
    pub fn new(messages: Vec<Turn>) -> Self {
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

    /// All texts that the model is given, and that are paid for.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let calls = self.messages.iter().flat_map(|turn| &turn.tool_calls);
        let calls = calls.flat_map(|call| [call.name.as_str(), call.arguments.as_str()]);
        let tools = self
            .tools
            .iter()
            .flat_map(|tool| [&tool.name, &tool.description, &tool.parameters]);
        let turns = self.messages.iter().map(|turn| turn.content.as_str());
        turns
            .chain(calls)
            .chain(tools.map(String::as_str))
            .chain(self.output_schema.as_deref())
    }

    /// A stand-in for the id that a tool call of the reply lacks. The conversation grows with every turn, so no two
    /// calls of it share one.
    fn tool_call_id(&self, index: usize) -> String {
        format!("call-{}-{}", self.messages.len(), index + 1)
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// Instructions above the conversation.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Who speaks.
    pub speaker: Speaker,
    /// The text.
    pub content: String,
    /// For the assistant: the tool calls it made.
    pub tool_calls: Vec<ToolCall>,
    /// For a tool: the call this is the result of.
    pub tool_call_id: Option<String>,
}

impl Turn {
    /// A turn of text alone.
    pub fn new(speaker: Speaker, content: impl Into<String>) -> Self {
        Self {
            speaker,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

/// A call of a tool that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Ties the call to its result.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

/// A tool that a model may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// The name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema text of its arguments.
    pub parameters: String,
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// JSON text of the structured reply.
    pub data: Option<String>,
    /// Tools it wants called.
    pub tool_calls: Vec<ToolCall>,
    /// The model that answered.
    pub model: String,
    /// Tokens of the request.
    pub input_tokens: u32,
    /// Tokens of the reply.
    pub output_tokens: u32,
    /// Those of `input_tokens` that came from the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u32,
    /// How it ended.
    #[serde(default, skip_serializing_if = "is_stop")]
    pub finish: Finish,
}

impl Reply {
    /// All tokens that it stands for.
    fn tokens(&self) -> Tokens {
        Tokens {
            input: self.input_tokens,
            output: self.output_tokens,
            cached: self.cached_tokens,
        }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_stop(finish: &Finish) -> bool {
    *finish == Finish::Stop
}
