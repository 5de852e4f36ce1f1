//! Requests to models and replies from them, in the same form for all providers.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};
use strata_base::files::blob::Blobs;
use strata_core::record::conversation::{
    AssistantPart, Media, ModelMessage, Part, TokenUsage, ToolCall, ToolChoice, reply_media,
    reply_text, tool_calls,
};
use strata_core::record::host_call::FinishReason;
use strata_core::record::id::Digest;

use super::media::describe as describe_media;

/// A request to a model. Recorded calls are matched by the serialized request, so the order of the
/// fields matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The name of a model of the team, or the provider's id of a model at the default model's
    /// endpoint. `None` selects the role's model, or the team's.
    pub model: Option<String>,
    /// Instructions that precede the conversation; empty if there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// The conversation, oldest message first.
    pub messages: Vec<ModelMessage>,
    /// The tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// Whether the model has to call a tool.
    #[serde(default, skip_serializing_if = "is_auto")]
    pub tool_choice: ToolChoice,
    /// JSON Schema text that the reply has to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<String>,
    /// How much the model should reason, in a word that the provider knows. `None` selects what the
    /// model is configured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The maximum number of output tokens. `None` selects what the model is configured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Texts at which the model stops writing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// A seed for sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// What happens if the model refuses the request as too long. It is no part of the request.
    #[serde(skip)]
    pub if_too_long: IfTooLong,
}

/// What happens if a model refuses a request as too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfTooLong {
    /// Its fallbacks are asked.
    #[default]
    AskFallbacks,
    /// The request fails. The caller can make a shorter one.
    Fail,
}

/// Requests that are made at once.
#[derive(Clone, Debug)]
pub struct ModelBatch {
    /// The requests.
    pub requests: Vec<ModelRequest>,
    /// The bytes of images and files that the guest passed; other ones are stored.
    pub blobs: Blobs,
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
    /// Its parts, exactly as they have to be returned in later requests.
    pub parts: Vec<AssistantPart>,
    /// The structured reply as JSON text, if the request has a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The provider's id of the model that answered.
    pub model: String,
    /// Why the reply ended.
    #[serde(default)]
    pub finish: FinishReason,
    /// What it consumed.
    #[serde(default)]
    pub usage: TokenUsage,
}

impl ModelRequest {
    /// Returns a request to the team's model that contains only the conversation.
    pub fn new(messages: Vec<ModelMessage>) -> Self {
        Self {
            model: None,
            system: String::new(),
            messages,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            output_schema: None,
            effort: None,
            temperature: None,
            max_tokens: None,
            stop: Vec::new(),
            seed: None,
            if_too_long: IfTooLong::default(),
        }
    }

    /// Returns a request that consists of one question.
    pub fn ask(question: impl Into<String>) -> Self {
        Self::new(vec![user_message(question)])
    }

    /// Returns the text of the newest message.
    pub fn newest_text(&self) -> String {
        self.messages.last().map(message_text).unwrap_or_default()
    }

    /// Returns what a person is shown of it: its newest message; of results of tools, whose texts are
    /// recorded with the tool calls, only the names of the tools.
    pub fn summary(&self) -> String {
        match self.messages.last() {
            Some(ModelMessage::ToolResults(results)) => {
                let tools: Vec<&str> = results.iter().map(|result| result.tool.as_str()).collect();
                format!("results of {}", tools.join(", "))
            }
            _ => self.newest_text(),
        }
    }

    /// Returns the digests and sizes of the images and files whose bytes are sent.
    pub fn stored_media(&self) -> impl Iterator<Item = (&Digest, u64)> {
        let media = self.messages.iter().flat_map(message_media);
        media.filter_map(Media::blob)
    }

    /// Returns an id for a tool call in the reply that has none. It contains the number of
    /// messages, or a larger one than in any id that the host has made, because messages may have
    /// been replaced since: so the ids in a conversation are unique.
    pub(super) fn tool_call_id(&self, index: usize) -> String {
        let calls = self.messages.iter().flat_map(|message| match message {
            ModelMessage::Assistant(parts) => parts.as_slice(),
            _ => &[],
        });
        let numbers = calls.filter_map(|part| match part {
            AssistantPart::ToolCall(call) => host_made_number(&call.id),
            _ => None,
        });
        let next = numbers.max().map_or(0, |number| number.saturating_add(1));
        let number = next.max(self.messages.len());
        format!("{HOST_ID_PREFIX}{number}-{}", index + 1)
    }
}

/// The beginning of the ids that the host gives to tool calls.
const HOST_ID_PREFIX: &str = "call-";

/// Returns whether the host made the id of a tool call, because the provider gave it none.
pub(super) fn is_host_made_id(id: &str) -> bool {
    id.starts_with(HOST_ID_PREFIX)
}

/// Returns the number in an id that the host gave to a tool call.
fn host_made_number(id: &str) -> Option<usize> {
    let (number, _) = id.strip_prefix(HOST_ID_PREFIX)?.split_once('-')?;
    number.parse().ok()
}

/// Returns a message that consists of text only.
pub fn user_message(text: impl Into<String>) -> ModelMessage {
    ModelMessage::User(vec![Part::Text(text.into())])
}

impl ModelReply {
    /// Returns its text, without reasoning.
    pub fn text(&self) -> String {
        reply_text(&self.parts)
    }

    /// Returns what a person is shown of it: its text; without one its data, or what it consists of
    /// otherwise.
    pub fn summary(&self) -> String {
        let text = self.text();
        if !text.is_empty() {
            return text;
        }
        if let Some(data) = &self.data {
            return data.clone();
        }
        let calls = self
            .tool_calls()
            .map(|call| format!("{} {}", call.name, call.arguments));
        let media = reply_media(&self.parts).map(describe_media);
        calls.chain(media).collect::<Vec<_>>().join(", ")
    }
    /// Returns the tool calls that it asks for.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        tool_calls(&self.parts)
    }
}

/// Returns the text of a message, its parts on lines of their own.
pub(super) fn message_text(message: &ModelMessage) -> String {
    match message {
        ModelMessage::System(text) => text.clone(),
        ModelMessage::User(parts) => parts_text(parts),
        ModelMessage::Assistant(parts) => reply_text(parts),
        ModelMessage::ToolResults(results) => {
            let texts: Vec<String> = results
                .iter()
                .map(|result| parts_text(&result.content))
                .collect();
            texts.join("\n")
        }
    }
}

/// Returns parts as text, each on a line of its own. Images and files are described.
pub(super) fn parts_text(parts: &[impl Borrow<Part>]) -> String {
    let texts: Vec<String> = parts
        .iter()
        .map(|part| match part.borrow() {
            Part::Text(text) => text.clone(),
            Part::Image(media) | Part::File(media) => describe_media(media),
        })
        .collect();
    texts.join("\n")
}

fn message_media(message: &ModelMessage) -> Vec<&Media> {
    match message {
        ModelMessage::System(_) => Vec::new(),
        ModelMessage::User(parts) => parts.iter().filter_map(Part::media).collect(),
        ModelMessage::Assistant(parts) => reply_media(parts).collect(),
        ModelMessage::ToolResults(results) => {
            let parts = results.iter().flat_map(|result| &result.content);
            parts.filter_map(Part::media).collect()
        }
    }
}

fn is_auto(choice: &ToolChoice) -> bool {
    *choice == ToolChoice::Auto
}

#[cfg(test)]
mod tests {
    use strata_core::record::conversation::ToolResult;

    use super::*;

    #[test]
    fn results_of_tools_are_summarized_by_the_names_of_the_tools() {
        let result = |tool: &str| ToolResult {
            call: "1".into(),
            tool: tool.into(),
            content: vec![Part::Text("a long text".into())],
            is_error: false,
        };
        let question = user_message("how much?");
        let results = ModelMessage::ToolResults(vec![result("note"), result("add")]);
        let mut request = ModelRequest::new(vec![question]);
        assert_eq!(request.summary(), "how much?");
        request.messages.push(results);
        assert_eq!(request.summary(), "results of note, add");
        assert_eq!(request.newest_text(), "a long text\na long text");
    }
}
