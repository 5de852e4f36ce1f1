//! The protocols of providers: how a request is written, how the chunks of a streamed reply are
//! assembled into the value that would have come in one piece, and how that value is read.
//! Streamed and unstreamed replies are thus read by the same code.
//!
//! Sending, keys, retries, redaction and charging are the same for all protocols and are in
//! `endpoint`. Adding a provider takes a file here, a variant of `ProtocolName`, and its case in
//! the conformance list of the tests.

mod anthropic;
mod assembler;
mod body;
mod conversation;
mod embeddings;
mod gemini;
mod json_writer;
mod nesting;
mod openai;
mod parsed_reply;
mod refusal;
mod responses;
mod schema;
mod tools;
mod usage;

pub(super) use assembler::{Assembler, StreamProgress};
pub(super) use body::RequestBody;
pub(super) use embeddings::{EmbeddingProtocol, IndexedVector, ParsedEmbeddings, order_vectors};
pub(super) use nesting::Nesting;
pub(super) use parsed_reply::{
    ParsedReply, ReplyProblem, UnusableReply, items_of, read_reply, reply_id,
};
pub(super) use refusal::{has_account_code, is_account_refusal, is_context_overflow};
pub use schema::arguments_schema;

use std::fmt;

use reqwest::Url;
use serde_json::Value;
use strata_core::record::conversation::OpaquePart;
use strata_core::record::json::Json;

use super::ModelRequest;
use super::config::{ModelConfig, ModelSettings, ProtocolName, ProviderConfig};
use super::media::MediaBytes;
use crate::gateway::HostError;
use crate::tool_name::NameRule;
use assembler::ReplyBuilder;

/// The maximum number of tool calls in one reply. Models write about a hundred at most.
pub(super) const MAX_TOOL_CALLS: usize = 1024;

/// How a reply is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferMode {
    /// In one piece.
    Unstreamed,
    /// In chunks, while it is written.
    Streamed,
}

/// Everything that determines the contents of a request.
#[derive(Clone, Copy)]
pub(super) struct Outbound<'a> {
    /// The provider's id of the model.
    pub(super) model: &'a str,
    pub(super) request: &'a ModelRequest,
    pub(super) settings: &'a ModelSettings,
    pub(super) origin: &'a Origin,
    pub(super) media: MediaBytes<'a>,
    pub(super) transfer: TransferMode,
}

/// A provider as opaque parts name it: the protocol, and the endpoint unless it is the provider's
/// own. Opaque parts are returned only to the provider that they came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin(pub(super) String);

impl<'a> Outbound<'a> {
    /// Returns the effort that is requested, if any.
    pub(super) fn effort(&self) -> Option<&'a str> {
        let own = self.request.effort.as_deref();
        own.or(self.settings.effort.as_deref())
    }

    /// Returns the maximum number of output tokens, if there is one.
    pub(super) fn max_tokens(&self) -> Option<u32> {
        self.request.max_tokens.or(self.settings.max_tokens)
    }

    /// Returns the value of an opaque part if it came from this provider and model.
    pub(super) fn own_opaque(&self, part: &OpaquePart) -> Option<Value> {
        (part.provider == self.origin.0 && part.model == self.model).then(|| part.data.value())
    }
}

/// What the reader of a reply needs to know about the request.
#[derive(Clone, Copy)]
pub(super) struct ReplyContext<'a> {
    /// The provider's id of the model that was asked.
    pub(super) model: &'a str,
    pub(super) request: &'a ModelRequest,
    pub(super) origin: &'a Origin,
    /// Whether the text of reasoning is kept.
    pub(super) keep_thinking: bool,
}

impl ReplyContext<'_> {
    /// Returns an opaque part.
    pub(super) fn opaque(&self, data: Value, reasoning: String) -> OpaquePart {
        OpaquePart {
            provider: self.origin.0.clone(),
            model: self.model.to_owned(),
            data: Json::from(data),
            reasoning,
        }
    }
}

/// The protocol of a provider.
pub(super) trait ModelProtocol: fmt::Debug + Send + Sync {
    /// Returns the address to which a request is sent.
    fn url(&self, base: &Url, model: &str, transfer: TransferMode) -> Url;

    /// Returns the header in which the key is sent, and what precedes the key in it.
    fn key_header(&self) -> KeyHeader;

    /// Returns further headers of each request.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns the body of a request. Fails if it contains something that cannot be sent.
    fn body(&self, outbound: &Outbound<'_>) -> Result<RequestBody, HostError>;

    /// Fails if a body, with the operator's options, contains fields that the provider does not
    /// accept together.
    fn check_body(&self, _body: &RequestBody) -> Result<(), HostError> {
        Ok(())
    }

    /// Returns which names of tools the provider accepts. In a reply, they become those of the request
    /// again (`read_reply`).
    fn tool_names(&self) -> NameRule {
        NameRule::Common
    }

    /// Returns a builder for the chunks of a streamed reply.
    fn builder(&self) -> Box<dyn ReplyBuilder>;

    /// Reads a reply. What it does not contain is left out.
    fn parse_reply(&self, reply: &Value, context: ReplyContext<'_>) -> ParsedReply;

    /// Returns how the provider is asked for vectors, or `None` if it has none.
    fn embeddings(&self) -> Option<&dyn EmbeddingProtocol> {
        None
    }
}

/// A header that contains a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHeader {
    pub(super) name: &'static str,
    /// What precedes the key.
    pub(super) prefix: &'static str,
}

impl KeyHeader {
    /// The header of OpenAI's protocols.
    pub(super) const BEARER: Self = Self {
        name: "authorization",
        prefix: "Bearer ",
    };
}

/// Returns a protocol for an endpoint.
pub(super) fn protocol(name: ProtocolName, base: &Url) -> Box<dyn ModelProtocol> {
    match name {
        ProtocolName::OpenAi => Box::new(openai::ChatCompletions::for_url(base)),
        ProtocolName::Responses => Box::new(responses::Responses),
        ProtocolName::Anthropic => Box::new(anthropic::CreateMessage),
        ProtocolName::Gemini => Box::new(gemini::GenerateContent),
    }
}

/// Returns whether a model can be forced to call a tool, as far as its configuration determines it.
pub fn allows_forced_choice(config: &ModelConfig) -> bool {
    match &config.provider {
        ProviderConfig::Endpoint(endpoint) if endpoint.protocol == ProtocolName::Anthropic => {
            anthropic::allows_forced_choice(&config.settings)
        }
        _ => true,
    }
}

/// Options of a model that its provider does not accept together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludedOption {
    /// What the options contain, and what excludes it.
    pub problem: String,
    /// What to set instead.
    pub hint: String,
}

/// Fails if each request to a model with these settings would be refused, because its options
/// exclude each other.
pub fn check_settings(
    provider: &ProviderConfig,
    settings: &ModelSettings,
) -> Result<(), ExcludedOption> {
    match provider {
        ProviderConfig::Endpoint(endpoint) if endpoint.protocol == ProtocolName::Anthropic => {
            anthropic::check_settings(settings)
        }
        _ => Ok(()),
    }
}

/// Returns an address with these segments appended to its path.
fn append_path(base: &Url, segments: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

#[cfg(test)]
mod tests;
