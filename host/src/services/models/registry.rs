//! The language models of a team. Every request is validated, limited and charged here, whichever
//! provider answers.
//!
//! The providers are in `remote`, `scripted` and `record`. Budgets and grants belong to the driver.

use strata_core::record::json::{Json, JsonError};
use strata_core::record::money::Usd;
use tokio::sync::Semaphore;

use super::config::{self, ConfigError, ModelsConfig, Price};
use super::rate_limit::RateLimiter;
use super::record::{ExchangeRecorder, RecordedProvider};
use super::remote::RemoteProvider;
use super::scripted::ScriptedProvider;
use super::tokens::{TokenCounts, UsageWithoutReply, expected_tokens};
use super::{FailedRequest, FinishReason, ModelReply, ModelRequest, StreamObserver};
use crate::gateway::{HostError, HostErrorKind};
use crate::services::variables::Variables;

/// The maximum number of concurrent requests of a team. It is large enough to hide the latency of a
/// large fan-out, and small enough that the team alone does not exceed the rate limit of an
/// endpoint. A request keeps its permit while it waits for a retry, so that a busy endpoint
/// receives fewer requests.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// The maximum number of characters of a reply or a body that an error message quotes.
pub(super) const EXCERPT_CHARS: usize = 300;

/// The language models of a team.
#[derive(Debug)]
pub struct Models {
    model: Option<String>,
    price: Price,
    provider: Provider,
    permits: Semaphore,
    pace: RateLimiter,
    recorder: Option<ExchangeRecorder>,
}

#[derive(Debug)]
enum Provider {
    Scripted(ScriptedProvider),
    Recorded(RecordedProvider),
    Remote(Box<RemoteProvider>),
}

/// A reply and its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedCall {
    /// The reply.
    pub reply: ModelReply,
    /// What it cost.
    pub cost: Usd,
    /// The number of tokens that it used.
    pub tokens: u64,
}

/// A failed request. It may have a cost: a reply that violates the request is paid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    /// Why there is no reply.
    pub error: HostError,
    /// What it cost.
    pub cost: Usd,
    /// The number of tokens that it used.
    pub tokens: u64,
    /// Why a reply ended that violates the request. `None` if there was no reply.
    pub finish: Option<FinishReason>,
}

impl Models {
    /// Loads what the provider needs: the file of replies, or the API key from its environment
    /// variable.
    pub fn new(config: &ModelsConfig, variables: &Variables) -> Result<Self, ConfigError> {
        let provider = match &config.provider {
            config::ProviderConfig::Scripted { replies } => {
                Provider::Scripted(ScriptedProvider::load(replies)?)
            }
            config::ProviderConfig::Recorded { replies } => {
                Provider::Recorded(RecordedProvider::load(replies)?)
            }
            config::ProviderConfig::OpenAi(endpoint) => {
                Provider::Remote(Box::new(RemoteProvider::new(endpoint, variables)?))
            }
        };
        Ok(Self {
            model: config.model.clone(),
            price: config.price,
            provider,
            permits: Semaphore::new(MAX_CONCURRENT_REQUESTS),
            pace: RateLimiter::per_minute(config.requests_per_minute),
            recorder: config
                .record
                .as_deref()
                .map(ExchangeRecorder::open)
                .transpose()?,
        })
    }

    /// Returns the model for requests that name none.
    pub fn default_model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the cost and the tokens that a request is expected to use at most. They are reserved
    /// while it is in flight. If the request does not limit the reply, a usual length is assumed.
    pub fn estimate(&self, request: &ModelRequest) -> (Usd, u64) {
        self.charge(expected_tokens(request))
    }

    /// Sends a request and returns its reply. Dropping the future cancels the request.
    pub async fn complete(&self, request: &ModelRequest) -> Result<CompletedCall, FailedCall> {
        self.complete_observed(request, StreamObserver::default())
            .await
    }

    /// Sends a request like `complete`, and passes the reply to an observer as it is written.
    pub async fn complete_observed(
        &self,
        request: &ModelRequest,
        mut observer: StreamObserver,
    ) -> Result<CompletedCall, FailedCall> {
        let result = self.ask(request, &mut observer).await;
        let reply = result.as_ref().map(|(reply, _)| reply);
        if let Ok(reply) = reply {
            observer.completed(reply);
        }
        if let Some(recorder) = &self.recorder {
            recorder.append(request, reply.map_err(|unanswered| &unanswered.error));
        }
        let (reply, lost) = result.map_err(|unanswered| self.failed_call(request, unanswered))?;
        let (cost, tokens) = self.charge(reply.tokens().plus(lost.tokens(request)));
        let finish = reply.finish;
        if let Some(flaw) = finish.defect() {
            tracing::warn!(
                model = reply.model,
                "a reply of the model {}",
                flaw.description()
            );
        }
        match check_reply(reply, request) {
            Ok(reply) => Ok(CompletedCall {
                reply,
                cost,
                tokens,
            }),
            Err(message) => {
                let error = HostError::new(HostErrorKind::Upstream, message);
                Err(FailedCall {
                    error,
                    cost,
                    tokens,
                    finish: Some(finish),
                })
            }
        }
    }

    /// Returns the failure of a request, with its cost.
    fn failed_call(
        &self,
        request: &ModelRequest,
        FailedRequest { error, used }: FailedRequest,
    ) -> FailedCall {
        let (cost, tokens) = self.charge(used.tokens(request));
        FailedCall {
            error,
            cost,
            tokens,
            finish: None,
        }
    }

    /// Returns the cost of tokens, and their number.
    pub fn charge(&self, tokens: TokenCounts) -> (Usd, u64) {
        (self.price.cost(tokens), tokens.total())
    }

    /// Sends a request to the provider. Also returns what earlier attempts used that broke off.
    async fn ask(
        &self,
        request: &ModelRequest,
        observer: &mut StreamObserver,
    ) -> Result<(ModelReply, UsageWithoutReply), FailedRequest> {
        if request.messages.is_empty() {
            return Err(
                invalid("cannot ask a model: `messages` is empty; give at least one turn").into(),
            );
        }
        if request.temperature.is_some_and(|t| !t.is_finite()) {
            return Err(invalid("cannot ask a model: `temperature` is not a finite number").into());
        }
        let model = request.model.as_deref().or(self.model.as_deref());
        // The semaphore is never closed, so acquiring cannot fail.
        let _place = self.permits.acquire().await;
        match &self.provider {
            Provider::Recorded(recorded) => {
                self.pace.wait().await;
                observer.dispatched();
                Ok((recorded.complete(request)?, UsageWithoutReply::Nothing))
            }
            Provider::Scripted(scripted) => {
                self.pace.wait().await;
                observer.dispatched();
                Ok((
                    scripted.complete(model, request).await?,
                    UsageWithoutReply::Nothing,
                ))
            }
            Provider::Remote(endpoint) => {
                let model = model.ok_or_else(|| {
                    invalid(
                        "cannot ask a model: neither the request nor the team names one; write `model = \"…\"` under \
                         `[llm]`",
                    )
                })?;
                endpoint
                    .complete(model, request, observer, &self.pace)
                    .await
            }
        }
    }
}

pub(super) fn invalid(message: impl Into<String>) -> HostError {
    HostError::new(HostErrorKind::Invalid, message)
}

/// Converts a reply to the requested form, or returns why that is impossible.
fn check_reply(mut reply: ModelReply, request: &ModelRequest) -> Result<ModelReply, String> {
    for call in &mut reply.tool_calls {
        let arguments = Json::parse(&call.arguments).map_err(|e| {
            format!(
                "asking model `{}` failed: it calls the tool `{}` with arguments that are not JSON: {e}{}",
                reply.model,
                call.name,
                describe_flaw(reply.finish)
            )
        })?;
        call.arguments = arguments.as_str().to_owned();
    }
    if request.output_schema.is_some() && reply.data.is_none() {
        match Json::parse(strip_code_fence(&reply.text)) {
            Ok(data) => reply.data = Some(data.as_str().to_owned()),
            // A model that calls a tool answers in a later reply.
            Err(_) if !reply.tool_calls.is_empty() => {}
            Err(error) => return Err(not_json_error(&reply, request, &error)),
        }
    }
    Ok(reply)
}

/// Returns the end of an error message about a reply that ended abnormally.
fn describe_flaw(finish: FinishReason) -> String {
    finish
        .defect()
        .map_or_else(String::new, |flaw| format!("; it {}", flaw.description()))
}

fn not_json_error(reply: &ModelReply, request: &ModelRequest, error: &JsonError) -> String {
    let cut = request
        .max_tokens
        .is_some_and(|max| reply.output_tokens >= max);
    let hint = match reply.finish {
        // Not all endpoints report the truncation.
        FinishReason::Stop if cut => "; it was truncated at `max_tokens`".to_owned(),
        finish => describe_flaw(finish),
    };
    let quoted = excerpt(&reply.text);
    format!(
        "asking model `{}` failed: the reply is {error}: `{quoted}`{hint}",
        reply.model
    )
}

/// Returns the text without the Markdown code fence that many models put around JSON.
pub(super) fn strip_code_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|t| t.strip_suffix("```"));
    match inner.and_then(|t| t.split_once('\n')) {
        Some((_language, body)) => body.trim(),
        None => text,
    }
}

/// Returns the beginning of a text from outside. Control characters are replaced so that it fits
/// one line of a terminal.
pub(super) fn excerpt(text: &str) -> String {
    let mut start: String = text
        .trim()
        .chars()
        .take(EXCERPT_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.trim().chars().nth(EXCERPT_CHARS).is_some() {
        start.push('…');
    }
    start
}

#[cfg(test)]
mod tests;
