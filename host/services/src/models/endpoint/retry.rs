//! The retry policy: whether and after what delay a failed request is sent again.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::ModelEndpoint;
use super::failure::{AttemptFailure, Outlook, RequestFailure};
use super::optional_field::OptionalField;
use super::stated_delay::stated_delay;
use crate::client::{backoff_delay, requested_delay};
use crate::models::charge::CallAccount;
use crate::models::protocol::{has_account_code, is_account_refusal, is_context_overflow};
use crate::models::tokens::parse_token_count;

/// Whether a failed request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Not at all. It would fail again or be charged twice.
    Never,
    /// After a delay that doubles each time.
    Backoff,
    /// After the delay that the endpoint requested.
    After(Duration),
    /// Immediately, for an unstreamed reply, because the endpoint may not support streaming.
    Unstreamed,
    /// Immediately, without a field that the endpoint refuses.
    Without(OptionalField),
}

impl RetryDecision {
    /// Returns the delay after `retries` retries, where `first` is the first delay.
    pub(super) fn delay(self, first: Duration, retries: u32) -> Option<Duration> {
        match self {
            Self::Never | Self::Unstreamed | Self::Without(_) => None,
            Self::Backoff => Some(backoff_delay(first, retries)),
            Self::After(wait) => Some(wait),
        }
    }
}

/// The retries of a request.
pub(super) struct Retries<'a> {
    endpoint: &'a ModelEndpoint,
    /// The provider's id of the model.
    model: &'a str,
    /// The address, for messages.
    display_url: String,
    /// How many were made.
    count: u32,
}

impl<'a> Retries<'a> {
    pub(super) fn new(endpoint: &'a ModelEndpoint, model: &'a str, display_url: String) -> Self {
        Self {
            endpoint,
            model,
            display_url,
            count: 0,
        }
    }

    /// Charges a failed request, and waits until it may be sent again. Fails if it is not sent again.
    pub(super) async fn wait_after(
        &mut self,
        failure: AttemptFailure,
        account: &mut CallAccount<'_>,
    ) -> Result<(), RequestFailure> {
        account.add_loss(failure.usage);
        let failure = self.endpoint.redactor().failure(failure);
        let wait = failure.retry.delay(self.endpoint.backoff, self.count);
        let Some(wait) = wait.filter(|_| self.count < self.endpoint.retries) else {
            return Err(failure.into_request_failure(self.model, &self.display_url, self.count));
        };
        self.count += 1;
        tracing::warn!(
            model = self.model,
            retry = self.count,
            wait_ms = wait.as_millis() as u64,
            "{}",
            failure.message
        );
        account.waits_for_retry();
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// The header in which an endpoint states whether the request can be sent again.
const SHOULD_RETRY: &str = "x-should-retry";

/// Returns whether to retry after a response with this status, these headers and this error.
pub(super) fn after_response(
    status: StatusCode,
    headers: &HeaderMap,
    error: &Value,
) -> RetryDecision {
    let header = headers
        .get(SHOULD_RETRY)
        .map(|value| value.as_bytes().trim_ascii().to_ascii_lowercase());
    let passes = match header.as_deref() {
        Some(b"true") => true,
        Some(b"false") => false,
        _ => is_temporary(status) && !is_quota_error(error),
    };
    if passes {
        let delay = requested_delay(headers).or_else(|| stated_delay(error));
        delay.map_or(RetryDecision::Backoff, RetryDecision::After)
    } else {
        RetryDecision::Never
    }
}

/// Returns whether to retry after an error in place of a reply. It is regarded as temporary unless
/// it contains a permanent status: some endpoints forward the errors of others.
pub(super) fn after_stated_error(error: &Value) -> RetryDecision {
    let lasts = stated_status(error)
        .is_some_and(|status| status.is_client_error() && !is_temporary(status));
    if lasts || is_quota_error(error) || is_context_overflow(error) {
        RetryDecision::Never
    } else {
        stated_delay(error).map_or(RetryDecision::Backoff, RetryDecision::After)
    }
}

/// Returns the status that an error contains, from whichever endpoint it was forwarded, or to which
/// its type corresponds.
fn stated_status(error: &Value) -> Option<StatusCode> {
    let code = ["code", "status", "status_code"]
        .into_iter()
        .find_map(|field| parse_token_count(&error[field]));
    let status = code.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
    status.or_else(|| {
        let names =
            [&error["type"], &error["status"]].map(|name| name.as_str().unwrap_or_default());
        let known = STATUS_OF_TYPE.iter().find(|(name, _)| names.contains(name));
        known.map(|(_, status)| *status)
    })
}

/// The types of errors that last, as Anthropic and Gemini name them, with their statuses.
const STATUS_OF_TYPE: [(&str, StatusCode); 9] = [
    ("invalid_request_error", StatusCode::BAD_REQUEST),
    ("authentication_error", StatusCode::UNAUTHORIZED),
    ("permission_error", StatusCode::FORBIDDEN),
    ("not_found_error", StatusCode::NOT_FOUND),
    ("request_too_large", StatusCode::PAYLOAD_TOO_LARGE),
    ("INVALID_ARGUMENT", StatusCode::BAD_REQUEST),
    ("UNAUTHENTICATED", StatusCode::UNAUTHORIZED),
    ("PERMISSION_DENIED", StatusCode::FORBIDDEN),
    ("NOT_FOUND", StatusCode::NOT_FOUND),
];

/// Returns the error in the body of a response. Some endpoints put it into a list.
pub(super) fn stated_in(answer: &Value) -> &Value {
    let answer = match answer {
        Value::Array(list) => list.first().unwrap_or(answer),
        answer => answer,
    };
    if answer["error"].is_null() {
        answer
    } else {
        &answer["error"]
    }
}

/// Returns whether another model may answer after a response with this status and error.
pub(super) fn outlook_of_response(status: StatusCode, error: &Value) -> Outlook {
    if is_quota_error(error) || is_too_long(status, error) {
        Outlook::Elsewhere
    } else {
        outlook_of_status(status)
    }
}

/// Returns whether a response says that the context is too long. Some endpoints check the request
/// against their limits before they read it, and answer as to any other value that is not allowed.
pub(super) fn is_too_long(status: StatusCode, error: &Value) -> bool {
    let statuses = [
        StatusCode::BAD_REQUEST,
        StatusCode::PAYLOAD_TOO_LARGE,
        StatusCode::UNPROCESSABLE_ENTITY,
    ];
    statuses.contains(&status) && is_context_overflow(error)
}

/// Returns whether an error in place of a reply says that the context is too long.
pub(super) fn states_too_long(error: &Value) -> bool {
    stated_status(error).is_none_or(|status| is_too_long(status, error))
        && is_context_overflow(error)
}

/// Returns whether another model may answer after an error in place of a reply.
pub(super) fn outlook_of_stated_error(error: &Value) -> Outlook {
    match stated_status(error) {
        Some(status) => outlook_of_response(status, error),
        None => Outlook::Elsewhere,
    }
}

/// Returns whether another model may answer after a failure with this status: one that passes, or
/// one with which an endpoint refuses.
pub(in super::super) fn outlook_of_status(status: StatusCode) -> Outlook {
    let refuses = [
        StatusCode::UNAUTHORIZED,
        StatusCode::PAYMENT_REQUIRED,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::PAYLOAD_TOO_LARGE,
    ];
    if refuses.contains(&status) || is_temporary(status) || !status.is_client_error() {
        Outlook::Elsewhere
    } else {
        Outlook::Nowhere
    }
}

/// Returns whether an error means that the account cannot pay. That is permanent, whatever the
/// status of the response. A quota that is available again after a delay is not meant.
pub(super) fn is_quota_error(error: &Value) -> bool {
    has_account_code(error) || (is_account_refusal(error) && stated_delay(error).is_none())
}

fn is_temporary(status: StatusCode) -> bool {
    let passing = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::CONFLICT,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    passing.contains(&status) || status.is_server_error()
}

/// Returns whether a response with this status may be about a field of the request that its error
/// names.
pub(super) fn may_refuse_field(status: StatusCode) -> bool {
    may_refuse_streaming(status) || status == StatusCode::INTERNAL_SERVER_ERROR
}

/// Returns whether a response with this status may be about streaming. The request was not
/// processed then.
pub(super) fn may_refuse_streaming(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_ACCEPTABLE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::NOT_IMPLEMENTED
    )
}

#[cfg(test)]
mod tests {
    use reqwest::header::{DATE, RETRY_AFTER};
    use serde_json::json;

    use super::*;
    use crate::client::FIRST_RETRY_DELAY;

    /// A code of an error about an account that cannot pay.
    const QUOTA: &str = "insufficient_quota";

    #[test]
    fn an_error_in_the_place_of_a_reply_passes_unless_it_says_otherwise() {
        let check = |error: Value, retry: RetryDecision| {
            assert_eq!(after_stated_error(&error), retry, "{error}")
        };
        check(
            json!({ "code": 503, "message": "overloaded" }),
            RetryDecision::Backoff,
        );
        check(json!({ "code": 429 }), RetryDecision::Backoff);
        check(json!({ "code": "429" }), RetryDecision::Backoff);
        check(json!({ "code": "overloaded" }), RetryDecision::Backoff);
        check(json!({ "code": 99_999_999 }), RetryDecision::Backoff);
        check(json!("overloaded"), RetryDecision::Backoff);
        check(json!(true), RetryDecision::Backoff);
        check(json!({ "code": 401 }), RetryDecision::Never);
        check(json!({ "status": 400.0 }), RetryDecision::Never);
        check(json!({ "code": "403" }), RetryDecision::Never);
        check(json!({ "code": QUOTA }), RetryDecision::Never);
        check(json!({ "code": 429, "type": QUOTA }), RetryDecision::Never);
        check(
            json!({ "code": 429, "message": "try again in 3s" }),
            RetryDecision::After(Duration::from_secs(3)),
        );
    }

    #[test]
    fn an_account_that_cannot_pay_is_told_from_a_quota_that_recovers() {
        let check = |status: u16, error: Value, retry: RetryDecision, outlook: Outlook| {
            let status = StatusCode::from_u16(status).expect("a status");
            let found = after_response(status, &HeaderMap::new(), &error);
            assert_eq!(found, retry, "{status} {error}");
            assert_eq!(outlook_of_response(status, &error), outlook, "{error}");
        };
        let (never, elsewhere) = (RetryDecision::Never, Outlook::Elsewhere);
        let low = json!({ "message": "Your credit balance is too low." });
        check(400, low.clone(), never, elsewhere);
        check(429, low, never, elsewhere);
        check(
            412,
            json!({ "message": "Account suspended" }),
            never,
            elsewhere,
        );
        check(400, json!({ "message": "no" }), never, Outlook::Nowhere);
        let quota = "You exceeded your current quota, please check your plan and billing details.";
        check(429, json!({ "message": quota }), never, elsewhere);
        let recovers = RetryDecision::After(Duration::from_secs(2));
        let delay = json!([{ "retryDelay": "2s" }]);
        check(
            429,
            json!({ "message": quota, "details": delay }),
            recovers,
            elsewhere,
        );
        let words = format!("{quota} Please retry in 2s.");
        check(429, json!({ "message": words }), recovers, elsewhere);
    }

    #[test]
    fn another_model_is_asked_after_a_context_that_is_too_long() {
        let check = |status: u16, expected: Outlook| {
            let error = json!({ "message": "prompt is too long: 2 tokens > 1 maximum" });
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(outlook_of_response(status, &error), expected, "{status}");
        };
        check(400, Outlook::Elsewhere);
        check(413, Outlook::Elsewhere);
        check(422, Outlook::Elsewhere);
        check(405, Outlook::Nowhere);
    }

    #[test]
    fn the_endpoint_says_itself_whether_a_request_can_be_made_again() {
        let check = |status: u16, header: &str, error: Value, expected: RetryDecision| {
            let mut headers = HeaderMap::new();
            headers.insert(SHOULD_RETRY, header.parse().expect("a header value"));
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(
                after_response(status, &headers, &error),
                expected,
                "{status} {header}"
            );
        };
        check(500, "false", Value::Null, RetryDecision::Never);
        check(429, " False ", Value::Null, RetryDecision::Never);
        check(400, "true", Value::Null, RetryDecision::Backoff);
        check(500, "perhaps", Value::Null, RetryDecision::Backoff);
        check(400, "perhaps", Value::Null, RetryDecision::Never);
        check(429, "", json!({ "code": QUOTA }), RetryDecision::Never);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let check = |status: u16, expected: RetryDecision| {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(
                after_response(status, &HeaderMap::new(), &Value::Null),
                expected,
                "{status}"
            );
        };
        for status in [408, 409, 429, 500, 502, 503, 504, 529] {
            check(status, RetryDecision::Backoff);
        }
        for status in [301, 307, 400, 401, 403, 404, 413, 422] {
            check(status, RetryDecision::Never);
        }
    }

    #[test]
    fn the_endpoint_names_the_wait_in_seconds_or_as_a_date() {
        let check = |delay: &str, date: Option<&str>, expected: RetryDecision| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, delay.parse().expect("a header value"));
            if let Some(date) = date {
                headers.insert(DATE, date.parse().expect("a header value"));
            }
            assert_eq!(
                after_response(StatusCode::TOO_MANY_REQUESTS, &headers, &Value::Null),
                expected,
                "{delay}"
            );
        };
        let noon = Some("Sun, 06 Nov 1994 12:00:00 GMT");
        check("7", None, RetryDecision::After(Duration::from_secs(7)));
        check(" 0 ", None, RetryDecision::After(Duration::ZERO));
        check(
            "Sun, 06 Nov 1994 12:00:20 GMT",
            noon,
            RetryDecision::After(Duration::from_secs(20)),
        );
        check(
            "Sun, 06 Nov 1994 11:00:00 GMT",
            noon,
            RetryDecision::After(Duration::ZERO),
        );
        check("86400", None, RetryDecision::After(Duration::from_secs(60)));
        check(
            "Sun, 06 Nov 1994 12:00:20 GMT",
            None,
            RetryDecision::After(Duration::ZERO),
        );
        check(
            "Sunday, 06-Nov-94 12:00:20 GMT",
            noon,
            RetryDecision::After(Duration::from_secs(20)),
        );
        check(
            "Sun Nov  6 12:00:20 1994",
            noon,
            RetryDecision::After(Duration::from_secs(20)),
        );
        check(
            "0.25",
            None,
            RetryDecision::After(Duration::from_millis(250)),
        );
        for ignored in ["1e300", "1e9", "86401", "inf", "-inf", "NaN", "-0.5", ""] {
            check(ignored, None, RetryDecision::Backoff);
        }
        check(
            "Sun, 06 Nov 2094 12:00:20 GMT",
            noon,
            RetryDecision::Backoff,
        );
        check("soon", noon, RetryDecision::Backoff);
        check("-1", noon, RetryDecision::Backoff);
    }

    #[test]
    fn a_wait_in_milliseconds_comes_first() {
        let check = |milliseconds: &str, expected: Duration| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, "7".parse().expect("a header value"));
            headers.insert(
                "retry-after-ms",
                milliseconds.parse().expect("a header value"),
            );
            assert_eq!(
                after_response(StatusCode::TOO_MANY_REQUESTS, &headers, &Value::Null),
                RetryDecision::After(expected),
                "{milliseconds}"
            );
        };
        check("250", Duration::from_millis(250));
        check("0.5", Duration::from_micros(500));
        check("86400000", Duration::from_secs(60));
        for ignored in ["soon", "-1", "inf", "NaN", "86400001", "1e300"] {
            check(ignored, Duration::from_secs(7));
        }
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        let check = |retry: RetryDecision, retries: u32, expected_ms: Option<u64>| {
            assert_eq!(
                retry.delay(FIRST_RETRY_DELAY, retries),
                expected_ms.map(Duration::from_millis),
                "{retry:?} {retries}"
            );
        };
        check(RetryDecision::Never, 0, None);
        check(RetryDecision::Backoff, 0, Some(500));
        check(RetryDecision::Backoff, 1, Some(1000));
        check(RetryDecision::Backoff, 5, Some(16_000));
        check(RetryDecision::Backoff, 6, Some(30_000));
        check(RetryDecision::Backoff, u32::MAX, Some(30_000));
        check(RetryDecision::After(Duration::from_secs(2)), 3, Some(2000));
    }
}
