//! What the providers are built from, and what can be wrong with it. `[llm]` itself is parsed by the manifest.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use strata_core::money::Usd;

pub use super::record::RecordError;
pub use super::scripted::ReplyFileError;
use super::tokens::Tokens;

/// The language models of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The model of requests that name none.
    pub model: Option<String>,
    /// What tokens cost.
    pub price: Price,
    /// How many requests are made in a minute; none for no limit.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Where exchanges are recorded, to be served again by the provider `recorded`.
    pub record: Option<PathBuf>,
    /// Who answers.
    pub provider: Provider,
}

impl Config {
    /// Models that this provider answers for, free and as fast as they can.
    pub fn of(provider: Provider) -> Self {
        Self {
            model: None,
            price: Price::default(),
            requests_per_minute: None,
            record: None,
            provider,
        }
    }
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Replies written in a file.
    Scripted {
        /// The file, `replies.toml`.
        replies: PathBuf,
    },
    /// What was recorded of an earlier run.
    Recorded {
        /// The record.
        replies: PathBuf,
    },
    /// An endpoint that speaks the OpenAI chat completions protocol.
    OpenAi(Endpoint),
}

/// An OpenAI-compatible endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `chat/completions` is appended to its path. `http` is allowed, for endpoints on this machine, and in a query
    /// `api-version`, which some want.
    pub base_url: String,
    /// The environment variable that holds the API key; none for endpoints that want none.
    pub api_key_env: Option<String>,
    /// How often a request that failed in passing is made again.
    pub retries: u32,
    /// How long one request may take, from connecting to the last byte of the reply.
    pub timeout: Duration,
}

impl Endpoint {
    /// The number of retries where the operator names none.
    pub const RETRIES: u32 = 3;
    /// The time for one request where the operator names none: as long as an action has by default.
    pub const TIMEOUT: Duration = Duration::from_secs(120);
}

/// What a million tokens cost. Free by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Of the request.
    pub input: Usd,
    /// Of the reply.
    pub output: Usd,
    /// Of what the provider took from its cache; none costs as `input`.
    pub cache_read: Option<Usd>,
}

impl Price {
    /// What a call costs that used this many tokens.
    pub fn of(self, tokens: Tokens) -> Usd {
        let cached = tokens.cached.min(tokens.input);
        let cache_read = self.cache_read.unwrap_or(self.input);
        self.input.per_million(tokens.input - cached)
            + cache_read.per_million(cached)
            + self.output.per_million(tokens.output)
    }
}

/// Why no provider could be built: the operator's mistake.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The replies of the scripted provider are unusable.
    #[error(transparent)]
    Replies(#[from] ReplyFileError),
    /// A record cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The endpoint's address is unusable.
    #[error("cannot use `{url}` as the model's `base_url`: {reason}")]
    BaseUrl {
        /// The address, without what may be secret in it.
        url: String,
        /// What is wrong with it, and a hint.
        reason: String,
    },
    /// There is no API key.
    #[error(
        "cannot read the model's API key from the environment variable `{name}`: it {problem}; set it, or name another \
         under `api_key` in `[llm]`"
    )]
    ApiKey {
        /// The variable.
        name: String,
        /// What is wrong with its value, which is never shown.
        problem: &'static str,
    },
    /// The HTTP client could not be set up.
    #[error("set up the HTTP client for the llm at `{url}`: {reason}")]
    Client {
        /// The endpoint.
        url: String,
        /// What the client library says.
        reason: String,
    },
}
