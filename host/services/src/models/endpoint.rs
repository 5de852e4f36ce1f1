//! Models behind HTTP. Sends one request at a time, retries temporary failures, and repeats requests
//! whose replies do not match their schema.
//!
//! The protocol determines the contents of requests and replies. Receiving a response is in
//! `receive`, what a failure means in `failure`, the retry policy in `retry`, and the API key in
//! `key`. A reply is streamed only if there is a listener.

mod clients;
mod embedding;
mod failure;
mod key;
mod optional_field;
mod receive;
mod retry;
mod stated_delay;

pub(super) use clients::HttpClients;
pub(super) use embedding::embed;
pub(super) use failure::{Outlook, RequestFailure};
pub(super) use retry::outlook_of_status;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use strata_base::files::blob::Blobs;
use strata_base::text::error_causes::error_with_causes;
use strata_core::record::conversation::{AssistantPart, TokenUsage};
use tracing::Span;

use self::failure::AttemptFailure;
use self::key::{ApiKey, KeyRedactor};
use self::optional_field::{OmittedFields, OptionalField, RefusedFields};
use self::retry::{Retries, RetryDecision};
use super::charge::CallAccount;
use super::config::{
    ConfigError, Endpoint, EndpointBound, ModelSettings, ProtocolName, table_name,
};
use super::media::MediaBytes;
use super::protocol::{
    ModelProtocol, Origin, Outbound, ParsedReply, ReplyContext, TransferMode, protocol, read_reply,
    reply_id,
};
use super::rate_limit::RateLimiter;
use super::reply_check::{Mismatch, ReplyCheck};
use super::think_tags::{self, ReplyEnding};
use super::tokens::{UsageWithoutReply, estimate_input, estimate_output};
use super::{FinishReason, ModelReply, ModelRequest};
use crate::client;
use crate::endpoint::{self, InvalidAddress};
use crate::gateway::{HostError, HostErrorKind};
use crate::plugin::http::display_url;
use crate::telemetry::names;
use crate::text_response::TextResponse;
use crate::variables::Variables;

/// The maximum size of a reply in bytes. It is about forty times what models can write in one
/// reply, and small enough that all that are received at once fit into memory.
const MAX_REPLY_BYTES: usize = 16 << 20;

/// How long the end of a response is waited for after its reply is complete. Its usage follows at
/// once.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// An endpoint to which requests are sent.
#[derive(Debug)]
pub(super) struct ModelEndpoint {
    client: Client,
    base: Url,
    protocol: Box<dyn ModelProtocol>,
    origin: Origin,
    protocol_name: ProtocolName,
    /// The table of the team file that describes the model, for messages.
    table: String,
    key: Option<ApiKey>,
    retries: u32,
    timeout: Duration,
    /// The delay before the first retry. Tests shorten it.
    backoff: Duration,
    /// How long the end of a response is waited for. Tests shorten it.
    end_timeout: Duration,
    /// Whether the endpoint turned out not to support streaming, or not to report the usage of
    /// streamed replies.
    streaming_disabled: AtomicBool,
    refused_fields: RefusedFields,
    /// The addresses to which requests may be sent. All of these apply.
    bounds: Vec<EndpointBound>,
}

/// What an endpoint is asked.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    /// The provider's id of the model.
    pub(super) model: &'a str,
    pub(super) request: &'a ModelRequest,
    pub(super) settings: &'a ModelSettings,
    pub(super) blobs: &'a Blobs,
    pub(super) check: &'a ReplyCheck,
    pub(super) pace: &'a RateLimiter,
}

/// The form of a request, which an endpoint may refuse.
struct RequestForm {
    transfer: TransferMode,
    omitted: OmittedFields,
}

/// A request in the form in which it is sent.
struct EncodedRequest {
    url: Url,
    transfer: TransferMode,
    body: String,
    /// The fields that may be omitted if they are refused.
    optional: Vec<OptionalField>,
}

impl ModelEndpoint {
    /// Prepares to send requests to `endpoint`, of the model with this name. Reads the key, but does
    /// not connect.
    pub(super) fn new(
        name: &str,
        endpoint: &Endpoint,
        variables: &Variables,
        clients: &mut HttpClients,
    ) -> Result<Self, ConfigError> {
        let base = base_url(endpoint)?;
        let protocol = protocol(endpoint.protocol, &base);
        let key = endpoint
            .api_key_env
            .as_deref()
            .map(|variable| ApiKey::read(variables, variable, protocol.key_header(), name))
            .transpose()?;
        let client = clients.client(&base, endpoint.timeout);
        let client = client.map_err(|error| ConfigError::Client {
            url: display_url(&base),
            reason: error_with_causes(&error),
        })?;
        Ok(Self {
            client,
            protocol,
            origin: origin(endpoint, &base),
            protocol_name: endpoint.protocol,
            table: table_name(name),
            base,
            key,
            retries: endpoint.retries,
            timeout: endpoint.timeout,
            backoff: client::FIRST_RETRY_DELAY,
            end_timeout: END_TIMEOUT,
            streaming_disabled: AtomicBool::new(false),
            refused_fields: RefusedFields::default(),
            bounds: Vec::new(),
        })
    }

    /// Returns the provider as the conventions for telemetry name it: the one that defines the protocol,
    /// which others may speak.
    pub(super) fn provider_name(&self) -> &'static str {
        match self.protocol_name {
            ProtocolName::OpenAi | ProtocolName::Responses => "openai",
            ProtocolName::Anthropic => "anthropic",
            ProtocolName::Gemini => "gcp.gemini",
        }
    }

    /// Returns the host and the port to which requests are sent.
    pub(super) fn server(&self) -> Option<(&str, u16)> {
        Some((self.base.host_str()?, self.base.port_or_known_default()?))
    }

    /// Sets bounds of the addresses to which requests are sent.
    pub(super) fn set_bounds(&mut self, bounds: &[EndpointBound]) {
        self.bounds = bounds.to_vec();
    }

    /// Returns the name of its protocol in team files.
    pub(super) fn protocol_name(&self) -> &'static str {
        self.protocol_name.name()
    }

    /// Sends a request, with as many retries as the endpoint's `retries` allow. The reply matches the
    /// schema of the request. What replies used is charged, whether they can be used or not.
    pub(super) async fn complete(
        &self,
        question: Question<'_>,
        account: &mut CallAccount<'_>,
    ) -> Result<ModelReply, RequestFailure> {
        let streams =
            account.observer.has_listener() && !self.streaming_disabled.load(Ordering::Relaxed);
        let mut form = RequestForm {
            transfer: if streams {
                TransferMode::Streamed
            } else {
                TransferMode::Unstreamed
            },
            omitted: self.refused_fields.of_model(question.model),
        };
        let mut retries = Retries::new(self, question.model, self.display_url(question.model));
        loop {
            let encoded = self.encode(question, &form)?;
            question.pace.wait().await;
            account.dispatched();
            let failure = match self.attempt(&encoded, question, account).await {
                Ok(reply) => {
                    if streams && form.transfer == TransferMode::Unstreamed {
                        self.disable_streaming();
                    }
                    self.refused_fields.add(question.model, &form.omitted);
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            account.observer.restarted();
            match failure.retry {
                RetryDecision::Unstreamed => form.transfer = TransferMode::Unstreamed,
                RetryDecision::Without(field) => {
                    form.omitted.insert(field);
                }
                _ => retries.wait_after(failure, account).await?,
            }
        }
    }

    fn encode(
        &self,
        question: Question<'_>,
        form: &RequestForm,
    ) -> Result<EncodedRequest, HostError> {
        let (transfer, omitted) = (form.transfer, &form.omitted);
        let unnamed = optional_field::without_named_tool(question.request, omitted);
        let request = unnamed.as_ref().unwrap_or(question.request);
        let outbound = Outbound {
            model: question.model,
            request,
            settings: question.settings,
            origin: &self.origin,
            media: MediaBytes {
                provider: self.protocol_name.name(),
                blobs: question.blobs,
            },
            transfer,
        };
        let settings = question.settings;
        let mut body = self.protocol.body(&outbound)?;
        optional_field::remove_omitted(&mut body, omitted);
        body.customize(&settings.options, &settings.without);
        self.protocol.check_body(&body)?;
        let protocol = self.protocol_name;
        let url = self.protocol.url(&self.base, question.model, transfer);
        self.check_address(&url)?;
        Ok(EncodedRequest {
            url,
            transfer,
            body: body.finish(),
            optional: optional_field::optional_fields(protocol, request, settings, omitted),
        })
    }

    /// Fails if a policy does not allow to send requests to this address.
    fn check_address(&self, url: &Url) -> Result<(), HostError> {
        let secrets: Vec<String> = self.key.iter().map(|key| key.variable().into()).collect();
        let refuses = |bound: &&EndpointBound| bound.check(url, &secrets).is_err();
        let Some(bound) = self.bounds.iter().find(refuses) else {
            return Ok(());
        };
        let (table, shown, policy) = (&self.table, display_url(url), &bound.policy);
        let message = format!(
            "the model of `[{table}]` cannot be asked at `{shown}`: that is not among the `endpoints` in \
             `allow.llm` ({policy})"
        );
        Err(HostError::new(HostErrorKind::Denied, message))
    }

    /// Sends a request once. Charges the reply, if it can be used.
    async fn attempt(
        &self,
        encoded: &EncodedRequest,
        question: Question<'_>,
        account: &mut CallAccount<'_>,
    ) -> Result<ModelReply, AttemptFailure> {
        let context = self.context(question);
        let mut response = self.send(encoded).await?;
        if !response.status().is_success() {
            let status = i64::from(response.status().as_u16());
            Span::current().record(names::STATUS_CODE, status);
            return Err(self
                .error_response_failure(&mut response, encoded, Some(question))
                .await);
        }
        let value = self
            .receive(&mut response, context, account.observer)
            .await?;
        let parsed = read_reply(&*self.protocol, &value, context)
            .map_err(|unusable| self.unusable_failure(&value, unusable))?;
        if let Some(id) = reply_id(&value) {
            Span::current().record(names::RESPONSE_ID, id);
        }
        // It may be large, and all that is needed of it has been read.
        drop(value);
        let reply = self.convert_reply(parsed, question);
        let usage = reply.usage;
        let (finish, answered) = (reply.finish, reply.model.clone());
        match question.check.check(reply) {
            Ok(reply) => {
                account.add_reply(usage);
                Ok(reply)
            }
            Err(mismatch) => Err(AttemptFailure::mismatch(mismatch, usage, finish, answered)),
        }
    }

    async fn send(&self, encoded: &EncodedRequest) -> Result<TextResponse, AttemptFailure> {
        let mut sending = self
            .client
            .post(encoded.url.clone())
            .timeout(self.timeout)
            .header(CONTENT_TYPE, "application/json");
        for (name, value) in self.protocol.headers() {
            sending = sending.header(*name, *value);
        }
        if let Some(key) = &self.key {
            sending = sending.header(key.header(), key.value());
        }
        let sent = sending.body(encoded.body.clone()).send().await;
        let response = sent.map_err(|error| self.connection_failure(error))?;
        let response = TextResponse::new(response);
        // What an error response means is known without its body.
        match self.compression_failure(&response) {
            Some(failure) if response.status().is_success() => Err(failure),
            _ => Ok(response),
        }
    }

    fn context<'a>(&'a self, question: Question<'a>) -> ReplyContext<'a> {
        ReplyContext {
            model: question.model,
            request: question.request,
            origin: &self.origin,
            keep_thinking: question.settings.keep_thinking,
        }
    }

    /// Requests unstreamed replies from now on.
    fn disable_streaming(&self) {
        self.streaming_disabled.store(true, Ordering::Relaxed);
    }

    /// Converts a parsed reply: removes the key and the model's thinking, and estimates the tokens
    /// if the endpoint does not report them, so that budgets apply to such endpoints, too.
    fn convert_reply(&self, parsed: ParsedReply, question: Question<'_>) -> ModelReply {
        let ParsedReply {
            mut parts,
            reasoning_chars,
            model,
            finish,
            usage,
            ..
        } = parsed;
        let estimate = TokenUsage {
            input: estimate_input(question.request),
            output: estimate_output(&parts, reasoning_chars),
            ..TokenUsage::default()
        };
        let usage = usage.without_zeros(estimate);
        if !usage.is_complete() {
            tracing::warn!(
                model = question.model,
                "the endpoint does not say how many tokens were used: they are estimated"
            );
        }
        let usage = usage.or_estimate(estimate);
        let ending = match finish {
            FinishReason::Length | FinishReason::ToolCalls => ReplyEnding::Open,
            FinishReason::Stop | FinishReason::Refusal | FinishReason::Other => ReplyEnding::Answer,
        };
        strip_thinking(&mut parts, ending);
        self.redactor().reply(ModelReply {
            parts,
            data: None,
            model: model.unwrap_or_else(|| question.model.to_owned()),
            finish,
            usage,
        })
    }

    /// Returns a redactor for the key. Endpoints quote keys in replies and in error messages.
    fn redactor(&self) -> KeyRedactor<'_> {
        KeyRedactor::for_key(self.key.as_ref())
    }

    /// Returns the address of a model as it is displayed in messages.
    fn display_url(&self, model: &str) -> String {
        display_url(
            &self
                .protocol
                .url(&self.base, model, TransferMode::Unstreamed),
        )
    }
}

/// Removes the model's thinking from the first text of a reply.
fn strip_thinking(parts: &mut Vec<AssistantPart>, ending: ReplyEnding) {
    let is_text = |part: &AssistantPart| matches!(part, AssistantPart::Text(_));
    let Some(place) = parts.iter().position(is_text) else {
        return;
    };
    if let AssistantPart::Text(text) = &mut parts[place] {
        let answer = think_tags::strip_thinking(text, ending);
        if answer.is_empty() {
            parts.remove(place);
        } else if answer.len() < text.len() {
            *text = answer.to_owned();
        }
    }
}

/// Returns what opaque parts name as their provider.
fn origin(endpoint: &Endpoint, base: &Url) -> Origin {
    let own = Url::parse(endpoint.protocol.default_base_url());
    let is_own = own.is_ok_and(|own| own.origin() == base.origin());
    let name = endpoint.protocol.name();
    Origin(if is_own {
        name.to_owned()
    } else {
        format!("{name} {}", base.authority())
    })
}

fn base_url(endpoint: &Endpoint) -> Result<Url, ConfigError> {
    endpoint::model_base(&endpoint.base_url, endpoint.protocol).map_err(
        |InvalidAddress {
             display_text: shown,
             problem,
             hint,
         }| ConfigError::BaseUrl {
            url: shown,
            reason: format!("{problem}; {hint}"),
        },
    )
}

#[cfg(test)]
pub(super) mod tests;
