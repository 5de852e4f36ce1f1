//! Conversations with models: the parts of which messages consist, the calls of tools that a model
//! asks for, their results, and what a reply consumed.
//!
//! These types are the same for every provider. How they are sent is in the host's services; the
//! bytes of images and files are stored apart, by digest.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::id::Digest;
use crate::record::json::Json;

/// A piece of a message that people, actions and models can exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Text.
    Text(String),
    /// An image.
    Image(Media),
    /// A file of any other type, such as a PDF document.
    File(Media),
}

/// The content of an image or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Its media type, e.g. `image/png`.
    pub media_type: String,
    /// Its file name, if it has one.
    pub name: Option<String>,
    /// Where its bytes are.
    pub source: MediaSource,
}

/// Where the bytes of an image or a file are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MediaSource {
    /// In the storage, under their digest.
    Blob {
        /// The SHA-256 of the bytes.
        digest: Digest,
        /// The number of bytes.
        size: u64,
    },
    /// At an address that the provider of the model reads by itself. The host never does.
    Url(String),
}

impl Part {
    /// Returns the image or the file, unless it is text.
    pub fn media(&self) -> Option<&Media> {
        match self {
            Self::Image(media) | Self::File(media) => Some(media),
            Self::Text(_) => None,
        }
    }
}

impl Media {
    /// Returns the digest and the size of its bytes if they are stored.
    pub fn blob(&self) -> Option<(&Digest, u64)> {
        match &self.source {
            MediaSource::Blob { digest, size } => Some((digest, *size)),
            MediaSource::Url(_) => None,
        }
    }
}

/// A message of a conversation with a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelMessage {
    /// Instructions that take precedence over the conversation.
    System(String),
    /// What the model is told or asked.
    User(Vec<Part>),
    /// A reply of the model, exactly as it was received.
    Assistant(Vec<AssistantPart>),
    /// The results of the tool calls of the preceding reply, in the order of the calls.
    ToolResults(Vec<ToolResult>),
}

/// A piece of a model's reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssistantPart {
    /// Text.
    Text(String),
    /// An image or a file that the model made.
    Media(Media),
    /// A call of a tool.
    ToolCall(ToolCall),
    /// Something that only the provider understands and expects back unchanged.
    Opaque(OpaquePart),
}

/// Returns the text of a reply, without reasoning.
pub fn reply_text(reply: &[AssistantPart]) -> String {
    let texts = reply.iter().filter_map(|part| match part {
        AssistantPart::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Returns the tool calls in a reply, in order.
pub fn tool_calls(reply: &[AssistantPart]) -> impl Iterator<Item = &ToolCall> {
    reply.iter().filter_map(|part| match part {
        AssistantPart::ToolCall(call) => Some(call),
        _ => None,
    })
}

/// Returns the images and files in a reply.
pub fn reply_media(reply: &[AssistantPart]) -> impl Iterator<Item = &Media> {
    reply.iter().filter_map(|part| match part {
        AssistantPart::Media(media) => Some(media),
        _ => None,
    })
}

/// Returns the digests of the images and files in a reply whose bytes are stored.
pub fn stored_media(reply: &[AssistantPart]) -> impl Iterator<Item = &Digest> {
    reply_media(reply).filter_map(|media| Some(media.blob()?.0))
}

/// A tool call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that connects the call with its result. It is the provider's, or made by the host if
    /// the provider gives none.
    pub id: String,
    /// The name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments, as the model wrote them. They may not be JSON.
    pub arguments: String,
}

/// The result of a tool call, for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call: String,
    /// The name of the tool. Some providers connect results with calls by name.
    pub tool: String,
    /// The result.
    pub content: Vec<Part>,
    /// Whether the call failed or was rejected.
    pub is_error: bool,
}

/// Something that a provider expects back unchanged, such as signed or encrypted reasoning. It is
/// sent only to the provider and the model that produced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpaquePart {
    /// The provider that produced it: the name of its protocol, e.g. `anthropic`, followed by the
    /// host of the endpoint if that is not the protocol's own.
    pub provider: String,
    /// The provider's id of the model that produced it.
    pub model: String,
    /// The value as it was received.
    pub data: Json,
    /// The reasoning in it that people can read; empty if there is none or it is not kept. It is
    /// never sent to a model by itself.
    pub reasoning: String,
}

/// Whether a model has to call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// It has to call a tool.
    Required,
    /// It must not call a tool.
    None,
    /// It has to call the tool with this name.
    Tool(String),
}

/// What a call of a model consumed, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// The tokens of the request, including those read from a cache or written to one.
    pub input: u64,
    /// The tokens of the reply, including those of reasoning.
    pub output: u64,
    /// The part of `input` that was read from the provider's cache.
    pub cache_read: u64,
    /// The part of `input` that was written to the provider's cache.
    pub cache_write: u64,
    /// The part of `output` that was reasoning.
    pub reasoning: u64,
}

impl TokenUsage {
    /// Returns the number of tokens of the request and the reply.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}
