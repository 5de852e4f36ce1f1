//! Posts messages to a server. The operator configured its address, so it may be anywhere,
//! including in local networks.

use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, Url};
use serde_json::Value;
use strata_core::json::foreign::{self, NonFinite};
use strata_core::json::{self, JsonError};

use super::{Letter, Tries};
use crate::excerpt::excerpt;
use crate::services::client::{self, FIRST, asked, chain, doubled};

/// The timeout of one POST.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The number of attempts if they are limited.
const TRIES: u32 = 5;
/// The minimum delay before the first retry, whatever the server requests.
const SHORTEST: Duration = Duration::from_millis(10);
/// The number of attempts that a timeout counts for.
const TIMED_OUT: u32 = 3;
/// The time after which a warning says that the server has not responded yet.
const SLOW: Duration = Duration::from_secs(5);
/// The maximum size of a response in bytes.
const MAX_ANSWER: usize = 16 << 20;
/// The maximum number of characters that are quoted of a response that is lost.
const SHOWN: usize = 200;

/// Sends requests to one address.
pub(super) struct Client {
    client: reqwest::Client,
    url: Url,
}

/// A failed attempt.
#[derive(Debug)]
struct HttpError {
    why: String,
    /// Whether a retry may succeed.
    passes: bool,
    /// The delay that the server requests.
    asked: Option<Duration>,
    /// The number of attempts that it counts for.
    weight: u32,
}

impl HttpError {
    fn passing(why: String) -> Self {
        Self {
            why,
            passes: true,
            asked: None,
            weight: 1,
        }
    }

    fn broken(error: reqwest::Error) -> Self {
        let weight = if error.is_timeout() { TIMED_OUT } else { 1 };
        Self {
            weight,
            ..Self::passing(chain(&error.without_url()))
        }
    }
}

impl Client {
    pub(super) fn new(url: &Url) -> Result<Self, String> {
        let mut builder = client::builder().timeout(TIMEOUT);
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
        letter: Letter,
        tries: Tries,
    ) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let (client, url) = (self.client.clone(), self.url.clone());
        Box::pin(async move {
            let mut made = 0;
            loop {
                let HttpError {
                    why,
                    passes,
                    asked,
                    weight,
                } = match patiently(&url, post(&client, &url, &letter)).await {
                    Ok(messages) => return Ok(messages),
                    Err(error) => error,
                };
                let pause = asked.map_or_else(
                    || doubled(FIRST, made),
                    |asked| asked.max(doubled(SHORTEST, made)),
                );
                made += weight;
                if !passes || (tries == Tries::Few && made >= TRIES) {
                    return Err(format!("cannot post to `{url}`: {why}"));
                }
                tracing::warn!("cannot post to `{url}`: {why}; it is tried again in {pause:?}");
                tokio::time::sleep(pause).await;
            }
        })
    }
}

/// Waits for a response, and logs a warning if it takes long.
async fn patiently<T>(url: &Url, answer: impl Future<Output = T>) -> T {
    let mut answer = std::pin::pin!(answer);
    if let Ok(answer) = tokio::time::timeout(SLOW, &mut answer).await {
        return answer;
    }
    tracing::warn!("`{url}` has not answered for {SLOW:?}; it has {TIMEOUT:?}");
    answer.await
}

async fn post(
    client: &reqwest::Client,
    url: &Url,
    letter: &Letter,
) -> Result<Vec<String>, HttpError> {
    let request = client
        .post(url.clone())
        .header(CONTENT_TYPE, "application/json")
        .header("Idempotency-Key", &letter.key);
    let mut response = request
        .body(letter.text.clone())
        .send()
        .await
        .map_err(HttpError::broken)?;
    let status = response.status();
    if !status.is_success() {
        let passes = status.is_server_error() || status.as_u16() == 429;
        let why = format!("the server answered {status}");
        return Err(HttpError {
            passes,
            asked: asked(response.headers()),
            ..HttpError::passing(why)
        });
    }
    // The server has accepted the message, so it is not sent again, even if the response is
    // invalid.
    let mut body = Vec::new();
    let answer = match read(&mut response, &mut body).await {
        Ok(()) => messages(&body),
        Err(why) => Err(why),
    };
    Ok(answer.unwrap_or_else(|why| {
        let lost = match excerpt(&String::from_utf8_lossy(&body), SHOWN) {
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

/// Returns the messages in a response, each as text.
fn messages(body: &[u8]) -> Result<Vec<String>, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let text = str::from_utf8(body).map_err(|error| error.to_string())?;
    let wrong = |error: JsonError| format!("it is {error}");
    json::fits(text).map_err(wrong)?;
    let read = |text: &str| serde_json::from_str::<Value>(text);
    match foreign::parse(text, NonFinite::Null, read).map_err(wrong)? {
        Value::Array(list) => Ok(list.iter().map(Value::to_string).collect()),
        other => Err(format!("it is {}", kind(&other))),
    }
}

fn kind(value: &Value) -> &'static str {
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
async fn read(response: &mut Response, body: &mut Vec<u8>) -> Result<(), String> {
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(()),
            Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_ANSWER => {
                body.extend_from_slice(&chunk)
            }
            Ok(Some(_)) => return Err(format!("it has more than {MAX_ANSWER} bytes")),
            Err(error) => return Err(format!("it broke off: {}", chain(&error.without_url()))),
        }
    }
}
