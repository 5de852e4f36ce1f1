//! Reads `[llm]`: the language model of the team. The providers themselves are in `services`.

use std::num::NonZeroU32;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use strata_core::record::money::Usd;

use super::authored::slot;
use super::diagnostic::SourceText;
use super::http;
use super::table::{TomlItem, TomlTable};
use crate::display_path::display_path;
use crate::services::endpoint::{self, ServiceKind};
use crate::services::models::config::{Endpoint, ModelsConfig, Price, ProviderConfig};

/// The largest number of retries of a request.
pub(super) const MAX_RETRIES: u64 = 100;

/// The keys of providers that answer from a file.
const FILE_KEYS: [&str; 1] = ["replies"];
const OPENAI_KEYS: [&str; 4] = ["base_url", "api_key", "retries", "timeout"];

/// Reads `[llm]`.
pub(super) fn read_llm(table: &TomlTable<'_>) -> Option<ModelsConfig> {
    #[derive(Clone, Copy)]
    enum ProviderName {
        Scripted,
        Recorded,
        OpenAi,
    }
    let words = [
        ("scripted", ProviderName::Scripted),
        ("recorded", ProviderName::Recorded),
        ("openai", ProviderName::OpenAi),
    ];
    let provider = table.required("provider");
    let provider = provider.and_then(|item| match compatible_service(&item) {
        Some((name, base_url)) => {
            let message = format!("`{}` cannot be `{name}`", item.key);
            item.reject(
                message,
                format!("it speaks the protocol of `openai`: write that, with `base_url = \"{base_url}\"`"),
            );
            None
        }
        None => item.choice(&words),
    });
    let model = table.item("model").and_then(|item| item.legible_text());
    let price = table.item("price").and_then(|item| read_price(&item));
    let pace = table
        .item("requests_per_minute")
        .and_then(|item| item.integer(1..=u64::from(u32::MAX)));
    let provider = match provider {
        Some(word @ (ProviderName::Scripted | ProviderName::Recorded)) => {
            reject_keys_of_other_provider(table, &OPENAI_KEYS, "openai");
            let replies = table.required("replies").and_then(|i| read_replies(&i))?;
            match word {
                ProviderName::Recorded => ProviderConfig::Recorded { replies },
                _ => ProviderConfig::Scripted { replies },
            }
        }
        Some(ProviderName::OpenAi) => {
            reject_keys_of_other_provider(table, &FILE_KEYS, "scripted");
            if model.is_none() {
                table.required("model");
            }
            ProviderConfig::OpenAi(read_openai(table)?)
        }
        None => {
            // The invalid provider is reported already. Which keys belong to it is unknown, so all
            // are accepted.
            for key in FILE_KEYS.iter().chain(&OPENAI_KEYS) {
                table.item(key);
            }
            return None;
        }
    };
    Some(ModelsConfig {
        model: model.map(|model| model.value),
        price: price.unwrap_or_default(),
        requests_per_minute: pace.and_then(|pace| NonZeroU32::new(pace as u32)),
        record: None,
        provider,
    })
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

/// Reports keys that belong to another provider.
fn reject_keys_of_other_provider(table: &TomlTable<'_>, keys: &[&'static str], provider: &str) {
    table.exclude(keys);
    for key in keys {
        if let Some(item) = table.item(key) {
            let message = format!("`{key}` is for the provider `{provider}`");
            let problem = table.problems.at(&item.key_span, message);
            table
                .problems
                .add(problem.hint("remove it, or change `provider`"));
        }
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

fn read_openai(table: &TomlTable<'_>) -> Option<Endpoint> {
    let base_url = table
        .required("base_url")
        .and_then(|i| http::read_url(&i, ServiceKind::Models));
    let key = table.item("api_key");
    let api_key = key.as_ref().and_then(read_api_key);
    if let (Some(url), Some(key), Some(_)) = (&base_url, &key, &api_key)
        && endpoint::completions_url(&url.value).is_ok_and(|url| !endpoint::may_receive_keys(&url))
    {
        let why = "keys are sent over https, or to a machine that is named by its address";
        key.reject(format!("`api_key` cannot be sent to `{}`", url.value), why);
    }
    let retries = table
        .item("retries")
        .and_then(|i| i.integer(0..=MAX_RETRIES));
    let timeout = table.item("timeout").and_then(|item| {
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
        base_url: base_url?.value.trim_end_matches('/').to_owned(),
        api_key_env: api_key,
        retries: retries.map_or(Endpoint::DEFAULT_RETRIES, |retries| retries as u32),
        timeout: timeout.unwrap_or(Endpoint::DEFAULT_TIMEOUT),
    })
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
    let table = item.table("`api_key`")?;
    let name = table.required("env").and_then(|item| item.text())?;
    slot::check_variable(&table, &name);
    Some(name.value)
}

/// Returns the span of `api_key` in a team file.
pub(super) fn api_key_span(source: &Arc<SourceText>) -> Option<Range<usize>> {
    let document = super::parse_document(source).ok()?;
    let key = document.get_ref().get("llm")?.get_ref().get("api_key")?;
    Some(key.span())
}

fn read_price(item: &TomlItem<'_>) -> Option<Price> {
    let table = item.table("`price`")?;
    let usd = |key| {
        let amount = table.item(key).and_then(|item| item.amount());
        amount.map(Usd::from_dollars)
    };
    Some(Price {
        input: usd("input").unwrap_or_default(),
        output: usd("output").unwrap_or_default(),
        cache_read: usd("cache_read"),
    })
}
