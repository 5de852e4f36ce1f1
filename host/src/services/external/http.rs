//! A server that is POSTed messages. The operator names it, so it may be anywhere.

use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, Url};
use serde_json::Value;
use strata_core::json;

use super::Letter;
use crate::services::client;

/// How long one POST may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often one is tried in all.
const TRIES: u32 = 3;
/// The pause before the second try; doubled each time.
const PAUSE: Duration = Duration::from_millis(500);
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
}

impl Client {
    pub(super) fn new(url: &Url) -> Result<Self, String> {
        let mut builder = client::builder().timeout(TIMEOUT);
        if url.scheme() == "http" {
            // Without TLS no roots are needed.
            builder = builder.tls_certs_only([]).no_proxy();
        }
        let client = builder.build().map_err(|e| format!("cannot set up the HTTP client: {e}"))?;
        Ok(Self { client, url: url.clone() })
    }

    /// Posts a message, again if that may help. Its key is the idempotency key. Gives the messages of the answer.
    pub(super) fn post(&self, letter: Letter) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let (client, url) = (self.client.clone(), self.url.clone());
        Box::pin(async move {
            let mut pause = PAUSE;
            let mut tries = 1;
            loop {
                match post(&client, &url, &letter).await {
                    Ok(messages) => return Ok(messages),
                    Err(HttpError { why, passes }) if !passes || tries == TRIES => {
                        return Err(format!("cannot post to `{url}`: {why}"));
                    }
                    Err(_) => tokio::time::sleep(pause).await,
                }
                tries += 1;
                pause *= 2;
            }
        })
    }
}

async fn post(client: &reqwest::Client, url: &Url, letter: &Letter) -> Result<Vec<String>, HttpError> {
    let broken = |error: reqwest::Error| HttpError { why: error.without_url().to_string(), passes: true };
    let request =
        client.post(url.clone()).header(CONTENT_TYPE, "application/json").header("Idempotency-Key", &letter.key);
    let mut response = request.body(letter.text.clone()).send().await.map_err(broken)?;
    let status = response.status();
    if !status.is_success() {
        let passes = status.is_server_error() || status.as_u16() == 429;
        return Err(HttpError { why: format!("the server answered {status}"), passes });
    }
    let body = read(&mut response).await?;
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let wrong = |why: String| HttpError { why: format!("the answer is no list of messages: {why}"), passes: false };
    let text = str::from_utf8(&body).map_err(|error| wrong(error.to_string()))?;
    match json::read(text).map_err(|error| wrong(format!("it is {error}")))? {
        Value::Array(list) => Ok(list.iter().map(Value::to_string).collect()),
        _ => Err(wrong("it is no list".into())),
    }
}

async fn read(response: &mut Response) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(body),
            Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_ANSWER => body.extend_from_slice(&chunk),
            Ok(Some(_)) => {
                let why = format!("the answer has more than {MAX_ANSWER} bytes");
                return Err(HttpError { why, passes: false });
            }
            Err(error) => return Err(HttpError { why: error.without_url().to_string(), passes: true }),
        }
    }
}
