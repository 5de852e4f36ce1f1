//! Language models, as far as `allow.llm` grants them. Replies are recorded when they arrive, so a
//! repeated attempt does not pay for them again.
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

/// Sends one prompt to the team's model.
///
/// # Errors
/// Fails if no model is granted, if the provider fails, or if the action's budget does not cover
/// the call.
pub fn ask(prompt: impl Into<String>) -> Result<Reply, HostError> {
    Request::new(prompt).send()
}

/// Sends several requests concurrently. The results are in the order of the requests.
pub fn ask_many(requests: &[Request]) -> Vec<Result<Reply, HostError>> {
    host::llm::complete_many(requests)
}

impl ChatMessage {
    /// Creates a message of a conversation.
    pub fn new(speaker: Speaker, content: impl Into<String>) -> Self {
        Self {
            speaker,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    /// Creates the message with the result of a tool call. It follows the message in which the
    /// model made the call.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(call.id.clone()),
            ..Self::new(Speaker::Tool, content)
        }
    }
}

impl Request {
    /// Creates a request with one message of the user.
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

    /// Adds instructions at the beginning of the conversation.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.messages
            .insert(0, ChatMessage::new(Speaker::System, text));
        self
    }

    /// Adds a message.
    #[must_use]
    pub fn turn(mut self, message: ChatMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// Sets the model. By default it is that of the team.
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

    /// Sets the largest number of tokens in the reply.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Adds a text at which the model stops.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Sets the seed, for providers that support it.
    #[must_use]
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Requests a structured reply that matches this JSON Schema.
    ///
    /// # Errors
    /// Fails if the schema cannot be written as JSON.
    pub fn output_schema<T: Serialize>(mut self, schema: &T) -> Result<Self, HostError> {
        self.output_schema = Some(json::write("the output schema", schema).map_err(invalid)?);
        Ok(self)
    }

    /// Offers a tool to the model. The action executes its calls itself.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sends the request.
    ///
    /// # Errors
    /// Fails if the model is not granted, if the provider fails, or if the action's budget does not
    /// cover the call.
    pub fn send(&self) -> Result<Reply, HostError> {
        host::llm::complete(self)
    }
}

impl Reply {
    /// Parses the structured reply: the data if the provider returned any, else the first code
    /// block of the text, else the whole text.
    ///
    /// # Errors
    /// Fails if it is not a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let block = self.code();
        let text = match (&self.data, &block) {
            (Some(data), _) => data,
            (None, Some(block)) => &block.code,
            (None, None) => &self.text,
        };
        json::parse("the model's reply", text)
    }

    /// Returns the first fenced code block of the text.
    pub fn code(&self) -> Option<CodeBlock> {
        CodeBlock::first(&self.text)
    }
}
