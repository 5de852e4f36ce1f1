//! Schemas of the tables of a role: the role, its actions, what it thinks with, limits and grants.

use std::time::Duration;

use serde_json::{Value, json};

use super::kind::{
    amount, boolean, duration, integer, name, non_empty_texts, path, size, text, unique_texts,
    variables, with_default, word_enum,
};
use super::team::tokens;
use super::{
    KeySchema, conditional, list_of_tables, optional_key, reference, required_key, table_schema,
};
use crate::build::script;
use crate::manifest::authored::limits::{
    ComponentKind, DEFAULT_BACKOFF, MAX_RETRIES, MAX_TABLE_ELEMENTS,
};
use crate::plugin::Limits;
use crate::plugin::http::{DEFAULT_METHODS, DEFAULT_PATH};

pub(super) fn role() -> Value {
    let react = "How it goes from one action to the next. `by_order`: all, in order. `react`: something chooses the \
                 next. `plan_and_act`: the first plans, the others carry out the plan.";
    let rounds = with_default(integer(1..=u32::MAX.into()), Some(1.into()));
    let mut keys = vec![
        required_key("name", "Its name, for routes and messages.", name()),
        optional_key(
            "kind",
            "Who plays it: components, or a person who is asked.",
            word_enum(&["agent", "human"]),
        ),
        optional_key("profile", "Its job, for prompts.", text()),
        optional_key("goal", "What it is to achieve, for prompts.", text()),
        optional_key(
            "constraints",
            "What it has to respect, for prompts.",
            text(),
        ),
        optional_key("desc", "Anything else about it, for prompts.", text()),
        optional_key(
            "watch",
            "The labels it hears of: names of actions, or `UserRequirement`, the idea.",
            unique_texts(),
        ),
        optional_key("addresses", "Further names for it.", unique_texts()),
        optional_key(
            "react",
            react,
            word_enum(&["by_order", "react", "plan_and_act"]),
        ),
        optional_key(
            "max_react_loop",
            "How many actions one activation makes at most, for `react`.",
            rounds,
        ),
        optional_key(
            "think",
            "What chooses the next action, for `react`. Without it, the team's model; a single action needs neither.",
            reference("think"),
        ),
        optional_key("action", "Its actions, in order.", list_of_tables("action")),
    ];
    keys.extend(budget_keys());
    let mut role = table_schema(keys);
    let none = ["action", "think", "react", "max_react_loop"];
    let human = conditional("kind", "human", &[], &none);
    let mut actions = json!({ "required": ["action"] });
    actions["properties"] = json!({ "action": { "minItems": 1 } });
    role["if"] = human["if"].clone();
    role["then"] = human["then"].clone();
    role["else"] = actions;
    role
}

pub(super) fn action() -> Value {
    let function = "What is called of a component that knows nothing of the host: an exported function's `name`, or \
                    `package:name/interface@version#name`.";
    let mut keys = vec![
        required_key(
            "name",
            "Its name, which is also the label of its messages.",
            name(),
        ),
        optional_key(
            "function",
            function,
            json!({ "type": "string", "minLength": 1 }),
        ),
        optional_key(
            "output_schema",
            "A file with a JSON Schema that the output's data has to follow.",
            path(),
        ),
    ];
    keys.extend(budget_keys());
    keys.extend(component_keys(ComponentKind::Action));
    let mut action = with_one_component(table_schema(keys));
    action["dependentRequired"] = json!({ "function": ["component"] });
    action
}

/// The keys for the budget of a role or an action.
fn budget_keys() -> [KeySchema; 2] {
    let investment = "What it may spend in all, in USD; 0 for no cap of its own. The call that crosses the line is still \
                      made, so the last calls may exceed it.";
    [
        optional_key("investment", investment, amount()),
        optional_key(
            "tokens",
            "How many tokens it may use in all; 0 for no cap of its own.",
            tokens(),
        ),
    ]
}

pub(super) fn think() -> Value {
    with_one_component(table_schema(component_keys(ComponentKind::Thinker)))
}

/// Adds the rule that exactly one key names the component.
fn with_one_component(mut slot: Value) -> Value {
    slot["oneOf"] = json!([{ "required": ["component"] }, { "required": ["script"] }, { "required": ["skill"] }]);
    slot
}

fn component_keys(subject: ComponentKind) -> Vec<KeySchema> {
    let component = "A component, or a directory with the source of one, which is built first. Relative to this file.";
    let script = "A file in JavaScript or Python that is run as it is. Relative to this file. `<newest>.js`, \
                  `<newest>.py`: the code in the newest message.";
    let scripts = json!({ "type": "string", "pattern": format!(".\\.({})$", script::extensions().collect::<Vec<_>>().join("|")) });
    let skill = "A component on this machine's shelf: `name@1.2.3`, or the newest of `name@^1.2`. See `strata-host \
                 skill`.";
    let versioned =
        json!({ "type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z._-]*@[\\^~]?\\s*[0-9]" });
    let pin = json!({ "type": "string", "pattern": "^[0-9A-Fa-f]{64}$" });
    vec![
        optional_key("component", component, path()),
        optional_key("script", script, scripts),
        optional_key("skill", skill, versioned),
        optional_key("sha256", "The SHA-256 that the component must have.", pin),
        optional_key(
            "config",
            "Handed to the component with each call, as JSON.",
            json!({}),
        ),
        optional_key(
            "limits",
            "What it may use up. What is not written is that of the team.",
            limits(subject),
        ),
        optional_key(
            "allow",
            "What it may touch. Nothing else is allowed.",
            reference("allow"),
        ),
    ]
}

/// The limits of a call.
pub(super) fn limits(subject: ComponentKind) -> Value {
    let default = Limits::default();
    let above_zero = Duration::from_millis(1);
    let whole = |most, default: u64| with_default(integer(0..=most), Some(default.into()));
    let mut keys = vec![
        optional_key(
            "memory",
            "All linear memories and tables together.",
            size(Some(default.memory_bytes), 1),
        ),
        optional_key(
            "cpu",
            "Time inside the component only.",
            duration(Some(default.cpu), above_zero),
        ),
        optional_key(
            "timeout",
            "Wall time, host calls included.",
            duration(Some(default.timeout), above_zero),
        ),
        optional_key(
            "fuel",
            "Instructions, counted deterministically; 0 for no limit.",
            whole(i64::MAX as u64, 0),
        ),
        optional_key(
            "output",
            "Output, emissions and writes of state together.",
            size(Some(default.output_bytes), 1),
        ),
        optional_key(
            "log",
            "Log lines and standard streams; the rest is cut.",
            size(Some(default.log_bytes), 0),
        ),
        optional_key(
            "host_calls",
            "Calls of host functions.",
            whole(u32::MAX.into(), default.host_calls.into()),
        ),
        optional_key(
            "host_bytes",
            "What goes to host functions and comes from them.",
            size(Some(default.host_bytes), 0),
        ),
        optional_key(
            "table_elements",
            "Elements of all tables.",
            whole(MAX_TABLE_ELEMENTS, default.table_elements),
        ),
        optional_key(
            "component",
            "The component itself.",
            size(Some(default.component_bytes), 1),
        ),
        optional_key(
            "compile",
            "The time to compile it in.",
            duration(Some(default.compile), above_zero),
        ),
    ];
    if subject == ComponentKind::Action {
        keys.extend(retry_keys());
    }
    table_schema(keys)
}

/// The keys for when a failed call of an action is retried.
fn retry_keys() -> [KeySchema; 2] {
    let retries = "How often it is tried again after a transient failure, a timeout or a host error; the count restarts with each resume.";
    [
        optional_key(
            "retries",
            retries,
            with_default(integer(0..=MAX_RETRIES), Some(0.into())),
        ),
        optional_key(
            "backoff",
            "Wait before the first retry; it doubles each time, up to a minute or this value, whichever is longer.",
            duration(Some(DEFAULT_BACKOFF), Duration::ZERO),
        ),
    ]
}

/// The grants of a component.
pub(super) fn allow() -> Value {
    let models = "Models that may be asked; `*` stands for any run of characters. A request that names none \
                  asks the model of `[llm]`, which has to be among them.";
    let calls = "How many calls one attempt may make.";
    let llm = table_schema(vec![
        required_key("models", models, non_empty_texts()),
        optional_key("calls", calls, integer(1..=u32::MAX.into())),
    ]);
    let http = json!({ "type": "array", "items": http_grant() });
    let dirs = json!({ "type": "array", "items": dir_grant() });
    table_schema(vec![
        optional_key("llm", "Language models.", llm),
        optional_key("http", "Hosts on the network.", http),
        optional_key("dirs", "Directories.", dirs),
        optional_key(
            "env",
            "Environment variables that may be read.",
            variables(),
        ),
        optional_key(
            "secrets",
            "Secrets that may be named without being sent anywhere.",
            variables(),
        ),
    ])
}

fn http_grant() -> Value {
    let host = "`api.example.com`, `*.example.com` for the names below it, `*` for all public names; with `:PORT` where \
                that is not the scheme's own. Private addresses are granted literally.";
    let headers = "Request headers that may be set although servers may take a request for another one because of them: \
                   `x-http-method-override`, `x-original-url`, `x-forwarded-for` and their like. Others need no grant.";
    let header = json!({ "type": "string", "pattern": "^[0-9A-Za-z!#$%&'*+.^_`|~-]+$" });
    let method = json!({ "type": "string", "pattern": "^[A-Z]+$" });
    let methods = json!({ "type": "array", "items": method, "minItems": 1, "uniqueItems": true, "default": DEFAULT_METHODS });
    let paths = json!({ "type": "string", "pattern": "^/", "default": DEFAULT_PATH });
    table_schema(vec![
        required_key("host", host, json!({ "type": "string", "minLength": 1 })),
        optional_key("methods", "Methods.", methods),
        optional_key(
            "path",
            "Paths; `*` stands for any run of characters.",
            paths,
        ),
        optional_key(
            "secrets",
            "Secrets (environment variables of the host's) that may be sent there.",
            variables(),
        ),
        optional_key(
            "headers",
            headers,
            json!({ "type": "array", "items": header, "uniqueItems": true }),
        ),
    ])
}

fn dir_grant() -> Value {
    let guest = json!({ "type": "string", "pattern": "^/" });
    table_schema(vec![
        required_key("host", "The directory, relative to this file.", path()),
        required_key("guest", "What the component calls it: `/out`.", guest),
        optional_key(
            "write",
            "Whether it may be written. It is made if it is missing.",
            boolean(false),
        ),
        optional_key(
            "max_size",
            "How large each role may make it in a step, where it may be written.",
            size(None, 0),
        ),
    ])
}
