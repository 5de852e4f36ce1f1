//! When a request is made again.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use strata_core::json;

use crate::services::wait::{asked, doubled};

/// Whether a failed request is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Asking again would fail again, or be paid twice.
    Never,
    /// After a wait that doubles each time.
    Backoff,
    /// After the wait that the endpoint asked for.
    After(Duration),
    /// At once, for a reply in one piece: the endpoint may not know streaming.
    Whole,
}

impl Retry {
    /// How long to wait after `retries` retries, where `first` is the first wait.
    pub(super) fn wait(self, first: Duration, retries: u32) -> Option<Duration> {
        match self {
            Self::Never | Self::Whole => None,
            Self::Backoff => Some(doubled(first, retries)),
            Self::After(wait) => Some(wait),
        }
    }
}

/// What an answer with this status and these headers means for the next try.
pub(super) fn after(status: StatusCode, headers: &HeaderMap) -> Retry {
    let passing = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS);
    if !passing && !status.is_server_error() {
        return Retry::Never;
    }
    asked(headers).map_or(Retry::Backoff, Retry::After)
}

/// What an answer that holds an error in place of a reply means for the next try, whatever its status: some endpoints
/// pass on what others told them.
pub(super) fn told(body: &str) -> Retry {
    let code = json::read(body).ok().and_then(|answer| answer["error"]["code"].as_u64());
    let status = code.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
    status.map_or(Retry::Never, |status| after(status, &HeaderMap::new()))
}

/// Whether an answer with this status may be about the option to stream. It says that nothing was done.
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

    use super::*;
    use crate::services::wait::FIRST;

    #[test]
    fn an_error_in_the_place_of_a_reply_is_taken_as_its_code_says() {
        for (body, retry) in [
            (r#"{"error":{"code":503,"message":"overloaded"}}"#, Retry::Backoff),
            (r#"{"error":{"code":429}}"#, Retry::Backoff),
            (r#"{"error":{"code":401}}"#, Retry::Never),
            (r#"{"error":{"code":"overloaded"}}"#, Retry::Never),
            (r#"{"error":{"code":99999999}}"#, Retry::Never),
            ("nothing", Retry::Never),
        ] {
            assert_eq!(told(body), retry, "{body}");
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let check = |status: u16, expected: Retry| {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(after(status, &HeaderMap::new()), expected, "{status}");
        };
        for status in [408, 409, 429, 500, 502, 503, 504, 529] {
            check(status, Retry::Backoff);
        }
        for status in [301, 307, 400, 401, 403, 404, 413, 422] {
            check(status, Retry::Never);
        }
    }

    #[test]
    fn the_endpoint_names_the_wait_in_seconds_or_as_a_date() {
        let check = |asked: &str, date: Option<&str>, expected: Retry| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, asked.parse().expect("a header value"));
            if let Some(date) = date {
                headers.insert(DATE, date.parse().expect("a header value"));
            }
            assert_eq!(after(StatusCode::TOO_MANY_REQUESTS, &headers), expected, "{asked}");
        };
        let noon = Some("Sun, 06 Nov 1994 12:00:00 GMT");
        check("7", None, Retry::After(Duration::from_secs(7)));
        check(" 0 ", None, Retry::After(Duration::ZERO));
        check("Sun, 06 Nov 1994 12:00:20 GMT", noon, Retry::After(Duration::from_secs(20)));
        check("Sun, 06 Nov 1994 11:00:00 GMT", noon, Retry::After(Duration::ZERO));
        check("86400", None, Retry::After(Duration::from_secs(60)));
        check("Sun, 06 Nov 1994 12:00:20 GMT", None, Retry::Backoff);
        check("soon", noon, Retry::Backoff);
        check("-1", noon, Retry::Backoff);
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        let check = |retry: Retry, retries: u32, expected_ms: Option<u64>| {
            assert_eq!(retry.wait(FIRST, retries), expected_ms.map(Duration::from_millis), "{retry:?} {retries}");
        };
        check(Retry::Never, 0, None);
        check(Retry::Backoff, 0, Some(500));
        check(Retry::Backoff, 1, Some(1000));
        check(Retry::Backoff, 5, Some(16_000));
        check(Retry::Backoff, 6, Some(30_000));
        check(Retry::Backoff, u32::MAX, Some(30_000));
        check(Retry::After(Duration::from_secs(2)), 3, Some(2000));
    }
}
