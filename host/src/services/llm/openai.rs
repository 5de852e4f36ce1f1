//! The provider for OpenAI-compatible endpoints: one HTTP request at a time, made again when it failed in passing.
//!
//! What is sent and how an answer is read is in `wire`, a reply that comes in pieces in `stream`, when and after how long
//! a request is made again in `retry`, the key in `key`. A reply is streamed only where somebody listens.

mod key;
mod retry;
mod sse;
mod stream;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, Response, StatusCode, Url};

use self::key::{Hush, Key};
use self::retry::Retry;
use self::sse::Events;
use self::stream::{Broken, Hushed, Pieces, Stage};
use self::wire::Form;
use super::config::{ConfigError, Endpoint};
use super::pace::Pace;
use super::tokens::Used;
use super::{Hearing, Reply, Request, Unanswered};
use crate::gateway::{HostError, HostErrorKind};
use crate::plugin::http::shown;
use crate::services::client::{self, chain};
use crate::services::endpoint::{self, Unfit};
use crate::services::variables::Variables;
use crate::services::wait;

/// The largest reply that is read: some forty times what models can write in one go, and small enough to hold
/// `PARALLEL` of them.
const REPLY_BYTES: usize = 16 << 20;
/// How much of a failing endpoint's answer is read: an error message, not the page around it.
const ERROR_BYTES: usize = 64 << 10;
/// How long connecting may take. An endpoint that is there accepts within a round trip or two.
const CONNECT: Duration = Duration::from_secs(10);

/// An endpoint, ready to be asked.
#[derive(Debug)]
pub(super) struct OpenAi {
    client: Client,
    url: Url,
    /// The endpoint as it appears in messages.
    shown: String,
    key: Option<Key>,
    retries: u32,
    timeout: Duration,
    /// The wait before the first retry; tests shorten it.
    backoff: Duration,
    /// Whether the endpoint was found not to know streaming, or not to count what it streams.
    unstreamed: AtomicBool,
}

/// What is asked of the endpoint.
struct Asked {
    form: Form,
    body: String,
}

/// A request that failed.
struct Failure {
    message: String,
    retry: Retry,
    used: Used,
}

impl Failure {
    fn lasting(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: Retry::Never, used: Used::Nothing }
    }

    /// The same of a reply that may be made, or had begun: it is charged, whoever saw how much of it.
    fn charged(self) -> Self {
        Self { used: Used::Unknown, ..self }
    }

    fn passing(message: impl Into<String>, retry: Retry) -> Self {
        Self { message: message.into(), retry, used: Used::Nothing }
    }
}

impl OpenAi {
    /// Prepares to ask `endpoint`. Reads the key; makes no connection.
    pub(super) fn new(endpoint: &Endpoint, variables: &Variables) -> Result<Self, ConfigError> {
        let url = completions(&endpoint.base_url)?;
        let shown = shown(&url);
        let key = endpoint.api_key_env.as_deref().map(|name| Key::read(variables, name)).transpose()?;
        let client = client(&url, endpoint.timeout)
            .map_err(|error| ConfigError::Client { url: shown.clone(), reason: chain(&error) })?;
        Ok(Self {
            client,
            url,
            shown,
            key,
            retries: endpoint.retries,
            timeout: endpoint.timeout,
            backoff: wait::FIRST,
            unstreamed: AtomicBool::new(false),
        })
    }

    /// Asks, and asks again as often as the endpoint's `retries` allow. Gives what replies used up that broke off, too.
    pub(super) async fn complete(
        &self,
        model: &str,
        request: &Request,
        (hearing, pace): (&mut Hearing, &Pace),
    ) -> Result<(Reply, Used), Unanswered> {
        let streams = hearing.is_wanted() && !self.unstreamed.load(Ordering::Relaxed);
        let mut form = if streams { Form::Streamed } else { Form::Whole };
        let mut retries = 0;
        let mut lost = Used::Nothing;
        loop {
            let asked = Asked { form, body: wire::body(model, request, form)? };
            pace.turn().await;
            hearing.departs();
            let failure = match self.attempt(&asked, hearing).await {
                Ok(text) => match wire::reply(&text, model, request, self.hush()) {
                    Ok(reply) => {
                        if streams && form == Form::Whole {
                            self.unstreamed.store(true, Ordering::Relaxed);
                        }
                        return Ok((reply, lost));
                    }
                    Err(message) => {
                        let used = wire::used(&text);
                        // What is paid for is not asked for again.
                        let retry = if used == Used::Nothing { retry::told(&text) } else { Retry::Never };
                        Failure { message, retry, used }
                    }
                },
                Err(failure) => failure,
            };
            hearing.again();
            if failure.retry == Retry::Whole {
                form = Form::Whole;
                continue;
            }
            lost = lost.and(failure.used, request);
            let message = failure.message;
            let wait = failure.retry.wait(self.backoff, retries);
            let Some(wait) = wait.filter(|_| retries < self.retries) else {
                let error = self.error(model, &message, retries);
                return Err(Unanswered { error, used: lost });
            };
            retries += 1;
            tracing::warn!(model, retry = retries, wait_ms = wait.as_millis() as u64, "{message}");
            hearing.returns(lost.tokens(request));
            tokio::time::sleep(wait).await;
        }
    }

    /// Makes one request and returns the body of the answer, as it is; one that was streamed is put together.
    async fn attempt(&self, asked: &Asked, hearing: &mut Hearing) -> Result<String, Failure> {
        let mut sending = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            sending = sending.header(AUTHORIZATION, key.bearer());
        }
        let sent = sending.body(asked.body.clone()).send().await;
        let mut response = sent.map_err(|e| self.broken(e))?;
        if !response.status().is_success() {
            return Err(self.refused(&mut response, asked.form).await);
        }
        if is_stream(&response) {
            let pieces = self.pieces(&mut response, hearing).await?;
            if !pieces.is_counted() {
                // It may count those that come in one piece.
                self.unstreamed.store(true, Ordering::Relaxed);
            }
            return Ok(pieces.answer());
        }
        let text = read(&mut response, REPLY_BYTES).await.map_err(|e| self.broken(e))?;
        match text {
            Body::Whole(text) => Ok(text),
            Body::Cut(_) => Err(too_large()),
        }
    }

    /// Reads a streamed reply to its end.
    async fn pieces(&self, response: &mut Response, hearing: &mut Hearing) -> Result<Pieces, Failure> {
        let mut listener = Hushed::new(hearing, self.hush());
        let (mut events, mut pieces, mut read) = (Events::default(), Pieces::default(), 0);
        loop {
            if pieces.stage() == Stage::Over {
                return Ok(pieces);
            }
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                // It is paid for: what happens after it is no reason to ask again.
                Ok(None) | Err(_) if pieces.stage() == Stage::Whole => return Ok(pieces),
                Ok(None) => {
                    let message = "the stream ended in the middle of the reply";
                    return Err(Failure::passing(message, Retry::Backoff).charged());
                }
                Err(error) => return Err(self.broken(error)),
            };
            read += chunk.len();
            if read > REPLY_BYTES {
                return Err(too_large());
            }
            for data in events.feed(&chunk) {
                match pieces.take(&data, self.hush()) {
                    Ok(text) => listener.text(&text),
                    Err(_) if pieces.stage() >= Stage::Whole => return Ok(pieces),
                    Err(broken) => {
                        let failure = match broken {
                            Broken::Upstream(message) => Failure::passing(message, Retry::Backoff),
                            Broken::Nonsense(message) => Failure::lasting(message),
                        };
                        return Err(if pieces.stage() == Stage::Empty { failure } else { failure.charged() });
                    }
                }
            }
        }
    }

    /// The failure of an endpoint that answered.
    async fn refused(&self, response: &mut Response, form: Form) -> Failure {
        let status = response.status();
        let retry = match retry::after(status, response.headers()) {
            _ if form == Form::Streamed && retry::may_refuse_streaming(status) => Retry::Whole,
            retry => retry,
        };
        // What came before the connection broke is all there is to show.
        let said = match read(response, ERROR_BYTES).await {
            Ok(Body::Whole(text) | Body::Cut(text)) => text,
            Err(error) => chain(&error.without_url()),
        };
        let said = self.hush().excerpt(&said);
        let hint = self.hint(status);
        Failure::passing(format!("the endpoint answered {status}: `{said}`{hint}"), retry)
    }

    fn hint(&self, status: StatusCode) -> String {
        match (status, &self.key) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(key)) => {
                format!("; is the key in `{}` right?", key.variable())
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

    /// The failure of a connection.
    fn broken(&self, error: reqwest::Error) -> Failure {
        let error = error.without_url();
        if error.is_timeout() && !error.is_connect() {
            // The endpoint may still be at work, and its work may be charged: asking again would pay twice.
            let message = format!("there was no whole answer within {:?}", self.timeout);
            return Failure::lasting(message).charged();
        }
        let unsent = error.is_builder() || error.is_connect();
        let failure = Failure::passing(chain(&error), if error.is_builder() { Retry::Never } else { Retry::Backoff });
        // Whoever got the request may have answered it, and charges for that.
        if unsent { failure } else { failure.charged() }
    }

    /// Endpoints quote keys, in replies and in error messages. They go nowhere from here.
    fn hush(&self) -> Hush<'_> {
        Hush::of(self.key.as_ref())
    }

    fn error(&self, model: &str, message: &str, retries: u32) -> HostError {
        let tried = match retries {
            0 => String::new(),
            1 => " (after 1 retry)".to_owned(),
            n => format!(" (after {n} retries)"),
        };
        let message = format!("asking model `{model}` at `{}` failed: {message}{tried}", self.shown);
        HostError::new(HostErrorKind::Upstream, message)
    }
}

fn completions(base_url: &str) -> Result<Url, ConfigError> {
    endpoint::completions(base_url).map_err(|Unfit { shown, problem, hint }| ConfigError::BaseUrl {
        url: shown,
        reason: format!("{problem}; {hint}"),
    })
}

fn client(url: &Url, timeout: Duration) -> Result<Client, reqwest::Error> {
    let mut builder = client::builder().timeout(timeout).connect_timeout(CONNECT.min(timeout));
    if url.scheme() == "http" {
        // Without TLS no roots are needed: a machine that has none can still ask a local endpoint.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        // The operator's proxy leads away from this machine.
        builder = builder.no_proxy();
    }
    builder.build()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

fn too_large() -> Failure {
    Failure::lasting(format!("the reply is larger than {} MiB", REPLY_BYTES >> 20)).charged()
}

enum Body {
    Whole(String),
    /// It went beyond the limit; what lies before it.
    Cut(String),
}

async fn read(response: &mut Response, limit: usize) -> Result<Body, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = limit - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(Body::Cut(String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(Body::Whole(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
pub(super) mod tests;
