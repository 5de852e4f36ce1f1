//! Schemas of the tables of a team as a whole: the file itself, its environment, its model, how it
//! runs, its routes and joins.

use serde_json::{Value, json};
use strata_core::team::{Deliver, Mode};

use super::kind::{
    amount, duration, name, path, some_texts, text, variable, whole, with_default, without_default,
    words,
};
use super::role::limits;
use super::{key, named, needed, reference, table, tables, when, without};
use crate::manifest::authored::limits::Subject;
use crate::manifest::authored::{DEFAULT_PARALLEL, MAX_PARALLEL, SCHEMA};
use crate::manifest::llm::MAX_RETRIES;
use crate::services::llm::config::Endpoint;

pub(super) fn file() -> Value {
    let mut roles = tables("role");
    roles["minItems"] = 1.into();
    table(vec![
        needed(
            "schema",
            "The version of the format.",
            json!({ "type": "string", "const": SCHEMA }),
        ),
        needed("team", "The team as a whole.", team()),
        key("env", "What all roles share.", env()),
        key(
            "limits",
            "What each action may use up, where it says nothing itself.",
            limits(Subject::Action),
        ),
        key("run", "How the team is run.", run()),
        key("trust", "Whose components may be loaded.", trust()),
        key("llm", "The team's language model.", reference("llm")),
        needed(
            "role",
            "The roles, in the order in which their results take effect.",
            roles,
        ),
        key(
            "route",
            "The routes that messages take. Messages of a role without routes go to whoever watches their label.",
            tables("route"),
        ),
        key(
            "join",
            "Where messages of several roles wait for each other.",
            tables("join"),
        ),
    ])
}

fn trust() -> Value {
    let keys = "Public keys of minisign, `RW…`: each component has to be signed with one of them, in a file of its name \
                and `.minisig` beside it.";
    let mut listed = some_texts();
    listed["minItems"] = 1.into();
    table(vec![needed("keys", keys, listed)])
}

fn team() -> Value {
    let on_fault = "What a fault stops. `stop`: the others of the step finish, then the run stops. `park`: all others \
                    go on until nothing is left to do.";
    table(vec![
        needed("name", "The team's name.", name()),
        key(
            "idea",
            "What the team is asked to do, where the command line says nothing.",
            text(),
        ),
        key(
            "investment",
            "What may be spent in all, in USD, over resumes and forks; 0 for no cap. The call that crosses the line is still made, so the last calls may exceed it.",
            amount(),
        ),
        key(
            "tokens",
            "How many tokens may be used in all; 0 for no cap.",
            tokens(),
        ),
        key("on_fault", on_fault, words(&["stop", "park"])),
    ])
}

/// A number of tokens of language models, in requests and replies together.
pub(super) fn tokens() -> Value {
    with_default(whole(0..=u64::MAX), Some(0.into()))
}

fn env() -> Value {
    let mut reducer = words(&["append", "add", "max", "merge", "last"]);
    // There is no default: without a reducer, two writes in one step are a conflict.
    if let Some(reducer) = reducer.as_object_mut() {
        reducer.remove("default");
    }
    let about = "How values become one that several roles write to a key in one step. Without it that is a fault, \
                 `state-conflict`.";
    table(vec![
        key("desc", "What the environment is, in words.", text()),
        key(
            "groups",
            "Names that stand for several roles.",
            named(some_texts()),
        ),
        key(
            "scope",
            "State that roles share, by its name.",
            named(table(vec![key("reducer", about, reducer)])),
        ),
        key(
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
    let mut external = table(vec![
        needed(
            "kind",
            kind,
            json!({ "type": "string", "enum": ["stdio", "http"] }),
        ),
        key(
            "command",
            "The program and its arguments, for `stdio`.",
            command,
        ),
        key("url", "The address, for `http`.", url()),
    ]);
    external["allOf"] = json!([
        when("kind", "stdio", &["command"], &["url"]),
        when("kind", "http", &["url"], &["command"])
    ]);
    external
}

fn url() -> Value {
    json!({ "type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?:" })
}

fn run() -> Value {
    let parallel = with_default(
        whole(1..=MAX_PARALLEL as u64),
        Some(DEFAULT_PARALLEL.into()),
    );
    let no_limit = |most| with_default(whole(0..=most), Some(0.into()));
    let durability = "What saved work survives. `full`: a loss of power. `process`: the end of the process, however \
                      sudden; steps are cheaper.";
    table(vec![
        key(
            "max_steps",
            "A safety stop after so many steps, over resumes; 0 for none.",
            no_limit(u64::MAX),
        ),
        key(
            "max_parallel",
            "How many actions run at once. All teams of a process together run at most 128.",
            parallel,
        ),
        key(
            "checkpoints",
            "How many checkpoints are kept of each lineage; 0 for all.",
            no_limit(u32::MAX.into()),
        ),
        key("durability", durability, words(&["full", "process"])),
    ])
}

pub(super) fn llm() -> Value {
    let provider = "Who answers. `openai`: any endpoint that speaks OpenAI's protocol. `scripted`: replies that are \
                    written in a file. `recorded`: what `run --record` wrote.";
    let base_url = "The endpoint; required for `openai`. `chat/completions` is appended to its path, unless it ends \
                    with that. In a query only `api-version` may be there.";
    let price = table(vec![
        key("input", &of_million("request"), amount()),
        key("output", &of_million("reply"), amount()),
        key("cache_read", CACHE_READ, without_default(amount())),
    ]);
    let retries = with_default(whole(0..=MAX_RETRIES), Some(Endpoint::RETRIES.into()));
    let api_key = table(vec![needed(
        "env",
        "The environment variable that holds the key.",
        variable(),
    )]);
    let mut llm = table(vec![
        needed(
            "provider",
            provider,
            json!({ "type": "string", "enum": ["openai", "scripted", "recorded"] }),
        ),
        key(
            "model",
            "The model that is asked where an action names none; required for `openai`.",
            text(),
        ),
        key("price", "What a million tokens cost, in USD.", price),
        key(
            "requests_per_minute",
            "How many requests are made in a minute at most.",
            whole(1..=u32::MAX.into()),
        ),
        key(
            "replies",
            "The file with the replies; required for `scripted` and `recorded`.",
            path(),
        ),
        key("base_url", base_url, url()),
        key(
            "api_key",
            "Where the key is, for `openai`. It is never written into a team file.",
            api_key,
        ),
        key(
            "retries",
            "How often a request is repeated after a transient failure, for `openai`.",
            retries,
        ),
        key("timeout", "How long one request may take, for `openai`.", {
            duration(Some(Endpoint::TIMEOUT), std::time::Duration::from_millis(1))
        }),
    ]);
    let endpoint = ["base_url", "api_key", "retries", "timeout"];
    llm["allOf"] = json!([
        when("provider", "openai", &["base_url", "model"], &["replies"]),
        when("provider", "scripted", &["replies"], &endpoint),
        when("provider", "recorded", &["replies"], &endpoint),
    ]);
    llm
}

const CACHE_READ: &str = "For a million tokens of the request that the provider took from its cache; as `input` where it \
                          is missing.";

fn of_million(what: &str) -> String {
    format!("For a million tokens of the {what}.")
}

pub(super) fn route() -> Value {
    let to =
        "Where to: roles, aliases, groups, joins, `<all>`, `<self>`, or names outside of the team.";
    let condition = "A CEL expression over the message: `content`, `data`, `cause_by`, `sent_from`, `meta_info`.";
    let arm = table(vec![
        needed("when", condition, text()),
        needed("to", to, some_texts()),
    ]);
    let cases = json!({ "type": "array", "items": arm, "minItems": 1 });
    let mut route = table(vec![
        needed(
            "from",
            "The role (name or alias) whose messages go this way.",
            text(),
        ),
        key(
            "label",
            "A caption in drawings of the team.",
            with_default(text(), Some("".into())),
        ),
        key("to", to, some_texts()),
        key(
            "when",
            &format!("Which messages go this way; without it, all. {condition}"),
            text(),
        ),
        key(
            "case",
            "Alternatives: the first whose condition holds is taken.",
            cases,
        ),
        key(
            "default",
            "Where messages go for which no case holds. Without it they are dropped.",
            some_texts(),
        ),
    ]);
    let (mut plain, mut cases) = (without(&["case", "default"]), without(&["to", "when"]));
    plain["required"] = json!(["to"]);
    cases["required"] = json!(["case"]);
    route["oneOf"] = json!([plain, cases]);
    route
}

pub(super) fn join() -> Value {
    let mode = "When it hands on. `all`: with one message of each source. `any`: with every message. `active`: with \
                what came, once the team is quiet.";
    let deliver = "How several messages are handled. `batch`: together, in one activation. `each`: in one of its own.";
    table(vec![
        needed("id", "Its name, for routes to lead to.", name()),
        needed(
            "from",
            "Whose messages it takes, in the order in which they are handed on.",
            some_texts(),
        ),
        needed("to", "A role, an alias, a group, or another join.", text()),
        key(
            "mode",
            mode,
            words(&[Mode::All, Mode::Any, Mode::Active].map(Mode::name)),
        ),
        key(
            "deliver",
            deliver,
            words(&[Deliver::Batch, Deliver::Each].map(Deliver::name)),
        ),
    ])
}
