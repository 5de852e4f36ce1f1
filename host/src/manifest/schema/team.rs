//! Schemas of the tables of a team as a whole: the file itself, its environment, its model, how it
//! runs, its routes and joins.

use serde_json::{Value, json};
use strata_core::record::shape::{DeliveryMode, JoinMode};

use super::kind::{
    amount, duration, integer, name, non_empty_texts, path, text, variable, with_default,
    without_default, word_enum,
};
use super::role::limits;
use super::{
    conditional, forbidding, list_of_tables, map_schema, optional_key, reference, required_key,
    table_schema,
};
use crate::manifest::authored::limits::ComponentKind;
use crate::manifest::authored::{DEFAULT_PARALLEL, MAX_PARALLEL, SCHEMA};
use crate::manifest::llm::MAX_RETRIES;
use crate::services::models::config::Endpoint;

pub(super) fn team_file() -> Value {
    let mut roles = list_of_tables("role");
    roles["minItems"] = 1.into();
    table_schema(vec![
        required_key(
            "schema",
            "The version of the format.",
            json!({ "type": "string", "const": SCHEMA }),
        ),
        required_key("team", "The team as a whole.", team()),
        optional_key("env", "What all roles share.", env()),
        optional_key(
            "limits",
            "What each action may use up, where it says nothing itself.",
            limits(ComponentKind::Action),
        ),
        optional_key("run", "How the team is run.", run()),
        optional_key("trust", "Whose components may be loaded.", trust()),
        optional_key("llm", "The team's language model.", reference("llm")),
        required_key(
            "role",
            "The roles, in the order in which their results take effect.",
            roles,
        ),
        optional_key(
            "route",
            "The routes that messages take. Messages of a role without routes go to whoever watches their label.",
            list_of_tables("route"),
        ),
        optional_key(
            "join",
            "Where messages of several roles wait for each other.",
            list_of_tables("join"),
        ),
    ])
}

fn trust() -> Value {
    let keys = "Public keys of minisign, `RW…`: each component has to be signed with one of them, in a file of its name \
                and `.minisig` beside it.";
    let mut listed = non_empty_texts();
    listed["minItems"] = 1.into();
    table_schema(vec![required_key("keys", keys, listed)])
}

fn team() -> Value {
    let on_fault = "What a fault stops. `stop`: the others of the step finish, then the run stops. `park`: all others \
                    go on until nothing is left to do.";
    table_schema(vec![
        required_key("name", "The team's name.", name()),
        optional_key(
            "idea",
            "What the team is asked to do, where the command line says nothing.",
            text(),
        ),
        optional_key(
            "investment",
            "What may be spent in all, in USD, over resumes and forks; 0 for no cap. The call that crosses the line is still made, so the last calls may exceed it.",
            amount(),
        ),
        optional_key(
            "tokens",
            "How many tokens may be used in all; 0 for no cap.",
            tokens(),
        ),
        optional_key("on_fault", on_fault, word_enum(&["stop", "park"])),
    ])
}

/// A number of tokens of language models, in requests and replies together.
pub(super) fn tokens() -> Value {
    with_default(integer(0..=u64::MAX), Some(0.into()))
}

fn env() -> Value {
    let mut reducer = word_enum(&["append", "add", "max", "merge", "last"]);
    // There is no default: without a reducer, two writes in one step are a conflict.
    if let Some(reducer) = reducer.as_object_mut() {
        reducer.remove("default");
    }
    let about = "How values become one that several roles write to a key in one step. Without it that is a fault, \
                 `state-conflict`.";
    table_schema(vec![
        optional_key("desc", "What the environment is, in words.", text()),
        optional_key(
            "groups",
            "Names that stand for several roles.",
            map_schema(non_empty_texts()),
        ),
        optional_key(
            "scope",
            "State that roles share, by its name.",
            map_schema(table_schema(vec![optional_key("reducer", about, reducer)])),
        ),
        optional_key(
            "external",
            "Where messages go that are for nobody in the team.",
            reference("external"),
        ),
    ])
}

pub(super) fn external() -> Value {
    let kind = "`stdio`: a message a line, as JSON, to a program's standard input; messages of the same form from its \
                output. `http`: each is POSTed to a URL, which answers with a list of messages.";
    let command = json!({ "type": "array", "items": text(), "minItems": 1 });
    let mut external = table_schema(vec![
        required_key(
            "kind",
            kind,
            json!({ "type": "string", "enum": ["stdio", "http"] }),
        ),
        optional_key(
            "command",
            "The program and its arguments, for `stdio`.",
            command,
        ),
        optional_key("url", "The address, for `http`.", url()),
    ]);
    external["allOf"] = json!([
        conditional("kind", "stdio", &["command"], &["url"]),
        conditional("kind", "http", &["url"], &["command"])
    ]);
    external
}

fn url() -> Value {
    json!({ "type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?:" })
}

fn run() -> Value {
    let parallel = with_default(
        integer(1..=MAX_PARALLEL as u64),
        Some(DEFAULT_PARALLEL.into()),
    );
    let no_limit = |most| with_default(integer(0..=most), Some(0.into()));
    let durability = "What saved work survives. `full`: a loss of power. `process`: the end of the process, however \
                      sudden; steps are cheaper.";
    table_schema(vec![
        optional_key(
            "max_steps",
            "A safety stop after so many steps, over resumes; 0 for none.",
            no_limit(u64::MAX),
        ),
        optional_key(
            "max_parallel",
            "How many actions run at once. All teams of a process together run at most 128.",
            parallel,
        ),
        optional_key(
            "checkpoints",
            "How many checkpoints are kept of each lineage; 0 for all.",
            no_limit(u32::MAX.into()),
        ),
        optional_key("durability", durability, word_enum(&["full", "process"])),
    ])
}

pub(super) fn llm() -> Value {
    let provider = "Who answers. `openai`: any endpoint that speaks OpenAI's protocol. `scripted`: replies that are \
                    written in a file. `recorded`: what `run --record` wrote.";
    let base_url = "The endpoint; required for `openai`. `chat/completions` is appended to its path, unless it ends \
                    with that. In a query only `api-version` may be there.";
    let price = table_schema(vec![
        optional_key("input", &price_description("request"), amount()),
        optional_key("output", &price_description("reply"), amount()),
        optional_key(
            "cache_read",
            CACHE_READ_DESCRIPTION,
            without_default(amount()),
        ),
    ]);
    let retries = with_default(
        integer(0..=MAX_RETRIES),
        Some(Endpoint::DEFAULT_RETRIES.into()),
    );
    let timeout = duration(
        Some(Endpoint::DEFAULT_TIMEOUT),
        std::time::Duration::from_millis(1),
    );
    let api_key = "The environment variable that holds the key.";
    let api_key = table_schema(vec![required_key("env", api_key, variable())]);
    let provider_names = json!({ "type": "string", "enum": ["openai", "scripted", "recorded"] });
    let mut llm = table_schema(vec![
        required_key("provider", provider, provider_names),
        optional_key(
            "model",
            "The model that is asked where an action names none; required for `openai`.",
            text(),
        ),
        optional_key("price", "What a million tokens cost, in USD.", price),
        optional_key(
            "requests_per_minute",
            "How many requests are made in a minute at most.",
            integer(1..=u32::MAX.into()),
        ),
        optional_key(
            "replies",
            "The file with the replies; required for `scripted` and `recorded`.",
            path(),
        ),
        optional_key("base_url", base_url, url()),
        optional_key(
            "api_key",
            "Where the key is, for `openai`. It is never written into a team file.",
            api_key,
        ),
        optional_key(
            "retries",
            "How often a request is repeated after a transient failure, for `openai`.",
            retries,
        ),
        optional_key(
            "timeout",
            "How long one request may take, for `openai`.",
            timeout,
        ),
    ]);
    let endpoint = ["base_url", "api_key", "retries", "timeout"];
    llm["allOf"] = json!([
        conditional("provider", "openai", &["base_url", "model"], &["replies"]),
        conditional("provider", "scripted", &["replies"], &endpoint),
        conditional("provider", "recorded", &["replies"], &endpoint),
    ]);
    llm
}

const CACHE_READ_DESCRIPTION: &str = "For a million tokens of the request that the provider took from its cache; as `input` where it \
                          is missing.";

fn price_description(what: &str) -> String {
    format!("For a million tokens of the {what}.")
}

pub(super) fn route() -> Value {
    let to =
        "Where to: roles, aliases, groups, joins, `<all>`, `<self>`, or names outside of the team.";
    let condition = "A CEL expression over the message: `content`, `data`, `cause_by`, `sent_from`, `meta_info`.";
    let arm = table_schema(vec![
        required_key("when", condition, text()),
        required_key("to", to, non_empty_texts()),
    ]);
    let cases = json!({ "type": "array", "items": arm, "minItems": 1 });
    let mut route = table_schema(vec![
        required_key(
            "from",
            "The role (name or alias) whose messages go this way.",
            text(),
        ),
        optional_key(
            "label",
            "A caption in drawings of the team.",
            with_default(text(), Some("".into())),
        ),
        optional_key("to", to, non_empty_texts()),
        optional_key(
            "when",
            &format!("Which messages go this way; without it, all. {condition}"),
            text(),
        ),
        optional_key(
            "case",
            "Alternatives: the first whose condition holds is taken.",
            cases,
        ),
        optional_key(
            "default",
            "Where messages go for which no case holds. Without it they are dropped.",
            non_empty_texts(),
        ),
    ]);
    let (mut plain, mut cases) = (
        forbidding(&["case", "default"]),
        forbidding(&["to", "when"]),
    );
    plain["required"] = json!(["to"]);
    cases["required"] = json!(["case"]);
    route["oneOf"] = json!([plain, cases]);
    route
}

pub(super) fn join() -> Value {
    let mode = "When it hands on. `all`: with one message of each source. `any`: with every message. `active`: with \
                what came, once the team is quiet.";
    let deliver = "How several messages are handled. `batch`: together, in one activation. `each`: in one of its own.";
    table_schema(vec![
        required_key("id", "Its name, for routes to lead to.", name()),
        required_key(
            "from",
            "Whose messages it takes, in the order in which they are handed on.",
            non_empty_texts(),
        ),
        required_key("to", "A role, an alias, a group, or another join.", text()),
        optional_key(
            "mode",
            mode,
            word_enum(&[JoinMode::All, JoinMode::Any, JoinMode::Active].map(JoinMode::name)),
        ),
        optional_key(
            "deliver",
            deliver,
            word_enum(&[DeliveryMode::Batch, DeliveryMode::Each].map(DeliveryMode::name)),
        ),
    ])
}
