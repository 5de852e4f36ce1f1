//! The language models of a team. Each request is validated, limited and charged here, and goes to
//! the model that it is for, or to that model's fallbacks.
//!
//! The providers are in `endpoint`, `scripted` and `record`. Budgets and grants belong to the
//! driver.

mod embedding;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use strata_core::record::conversation::TokenUsage;
use strata_core::record::host_call::{ModelUse, TriedModel};
use strata_core::record::money::Usd;
use strata_core::record::work::Work;
use strata_core::team::Role;
use tokio::sync::Semaphore;
use tracing::Instrument;

use super::charge::CallAccount;
use super::config::{
    ConfigError, EndpointBound, ModelConfig, ModelNames, ModelSettings, ModelTarget, ModelsConfig,
    Price, ProviderConfig, table_name,
};
use super::endpoint::{HttpClients, ModelEndpoint, Outlook, Question, RequestFailure};
use super::error_text::invalid;
use super::rate_limit::RateLimiter;
use super::record::{ExchangeRecorder, RecordedProvider};
use super::reply_check::ReplyCheck;
use super::request_span::{AskedModel, RequestSpan};
use super::scripted::{ScriptedEntry, ScriptedProvider};
use super::tally::ModelTally;
use super::tokens::expected_usage;
use super::{Charge, IfTooLong, ModelReply, ModelRequest, StreamObserver};
pub use embedding::CompletedEmbedding;

use strata_base::files::blob::Blobs;

use crate::gateway::{HostError, HostErrorKind};
use crate::telemetry::{CallTrace, names};
use crate::variables::Variables;

/// The maximum number of concurrent requests of a team. It is large enough to hide the latency of a
/// large fan-out, and small enough that the team alone does not exceed the rate limit of an
/// endpoint. A request keeps its permit while it waits for a retry, so that a busy endpoint
/// receives fewer requests.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// The language models of a team.
#[derive(Debug)]
pub struct Models {
    models: BTreeMap<String, Model>,
    names: ModelNames,
    permits: Semaphore,
    recorder: Option<ExchangeRecorder>,
    /// Where failures are counted.
    tally: OnceLock<Arc<ModelTally>>,
}

/// A language model.
#[derive(Debug)]
struct Model {
    id: Option<String>,
    price: Price,
    settings: ModelSettings,
    fallback: Vec<String>,
    provider: Provider,
    pace: RateLimiter,
}

#[derive(Debug)]
enum Provider {
    Scripted(ScriptedProvider),
    Recorded(RecordedProvider),
    Endpoint(Box<ModelEndpoint>),
}

/// A request with what it needs besides its text.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The model that it is for.
    pub target: ModelTarget,
    /// The request.
    pub request: ModelRequest,
    /// The bytes of its images and files.
    pub blobs: Blobs,
    /// The turn of a tools role that it is the request of. It is not sent.
    pub turn: Option<u32>,
}

/// Who makes a request to a model, as far as it matters for the choice of the model and of a
/// scripted reply.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelCaller<'a> {
    /// The model for requests that name none; `None` for the team's.
    pub role_model: Option<&'a str>,
    /// The turn of a tools role that asks.
    pub turn: Option<u32>,
}

impl<'a> ModelCaller<'a> {
    /// Returns the caller for what a role does.
    pub fn new(role: &'a Role, work: Work) -> Self {
        Self {
            role_model: role.model.as_deref(),
            turn: match work {
                Work::Turn { turn } => Some(turn),
                _ => None,
            },
        }
    }
}

impl ModelCall {
    /// Returns a request with the model that it is for, without images and files.
    pub fn new(names: &ModelNames, caller: ModelCaller<'_>, request: ModelRequest) -> Self {
        Self {
            target: names.resolve(request.model.as_deref(), caller.role_model),
            request,
            blobs: Blobs::new(),
            turn: caller.turn,
        }
    }

    /// Returns the text by which recorded calls are matched. It contains the provider's id of the
    /// model, so that a reply of another model is not served.
    pub fn identity(&self) -> String {
        let ModelTarget { name, id } = &self.target;
        let request = ModelRequest {
            model: None,
            ..self.request.clone()
        };
        serde_json::to_string(&(name, id, request)).unwrap_or_default()
    }
}

/// A reply and what is recorded about its models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedCall {
    /// The reply.
    pub reply: ModelReply,
    /// What it cost, with failed requests and those to other models.
    pub cost: Usd,
    /// How it came about.
    pub used: ModelUse,
}

/// A failed request. It may have a cost: a reply that violates the request is paid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    /// Why there is no reply.
    pub error: HostError,
    /// What it cost.
    pub cost: Usd,
    /// What was tried.
    pub used: ModelUse,
}

impl FailedCall {
    fn unpaid(error: HostError, used: ModelUse) -> Self {
        Self {
            error,
            cost: Usd::ZERO,
            used,
        }
    }
}

/// Reads a file of scripted replies. The error says what is wrong with the file.
pub type ReadReplies<'a> =
    dyn Fn(&Path) -> Result<Vec<ScriptedEntry>, Box<dyn Error + Send + Sync>> + 'a;

impl Models {
    /// Loads what the providers need: the files of replies, which `read_replies` reads, or the API keys from
    /// their environment variables.
    pub fn new(
        config: &ModelsConfig,
        variables: &Variables,
        read_replies: &ReadReplies<'_>,
    ) -> Result<Self, ConfigError> {
        let (mut models, mut clients) = (BTreeMap::new(), HttpClients::default());
        for (name, model) in &config.models {
            let unknown = model
                .fallback
                .iter()
                .find(|fallback| !config.models.contains_key(*fallback));
            if let Some(fallback) = unknown {
                return Err(ConfigError::UnknownFallback {
                    model: name.clone(),
                    fallback: fallback.clone(),
                });
            }
            models.insert(
                name.clone(),
                Model::new(name, model, variables, read_replies, &mut clients)?
                    .bounded_by(&config.bounds),
            );
        }
        Ok(Self {
            models,
            names: config.names(),
            permits: Semaphore::new(MAX_CONCURRENT_REQUESTS),
            recorder: config
                .record
                .as_deref()
                .map(ExchangeRecorder::open)
                .transpose()?,
            tally: OnceLock::new(),
        })
    }

    /// Returns the names of the models.
    pub fn names(&self) -> &ModelNames {
        &self.names
    }

    /// Continues to count how often scripted replies were used, from what the record of the run says.
    pub fn set_reply_uses(&self, uses: &BTreeMap<String, u64>) {
        for (name, model) in &self.models {
            if let Provider::Scripted(scripted) = &model.provider {
                scripted.set_uses(name, uses);
            }
        }
    }

    /// Counts failures in `tally` from now on, unless they are counted elsewhere already.
    pub fn set_tally(&self, tally: Arc<ModelTally>) {
        let _ = self.tally.set(tally);
    }

    /// Counts a request to a model that was answered or not.
    fn count(&self, model: &Model, is_answered: bool, account: &mut CallAccount<'_>) {
        let retries = account.take_retries();
        if let Some(tally) = self.tally.get() {
            tally.add(model.provider.name(), is_answered, retries);
        }
    }

    /// Returns what a call is expected to use at most. It is reserved while the call is in flight. If
    /// the request does not limit the reply, a usual length is assumed.
    pub fn estimate(&self, call: &ModelCall) -> Charge {
        let estimates = self
            .chain(&call.target)
            .map(|(_, model)| Charge::new(model.price, model.expected(&call.request)));
        estimates
            .max_by_key(|charge| charge.cost)
            .unwrap_or_default()
    }

    /// Sends a request and returns its reply, which an observer receives as it is written. Dropping
    /// the future cancels the request.
    pub async fn complete(
        &self,
        call: &ModelCall,
        mut observer: StreamObserver,
        trace: &CallTrace,
    ) -> Result<CompletedCall, FailedCall> {
        let result = self.ask(call, &mut observer, trace).await;
        let reply = result.as_ref().map(|completed| &completed.reply);
        if let Ok(reply) = reply {
            observer.completed(reply);
            if let Some(defect) = reply.finish.defect() {
                tracing::warn!(
                    model = reply.model,
                    "a reply of the model {}",
                    defect.description()
                );
            }
        }
        if let Some(recorder) = &self.recorder {
            recorder.append(&call.request, reply.map_err(|failed| &failed.error));
        }
        result
    }

    /// Asks the model that the call is for, and then its fallbacks until one answers.
    async fn ask(
        &self,
        call: &ModelCall,
        observer: &mut StreamObserver,
        trace: &CallTrace,
    ) -> Result<CompletedCall, FailedCall> {
        let mut account = CallAccount::new(observer);
        let mut used = ModelUse {
            name: call.target.name.clone(),
            ..ModelUse::default()
        };
        let check = match validate(&call.request) {
            Ok(check) => check,
            Err(error) => return Err(FailedCall::unpaid(error, used)),
        };
        // The semaphore is never closed, so acquiring cannot fail.
        let _place = self.permits.acquire().await;
        let mut chain = self.chain(&call.target).peekable();
        while let Some((name, model)) = chain.next() {
            account.switch_to(model.price, model.expected(&call.request));
            let is_target = used.tried.is_empty();
            let id = if is_target {
                &call.target.id
            } else {
                &model.id
            };
            let identity = ModelTarget {
                name: name.to_owned(),
                id: id.clone(),
            };
            let asked_model = model.asked_model(names::CHAT, &identity);
            let span = RequestSpan::open(&asked_model, trace, account.charge);
            span.record_request(&call.request);
            let asking = model.ask(&identity, call, &check, &mut account);
            let result = asking.instrument(span.span()).await;
            match &result {
                Ok(reply) => span.record_reply(reply, account.charge),
                Err(failure) => span.record_failure(failure, account.charge),
            }
            self.count(model, result.is_ok(), &mut account);
            used.name = name.to_owned();
            used.usage = account.charge.usage;
            used.limited_replies.clone_from(&account.limited_replies);
            let cost = account.charge.cost;
            match result {
                Ok(reply) => {
                    used.answered = Some(reply.model.clone());
                    used.finish = Some(reply.finish);
                    return Ok(CompletedCall { reply, cost, used });
                }
                Err(failure)
                    if failure.outlook == Outlook::Nowhere
                        || chain.peek().is_none()
                        || failure.is_length_refusal()
                            && call.request.if_too_long == IfTooLong::Fail =>
                {
                    used.answered = failure.answered;
                    used.finish = failure.finish;
                    let error = with_tried(failure.error, &used.tried);
                    return Err(FailedCall { error, cost, used });
                }
                Err(failure) => {
                    account.waits_again();
                    let reason = failure.reason;
                    tracing::warn!(model = name, "another model is asked: {reason}");
                    used.tried.push(TriedModel {
                        model: name.to_owned(),
                        reason,
                    });
                }
            }
        }
        Err(FailedCall::unpaid(no_default_error(), used))
    }

    /// Returns a model and its fallbacks, each with its name and once. It is empty if the team has no
    /// such model.
    fn chain<'a>(&'a self, target: &'a ModelTarget) -> impl Iterator<Item = (&'a str, &'a Model)> {
        let first = self.models.get_key_value(&target.name);
        let fallback = first.map_or(&[][..], |(_, model)| &model.fallback);
        let others = fallback
            .iter()
            .enumerate()
            .filter(|(place, name)| **name != target.name && !fallback[..*place].contains(name));
        let others = others.filter_map(|(_, name)| self.models.get_key_value(name));
        first
            .into_iter()
            .chain(others)
            .map(|(name, model)| (name.as_str(), model))
    }
}

impl Provider {
    /// Returns its name in team files.
    fn name(&self) -> &'static str {
        match self {
            Self::Scripted(_) => "scripted",
            Self::Recorded(_) => "recorded",
            Self::Endpoint(endpoint) => endpoint.protocol_name(),
        }
    }
}

impl Model {
    fn new(
        name: &str,
        config: &ModelConfig,
        variables: &Variables,
        read_replies: &ReadReplies<'_>,
        clients: &mut HttpClients,
    ) -> Result<Self, ConfigError> {
        let provider = match &config.provider {
            ProviderConfig::Scripted { replies } => {
                let entries = read_replies(replies).map_err(ConfigError::Replies)?;
                Provider::Scripted(ScriptedProvider::new(replies, entries))
            }
            ProviderConfig::Recorded { replies } => {
                Provider::Recorded(RecordedProvider::load(replies)?)
            }
            ProviderConfig::Endpoint(endpoint) => {
                let endpoint = ModelEndpoint::new(name, endpoint, variables, clients)?;
                Provider::Endpoint(Box::new(endpoint))
            }
        };
        Ok(Self {
            id: config.model.clone(),
            price: config.price.unwrap_or_default(),
            settings: config.settings.clone(),
            fallback: config.fallback.clone(),
            provider,
            pace: RateLimiter::per_minute(config.requests_per_minute),
        })
    }

    /// Returns the model with bounds of the addresses to which its requests are sent.
    fn bounded_by(mut self, bounds: &[EndpointBound]) -> Self {
        if let Provider::Endpoint(endpoint) = &mut self.provider {
            endpoint.set_bounds(bounds);
        }
        self
    }

    fn expected(&self, request: &ModelRequest) -> TokenUsage {
        expected_usage(request, self.settings.max_tokens)
    }

    /// Returns how spans name the model. `target` is this model.
    fn asked_model<'a>(
        &'a self,
        operation: &'static str,
        target: &'a ModelTarget,
    ) -> AskedModel<'a> {
        let (provider, server) = match &self.provider {
            Provider::Scripted(_) => ("scripted", None),
            Provider::Recorded(_) => ("recorded", None),
            Provider::Endpoint(endpoint) => (endpoint.provider_name(), endpoint.server()),
        };
        AskedModel {
            operation,
            provider,
            model: target.id.as_deref().unwrap_or(&target.name),
            server,
        }
    }

    /// Sends a request to the provider. `target` is this model.
    async fn ask(
        &self,
        target: &ModelTarget,
        call: &ModelCall,
        check: &ReplyCheck,
        account: &mut CallAccount<'_>,
    ) -> Result<ModelReply, RequestFailure> {
        let (id, request) = (target.id.as_deref(), &call.request);
        let reply = match &self.provider {
            Provider::Endpoint(endpoint) => {
                let question = Question {
                    model: id.ok_or_else(|| no_id_error(&call.target))?,
                    request,
                    settings: &self.settings,
                    blobs: &call.blobs,
                    check,
                    pace: &self.pace,
                };
                return endpoint.complete(question, account).await;
            }
            Provider::Recorded(recorded) => {
                self.pace.wait().await;
                account.dispatched();
                recorded.complete(request)?
            }
            Provider::Scripted(scripted) => {
                self.pace.wait().await;
                account.dispatched();
                let entry = scripted.choose(&request.newest_text(), call.turn)?;
                account
                    .limited_replies
                    .extend(entry.limited_id(&target.name));
                scripted.answer(entry, id, request).await?
            }
        };
        account.add_reply(reply.usage);
        let (finish, answered) = (reply.finish, reply.model.clone());
        check.check(reply).map_err(|mismatch| {
            let outlook = mismatch.outlook();
            let reason = mismatch.message;
            let message = format!("asking model `{answered}` failed: {reason}");
            RequestFailure {
                error: HostError::new(HostErrorKind::Upstream, message),
                reason,
                outlook,
                finish: Some(finish),
                answered: Some(answered),
            }
        })
    }
}

fn validate(request: &ModelRequest) -> Result<ReplyCheck, HostError> {
    if request.messages.is_empty() {
        return Err(invalid(
            "cannot ask a model: `messages` is empty; give at least one turn",
        ));
    }
    if request.temperature.is_some_and(|t| !t.is_finite()) {
        return Err(invalid(
            "cannot ask a model: `temperature` is not a finite number",
        ));
    }
    request
        .check_size()
        .map_err(|why| invalid(format!("cannot ask the model: {why}")))?;
    ReplyCheck::for_request(request)
}

fn no_id_error(target: &ModelTarget) -> HostError {
    let table = table_name(&target.name);
    invalid(format!(
        "cannot ask a model: neither the request nor the team names one; write `model = \"…\"` under `[{table}]`"
    ))
}

fn no_default_error() -> HostError {
    invalid(
        "cannot ask a model: the team has no `[llm]`, and the request names no other model; add `[llm]`",
    )
}

/// Returns an error that also names the models that were asked before.
fn with_tried(error: HostError, tried: &[TriedModel]) -> HostError {
    if tried.is_empty() {
        return error;
    }
    let tried: Vec<String> = tried
        .iter()
        .map(|tried| format!("`{}` failed: {}", tried.model, tried.reason))
        .collect();
    HostError {
        message: format!("{}; before, {}", error.message, tried.join("; ")),
        ..error
    }
}

#[cfg(test)]
mod tests;
