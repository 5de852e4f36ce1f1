//! Requests for vectors. They are sent, repeated and charged like requests for replies, without
//! streaming.

use strata_core::record::conversation::TokenUsage;

use super::failure::{AttemptFailure, RequestFailure};
use super::retry::{Retries, RetryDecision};
use super::{EncodedRequest, ModelEndpoint, UsageWithoutReply};
use crate::plugin::http::display_url;
use crate::services::models::charge::CallAccount;
use crate::services::models::embedding::unsupported_error;
use crate::services::models::protocol::{EmbeddingProtocol, ParsedEmbeddings, TransferMode};
use crate::services::models::rate_limit::RateLimiter;
use crate::services::models::{EmbedRequest, Embeddings};

/// The maximum size of a response in bytes: as many texts as a request may have, with vectors of
/// 1,536 components each.
const MAX_RESPONSE_BYTES: usize = 48 << 20;

/// Requests vectors from a model of an endpoint, given by the provider's id, with as many retries as the
/// endpoint's `retries` allow. What responses used is charged, whether they can be used or not.
pub(in super::super) async fn embed(
    endpoint: &ModelEndpoint,
    model: &str,
    request: &EmbedRequest,
    pace: &RateLimiter,
    account: &mut CallAccount<'_>,
) -> Result<Embeddings, RequestFailure> {
    let protocol = endpoint.protocol.embeddings();
    let protocol = protocol.ok_or_else(|| unsupported_error(endpoint.protocol_name.name()))?;
    let encoded = EncodedRequest {
        url: protocol.url(&endpoint.base, model),
        transfer: TransferMode::Unstreamed,
        body: protocol.body(model, request).to_string(),
    };
    let mut retries = Retries::new(endpoint, model, display_url(&encoded.url));
    loop {
        pace.wait().await;
        account.dispatched();
        match embed_once(endpoint, &encoded, protocol, request).await {
            Ok(parsed) => {
                let embeddings = to_embeddings(parsed, model, request);
                account.add_reply(usage(embeddings.input_tokens));
                return Ok(embeddings);
            }
            Err(failure) => retries.wait_after(failure, account).await?,
        }
    }
}

async fn embed_once(
    endpoint: &ModelEndpoint,
    encoded: &EncodedRequest,
    protocol: &dyn EmbeddingProtocol,
    request: &EmbedRequest,
) -> Result<ParsedEmbeddings, AttemptFailure> {
    let mut response = endpoint.send(encoded).await?;
    if !response.status().is_success() {
        return Err(endpoint
            .error_response_failure(&mut response, encoded.transfer, None)
            .await);
    }
    let bytes = endpoint
        .receive_rest(&mut response, Vec::new(), MAX_RESPONSE_BYTES)
        .await?;
    let parsed = protocol.parse(&bytes).map_err(|error| {
        let quoted = endpoint
            .redactor()
            .excerpt(&String::from_utf8_lossy(&bytes));
        let message = format!("the answer holds no vectors ({error}): `{quoted}`");
        AttemptFailure::retryable(message, RetryDecision::Backoff).with_unknown_usage()
    })?;
    match unusable_reason(&parsed, request) {
        None => Ok(parsed),
        Some(reason) => Err(AttemptFailure {
            usage: UsageWithoutReply::Tokens(usage(reported_tokens(&parsed, request))),
            ..AttemptFailure::retryable(reason, RetryDecision::Never)
        }),
    }
}

/// Returns why vectors cannot be used, or `None` if they can.
fn unusable_reason(parsed: &ParsedEmbeddings, request: &EmbedRequest) -> Option<String> {
    let (count, expected) = (parsed.vectors.len(), request.texts.len());
    if count != expected {
        return Some(format!(
            "the answer has {count} vectors for {expected} texts"
        ));
    }
    let components = parsed.vectors.first().map_or(0, Vec::len);
    if components == 0 || parsed.vectors.iter().any(|v| v.len() != components) {
        return Some("the answer has vectors of different lengths, or without components".into());
    }
    let wanted = request
        .dimensions
        .filter(|wanted| *wanted as usize != components)?;
    Some(format!(
        "the answer has vectors of {components} components, not {wanted}; this model has no choice of them"
    ))
}

fn to_embeddings(parsed: ParsedEmbeddings, model: &str, request: &EmbedRequest) -> Embeddings {
    Embeddings {
        input_tokens: reported_tokens(&parsed, request),
        model: parsed.model.unwrap_or_else(|| model.to_owned()),
        vectors: parsed.vectors,
    }
}

/// Returns how many tokens the texts have. They are estimated if the endpoint does not say it, so that
/// budgets apply to such endpoints, too.
fn reported_tokens(parsed: &ParsedEmbeddings, request: &EmbedRequest) -> u64 {
    parsed
        .input_tokens
        .unwrap_or_else(|| request.estimated_tokens())
}

fn usage(input: u64) -> TokenUsage {
    TokenUsage {
        input,
        ..TokenUsage::default()
    }
}
