//! The configuration of the language models, and what can be wrong with it. The manifest parses
//! `[llm]` and `[model.NAME]` itself.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use serde_json::{Map, Value};
use strata_core::record::conversation::TokenUsage;
use strata_core::record::money::Usd;

pub use super::record::RecordError;

use super::protocol::{self, TransferMode};
use crate::endpoint::{self, InvalidAddress};
use crate::plugin::http::{GrantedParts, HttpGrant, HttpRefusal, check_grants};

/// The name of the model in `[llm]`, which answers requests that name none.
pub const DEFAULT_MODEL: &str = "default";

/// The options that belong to the host, because it depends on what it sends there.
pub const RESERVED_OPTIONS: [&str; 6] =
    ["messages", "input", "contents", "tools", "model", "stream"];

/// Returns whether an option belongs to the host. Many servers do not distinguish upper and lower case in
/// names, in the way of Unicode.
pub fn is_reserved_option(name: &str) -> bool {
    let fold = |c: char| c.to_uppercase().flat_map(char::to_lowercase);
    let folded: String = name.chars().flat_map(fold).collect();
    RESERVED_OPTIONS.contains(&folded.as_str())
}

/// The configuration of a team's language models.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelsConfig {
    /// The models by name. `DEFAULT_MODEL` is the one in `[llm]`.
    pub models: BTreeMap<String, ModelConfig>,
    /// The file in which exchanges are recorded. The provider `recorded` can serve them again.
    pub record: Option<PathBuf>,
    /// The addresses to which requests may be sent. All of these bounds apply.
    pub bounds: Vec<EndpointBound>,
}

/// The addresses to which requests to models may be sent, with the keys, according to a policy. The
/// address depends on what is asked for (a reply, a streamed one, vectors) and may depend on the model's
/// id, which a request may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointBound {
    /// The policy, for messages.
    pub policy: String,
    /// The addresses and keys.
    pub endpoints: Vec<HttpGrant>,
}

impl EndpointBound {
    /// Returns whether a request may be sent to an address with these keys.
    pub fn check(&self, url: &Url, secrets: &[String]) -> Result<(), HttpRefusal> {
        let parts = GrantedParts {
            secrets,
            headers: &[],
        };
        check_grants(&self.endpoints, "POST", url, parts)
    }
}

impl ModelsConfig {
    /// Returns a configuration with only the default model.
    pub fn with_default(model: ModelConfig) -> Self {
        Self {
            models: BTreeMap::from([(DEFAULT_MODEL.to_owned(), model)]),
            ..Self::default()
        }
    }

    /// Removes a model, also from the fallbacks of others.
    pub fn remove(&mut self, name: &str) {
        self.models.remove(name);
        for model in self.models.values_mut() {
            model.fallback.retain(|fallback| fallback != name);
        }
    }

    /// Returns the endpoints of the models with the names of the models.
    pub fn endpoints_mut(&mut self) -> impl Iterator<Item = (&str, &mut Endpoint)> {
        let models = self.models.iter_mut();
        models.filter_map(|(name, model)| match &mut model.provider {
            ProviderConfig::Endpoint(endpoint) => Some((name.as_str(), endpoint)),
            ProviderConfig::Scripted { .. } | ProviderConfig::Recorded { .. } => None,
        })
    }

    /// Returns the provider's ids of the models by their names.
    pub fn names(&self) -> ModelNames {
        ModelNames(
            self.models
                .iter()
                .map(|(name, config)| (name.clone(), config.model.clone()))
                .collect(),
        )
    }
}

/// The names of a team's models, each with the provider's id if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelNames(BTreeMap<String, Option<String>>);

/// The model that a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelTarget {
    /// Its name in the team.
    pub name: String,
    /// The provider's id, if there is one.
    pub id: Option<String>,
}

impl ModelNames {
    /// Returns the model that is meant by what a request names: a name, or the provider's id of a
    /// model at the default model's endpoint. A request that names none is for `role_model`, or the
    /// default model.
    pub fn resolve(&self, named: Option<&str>, role_model: Option<&str>) -> ModelTarget {
        let named = named.or(role_model);
        match named.and_then(|name| self.0.get_key_value(name)) {
            Some((name, id)) => ModelTarget {
                name: name.clone(),
                id: id.clone(),
            },
            None => ModelTarget {
                name: DEFAULT_MODEL.to_owned(),
                id: named
                    .map(str::to_owned)
                    .or_else(|| self.0.get(DEFAULT_MODEL).cloned().flatten()),
            },
        }
    }
}

/// The configuration of a language model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The provider's id of the model.
    pub model: Option<String>,
    /// The price of tokens. Without one, calls cost nothing.
    pub price: Option<Price>,
    /// The maximum number of requests per minute. `None` means no limit.
    pub requests_per_minute: Option<NonZeroU32>,
    /// What is sent with each request.
    pub settings: ModelSettings,
    /// The names of the models that are asked in this order if this one does not answer.
    pub fallback: Vec<String>,
    /// The provider that answers.
    pub provider: ProviderConfig,
}

impl ModelConfig {
    /// Returns a configuration with this provider and nothing else.
    pub fn with_provider(provider: ProviderConfig) -> Self {
        Self {
            model: None,
            price: None,
            requests_per_minute: None,
            settings: ModelSettings::default(),
            fallback: Vec::new(),
            provider,
        }
    }

    /// Returns whether the model is hosted and has no price, so that its costs are not counted.
    pub fn is_unpriced(&self) -> bool {
        let is_hosted = match &self.provider {
            ProviderConfig::Endpoint(endpoint) => endpoint.is_hosted(),
            ProviderConfig::Scripted { .. } | ProviderConfig::Recorded { .. } => false,
        };
        is_hosted && self.price.is_none()
    }
}

/// What is sent to a model with each request.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSettings {
    /// How much the model should reason, in a word that the provider knows.
    pub effort: Option<String>,
    /// The maximum number of output tokens for requests that have none.
    pub max_tokens: Option<u32>,
    /// Whether the text of reasoning is recorded. Signatures always are.
    pub keep_thinking: bool,
    /// Values that are merged into the body of each request. `RESERVED_OPTIONS` must not be among
    /// them.
    pub options: Map<String, Value>,
    /// Fields that are removed from the body of each request.
    pub without: Vec<String>,
    /// Whether messages that follow each other and have the same role are sent as one.
    pub join_news: bool,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            effort: None,
            max_tokens: None,
            keep_thinking: true,
            options: Map::new(),
            without: Vec::new(),
            join_news: false,
        }
    }
}

/// The configuration of the provider that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderConfig {
    /// Replies that are written in a file.
    Scripted {
        /// The file, `replies.toml`.
        replies: PathBuf,
    },
    /// The recorded exchanges of an earlier run.
    Recorded {
        /// The record.
        replies: PathBuf,
    },
    /// An endpoint that is reached over HTTP.
    Endpoint(Endpoint),
}

/// The protocol that an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolName {
    /// OpenAI's chat completions, which many other providers and local servers speak.
    OpenAi,
    /// OpenAI's Responses, without storage at the provider.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

impl ProtocolName {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Gemini];

    /// The name used in team files.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// The base URL of the provider that defines the protocol.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Responses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }

    /// Returns the path that is appended to a base URL.
    pub fn path(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi => &["chat", "completions"],
            Self::Responses => &["responses"],
            Self::Anthropic => &["v1", "messages"],
            Self::Gemini => &["v1beta", "models"],
        }
    }
}

/// An endpoint of a language model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The protocol that it speaks.
    pub protocol: ProtocolName,
    /// The address to which the path of the protocol is appended. `http` is allowed, for endpoints
    /// on this machine. The query may contain `api-version`, which some endpoints require.
    pub base_url: String,
    /// The environment variable that contains the API key. `None` if the endpoint requires no key.
    pub api_key_env: Option<String>,
    /// The maximum number of retries after temporary failures, and of repetitions of a reply that
    /// does not match its schema.
    pub retries: u32,
    /// The maximum duration of one request, from connecting to the last byte of the reply.
    pub timeout: Duration,
}

impl Endpoint {
    /// Returns the addresses to which requests to a model are sent: for whole and for streamed
    /// replies. Fails if the base URL cannot be used.
    pub fn urls(&self, model: &str) -> Result<[Url; 2], InvalidAddress> {
        let base = endpoint::model_base(&self.base_url, self.protocol)?;
        let protocol = protocol::protocol(self.protocol, &base);
        let modes = [TransferMode::Unstreamed, TransferMode::Streamed];
        Ok(modes.map(|mode| protocol.url(&base, model, mode)))
    }

    /// Returns whether it is on the public internet, as far as its address tells.
    fn is_hosted(&self) -> bool {
        endpoint::model_base(&self.base_url, self.protocol)
            .is_ok_and(|base| endpoint::is_public(&base))
    }

    /// The default number of retries.
    pub const DEFAULT_RETRIES: u32 = 3;
    /// The default timeout of a request. It equals the default time limit of an action.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
}

/// The prices of a million tokens. What has no price of its own costs as much as `input`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// The price of tokens in the request.
    pub input: Usd,
    /// The price of tokens in the reply.
    pub output: Option<Usd>,
    /// The price of tokens that the provider read from its cache.
    pub cache_read: Option<Usd>,
    /// The price of tokens that the provider wrote to its cache.
    pub cache_write: Option<Usd>,
}

impl Price {
    /// Returns the cost of a call that used these tokens.
    pub fn cost(self, usage: TokenUsage) -> Usd {
        let read = usage.cache_read.min(usage.input);
        let written = usage.cache_write.min(usage.input - read);
        let price = |of_kind: Option<Usd>| of_kind.unwrap_or(self.input);
        self.input.per_million(usage.input - read - written)
            + price(self.cache_read).per_million(read)
            + price(self.cache_write).per_million(written)
            + price(self.output).per_million(usage.output)
    }
}

/// The reason why no provider could be set up, which is a mistake of the operator.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file of the scripted provider cannot be used.
    #[error("{0}")]
    Replies(Box<dyn Error + Send + Sync>),
    /// A record cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The endpoint's address cannot be used.
    #[error("cannot use `{url}` as the model's `base_url`: {reason}")]
    BaseUrl {
        /// The address, without the parts that may be secret.
        url: String,
        /// What is wrong with it, and a hint.
        reason: String,
    },
    /// There is no API key.
    #[error(
        "cannot read the model's API key from the environment variable `{name}`: it {problem}; set it, or name another \
         under `api_key` in `[{}]`",
        table_name(model)
    )]
    ApiKey {
        /// The name of the model.
        model: String,
        /// The variable.
        name: String,
        /// What is wrong with its value. The value itself is never displayed.
        problem: &'static str,
    },
    /// A fallback is not a model of the team.
    #[error(
        "cannot set up the model `{model}`: its fallback `{fallback}` is not a model of the team"
    )]
    UnknownFallback {
        /// The name of the model.
        model: String,
        /// The fallback.
        fallback: String,
    },
    /// The HTTP client could not be set up.
    #[error("set up the HTTP client for the llm at `{url}`: {reason}")]
    Client {
        /// The endpoint.
        url: String,
        /// The error of the client library.
        reason: String,
    },
}

/// Returns the name of the table in a team file that describes a model.
pub fn table_name(model: &str) -> String {
    match model {
        DEFAULT_MODEL => "llm".to_owned(),
        name => format!("model.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_host_are_recognised_in_any_spelling() {
        for name in [
            "model",
            "Model",
            "MODEL",
            "\u{17f}tream",
            "Me\u{17f}\u{17f}ages",
        ] {
            assert!(is_reserved_option(name), "{name}");
        }
        for name in ["models", "top_p", ""] {
            assert!(!is_reserved_option(name), "{name}");
        }
    }

    #[test]
    fn tokens_are_charged_at_the_price_of_their_kind() {
        let usd = Usd::from_dollars;
        let check = |price: Price, usage: TokenUsage, expected: f64| {
            let cost = price.cost(usage).to_dollars();
            assert!(
                (cost - expected).abs() < 1e-12,
                "{cost} instead of {expected}"
            );
        };
        let price = Price {
            input: usd(3.0),
            output: Some(usd(15.0)),
            cache_read: Some(usd(0.3)),
            cache_write: Some(usd(3.75)),
        };
        let usage = TokenUsage {
            input: 10_000,
            output: 100,
            cache_read: 7_000,
            cache_write: 2_000,
            reasoning: 90,
        };
        // 1,000 at 3, 7,000 at 0.3, 2,000 at 3.75 and 100 at 15.
        check(price, usage, 0.003 + 0.0021 + 0.0075 + 0.0015);
        let without_cache = Price {
            cache_read: None,
            cache_write: None,
            ..price
        };
        check(without_cache, usage, 0.03 + 0.0015);
        let free_reads = Price {
            cache_read: Some(Usd::ZERO),
            ..price
        };
        check(free_reads, usage, 0.003 + 0.0075 + 0.0015);
        let one_price = Price {
            input: usd(3.0),
            ..Price::default()
        };
        check(one_price, usage, 0.03 + 0.0003);
        // Parts that claim to be more than the whole are cut to it.
        let inconsistent = TokenUsage {
            input: 100,
            output: 0,
            cache_read: 90,
            cache_write: 90,
            reasoning: 0,
        };
        check(price, inconsistent, 90.0 * 0.3e-6 + 10.0 * 3.75e-6);
        check(Price::default(), usage, 0.0);
    }

    #[test]
    fn a_request_is_for_the_model_that_it_names_or_for_that_of_its_role() {
        let model = |id: Option<&str>| ModelConfig {
            model: id.map(str::to_owned),
            ..ModelConfig::with_provider(ProviderConfig::Scripted {
                replies: PathBuf::new(),
            })
        };
        let mut config = ModelsConfig::with_default(model(Some("big")));
        config.models.insert("cheap".into(), model(Some("small")));
        config.models.insert("script".into(), model(None));
        let names = config.names();
        let check = |named: Option<&str>, role: Option<&str>, name: &str, id: Option<&str>| {
            let expected = ModelTarget {
                name: name.to_owned(),
                id: id.map(str::to_owned),
            };
            assert_eq!(names.resolve(named, role), expected, "{named:?} {role:?}");
        };
        check(None, None, "default", Some("big"));
        check(Some("default"), Some("cheap"), "default", Some("big"));
        check(Some("cheap"), None, "cheap", Some("small"));
        check(None, Some("cheap"), "cheap", Some("small"));
        check(Some("small"), None, "default", Some("small"));
        check(Some("script"), None, "script", None);
        let empty = ModelNames::default().resolve(None, None);
        assert_eq!((empty.name.as_str(), empty.id), ("default", None));
    }
}
