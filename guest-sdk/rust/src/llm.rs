//! Language models, granted by `allow.llm`. Replies are recorded as they arrive and are not paid for twice.
//!
//! ```
//! # use strata_action::{llm, Failure};
//! # strata_action::testing::Host::new().reply("- a\n- b").within(|| -> Result<(), Failure> {
//! let reply = llm::Request::new("Name two letters.")
//!     .system("You answer with a list.")
//!     .max_tokens(100)
//!     .send()?;
//! assert_eq!(reply.text, "- a\n- b");
//! # Ok(()) }).unwrap();
//! ```

mod block;

use crate::failure::invalid;
use crate::{Failure, HostError, host, json};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::bindings::strata::action::llm::{
    ChatMessage, Reply, Request, Speaker, Tool, ToolCall, Usage,
};
pub use block::CodeBlock;

/// Asks the team's model one question.
///
/// # Errors
/// Fails if no model is granted, the provider fails, or the action's own budget does not cover the call.
pub fn ask(prompt: impl Into<String>) -> Result<Reply, HostError> {
    Request::new(prompt).send()
}

/// Asks several times at once; the results come in the order of the requests.
pub fn ask_many(requests: &[Request]) -> Vec<Result<Reply, HostError>> {
    host::llm::complete_many(requests)
}

impl ChatMessage {
    /// One turn of a conversation.
    pub fn new(speaker: Speaker, content: impl Into<String>) -> Self {
        Self {
            speaker,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    /// The result of a tool that the model asked for, as the turn after the one in which it asked.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(call.id.clone()),
            ..Self::new(Speaker::Tool, content)
        }
    }
}

impl Request {
    /// A request that holds one turn of the user's.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            model: None,
            messages: vec![ChatMessage::new(Speaker::User, prompt)],
            tools: Vec::new(),
            output_schema: None,
            temperature: None,
            max_tokens: None,
            stop: Vec::new(),
            seed: None,
        }
    }

    /// Puts instructions above the conversation.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.messages
            .insert(0, ChatMessage::new(Speaker::System, text));
        self
    }

    /// Adds a turn.
    #[must_use]
    pub fn turn(mut self, message: ChatMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// Names the model; without it the team's is asked.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Sets the sampling temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Bounds the reply.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Adds a text that ends the reply.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Sets the seed, for providers that honour one.
    #[must_use]
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Asks for a structured reply that follows this JSON Schema.
    ///
    /// # Errors
    /// Fails if the schema cannot be written as JSON.
    pub fn output_schema<T: Serialize>(mut self, schema: &T) -> Result<Self, HostError> {
        self.output_schema = Some(json::write("the output schema", schema).map_err(invalid)?);
        Ok(self)
    }

    /// Offers a tool to the model; the action carries its calls out itself.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Asks.
    ///
    /// # Errors
    /// Fails if the model is not granted, the provider fails, or the action's own budget does not cover the call.
    pub fn send(&self) -> Result<Reply, HostError> {
        host::llm::complete(self)
    }
}

impl Reply {
    /// The structured reply as a `T`: what the provider gave as data, else the text or its first code block as
    /// JSON.
    ///
    /// # Errors
    /// Fails if none of them is a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let block = self.code();
        let text = match (&self.data, &block) {
            (Some(data), _) => data,
            (None, Some(block)) => &block.code,
            (None, None) => &self.text,
        };
        json::parse("the model's reply", text)
    }

    /// The first fenced code block of the text.
    pub fn code(&self) -> Option<CodeBlock> {
        CodeBlock::first(&self.text)
    }
}
