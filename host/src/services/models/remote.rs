//! Models behind HTTP. Sends one request at a time and retries temporary failures.
//!
//! The protocol determines the contents of requests and replies. Receiving a response is in
//! `receive`, the retry policy in `retry`, and the API key in `key`. A reply is streamed only if
//! there is a listener.

mod key;
mod receive;
mod retry;
mod sse;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;
use strata_core::record::json;

use self::key::{ApiKey, KeyRedactor};
use self::retry::RetryDecision;
use super::config::{ConfigError, Endpoint};
use super::openai::Dialect;
use super::protocol::{ParsedReply, Protocol, ReplyProblem, TransferMode, UnusableReply};
use super::rate_limit::RateLimiter;
use super::think_tags::{self, ReplyEnding};
use super::tokens::{TokenCounts, UsageWithoutReply, estimate_tokens};
use super::{FailedRequest, FinishReason, ModelReply, ModelRequest, StreamObserver};
use crate::gateway::{HostError, HostErrorKind};
use crate::plugin::http::display_url;
use crate::services::client::{self, error_with_causes};
use crate::services::endpoint::{self, InvalidAddress};
use crate::services::variables::Variables;

/// The maximum size of a reply in bytes. It is about forty times what models can write in one
/// reply, and small enough that `PARALLEL` of them fit into memory.
const MAX_REPLY_BYTES: usize = 16 << 20;
/// The maximum number of bytes that are read of an error response. It is enough for an error
/// message.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// The maximum time for connecting. An available endpoint accepts within a few round trips.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The hint for an account without credit.
const QUOTA_HINT: &str =
    "; the account's quota is used up: look at its plan and billing at the provider";

/// A provider that sends requests to an endpoint.
#[derive(Debug)]
pub(super) struct RemoteProvider {
    client: Client,
    url: Url,
    protocol: Protocol,
    /// The endpoint as it is displayed in messages.
    display_url: String,
    key: Option<ApiKey>,
    retries: u32,
    timeout: Duration,
    /// The delay before the first retry. Tests shorten it.
    backoff: Duration,
    /// Whether the endpoint turned out not to support streaming, or not to report the usage of
    /// streamed replies.
    streaming_disabled: AtomicBool,
}

/// A request in the form in which it is sent.
struct EncodedRequest {
    transfer: TransferMode,
    body: String,
}

/// A failed attempt.
struct AttemptFailure {
    message: String,
    retry: RetryDecision,
    usage: UsageWithoutReply,
}

impl AttemptFailure {
    fn permanent(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retry: RetryDecision::Never,
            usage: UsageWithoutReply::Nothing,
        }
    }

    /// Returns the failure with an unknown usage, because the reply may have been written, at least
    /// in part, and is charged then.
    fn with_unknown_usage(self) -> Self {
        Self {
            usage: UsageWithoutReply::Unknown,
            ..self
        }
    }

    fn retryable(message: impl Into<String>, retry: RetryDecision) -> Self {
        Self {
            message: message.into(),
            retry,
            usage: UsageWithoutReply::Nothing,
        }
    }
}

impl RemoteProvider {
    /// Prepares to send requests to `endpoint`. Reads the key, but does not connect.
    pub(super) fn new(endpoint: &Endpoint, variables: &Variables) -> Result<Self, ConfigError> {
        let url = completions_url(&endpoint.base_url)?;
        let shown = display_url(&url);
        let key = endpoint
            .api_key_env
            .as_deref()
            .map(|name| ApiKey::read(variables, name))
            .transpose()?;
        let client = client(&url, endpoint.timeout).map_err(|error| ConfigError::Client {
            url: shown.clone(),
            reason: error_with_causes(&error),
        })?;
        Ok(Self {
            client,
            protocol: Protocol::OpenAi(Dialect::for_url(&url)),
            url,
            display_url: shown,
            key,
            retries: endpoint.retries,
            timeout: endpoint.timeout,
            backoff: client::FIRST_RETRY_DELAY,
            streaming_disabled: AtomicBool::new(false),
        })
    }

    /// Sends a request, with as many retries as the endpoint's `retries` allow. Also returns what
    /// attempts used whose replies broke off.
    pub(super) async fn complete(
        &self,
        model: &str,
        request: &ModelRequest,
        observer: &mut StreamObserver,
        pace: &RateLimiter,
    ) -> Result<(ModelReply, UsageWithoutReply), FailedRequest> {
        let streams = observer.has_listener() && !self.streaming_disabled.load(Ordering::Relaxed);
        let mut transfer = if streams {
            TransferMode::Streamed
        } else {
            TransferMode::Unstreamed
        };
        let mut retries = 0;
        let mut lost = UsageWithoutReply::Nothing;
        loop {
            let encoded = EncodedRequest {
                transfer,
                body: self.protocol.request_body(model, request, transfer)?,
            };
            pace.wait().await;
            observer.dispatched();
            let failure = match self.attempt(&encoded, observer).await {
                Ok(reply) => match self.protocol.parse_reply(&reply) {
                    Ok(answer) => {
                        if streams && transfer == TransferMode::Unstreamed {
                            self.disable_streaming();
                        }
                        return Ok((self.convert_reply(answer, model, request), lost));
                    }
                    Err(unusable) => self.unusable_failure(&reply, unusable),
                },
                Err(failure) => failure,
            };
            observer.restarted();
            if failure.retry == RetryDecision::Unstreamed {
                transfer = TransferMode::Unstreamed;
                continue;
            }
            lost = lost.plus(failure.usage, request);
            let message = failure.message;
            let wait = failure.retry.delay(self.backoff, retries);
            let Some(wait) = wait.filter(|_| retries < self.retries) else {
                let error = self.final_error(model, &message, retries);
                return Err(FailedRequest { error, used: lost });
            };
            retries += 1;
            tracing::warn!(
                model,
                retry = retries,
                wait_ms = wait.as_millis() as u64,
                "{message}"
            );
            observer.waits_again(lost.tokens(request));
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a request once and returns the value of the reply, in the form of an unstreamed one.
    async fn attempt(
        &self,
        asked: &EncodedRequest,
        observer: &mut StreamObserver,
    ) -> Result<Value, AttemptFailure> {
        let mut sending = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            sending = sending.header(AUTHORIZATION, key.bearer());
        }
        let sent = sending.body(asked.body.clone()).send().await;
        let mut response = sent.map_err(|e| self.connection_failure(e))?;
        if !response.status().is_success() {
            return Err(self
                .error_response_failure(&mut response, asked.transfer)
                .await);
        }
        self.receive(&mut response, observer).await
    }

    /// Requests unstreamed replies from now on.
    fn disable_streaming(&self) {
        self.streaming_disabled.store(true, Ordering::Relaxed);
    }

    /// Converts a parsed reply: removes the key and the model's thinking, and estimates the tokens
    /// if the endpoint does not report them, so that budgets apply to such endpoints, too.
    fn convert_reply(
        &self,
        answer: ParsedReply,
        model: &str,
        request: &ModelRequest,
    ) -> ModelReply {
        let ParsedReply {
            text,
            mut tool_calls,
            reasoning,
            model: answered_by,
            finish,
            usage,
        } = answer;
        if !usage.is_complete() {
            tracing::warn!(
                model,
                "the endpoint does not say how many tokens were used: they are estimated"
            );
        }
        let said = tool_calls
            .iter()
            .map(|call| call.arguments.as_str())
            .chain([text.as_str(), &reasoning]);
        let TokenCounts {
            input,
            output,
            cached,
        } = usage.or_estimate(TokenCounts::new(
            estimate_tokens(request.texts()),
            estimate_tokens(said),
        ));
        for (place, call) in tool_calls.iter_mut().enumerate() {
            if call.id.is_empty() {
                call.id = request.tool_call_id(place);
            }
        }
        let ending = match finish {
            FinishReason::Length | FinishReason::ToolCalls => ReplyEnding::Open,
            FinishReason::Stop | FinishReason::Refusal | FinishReason::Other => ReplyEnding::Answer,
        };
        self.redactor().reply(ModelReply {
            text: think_tags::strip_thinking(&text, ending).to_owned(),
            data: None,
            tool_calls,
            model: answered_by.unwrap_or_else(|| model.to_owned()),
            input_tokens: input,
            output_tokens: output,
            cached_tokens: cached,
            finish,
        })
    }

    /// Returns the failure for a reply that cannot be used.
    fn unusable_failure(
        &self,
        reply: &Value,
        UnusableReply { problem, usage }: UnusableReply,
    ) -> AttemptFailure {
        let quote = |value: &Value| self.redactor().excerpt(&value.to_string());
        let (message, retry) = match &problem {
            ReplyProblem::StatedError(error) => {
                let hint = if retry::is_quota_error(error) {
                    QUOTA_HINT
                } else {
                    ""
                };
                (
                    format!(
                        "the endpoint answered with an error: `{}`{hint}",
                        quote(error)
                    ),
                    retry::after_stated_error(error),
                )
            }
            ReplyProblem::FailureReason(reason) => {
                let reason = self.redactor().excerpt(reason);
                (
                    format!("the reply failed by its own account: its finish reason is `{reason}`"),
                    RetryDecision::Backoff,
                )
            }
            ReplyProblem::TooManyToolCalls { limit } => (
                format!("the reply has more than {limit} tool calls"),
                RetryDecision::Never,
            ),
            ReplyProblem::NoMessage => (
                format!("the answer holds no reply: `{}`", quote(reply)),
                retry::after_stated_error(reply),
            ),
        };
        AttemptFailure {
            message,
            retry,
            usage,
        }
    }

    /// Returns the failure for an error response.
    async fn error_response_failure(
        &self,
        response: &mut Response,
        transfer: TransferMode,
    ) -> AttemptFailure {
        let status = response.status();
        let headers = response.headers().clone();
        // If the connection breaks, the connection error is quoted instead of the body.
        let body = match read_prefix(response, MAX_ERROR_BYTES).await {
            Ok(text) => text,
            Err(error) => error_with_causes(&error.without_url()),
        };
        let stated = json::parse_untrusted(&body).unwrap_or_default();
        let stated = if stated["error"].is_null() {
            &stated
        } else {
            &stated["error"]
        };
        let is_quota = retry::is_quota_error(stated) || status == StatusCode::PAYMENT_REQUIRED;
        let retry = match retry::after_response(status, &headers, is_quota) {
            _ if transfer == TransferMode::Streamed && retry::may_refuse_streaming(status) => {
                RetryDecision::Unstreamed
            }
            retry => retry,
        };
        let excerpt = self.redactor().excerpt(&body);
        let hint = if is_quota {
            QUOTA_HINT.to_owned()
        } else {
            self.hint(status)
        };
        AttemptFailure::retryable(
            format!("the endpoint answered {status}: `{excerpt}`{hint}"),
            retry,
        )
    }

    fn hint(&self, status: StatusCode) -> String {
        match (status, &self.key) {
            (StatusCode::UNAUTHORIZED, Some(key)) => {
                format!("; is the key in `{}` right?", key.variable())
            }
            (StatusCode::FORBIDDEN, Some(key)) => {
                format!("; may the key in `{}` use this model?", key.variable())
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, None) => {
                "; name the variable that holds the key under `api_key` in `[llm]`".to_owned()
            }
            (StatusCode::NOT_FOUND, _) => "; are `base_url` and `model` right?".to_owned(),
            _ if status.is_redirection() => {
                "; redirects are not followed: write the final address as `base_url`".to_owned()
            }
            _ => String::new(),
        }
    }

    /// Returns the failure for a connection error.
    fn connection_failure(&self, error: reqwest::Error) -> AttemptFailure {
        let error = error.without_url();
        if error.is_timeout() && !error.is_connect() {
            // The endpoint may still be working on the request and charge for it. A retry would pay
            // twice.
            let message = format!("there was no whole answer within {:?}", self.timeout);
            return AttemptFailure::permanent(message).with_unknown_usage();
        }
        let unsent = error.is_builder() || error.is_connect();
        let failure = AttemptFailure::retryable(
            error_with_causes(&error),
            if error.is_builder() {
                RetryDecision::Never
            } else {
                RetryDecision::Backoff
            },
        );
        // An endpoint that received the request may have answered it, and charges for that.
        if unsent {
            failure
        } else {
            failure.with_unknown_usage()
        }
    }

    /// Returns a redactor for the key. Endpoints quote keys in replies and in error messages.
    fn redactor(&self) -> KeyRedactor<'_> {
        KeyRedactor::for_key(self.key.as_ref())
    }

    fn final_error(&self, model: &str, message: &str, retries: u32) -> HostError {
        let tried = match retries {
            0 => String::new(),
            1 => " (after 1 retry)".to_owned(),
            n => format!(" (after {n} retries)"),
        };
        let message = format!(
            "asking model `{model}` at `{}` failed: {message}{tried}",
            self.display_url
        );
        HostError::new(HostErrorKind::Upstream, message)
    }
}

fn completions_url(base_url: &str) -> Result<Url, ConfigError> {
    endpoint::completions_url(base_url).map_err(
        |InvalidAddress {
             display_text: shown,
             problem,
             hint,
         }| ConfigError::BaseUrl {
            url: shown,
            reason: format!("{problem}; {hint}"),
        },
    )
}

fn client(url: &Url, timeout: Duration) -> Result<Client, reqwest::Error> {
    let mut builder = client::builder()
        .timeout(timeout)
        .connect_timeout(CONNECT_TIMEOUT.min(timeout));
    if url.scheme() == "http" {
        // Without TLS, no root certificates are needed. A machine that has none can still use a
        // local endpoint.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        // A proxy cannot reach this machine's loopback interface.
        builder = builder.no_proxy();
    }
    builder.build()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

/// Reads at most `limit` bytes of a body.
async fn read_prefix(response: &mut Response, limit: usize) -> Result<String, reqwest::Error> {
    let mut bytes = Vec::new();
    while bytes.len() < limit
        && let Some(chunk) = response.chunk().await?
    {
        bytes.extend_from_slice(&chunk);
    }
    bytes.truncate(limit);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
pub(super) mod tests;
