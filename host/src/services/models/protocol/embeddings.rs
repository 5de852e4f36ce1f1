//! How providers are asked for vectors that stand for texts.

use reqwest::Url;
use serde_json::Value;

use crate::services::models::EmbedRequest;

/// The protocol of a provider that has vectors.
pub(in super::super) trait EmbeddingProtocol: Send + Sync {
    /// Returns the address to which a request is sent.
    fn url(&self, base: &Url, model: &str) -> Url;

    /// Returns the body of a request.
    fn body(&self, model: &str, request: &EmbedRequest) -> Value;

    /// Reads a response. The vectors are not checked.
    fn parse(&self, bytes: &[u8]) -> serde_json::Result<ParsedEmbeddings>;
}

/// The contents of a response.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) struct ParsedEmbeddings {
    /// The vectors, in the order of the texts.
    pub(in super::super) vectors: Vec<Vec<f32>>,
    /// The model that answered, if the response names it.
    pub(in super::super) model: Option<String>,
    /// The tokens of the texts, if the response tells them.
    pub(in super::super) input_tokens: Option<u64>,
}
