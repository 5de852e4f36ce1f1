//! What a failed request means: what it used, whether it is sent again, and whether another model
//! may answer instead.

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;
use strata_base::text::error_causes::error_with_causes;
use strata_core::record::conversation::TokenUsage;
use strata_core::record::fault::FaultCause;
use strata_core::record::json;

use super::retry::{self, RetryDecision};
use super::{
    EncodedRequest, Mismatch, ModelEndpoint, Question, TransferMode, UsageWithoutReply,
    optional_field,
};
use crate::gateway::{HostError, HostErrorKind};
use crate::models::FinishReason;
use crate::models::config::ProtocolName;
use crate::models::protocol::{ReplyProblem, UnusableReply};
use crate::text_response::{TextResponse, content_coding};

/// The maximum number of bytes that are read of an error response. It is enough for an error
/// message.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The hint for an account without credit.
const QUOTA_HINT: &str =
    "; the account's quota is used up: look at its plan and billing at the provider";
/// The hint for an endpoint of chat completions that accepts tools only from requests with an
/// effort.
const EFFORT_HINT: &str =
    "; for tools, write `provider = \"responses\"` or `effort = \"none\"` for this model";

/// A model that did not answer.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct RequestFailure {
    /// Why, for the guest.
    pub(in super::super) error: HostError,
    /// Why, in fewer words.
    pub(in super::super) reason: String,
    /// Whether another model may answer.
    pub(in super::super) outlook: Outlook,
    /// Why the reply ended, if there was one that cannot be used.
    pub(in super::super) finish: Option<FinishReason>,
    /// The model that wrote it.
    pub(in super::super) answered: Option<String>,
}

/// Whether another model may answer a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Outlook {
    /// It may: the endpoint is not available, or refuses the request.
    Elsewhere,
    /// It would fail as well: the request itself is at fault.
    Nowhere,
}

impl RequestFailure {
    /// Returns whether the model refused the request as too long.
    pub(in super::super) fn is_length_refusal(&self) -> bool {
        self.error.cause == Some(FaultCause::ContextTooLong)
    }
}

impl From<HostError> for RequestFailure {
    /// Returns the failure for a request that was not sent, because it is at fault.
    fn from(error: HostError) -> Self {
        Self {
            reason: error.message.clone(),
            error,
            outlook: Outlook::Nowhere,
            finish: None,
            answered: None,
        }
    }
}

/// A failed attempt.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    pub(super) message: String,
    pub(super) retry: RetryDecision,
    pub(super) outlook: Outlook,
    pub(super) usage: UsageWithoutReply,
    pub(super) finish: Option<FinishReason>,
    pub(super) answered: Option<String>,
    /// Whether the model refused the request as too long.
    pub(super) is_too_long: bool,
}

impl AttemptFailure {
    /// Returns the failure of a reply that exceeds a limit of the host. It would be as large again.
    pub(super) fn beyond_limit(message: impl Into<String>) -> Self {
        Self {
            outlook: Outlook::Nowhere,
            ..Self::retryable(message, RetryDecision::Never)
        }
    }

    /// Returns a failure after which another model may answer.
    pub(super) fn retryable(message: impl Into<String>, retry: RetryDecision) -> Self {
        Self {
            message: message.into(),
            retry,
            outlook: Outlook::Elsewhere,
            usage: UsageWithoutReply::Nothing,
            finish: None,
            answered: None,
            is_too_long: false,
        }
    }

    /// Returns the failure of a reply that does not match its schema. It is requested again at once.
    pub(super) fn mismatch(
        mismatch: Mismatch,
        usage: TokenUsage,
        finish: FinishReason,
        answered: String,
    ) -> Self {
        let outlook = mismatch.outlook();
        Self {
            message: mismatch.message,
            retry: if mismatch.may_improve {
                RetryDecision::After(std::time::Duration::ZERO)
            } else {
                RetryDecision::Never
            },
            outlook,
            usage: UsageWithoutReply::Tokens(usage),
            finish: Some(finish),
            answered: Some(answered),
            is_too_long: false,
        }
    }

    /// Returns the failure with an unknown usage, because the reply may have been written, at least
    /// in part, and is charged then.
    pub(super) fn with_unknown_usage(self) -> Self {
        Self {
            usage: UsageWithoutReply::Unknown,
            ..self
        }
    }

    /// Returns the failure of the request after so many retries.
    pub(super) fn into_request_failure(
        self,
        model: &str,
        display_url: &str,
        retries: u32,
    ) -> RequestFailure {
        let tried = match retries {
            0 => String::new(),
            1 => " (after 1 retry)".to_owned(),
            n => format!(" (after {n} retries)"),
        };
        let reason = self.message + &tried;
        let message = format!("asking model `{model}` at `{display_url}` failed: {reason}");
        let error = HostError::new(HostErrorKind::Upstream, message);
        RequestFailure {
            error: if self.is_too_long {
                error.caused_by(FaultCause::ContextTooLong)
            } else {
                error
            },
            reason,
            outlook: self.outlook,
            finish: self.finish,
            answered: self.answered,
        }
    }
}

impl ModelEndpoint {
    /// Returns the failure for a reply that cannot be used.
    pub(super) fn unusable_failure(
        &self,
        reply: &Value,
        UnusableReply { problem, usage }: UnusableReply,
    ) -> AttemptFailure {
        let quote = |value: &Value| self.redactor().excerpt(&value.to_string());
        let failure = match &problem {
            ReplyProblem::StatedError(error) => {
                let hint = if retry::is_quota_error(error) {
                    QUOTA_HINT
                } else {
                    ""
                };
                let quoted = quote(error);
                let message = format!("the endpoint answered with an error: `{quoted}`{hint}");
                AttemptFailure {
                    is_too_long: retry::states_too_long(error),
                    outlook: retry::outlook_of_stated_error(error),
                    ..AttemptFailure::retryable(message, retry::after_stated_error(error))
                }
            }
            ReplyProblem::FailureReason(reason) => {
                let reason = self.redactor().excerpt(reason);
                AttemptFailure::retryable(
                    format!("the reply failed by its own account: its finish reason is `{reason}`"),
                    RetryDecision::Backoff,
                )
            }
            ReplyProblem::TooManyToolCalls { limit } => {
                AttemptFailure::beyond_limit(format!("the reply has more than {limit} tool calls"))
            }
            ReplyProblem::NoMessage => AttemptFailure::retryable(
                format!("the answer holds no reply: `{}`", quote(reply)),
                retry::after_stated_error(reply),
            ),
        };
        AttemptFailure { usage, ..failure }
    }

    /// Returns the failure for an error response. `question` is what was asked, if it was for a reply.
    pub(super) async fn error_response_failure(
        &self,
        response: &mut TextResponse,
        encoded: &EncodedRequest,
        question: Option<Question<'_>>,
    ) -> AttemptFailure {
        let status = response.status();
        let headers = response.headers().clone();
        // If the connection breaks, the connection error is quoted instead of the body.
        let body = match content_coding(response.headers()) {
            Some(coding) => format!("compressed as {coding}"),
            None => match read_prefix(response, MAX_ERROR_BYTES).await {
                Ok(text) => text,
                Err(error) => error_with_causes(&error.without_url()),
            },
        };
        let answer = json::parse_untrusted(&body).unwrap_or_else(|_| body.clone().into());
        let stated = retry::stated_in(&answer);
        let is_quota = retry::is_quota_error(stated) || status == StatusCode::PAYMENT_REQUIRED;
        let retry = retry_of_response(status, &headers, stated, encoded);
        let excerpt = self.redactor().excerpt(&body);
        let hint = if is_quota {
            QUOTA_HINT.to_owned()
        } else if self.protocol_name == ProtocolName::OpenAi
            && question
                .is_some_and(|question| rejects_tools_without_effort(status, stated, question))
        {
            EFFORT_HINT.to_owned()
        } else {
            self.hint(status)
        };
        AttemptFailure {
            is_too_long: retry::is_too_long(status, stated)
                || status == StatusCode::PAYLOAD_TOO_LARGE,
            outlook: retry::outlook_of_response(status, stated),
            ..AttemptFailure::retryable(
                format!("the endpoint answered {status}: `{excerpt}`{hint}"),
                retry,
            )
        }
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
                let table = &self.table;
                format!("; name the variable that holds the key under `api_key` in `[{table}]`")
            }
            (StatusCode::NOT_FOUND, _) => "; are `base_url` and `model` right?".to_owned(),
            _ if status.is_redirection() => {
                "; redirects are not followed: write the final address as `base_url`".to_owned()
            }
            _ => String::new(),
        }
    }

    /// Returns the failure for a reply that is compressed, or `None` if it is not. It would be
    /// compressed again, and is charged.
    pub(super) fn compression_failure(&self, response: &TextResponse) -> Option<AttemptFailure> {
        let coding = self
            .redactor()
            .excerpt(&content_coding(response.headers())?);
        let message = format!(
            "the answer is compressed as `{coding}`, although `identity` was requested; \
             is there a proxy before `base_url` that compresses?"
        );
        Some(AttemptFailure::retryable(message, RetryDecision::Never).with_unknown_usage())
    }

    /// Returns the failure for a connection error.
    pub(super) fn connection_failure(&self, error: reqwest::Error) -> AttemptFailure {
        let error = error.without_url();
        if error.is_timeout() && !error.is_connect() {
            // The endpoint may still be working on the request and charge for it. A retry would pay
            // twice.
            let message = format!("there was no whole answer within {:?}", self.timeout);
            return AttemptFailure::retryable(message, RetryDecision::Never).with_unknown_usage();
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
}

/// Returns whether a request is sent again after an error response, and in which form.
fn retry_of_response(
    status: StatusCode,
    headers: &HeaderMap,
    error: &Value,
    encoded: &EncodedRequest,
) -> RetryDecision {
    let is_refusal = retry::is_quota_error(error) || retry::is_too_long(status, error);
    if !is_refusal && retry::may_refuse_field(status) {
        if let Some(field) = optional_field::refused_field(&encoded.optional, error) {
            return RetryDecision::Without(field);
        }
        if encoded.transfer == TransferMode::Streamed && retry::may_refuse_streaming(status) {
            return RetryDecision::Unstreamed;
        }
    }
    retry::after_response(status, headers, error)
}

/// Returns whether an endpoint rejects tools because the request has no effort: it names the
/// parameter, or the protocol to use instead.
fn rejects_tools_without_effort(status: StatusCode, error: &Value, question: Question<'_>) -> bool {
    let asks = question
        .request
        .effort
        .as_ref()
        .or(question.settings.effort.as_ref());
    if status != StatusCode::BAD_REQUEST || question.request.tools.is_empty() || asks.is_some() {
        return false;
    }
    let explanation = error["message"].as_str().unwrap_or_default();
    error["param"] == "reasoning_effort"
        || ["reasoning_effort", "/v1/responses"]
            .iter()
            .any(|name| explanation.contains(name))
}

/// Reads at most `limit` bytes of a body.
async fn read_prefix(response: &mut TextResponse, limit: usize) -> Result<String, reqwest::Error> {
    let mut bytes = Vec::new();
    while bytes.len() < limit
        && let Some(chunk) = response.chunk().await?
    {
        bytes.extend_from_slice(&chunk);
    }
    bytes.truncate(limit);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
