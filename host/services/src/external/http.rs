//! Posts messages to a server. The operator configured its address, so it may be anywhere,
//! including in local networks.

use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Response, Url};
use serde_json::Value;
use strata_base::text::error_causes::error_with_causes;
use strata_base::text::excerpt::excerpt;
use strata_core::record::json::lenient::{self, NonFinite};
use strata_core::record::json::{self, JsonError};

use super::{DeliveryRetries, OutboundMessage};
use crate::client::{self, FIRST_RETRY_DELAY, backoff_delay, requested_delay};
use crate::text_response::{content_coding, decode_text};

/// The timeout of one POST.
const POST_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of attempts if they are limited.
const MAX_ATTEMPTS: u32 = 5;
/// The minimum delay before the first retry, whatever the server requests.
const MIN_DELAY: Duration = Duration::from_millis(10);
/// The number of attempts that a timeout counts for.
const TIMEOUT_WEIGHT: u32 = 3;
/// The time after which a warning says that the server has not responded yet.
const WARN_AFTER: Duration = Duration::from_secs(5);
/// The maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// The maximum number of characters that are quoted of a response that is lost.
const MAX_QUOTED_CHARS: usize = 200;

/// Sends requests to one address.
pub(super) struct MessagePoster {
    client: reqwest::Client,
    url: Url,
}

/// A failed attempt.
#[derive(Debug)]
struct PostError {
    why: String,
    /// Whether a retry may succeed.
    is_temporary: bool,
    /// The delay that the server requests.
    requested_delay: Option<Duration>,
    /// The number of attempts that it counts for.
    weight: u32,
}

impl PostError {
    fn temporary(why: String) -> Self {
        Self {
            why,
            is_temporary: true,
            requested_delay: None,
            weight: 1,
        }
    }

    fn from_connection_error(error: reqwest::Error) -> Self {
        let weight = if error.is_timeout() {
            TIMEOUT_WEIGHT
        } else {
            1
        };
        Self {
            weight,
            ..Self::temporary(error_with_causes(&error.without_url()))
        }
    }
}

impl MessagePoster {
    pub(super) fn new(url: &Url) -> Result<Self, String> {
        let mut builder = client::reading_builder().timeout(POST_TIMEOUT);
        if url.scheme() == "http" {
            // Without TLS, no root certificates are needed.
            builder = builder.tls_certs_only([]).no_proxy();
        }
        let client = builder
            .build()
            .map_err(|e| format!("cannot set up the HTTP client: {e}"))?;
        Ok(Self {
            client,
            url: url.clone(),
        })
    }

    /// Posts a message, with retries if they may help. Its key is sent as the idempotency key.
    /// Returns the messages in the response.
    pub(super) fn post(
        &self,
        letter: OutboundMessage,
        tries: DeliveryRetries,
    ) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let (client, url) = (self.client.clone(), self.url.clone());
        Box::pin(async move {
            let mut attempts = 0;
            loop {
                let PostError {
                    why,
                    is_temporary: passes,
                    requested_delay,
                    weight,
                } = match warn_if_slow(&url, post_once(&client, &url, &letter)).await {
                    Ok(messages) => return Ok(messages),
                    Err(error) => error,
                };
                let pause = requested_delay.map_or_else(
                    || backoff_delay(FIRST_RETRY_DELAY, attempts),
                    |requested_delay| requested_delay.max(backoff_delay(MIN_DELAY, attempts)),
                );
                attempts += weight;
                if !passes || (tries == DeliveryRetries::Limited && attempts >= MAX_ATTEMPTS) {
                    return Err(format!("cannot post to `{url}`: {why}"));
                }
                tracing::warn!("cannot post to `{url}`: {why}; it is tried again in {pause:?}");
                tokio::time::sleep(pause).await;
            }
        })
    }
}

/// Waits for a response, and logs a warning if it takes long.
async fn warn_if_slow<T>(url: &Url, answer: impl Future<Output = T>) -> T {
    let mut answer = std::pin::pin!(answer);
    if let Ok(answer) = tokio::time::timeout(WARN_AFTER, &mut answer).await {
        return answer;
    }
    tracing::warn!("`{url}` has not answered for {WARN_AFTER:?}; it has {POST_TIMEOUT:?}");
    answer.await
}

async fn post_once(
    client: &reqwest::Client,
    url: &Url,
    letter: &OutboundMessage,
) -> Result<Vec<String>, PostError> {
    let request = client
        .post(url.clone())
        .header(CONTENT_TYPE, "application/json")
        .header("Idempotency-Key", &letter.key);
    let mut response = request
        .body(letter.text.clone())
        .send()
        .await
        .map_err(PostError::from_connection_error)?;
    let status = response.status();
    if !status.is_success() {
        let passes = status.is_server_error() || status.as_u16() == 429;
        let why = format!("the server answered {status}");
        return Err(PostError {
            is_temporary: passes,
            requested_delay: requested_delay(response.headers()),
            ..PostError::temporary(why)
        });
    }
    // The server has accepted the message, so it is not sent again, even if the response is
    // invalid.
    let mut body = Vec::new();
    let answer = match read_body(&mut response, &mut body).await {
        Ok(()) => parse_messages(&body, response.headers()),
        Err(why) => Err(why),
    };
    Ok(answer.unwrap_or_else(|why| {
        let lost = match excerpt(&String::from_utf8_lossy(&body), MAX_QUOTED_CHARS) {
            lost if lost.is_empty() => "nothing of it arrived".to_owned(),
            lost => format!("this is lost ({} bytes): `{lost}`", body.len()),
        };
        let key = &letter.key;
        tracing::warn!(
            "`{url}` took the message `{key}`, and its answer is no list of messages: {why}; {lost}"
        );
        Vec::new()
    }))
}

/// Returns the messages in the body of a response with these headers, each as text.
fn parse_messages(body: &[u8], headers: &HeaderMap) -> Result<Vec<String>, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    if let Some(coding) = content_coding(headers) {
        return Err(format!("it is compressed as `{coding}`"));
    }
    let text = &*decode_text(body, headers)?;
    let wrong = |error: JsonError| format!("it is {error}");
    json::check_limits(text).map_err(wrong)?;
    let read = |text: &str| serde_json::from_str::<Value>(text);
    match lenient::parse(text, NonFinite::Null, read).map_err(wrong)? {
        Value::Array(list) => Ok(list.iter().map(Value::to_string).collect()),
        other => Err(format!("it is {}", describe_kind(&other))),
    }
}

fn describe_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads an answer to its end. If that fails, `body` holds what was read before.
async fn read_body(response: &mut Response, body: &mut Vec<u8>) -> Result<(), String> {
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(()),
            Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_RESPONSE_BYTES => {
                body.extend_from_slice(&chunk)
            }
            Ok(Some(_)) => return Err(format!("it has more than {MAX_RESPONSE_BYTES} bytes")),
            Err(error) => {
                return Err(format!(
                    "it broke off: {}",
                    error_with_causes(&error.without_url())
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_in_the_encoding_that_it_names() {
        let check =
            |headers: &[(&'static str, &str)], body: &[u8], expected: Result<&str, &str>| {
                let mut map = HeaderMap::new();
                for (name, value) in headers {
                    map.insert(*name, value.parse().expect("a header value"));
                }
                let found = parse_messages(body, &map);
                match expected {
                    Ok(text) => assert_eq!(found, Ok(vec![text.to_owned()])),
                    Err(part) => assert!(found.expect_err("no messages").contains(part), "{part}"),
                }
            };
        let latin = ("content-type", "application/json; charset=iso-8859-1");
        check(&[], b"[\"a\"]", Ok("\"a\""));
        check(&[latin], b"[\"\xe4\"]", Ok("\"\u{e4}\""));
        check(&[latin], b"\xff\xfe[\x001\0]\0", Ok("1"));
        check(&[], b"\xef\xbb\xbf[1]", Ok("1"));
        check(&[], b"[\"\xe4\"]", Err("not valid UTF-8"));
        let gzip = ("content-encoding", "gzip");
        check(&[gzip], b"\x1f\x8b", Err("compressed as `gzip`"));
    }
}
