//! Reads `[llm]`: the language model of the team. The providers themselves are in `services`.

use std::num::NonZeroU32;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use strata_core::record::money::Usd;

use super::address;
use super::authored::slot;
use super::diagnostic::SourceText;
use super::grants::variables::check_name;
use super::schema::{FileKind, conditional, kind};
use super::table::{TomlItem, TomlTable};
use crate::display_path::display_path;
use crate::services::endpoint::{self, ServiceKind};
use crate::services::models::config::{Endpoint, ModelConfig, Price, ProtocolName, ProviderConfig};

/// The largest number of retries of a request.
pub(super) const MAX_RETRIES: u64 = 100;

/// Reads `[llm]`.
pub(super) fn read_llm(table: &TomlTable<'_>) -> Option<ModelConfig> {
    table.define_as("llm");
    let provider = read_provider_name(table);
    let model = table
        .key(
            "model",
            "The model that is asked where an action names none; required for `openai`.",
        )
        .value(kind::text);
    let price = table
        .key("price", "What a million tokens cost, in USD.")
        .table("`price`", read_price);
    let pace = table
        .key(
            "requests_per_minute",
            "How many requests are made in a minute at most.",
        )
        .integer(1..=u64::from(u32::MAX));
    let replies = table
        .key(
            "replies",
            "The file with the replies; required for `scripted` and `recorded`.",
        )
        .value(kind::path);
    let endpoint = EndpointKeys::look_up(table);
    describe_rules(table);
    let name = model.as_ref().and_then(TomlItem::legible_text);
    // An invalid provider is reported already. Which keys belong to it is unknown, so all are
    // accepted.
    let provider = match provider? {
        word @ (ProviderName::Scripted | ProviderName::Recorded) => {
            endpoint.reject(table);
            if replies.is_none() {
                table.report_missing_one_of(&["replies"]);
            }
            let replies = read_replies(&replies?)?;
            match word {
                ProviderName::Recorded => ProviderConfig::Recorded { replies },
                _ => ProviderConfig::Scripted { replies },
            }
        }
        ProviderName::OpenAi => {
            reject_key_of_other_provider(table, "replies", replies.as_ref(), "scripted");
            if model.is_none() {
                table.report_missing_one_of(&["model"]);
            }
            ProviderConfig::Endpoint(endpoint.read(table)?)
        }
    };
    Some(ModelConfig {
        model: name.map(|name| name.value),
        price: price.unwrap_or_default(),
        requests_per_minute: pace.and_then(|pace| NonZeroU32::new(pace as u32)),
        ..ModelConfig::with_provider(provider)
    })
}

#[derive(Clone, Copy)]
enum ProviderName {
    Scripted,
    Recorded,
    OpenAi,
}

fn read_provider_name(table: &TomlTable<'_>) -> Option<ProviderName> {
    let words = [
        ("scripted", ProviderName::Scripted),
        ("recorded", ProviderName::Recorded),
        ("openai", ProviderName::OpenAi),
    ];
    let item = table
        .key(
            "provider",
            "Who answers. `openai`: any endpoint that speaks OpenAI's protocol. `scripted`: replies that are written \
             in a file. `recorded`: what `run --record` wrote.",
        )
        .required()
        .one_of(&words)?;
    let Some((name, base_url)) = compatible_service(&item) else {
        return item.choice(&words);
    };
    let message = format!("`{}` cannot be `{name}`", item.key);
    item.reject(
        message,
        format!("it speaks the protocol of `openai`: write that, with `base_url = \"{base_url}\"`"),
    );
    None
}

fn describe_rules(table: &TomlTable<'_>) {
    table.rule("allOf", || {
        json!([
            conditional("provider", "openai", &["base_url", "model"], &["replies"]),
            conditional("provider", "scripted", &["replies"], &EndpointKeys::NAMES),
            conditional("provider", "recorded", &["replies"], &EndpointKeys::NAMES),
        ])
    });
}

/// Well-known services with an OpenAI-compatible API, by the names that people write, and their
/// base URLs.
const COMPATIBLE_SERVICES: [(&str, &str); 12] = [
    ("anthropic", "https://api.anthropic.com/v1"),
    ("claude", "https://api.anthropic.com/v1"),
    (
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
    ),
    (
        "google",
        "https://generativelanguage.googleapis.com/v1beta/openai",
    ),
    ("mistral", "https://api.mistral.ai/v1"),
    ("groq", "https://api.groq.com/openai/v1"),
    ("deepseek", "https://api.deepseek.com/v1"),
    ("openrouter", "https://openrouter.ai/api/v1"),
    ("together", "https://api.together.xyz/v1"),
    ("ollama", "http://localhost:11434/v1"),
    ("lmstudio", "http://localhost:1234/v1"),
    ("vllm", "http://localhost:8000/v1"),
];

/// Returns the name and the base URL of the service that a provider's name refers to, if it is one
/// of `COMPATIBLE_SERVICES`.
fn compatible_service(item: &TomlItem<'_>) -> Option<(&'static str, &'static str)> {
    let written = item.is_text().then(|| item.text()).flatten()?.value;
    COMPATIBLE_SERVICES
        .into_iter()
        .find(|(name, _)| written.eq_ignore_ascii_case(name))
}

/// Reports a key that belongs to another provider.
fn reject_key_of_other_provider(
    table: &TomlTable<'_>,
    key: &'static str,
    item: Option<&TomlItem<'_>>,
    provider: &str,
) {
    table.exclude(&[key]);
    if let Some(item) = item {
        let message = format!("`{key}` is for the provider `{provider}`");
        let problem = table.problems.at(&item.key_span, message);
        table
            .problems
            .add(problem.hint("remove it, or change `provider`"));
    }
}

fn read_replies(item: &TomlItem<'_>) -> Option<PathBuf> {
    let replies = slot::read_file_path(item)?.value;
    if item.checks_files() && !replies.is_file() {
        let message = format!("there is no file `{}`", display_path(&replies));
        item.reject(
            message,
            "it holds the replies: `[[reply]]` tables, or what `--record` wrote",
        );
        return None;
    }
    Some(replies)
}

/// The keys of an endpoint.
struct EndpointKeys<'a> {
    base_url: Option<TomlItem<'a>>,
    api_key: Option<TomlItem<'a>>,
    retries: Option<TomlItem<'a>>,
    timeout: Option<TomlItem<'a>>,
}

impl<'a> EndpointKeys<'a> {
    const NAMES: [&'static str; 4] = ["base_url", "api_key", "retries", "timeout"];

    fn look_up(table: &TomlTable<'a>) -> Self {
        Self {
            base_url: table
                .key(
                    "base_url",
                    "The endpoint; required for `openai`. `chat/completions` is appended to its path, unless it ends \
                     with that. In a query only `api-version` may be there.",
                )
                .value(kind::url),
            api_key: table
                .key(
                    "api_key",
                    "Where the key is, for `openai`. It is never written into a team file.",
                )
                .table_item(read_key_variable),
            retries: table
                .key(
                    "retries",
                    "How often a request is repeated after a transient failure, for `openai`.",
                )
                .default(Endpoint::DEFAULT_RETRIES)
                .value(|| kind::integer(0..=MAX_RETRIES)),
            timeout: table
                .key("timeout", "How long one request may take, for `openai`.")
                .default(kind::written_duration(Endpoint::DEFAULT_TIMEOUT))
                .value(|| kind::duration(kind::SHORTEST)),
        }
    }

    /// Reports the keys, because the provider has no endpoint.
    fn reject(&self, table: &TomlTable<'_>) {
        let items = [&self.base_url, &self.api_key, &self.retries, &self.timeout];
        for (name, item) in Self::NAMES.into_iter().zip(items) {
            reject_key_of_other_provider(table, name, item.as_ref(), "openai");
        }
    }

    fn read(&self, table: &TomlTable<'_>) -> Option<Endpoint> {
        if self.base_url.is_none() {
            table.report_missing_one_of(&["base_url"]);
        }
        let base_url = self
            .base_url
            .as_ref()
            .and_then(|item| address::read_url(item, ServiceKind::Models));
        let api_key = self.api_key.as_ref().and_then(read_api_key);
        if let (Some(url), Some(key), Some(_)) = (&base_url, &self.api_key, &api_key)
            && endpoint::model_base(&url.value, ProtocolName::OpenAi)
                .is_ok_and(|url| !endpoint::may_receive_keys(&url))
        {
            let why = "keys are sent over https, or to a machine that is named by its address";
            key.reject(format!("`api_key` cannot be sent to `{}`", url.value), why);
        }
        let retries = self
            .retries
            .as_ref()
            .and_then(|item| item.integer(0..=MAX_RETRIES));
        let timeout = self.timeout.as_ref().and_then(|item| {
            let timeout = item.duration()?;
            if timeout.is_zero() {
                item.reject(
                    "`timeout` cannot be zero",
                    "no request could be answered; leave the key out for the default",
                );
            }
            Some(timeout)
        });
        Some(Endpoint {
            protocol: ProtocolName::OpenAi,
            base_url: base_url?.value.trim_end_matches('/').to_owned(),
            api_key_env: api_key,
            retries: retries.map_or(Endpoint::DEFAULT_RETRIES, |retries| retries as u32),
            timeout: timeout.unwrap_or(Endpoint::DEFAULT_TIMEOUT),
        })
    }
}

fn read_api_key(item: &TomlItem<'_>) -> Option<String> {
    if item.is_text() {
        let message = "a key is never written into a team file";
        item.reject_secret(
            message,
            "name the variable that holds it: `{ env = \"OPENAI_API_KEY\" }`",
        );
        return None;
    }
    read_key_variable(&item.table("`api_key`")?)
}

fn read_key_variable(table: &TomlTable<'_>) -> Option<String> {
    let name = table
        .key("env", "The environment variable that holds the key.")
        .required()
        .value(kind::variable)?
        .text()?;
    check_name(table, &name);
    Some(name.value)
}

/// Returns the span of `api_key` in a team file.
pub(super) fn api_key_span(source: &Arc<SourceText>) -> Option<Range<usize>> {
    let document = super::parse_document(source, FileKind::Team).ok()?;
    let key = document.get_ref().get("llm")?.get_ref().get("api_key")?;
    Some(key.span())
}

fn read_price(table: &TomlTable<'_>) -> Price {
    let input = table
        .key("input", "For a million tokens of the request.")
        .default(0)
        .amount();
    let output = table
        .key("output", "For a million tokens of the reply.")
        .default(0)
        .amount();
    let cache_read = table
        .key(
            "cache_read",
            "For a million tokens of the request that the provider took from its cache; as `input` where it is \
             missing.",
        )
        .amount();
    Price {
        input: input.map(Usd::from_dollars).unwrap_or_default(),
        output: output.map(Usd::from_dollars).unwrap_or_default(),
        cache_read: cache_read.map(Usd::from_dollars),
        cache_write: None,
    }
}
