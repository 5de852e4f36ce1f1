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
use strata_core::json;

use self::key::{Hush, Key};
use self::retry::Retry;
use super::config::{ConfigError, Endpoint};
use super::openai::Dialect;
use super::pace::Pace;
use super::protocol::{Answer, Form, Problem, Protocol, Unusable};
use super::thinking::{self, Ending};
use super::tokens::{Tokens, Used, estimate};
use super::{Finish, Hearing, Reply, Request, Unanswered};
use crate::gateway::{HostError, HostErrorKind};
use crate::plugin::http::shown;
use crate::services::client::{self, chain};
use crate::services::endpoint::{self, Unfit};
use crate::services::variables::Variables;

/// The maximum size of a reply in bytes. It is about forty times what models can write in one
/// reply, and small enough that `PARALLEL` of them fit into memory.
const REPLY_BYTES: usize = 16 << 20;
/// The maximum number of bytes that are read of an error response. It is enough for an error
/// message.
const ERROR_BYTES: usize = 64 << 10;
/// The maximum time for connecting. An available endpoint accepts within a few round trips.
const CONNECT: Duration = Duration::from_secs(10);

/// The hint for an account without credit.
const QUOTA_HINT: &str =
    "; the account's quota is used up: look at its plan and billing at the provider";

/// A provider that sends requests to an endpoint.
#[derive(Debug)]
pub(super) struct Remote {
    client: Client,
    url: Url,
    protocol: Protocol,
    /// The endpoint as it is displayed in messages.
    shown: String,
    key: Option<Key>,
    retries: u32,
    timeout: Duration,
    /// The delay before the first retry. Tests shorten it.
    backoff: Duration,
    /// Whether the endpoint turned out not to support streaming, or not to report the usage of
    /// streamed replies.
    unstreamed: AtomicBool,
}

/// A request in the form in which it is sent.
struct Asked {
    form: Form,
    body: String,
}

/// A failed attempt.
struct Failure {
    message: String,
    retry: Retry,
    used: Used,
}

impl Failure {
    fn lasting(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retry: Retry::Never,
            used: Used::Nothing,
        }
    }

    /// Returns the failure with an unknown usage, because the reply may have been written, at least
    /// in part, and is charged then.
    fn charged(self) -> Self {
        Self {
            used: Used::Unknown,
            ..self
        }
    }

    fn passing(message: impl Into<String>, retry: Retry) -> Self {
        Self {
            message: message.into(),
            retry,
            used: Used::Nothing,
        }
    }
}

impl Remote {
    /// Prepares to send requests to `endpoint`. Reads the key, but does not connect.
    pub(super) fn new(endpoint: &Endpoint, variables: &Variables) -> Result<Self, ConfigError> {
        let url = completions(&endpoint.base_url)?;
        let shown = shown(&url);
        let key = endpoint
            .api_key_env
            .as_deref()
            .map(|name| Key::read(variables, name))
            .transpose()?;
        let client = client(&url, endpoint.timeout).map_err(|error| ConfigError::Client {
            url: shown.clone(),
            reason: chain(&error),
        })?;
        Ok(Self {
            client,
            protocol: Protocol::OpenAi(Dialect::at(&url)),
            url,
            shown,
            key,
            retries: endpoint.retries,
            timeout: endpoint.timeout,
            backoff: client::FIRST,
            unstreamed: AtomicBool::new(false),
        })
    }

    /// Sends a request, with as many retries as the endpoint's `retries` allow. Also returns what
    /// attempts used whose replies broke off.
    pub(super) async fn complete(
        &self,
        model: &str,
        request: &Request,
        hearing: &mut Hearing,
        pace: &Pace,
    ) -> Result<(Reply, Used), Unanswered> {
        let streams = hearing.is_wanted() && !self.unstreamed.load(Ordering::Relaxed);
        let mut form = if streams { Form::Streamed } else { Form::Whole };
        let mut retries = 0;
        let mut lost = Used::Nothing;
        loop {
            let asked = Asked {
                form,
                body: self.protocol.body(model, request, form)?,
            };
            pace.turn().await;
            hearing.departs();
            let failure = match self.attempt(&asked, hearing).await {
                Ok(reply) => match self.protocol.interpret(&reply) {
                    Ok(answer) => {
                        if streams && form == Form::Whole {
                            self.stop_streaming();
                        }
                        return Ok((self.reply(answer, model, request), lost));
                    }
                    Err(unusable) => self.unusable(&reply, unusable),
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
            tracing::warn!(
                model,
                retry = retries,
                wait_ms = wait.as_millis() as u64,
                "{message}"
            );
            hearing.returns(lost.tokens(request));
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a request once and returns the value of the reply, in the form of an unstreamed one.
    async fn attempt(&self, asked: &Asked, hearing: &mut Hearing) -> Result<Value, Failure> {
        let mut sending = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            sending = sending.header(AUTHORIZATION, key.bearer());
        }
        let sent = sending.body(asked.body.clone()).send().await;
        let mut response = sent.map_err(|e| self.broken(e))?;
        if !response.status().is_success() {
            return Err(self.refused(&mut response, asked.form).await);
        }
        self.receive(&mut response, hearing).await
    }

    /// Requests unstreamed replies from now on.
    fn stop_streaming(&self) {
        self.unstreamed.store(true, Ordering::Relaxed);
    }

    /// Converts a parsed reply: removes the key and the model's thinking, and estimates the tokens
    /// if the endpoint does not report them, so that budgets apply to such endpoints, too.
    fn reply(&self, answer: Answer, model: &str, request: &Request) -> Reply {
        let Answer {
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
        let Tokens {
            input,
            output,
            cached,
        } = usage.tokens(Tokens::new(estimate(request.texts()), estimate(said)));
        for (place, call) in tool_calls.iter_mut().enumerate() {
            if call.id.is_empty() {
                call.id = request.tool_call_id(place);
            }
        }
        let ending = match finish {
            Finish::Length | Finish::ToolCalls => Ending::Open,
            Finish::Stop | Finish::Refusal | Finish::Other => Ending::Answer,
        };
        self.hush().reply(Reply {
            text: thinking::answer(&text, ending).to_owned(),
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
    fn unusable(&self, reply: &Value, Unusable { problem, used }: Unusable) -> Failure {
        let quote = |value: &Value| self.hush().excerpt(&value.to_string());
        let (message, retry) = match &problem {
            Problem::StatedError(error) => {
                let hint = if retry::is_quota(error) {
                    QUOTA_HINT
                } else {
                    ""
                };
                (
                    format!(
                        "the endpoint answered with an error: `{}`{hint}",
                        quote(error)
                    ),
                    retry::stated(error),
                )
            }
            Problem::FailedFinish(reason) => {
                let reason = self.hush().excerpt(reason);
                (
                    format!("the reply failed by its own account: its finish reason is `{reason}`"),
                    Retry::Backoff,
                )
            }
            Problem::TooManyToolCalls { most } => (
                format!("the reply has more than {most} tool calls"),
                Retry::Never,
            ),
            Problem::NoReply => (
                format!("the answer holds no reply: `{}`", quote(reply)),
                retry::stated(reply),
            ),
        };
        Failure {
            message,
            retry,
            used,
        }
    }

    /// Returns the failure for an error response.
    async fn refused(&self, response: &mut Response, form: Form) -> Failure {
        let status = response.status();
        let headers = response.headers().clone();
        // If the connection breaks, the connection error is quoted instead of the body.
        let said = match read(response, ERROR_BYTES).await {
            Ok(text) => text,
            Err(error) => chain(&error.without_url()),
        };
        let stated = json::read(&said).unwrap_or_default();
        let stated = if stated["error"].is_null() {
            &stated
        } else {
            &stated["error"]
        };
        let is_quota = retry::is_quota(stated) || status == StatusCode::PAYMENT_REQUIRED;
        let retry = match retry::after(status, &headers, is_quota) {
            _ if form == Form::Streamed && retry::may_refuse_streaming(status) => Retry::Whole,
            retry => retry,
        };
        let said = self.hush().excerpt(&said);
        let hint = if is_quota {
            QUOTA_HINT.to_owned()
        } else {
            self.hint(status)
        };
        Failure::passing(
            format!("the endpoint answered {status}: `{said}`{hint}"),
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
    fn broken(&self, error: reqwest::Error) -> Failure {
        let error = error.without_url();
        if error.is_timeout() && !error.is_connect() {
            // The endpoint may still be working on the request and charge for it. A retry would pay
            // twice.
            let message = format!("there was no whole answer within {:?}", self.timeout);
            return Failure::lasting(message).charged();
        }
        let unsent = error.is_builder() || error.is_connect();
        let failure = Failure::passing(
            chain(&error),
            if error.is_builder() {
                Retry::Never
            } else {
                Retry::Backoff
            },
        );
        // An endpoint that received the request may have answered it, and charges for that.
        if unsent { failure } else { failure.charged() }
    }

    /// Returns a redactor for the key. Endpoints quote keys in replies and in error messages.
    fn hush(&self) -> Hush<'_> {
        Hush::of(self.key.as_ref())
    }

    fn error(&self, model: &str, message: &str, retries: u32) -> HostError {
        let tried = match retries {
            0 => String::new(),
            1 => " (after 1 retry)".to_owned(),
            n => format!(" (after {n} retries)"),
        };
        let message = format!(
            "asking model `{model}` at `{}` failed: {message}{tried}",
            self.shown
        );
        HostError::new(HostErrorKind::Upstream, message)
    }
}

fn completions(base_url: &str) -> Result<Url, ConfigError> {
    endpoint::completions(base_url).map_err(
        |Unfit {
             shown,
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
        .connect_timeout(CONNECT.min(timeout));
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
async fn read(response: &mut Response, limit: usize) -> Result<String, reqwest::Error> {
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
