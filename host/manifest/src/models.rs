//! Reads `[llm]` and `[model.NAME]`: the language models of the team. The providers themselves are
//! in `services::models`.

mod endpoint;

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use strata_base::text::display_path::display_path;
use strata_base::text::suggest::suggest;
use strata_core::record::money::Usd;
use strata_services::models::check_settings;
use strata_services::models::config::{
    DEFAULT_MODEL, ModelConfig, ModelSettings, ModelsConfig, Price, ProtocolName, ProviderConfig,
    RESERVED_OPTIONS, is_reserved_option,
};

use self::endpoint::EndpointKeys;
use super::authored::slot;
use super::diagnostic::{Problems, SourceText};
use super::names::check_name;
use super::schema::{FileKind, conditional, kind};
use super::table::{Located, TomlItem, TomlTable};

/// The models of a team file.
pub(super) struct AuthoredModels {
    /// The names of all models, also of those that could not be read.
    names: BTreeSet<String>,
    configs: BTreeMap<String, ModelConfig>,
}

impl AuthoredModels {
    /// Returns the configuration of the models, if the team has any.
    pub(super) fn config(&self) -> Option<ModelsConfig> {
        (!self.configs.is_empty()).then(|| ModelsConfig {
            models: self.configs.clone(),
            ..ModelsConfig::default()
        })
    }

    /// Returns whether the team has a model with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns a model that could be read.
    pub(super) fn get(&self, name: &str) -> Option<&ModelConfig> {
        self.configs.get(name)
    }

    /// Returns the name of a model and those of the models that are asked in its place if it fails. They
    /// are sent the same requests, so what is checked of one has to be checked of all.
    pub(super) fn with_fallbacks<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fallback = self.get(name).map_or(&[][..], |model| &model.fallback);
        iter::once(name).chain(fallback.iter().map(String::as_str))
    }

    /// Returns whether `name` is that of a model, and reports it if it is not. If some keys could
    /// not be read, models may only seem to be missing.
    pub(super) fn check(&self, name: &Located<String>, problems: &Problems) -> bool {
        if self.has(&name.value) || !problems.are_read(&["", "llm", "model", "model.*"]) {
            return true;
        }
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let hint =
            suggest(&name.value, &names).unwrap_or_else(|| format!("add `[model.{}]`", name.value));
        let problem = problems.at(&name.span, format!("there is no model `{}`", name.value));
        problems.add(problem.hint(hint));
        false
    }
}

/// A model as it is written.
struct AuthoredModel {
    config: Option<ModelConfig>,
    fallback: Vec<Located<String>>,
}

/// Reads all models.
pub(super) fn read_models(root: &TomlTable<'_>) -> AuthoredModels {
    let default = root
        .key(
            "llm",
            "The team's language model, which is asked where nothing names another. Its name is `default`.",
        )
        .table("`[llm]`", read_model);
    let named = root
        .key(
            "model",
            "Further language models, by the names that roles, actions and fallbacks use.",
        )
        .map_item(read_model)
        .and_then(|item| read_named(&item));
    let mut read = BTreeMap::new();
    read.extend(default.map(|model| (DEFAULT_MODEL.to_owned(), model)));
    for item in named.iter().flat_map(TomlTable::entries) {
        let name = item.key_name();
        if !check_name(&name, root.problems) {
            continue;
        }
        if name.value == DEFAULT_MODEL {
            let message = format!("a model cannot be named `{DEFAULT_MODEL}`");
            let problem = root.problems.at(&name.span, message);
            root.problems
                .add(problem.hint("that is the name of the model in `[llm]`"));
        }
        let model = item.table(format!("`[model.{}]`", name.value));
        let model = model.map(|table| read_model(&table));
        read.entry(name.value)
            .or_insert(model.unwrap_or(AuthoredModel {
                config: None,
                fallback: Vec::new(),
            }));
    }
    let mut models = AuthoredModels {
        names: read.keys().cloned().collect(),
        configs: BTreeMap::new(),
    };
    for (name, model) in read {
        let fallback = check_fallback(&name, model.fallback, &models, root.problems);
        if let Some(config) = model.config {
            models
                .configs
                .insert(name, ModelConfig { fallback, ..config });
        }
    }
    models
}

/// Reads the table of models by name. Reports a table that holds the settings of one model instead.
fn read_named<'a>(item: &TomlItem<'a>) -> Option<TomlTable<'a>> {
    let table = item.table("`[model]`")?;
    if table.entries().all(|entry| entry.is_table()) {
        return Some(table);
    }
    item.reject(
        "`[model]` contains settings of a model, and it is the table of all models by name",
        "write `[llm]` for the team's model, or `[model.NAME]`",
    );
    None
}

/// Returns the names of a model's fallbacks, and reports those that cannot be one.
///
/// Two models may be each other's fallbacks: of a model that is asked in place of another, the
/// fallbacks are not.
fn check_fallback(
    name: &str,
    fallback: Vec<Located<String>>,
    models: &AuthoredModels,
    problems: &Problems,
) -> Vec<String> {
    for other in &fallback {
        if models.check(other, problems) && other.value == name {
            let message = format!("the model `{name}` cannot be its own fallback");
            let problem = problems.at(&other.span, message);
            problems.add(problem.hint("`retries` is how often it is asked again"));
        }
    }
    fallback.into_iter().map(|name| name.value).collect()
}

fn read_model(table: &TomlTable<'_>) -> AuthoredModel {
    table.define_as("llm");
    let provider = read_provider_name(table);
    let id = table
        .key(
            "model",
            "The provider's own id of the model; required for those with an endpoint.",
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
    let options = table
        .key(
            "options",
            "Merged into the body of each request, last.",
        )
        .value(|| json!({ "type": "object", "propertyNames": { "not": { "enum": RESERVED_OPTIONS } } }));
    let settings = read_settings(table, options.as_ref());
    let fallback = table
        .key(
            "fallback",
            "Models that are asked instead, in this order, when the retries are used up, or at once when the endpoint \
             refuses.",
        )
        .unique_texts();
    let endpoint = EndpointKeys::look_up(table);
    describe_rules(table);
    let keys = ProviderKeys {
        id: id.as_ref(),
        replies: replies.as_ref(),
        endpoint,
    };
    let name = id.as_ref().and_then(TomlItem::legible_text);
    // An invalid provider is reported already. Which keys belong to it is unknown, so all are
    // accepted.
    let provider = provider.and_then(|provider| keys.read(provider, table));
    if let (Some(provider), Some(options)) = (&provider, &options) {
        reject_excluded_options(provider, &settings, options);
    }
    AuthoredModel {
        config: provider.map(|provider| ModelConfig {
            model: name.map(|name| name.value),
            price,
            requests_per_minute: pace.and_then(|pace| NonZeroU32::new(pace as u32)),
            settings,
            fallback: Vec::new(),
            provider,
        }),
        fallback,
    }
}

#[derive(Clone, Copy)]
enum ProviderName {
    Endpoint(ProtocolName),
    Scripted,
    Recorded,
}

/// The keys of which the provider decides whether they are needed.
struct ProviderKeys<'k, 'a> {
    id: Option<&'k TomlItem<'a>>,
    replies: Option<&'k TomlItem<'a>>,
    endpoint: EndpointKeys<'a>,
}

impl ProviderKeys<'_, '_> {
    fn read(&self, provider: ProviderName, table: &TomlTable<'_>) -> Option<ProviderConfig> {
        let ProviderName::Endpoint(protocol) = provider else {
            self.endpoint.reject(table);
            if self.replies.is_none() {
                table.report_missing_one_of(&["replies"]);
            }
            let replies = read_replies(self.replies?)?;
            return Some(match provider {
                ProviderName::Recorded => ProviderConfig::Recorded { replies },
                _ => ProviderConfig::Scripted { replies },
            });
        };
        reject_key_of_other_provider(
            table,
            "replies",
            self.replies,
            "the providers `scripted` and `recorded`",
        );
        if self.id.is_none() {
            table.report_missing_one_of(&["model"]);
        }
        let endpoint = self.endpoint.read(protocol)?;
        Some(ProviderConfig::Endpoint(endpoint))
    }
}

fn read_provider_name(table: &TomlTable<'_>) -> Option<ProviderName> {
    let [openai, responses, anthropic, gemini] =
        ProtocolName::ALL.map(|protocol| (protocol.name(), ProviderName::Endpoint(protocol)));
    let words = [
        openai,
        responses,
        anthropic,
        gemini,
        ("scripted", ProviderName::Scripted),
        ("recorded", ProviderName::Recorded),
    ];
    let item = table
        .key(
            "provider",
            "Who answers. `openai`: OpenAI's chat completions, and any endpoint that speaks them. `responses`: \
             OpenAI's Responses, without storage. `anthropic`: Messages. `gemini`: `generateContent`. `scripted`: \
             replies that are written in a file. `recorded`: what `run --record` wrote.",
        )
        .required()
        .one_of(&words)?;
    match compatible_service(&item) {
        None => item.choice(&words),
        Some((name, hint)) => {
            item.reject(format!("`{}` cannot be `{name}`", item.key), hint);
            None
        }
    }
}

fn describe_rules(table: &TomlTable<'_>) {
    table.rule("allOf", || {
        let endpoints = ProtocolName::ALL
            .map(|protocol| conditional("provider", protocol.name(), &["model"], &["replies"]));
        let files = ["scripted", "recorded"]
            .map(|provider| conditional("provider", provider, &["replies"], &EndpointKeys::NAMES));
        endpoints.into_iter().chain(files).collect()
    });
}

/// Well-known services with an OpenAI-compatible API, by the names that people write, and their
/// base URLs.
const COMPATIBLE_SERVICES: [(&str, &str); 8] = [
    ("mistral", "https://api.mistral.ai/v1"),
    ("groq", "https://api.groq.com/openai/v1"),
    ("deepseek", "https://api.deepseek.com/v1"),
    ("openrouter", "https://openrouter.ai/api/v1"),
    ("together", "https://api.together.xyz/v1"),
    ("ollama", "http://localhost:11434/v1"),
    ("lmstudio", "http://localhost:1234/v1"),
    ("vllm", "http://localhost:8000/v1"),
];

/// Names of models and companies that people write for a provider.
const PROVIDER_SYNONYMS: [(&str, &str); 3] = [
    ("claude", "anthropic"),
    ("google", "gemini"),
    ("gpt", "openai"),
];

/// Returns the name that is written as a provider and what to write instead, if it is a known name
/// of a service.
fn compatible_service(item: &TomlItem<'_>) -> Option<(&'static str, String)> {
    let written = item.is_text().then(|| item.text()).flatten()?.value;
    let is_written = |name: &str| written.eq_ignore_ascii_case(name);
    let compatible = COMPATIBLE_SERVICES
        .into_iter()
        .find(|(name, _)| is_written(name));
    if let Some((name, base_url)) = compatible {
        let hint = format!(
            "it speaks the protocol of `openai`: write that, with `base_url = \"{base_url}\"`"
        );
        return Some((name, hint));
    }
    let (name, meant) = PROVIDER_SYNONYMS
        .into_iter()
        .find(|(name, _)| is_written(name))?;
    Some((name, format!("write `provider = \"{meant}\"`")))
}

/// Reports a key that belongs to other providers.
fn reject_key_of_other_provider(
    table: &TomlTable<'_>,
    key: &'static str,
    item: Option<&TomlItem<'_>>,
    providers: &str,
) {
    table.exclude(&[key]);
    if let Some(item) = item {
        let message = format!("`{key}` is for {providers}");
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

fn read_settings(table: &TomlTable<'_>, options: Option<&TomlItem<'_>>) -> ModelSettings {
    let effort = table
        .key(
            "effort",
            "How much the model is to think, in a word that the provider knows, such as `low`. Without it nothing is \
             sent.",
        )
        .value(kind::non_empty_text)
        .and_then(|item| {
            let effort = item.legible_text()?;
            if effort.value.is_empty() {
                item.reject("`effort` cannot be empty", "leave the key out to send nothing");
            }
            Some(effort.value)
        });
    let max_tokens = table
        .key(
            "max_tokens",
            "How long a reply may be, in tokens, for requests that do not say it.",
        )
        .integer(1..=u64::from(u32::MAX));
    let keep_thinking = table
        .key(
            "keep_thinking",
            "Whether the text of reasoning is recorded. Signatures always are.",
        )
        .boolean(true);
    let without = table
        .key("without", "What is removed from the body of each request.")
        .unique_texts();
    let join_news = table
        .key(
            "join_news",
            "Whether messages that follow each other and have the same role are sent as one, for models whose prompt \
             templates demand that the roles alternate.",
        )
        .boolean(false);
    ModelSettings {
        effort,
        max_tokens: max_tokens.map(|tokens| tokens as u32),
        keep_thinking,
        options: options.map(read_options).unwrap_or_default(),
        without: without.into_iter().map(|key| key.value).collect(),
        join_news,
    }
}

/// Reports options with which the provider refuses each request.
fn reject_excluded_options(
    provider: &ProviderConfig,
    settings: &ModelSettings,
    options: &TomlItem<'_>,
) {
    if let Err(excluded) = check_settings(provider, settings) {
        let message = format!("the provider refuses these options: {}", excluded.problem);
        options.reject(message, excluded.hint);
    }
}

fn read_options(item: &TomlItem<'_>) -> Map<String, Value> {
    let Some(table) = item.table("`options`") else {
        return Map::new();
    };
    let mut options = Map::new();
    for option in table.entries() {
        if is_reserved_option(option.key) {
            let message = format!("`options` cannot set `{}`", option.key);
            let problem = table.problems.at(&option.key_span, message);
            table
                .problems
                .add(problem.hint("it depends on the request; remove it"));
        }
        options.insert(option.key.to_owned(), option.json("a model"));
    }
    options
}

pub(super) fn read_price(table: &TomlTable<'_>) -> Price {
    let amount = |key: &'static str, about: &'static str| {
        table.key(key, about).amount().map(Usd::from_dollars)
    };
    Price {
        input: table
            .key("input", "For a million tokens of the request.")
            .default(0)
            .amount()
            .map(Usd::from_dollars)
            .unwrap_or_default(),
        output: amount(
            "output",
            "For a million tokens of the reply; as `input` where it is missing.",
        ),
        cache_read: amount(
            "cache_read",
            "For a million tokens of the request that the provider took from its cache; as `input` where it is \
             missing.",
        ),
        cache_write: amount(
            "cache_write",
            "For a million tokens of the request that the provider put into its cache; as `input` where it is missing.",
        ),
    }
}

/// Returns the span of a model's `api_key` in a team file.
pub(super) fn api_key_span(source: &Arc<SourceText>, model: &str) -> Option<Range<usize>> {
    let document = super::parse_document(source, FileKind::Team).ok()?;
    let root = document.get_ref();
    let table = match model {
        DEFAULT_MODEL => root.get("llm")?,
        name => root.get("model")?.get_ref().get(name)?,
    };
    Some(table.get_ref().get("api_key")?.span())
}
