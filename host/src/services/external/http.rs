//! A server that is POSTed messages. The operator names it, so it may be anywhere.

use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, Url};
use serde_json::Value;
use strata_core::json::foreign::{self, NonFinite};
use strata_core::json::{self, JsonError};

use super::{Letter, Tries};
use crate::services::client::{self, chain};
use crate::services::wait::{FIRST, asked, doubled};

/// How long one POST may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often one is tried in all, where it is not tried for ever.
const TRIES: u32 = 5;
/// The first pause at least, whatever the server asks for.
const SHORTEST: Duration = Duration::from_millis(10);
/// For how many one counts that took all its time.
const TIMED_OUT: u32 = 3;
/// After which time it is said that there is no answer yet.
const SLOW: Duration = Duration::from_secs(5);
/// The largest answer that is read.
const MAX_ANSWER: usize = 16 << 20;

/// Makes requests to one address.
pub(super) struct Client {
    client: reqwest::Client,
    url: Url,
}

/// Why a try failed.
#[derive(Debug)]
struct HttpError {
    why: String,
    /// Whether another try may go better.
    passes: bool,
    /// The pause before it that the server asks for.
    asked: Option<Duration>,
    /// For how many tries it counts.
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
            // Without TLS no roots are needed.
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

    /// Posts a message, again if that may help. Its key is the idempotency key. Gives the messages of the answer.
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

/// Says when there is no answer for long.
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
    // The server has taken the message. Whatever is wrong with the rest of its answer, it is not sent again.
    let answer = match read(&mut response).await {
        Ok(body) => messages(&body),
        Err(why) => Err(why),
    };
    Ok(answer.unwrap_or_else(|why| {
        tracing::warn!("`{url}` took the message, and its answer is no list of messages: {why}; nothing is taken in");
        Vec::new()
    }))
}

/// The messages in an answer, each as text.
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

async fn read(response: &mut Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(body),
            Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_ANSWER => {
                body.extend_from_slice(&chunk)
            }
            Ok(Some(_)) => return Err(format!("it has more than {MAX_ANSWER} bytes")),
            Err(error) => return Err(format!("it broke off: {}", chain(&error.without_url()))),
        }
    }
}
