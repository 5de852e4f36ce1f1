//! Requests for vectors. They are sent, repeated and charged like requests for replies, without
//! streaming.

use strata_core::record::conversation::TokenUsage;

use super::failure::{AttemptFailure, RequestFailure};
use super::retry::{Retries, RetryDecision};
use super::{EncodedRequest, ModelEndpoint, UsageWithoutReply};
use crate::models::charge::CallAccount;
use crate::models::embedding::unsupported_error;
use crate::models::protocol::{EmbeddingProtocol, ParsedEmbeddings, TransferMode, order_vectors};
use crate::models::rate_limit::RateLimiter;
use crate::models::{EmbedRequest, Embeddings};
use crate::plugin::http::display_url;

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
    let url = protocol.url(&endpoint.base, model);
    endpoint.check_address(&url)?;
    let encoded = EncodedRequest {
        url,
        transfer: TransferMode::Unstreamed,
        body: protocol.body(model, request).to_string(),
        optional: Vec::new(),
    };
    let mut retries = Retries::new(endpoint, model, display_url(&encoded.url));
    loop {
        pace.wait().await;
        account.dispatched();
        match embed_once(endpoint, &encoded, protocol, request).await {
            Ok(answer) => {
                account.add_reply(usage(answer.input_tokens));
                return Ok(endpoint.redactor().embeddings(Embeddings {
                    vectors: answer.vectors,
                    model: answer.model.unwrap_or_else(|| model.to_owned()),
                    input_tokens: answer.input_tokens,
                }));
            }
            Err(failure) => retries.wait_after(failure, account).await?,
        }
    }
}

/// A response that can be used.
struct EmbeddingAnswer {
    /// The vectors, in the order of the texts.
    vectors: Vec<Vec<f32>>,
    model: Option<String>,
    input_tokens: u64,
}

async fn embed_once(
    endpoint: &ModelEndpoint,
    encoded: &EncodedRequest,
    protocol: &dyn EmbeddingProtocol,
    request: &EmbedRequest,
) -> Result<EmbeddingAnswer, AttemptFailure> {
    let mut response = endpoint.send(encoded).await?;
    if !response.status().is_success() {
        return Err(endpoint
            .error_response_failure(&mut response, encoded, None)
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
    // They are estimated if the endpoint does not say it, so that budgets apply to such endpoints, too.
    let input_tokens = parsed
        .input_tokens
        .unwrap_or_else(|| request.estimated_tokens());
    let failure = |reason, retry| AttemptFailure {
        usage: UsageWithoutReply::Tokens(usage(input_tokens)),
        ..AttemptFailure::retryable(reason, retry)
    };
    if let Some(reason) = unusable_reason(&parsed, request) {
        return Err(failure(reason, RetryDecision::Never));
    }
    let vectors = order_vectors(parsed.vectors).map_err(|text| {
        let reason = format!("the answer has no vector for text {text}");
        failure(reason, RetryDecision::Backoff)
    })?;
    Ok(EmbeddingAnswer {
        vectors,
        model: parsed.model,
        input_tokens,
    })
}

/// Returns why vectors cannot be used, or `None` if they can. The same request would bring such
/// vectors again.
fn unusable_reason(parsed: &ParsedEmbeddings, request: &EmbedRequest) -> Option<String> {
    let (count, expected) = (parsed.vectors.len(), request.texts.len());
    if count != expected {
        return Some(format!(
            "the answer has {count} vectors for {expected} texts"
        ));
    }
    let mut lengths = parsed.vectors.iter().map(|v| v.components.len());
    let components = lengths.next().unwrap_or(0);
    if components == 0 || lengths.any(|length| length != components) {
        return Some("the answer has vectors of different lengths, or without components".into());
    }
    let wanted = request
        .dimensions
        .filter(|wanted| *wanted as usize != components)?;
    Some(format!(
        "the answer has vectors of {components} components, not {wanted}; this model has no choice of them"
    ))
}

fn usage(input: u64) -> TokenUsage {
    TokenUsage {
        input,
        ..TokenUsage::default()
    }
}
