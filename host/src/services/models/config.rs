//! The configuration of the language models, and what can be wrong with it. The manifest parses
//! `[llm]` itself.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use strata_core::record::money::Usd;

pub use super::record::RecordError;
pub use super::scripted::ReplyFileError;
use super::tokens::TokenCounts;

/// The configuration of a team's language models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelsConfig {
    /// The model for requests that name none.
    pub model: Option<String>,
    /// The price of tokens.
    pub price: Price,
    /// The maximum number of requests per minute. `None` means no limit.
    pub requests_per_minute: Option<NonZeroU32>,
    /// The file in which exchanges are recorded. The provider `recorded` can serve them again.
    pub record: Option<PathBuf>,
    /// The provider that answers.
    pub provider: ProviderConfig,
}

impl ModelsConfig {
    /// Returns a configuration with this provider, without a price, a rate limit or a record.
    pub fn with_provider(provider: ProviderConfig) -> Self {
        Self {
            model: None,
            price: Price::default(),
            requests_per_minute: None,
            record: None,
            provider,
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
    /// An endpoint that speaks the OpenAI chat completions protocol.
    OpenAi(Endpoint),
}

/// An OpenAI-compatible endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `chat/completions` is appended to its path. `http` is allowed, for endpoints on this
    /// machine. The query may contain `api-version`, which some endpoints require.
    pub base_url: String,
    /// The environment variable that contains the API key. `None` if the endpoint requires no key.
    pub api_key_env: Option<String>,
    /// The maximum number of retries after temporary failures.
    pub retries: u32,
    /// The maximum duration of one request, from connecting to the last byte of the reply.
    pub timeout: Duration,
}

impl Endpoint {
    /// The default number of retries.
    pub const DEFAULT_RETRIES: u32 = 3;
    /// The default timeout of a request. It equals the default time limit of an action.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
}

/// The prices of a million tokens. They are zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// The price of tokens in the request.
    pub input: Usd,
    /// The price of tokens in the reply.
    pub output: Usd,
    /// The price of tokens that the provider read from its cache. `None` means the same as `input`.
    pub cache_read: Option<Usd>,
}

impl Price {
    /// Returns the cost of a call that used these tokens.
    pub fn cost(self, tokens: TokenCounts) -> Usd {
        let cached = tokens.cached.min(tokens.input);
        let cache_read = self.cache_read.unwrap_or(self.input);
        self.input.per_million(tokens.input - cached)
            + cache_read.per_million(cached)
            + self.output.per_million(tokens.output)
    }
}

/// The reason why no provider could be set up, which is a mistake of the operator.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file of the scripted provider cannot be used.
    #[error(transparent)]
    Replies(#[from] ReplyFileError),
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
         under `api_key` in `[llm]`"
    )]
    ApiKey {
        /// The variable.
        name: String,
        /// What is wrong with its value. The value itself is never displayed.
        problem: &'static str,
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
