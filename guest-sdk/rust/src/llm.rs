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
use crate::{Failure, HostError, Part, host, json};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::bindings::strata::action::llm::{
    AssistantPart, ChatMessage, EmbedRequest, Embeddings, FinishReason, OpaquePart, Reply, Request,
    Tool, ToolCall, ToolChoice, ToolResult, Usage,
};
pub use block::CodeBlock;

/// Sends one prompt to the role's model.
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

/// Returns a vector for each text, from the role's model.
///
/// # Errors
/// Fails if no model is granted, if the provider fails or has no embeddings, or if the action's
/// budget does not cover the call.
pub fn embed(texts: impl IntoIterator<Item = impl Into<String>>) -> Result<Embeddings, HostError> {
    EmbedRequest::new(texts).send()
}

impl EmbedRequest {
    /// Creates a request for a vector for each text.
    pub fn new(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            model: None,
            texts: texts.into_iter().map(Into::into).collect(),
            dimensions: None,
        }
    }

    /// Sets the model. By default it is that of the role.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Sets the number of components of each vector, for providers that support it.
    #[must_use]
    pub fn dimensions(mut self, dimensions: u32) -> Self {
        self.dimensions = Some(dimensions);
        self
    }

    /// Sends the request.
    ///
    /// # Errors
    /// Fails in the same cases as [`embed`].
    pub fn send(&self) -> Result<Embeddings, HostError> {
        host::llm::embed(self)
    }
}

impl ChatMessage {
    /// Creates a message of the user from a text, an image or a file.
    pub fn user(part: impl Into<Part>) -> Self {
        Self::User(vec![part.into()])
    }

    /// Returns the texts of the message, one after the other.
    pub fn text(&self) -> String {
        match self {
            Self::System(text) => text.clone(),
            Self::User(parts) => parts.iter().filter_map(Part::text).collect(),
            Self::Assistant(parts) => text_of(parts),
            Self::ToolResults(results) => {
                let parts = results.iter().flat_map(|result| &result.content);
                parts.filter_map(Part::text).collect()
            }
        }
    }
}

fn text_of(parts: &[AssistantPart]) -> String {
    let text = |part: &AssistantPart| match part {
        AssistantPart::Text(text) => Some(text.clone()),
        AssistantPart::Media(_) | AssistantPart::ToolCall(_) | AssistantPart::Opaque(_) => None,
    };
    parts.iter().filter_map(text).collect()
}

impl ToolCall {
    /// Parses the arguments.
    ///
    /// # Errors
    /// Fails if the model wrote something that is not a `T`. The failure can be returned to the
    /// model as the result of the call.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        json::parse(
            &format!("the arguments of tool `{}`", self.name),
            &self.arguments,
        )
    }

    /// Creates the result of the call from a text, an image or a file.
    pub fn result(&self, part: impl Into<Part>) -> ToolResult {
        ToolResult {
            call: self.id.clone(),
            tool: self.name.clone(),
            content: vec![part.into()],
            is_error: false,
        }
    }

    /// Creates the result of a call that failed.
    pub fn error(&self, message: impl Into<String>) -> ToolResult {
        ToolResult {
            is_error: true,
            ..self.result(message.into())
        }
    }
}

impl Request {
    /// Creates a request with one message of the user.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            model: None,
            messages: vec![ChatMessage::user(prompt.into())],
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            output_schema: None,
            effort: None,
            temperature: None,
            max_tokens: None,
            stop: Vec::new(),
            seed: None,
        }
    }

    /// Adds instructions at the beginning of the conversation.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.messages.insert(0, ChatMessage::System(text.into()));
        self
    }

    /// Adds a message.
    #[must_use]
    pub fn message(mut self, message: ChatMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// Adds a text, an image or a file to the newest message of the user, or as a message of its
    /// own if somebody else spoke last.
    #[must_use]
    pub fn part(mut self, part: impl Into<Part>) -> Self {
        match self.messages.last_mut() {
            Some(ChatMessage::User(parts)) => parts.push(part.into()),
            _ => self.messages.push(ChatMessage::user(part)),
        }
        self
    }

    /// Continues the conversation: adds the model's reply and the results of its tool calls, if it
    /// made any.
    #[must_use]
    pub fn reply(mut self, reply: Reply, results: Vec<ToolResult>) -> Self {
        self.messages.push(ChatMessage::Assistant(reply.parts));
        if !results.is_empty() {
            self.messages.push(ChatMessage::ToolResults(results));
        }
        self
    }

    /// Sets how much the model thinks, in the provider's words, e.g. `low`.
    #[must_use]
    pub fn effort(mut self, effort: impl Into<String>) -> Self {
        self.effort = Some(effort.into());
        self
    }

    /// Sets the model: a name of the team file, or the id that the provider has for it. By default
    /// it is that of the role.
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

    /// Sets whether the model calls tools. By default the model decides.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
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
    /// Creates a complete reply that consists of parts, for tests.
    pub fn new(parts: Vec<AssistantPart>) -> Self {
        let calls_tools = |part: &AssistantPart| matches!(part, AssistantPart::ToolCall(_));
        Self {
            text: text_of(&parts),
            data: None,
            finish: if parts.iter().any(calls_tools) {
                FinishReason::ToolCalls
            } else {
                FinishReason::Stop
            },
            parts,
            model: "scripted".to_owned(),
            usage: Usage {
                input_tokens: 0,
                output_tokens: 0,
                cache_read_tokens: 0,
                cache_write_tokens: 0,
                reasoning_tokens: 0,
            },
        }
    }

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

    /// Returns the tool calls that the model asks for.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::ToolCall(call) => Some(call),
            AssistantPart::Text(_) | AssistantPart::Media(_) | AssistantPart::Opaque(_) => None,
        })
    }

    /// Returns whether the reply was truncated at the limit of output tokens.
    pub fn is_truncated(&self) -> bool {
        self.finish == FinishReason::Length
    }

    /// Returns the first fenced code block of the text.
    pub fn code(&self) -> Option<CodeBlock> {
        CodeBlock::first(&self.text)
    }
}
