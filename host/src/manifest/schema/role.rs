//! Schemas of the tables of a role: the role, its actions, what it thinks with, limits and grants.

use std::time::Duration;

use serde_json::{Value, json};

use super::kind::{
    amount, duration, flag, name, path, size, some_texts, text, texts, variables, whole,
    with_default, words,
};
use super::team::tokens;
use super::{Key, key, needed, reference, table, tables, when};
use crate::build::script;
use crate::manifest::authored::limits::{
    DEFAULT_BACKOFF, MAX_RETRIES, MAX_TABLE_ELEMENTS, Subject,
};
use crate::plugin::Limits;
use crate::plugin::http::{ANY_PATH, READS};

pub(super) fn role() -> Value {
    let react = "How it goes from one action to the next. `by_order`: all, in order. `react`: something chooses the \
                 next. `plan_and_act`: the first plans, the others carry out the plan.";
    let rounds = with_default(whole(1..=u32::MAX.into()), Some(1.into()));
    let mut keys = vec![
        needed("name", "Its name, for routes and messages.", name()),
        key(
            "kind",
            "Who plays it: components, or a person who is asked.",
            words(&["agent", "human"]),
        ),
        key("profile", "Its job, for prompts.", text()),
        key("goal", "What it is to achieve, for prompts.", text()),
        key(
            "constraints",
            "What it has to respect, for prompts.",
            text(),
        ),
        key("desc", "Anything else about it, for prompts.", text()),
        key(
            "watch",
            "The labels it hears of: names of actions, or `UserRequirement`, the idea.",
            texts(),
        ),
        key("addresses", "Further names for it.", texts()),
        key(
            "react",
            react,
            words(&["by_order", "react", "plan_and_act"]),
        ),
        key(
            "max_react_loop",
            "How many actions one activation makes at most, for `react`.",
            rounds,
        ),
        key(
            "think",
            "What chooses the next action, for `react`. Without it, the team's model; a single action needs neither.",
            reference("think"),
        ),
        key("action", "Its actions, in order.", tables("action")),
    ];
    keys.extend(caps());
    let mut role = table(keys);
    let none = ["action", "think", "react", "max_react_loop"];
    let human = when("kind", "human", &[], &none);
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
        needed(
            "name",
            "Its name, which is also the label of its messages.",
            name(),
        ),
        key(
            "function",
            function,
            json!({ "type": "string", "minLength": 1 }),
        ),
        key(
            "output_schema",
            "A file with a JSON Schema that the output's data has to follow.",
            path(),
        ),
    ];
    keys.extend(caps());
    keys.extend(slot(Subject::Action));
    let mut action = placed(table(keys));
    action["dependentRequired"] = json!({ "function": ["component"] });
    action
}

/// The keys for the budget of a role or an action.
fn caps() -> [Key; 2] {
    let investment = "What it may spend in all, in USD; 0 for no cap of its own. The call that crosses the line is still \
                      made, so the last calls may exceed it.";
    [
        key("investment", investment, amount()),
        key(
            "tokens",
            "How many tokens it may use in all; 0 for no cap of its own.",
            tokens(),
        ),
    ]
}

pub(super) fn think() -> Value {
    placed(table(slot(Subject::Thinker)))
}

/// Adds the rule that exactly one key names the component.
fn placed(mut slot: Value) -> Value {
    slot["oneOf"] = json!([{ "required": ["component"] }, { "required": ["script"] }, { "required": ["skill"] }]);
    slot
}

fn slot(subject: Subject) -> Vec<Key> {
    let component = "A component, or a directory with the source of one, which is built first. Relative to this file.";
    let script = "A file in JavaScript or Python that is run as it is. Relative to this file. `<newest>.js`, \
                  `<newest>.py`: the code in the newest message.";
    let scripts = json!({ "type": "string", "pattern": format!(".\\.({})$", script::endings().collect::<Vec<_>>().join("|")) });
    let skill = "A component on this machine's shelf: `name@1.2.3`, or the newest of `name@^1.2`. See `strata-host \
                 skill`.";
    let versioned =
        json!({ "type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z._-]*@[\\^~]?\\s*[0-9]" });
    let pin = json!({ "type": "string", "pattern": "^[0-9A-Fa-f]{64}$" });
    vec![
        key("component", component, path()),
        key("script", script, scripts),
        key("skill", skill, versioned),
        key("sha256", "The SHA-256 that the component must have.", pin),
        key(
            "config",
            "Handed to the component with each call, as JSON.",
            json!({}),
        ),
        key(
            "limits",
            "What it may use up. What is not written is that of the team.",
            limits(subject),
        ),
        key(
            "allow",
            "What it may touch. Nothing else is allowed.",
            reference("allow"),
        ),
    ]
}

/// The limits of a call.
pub(super) fn limits(subject: Subject) -> Value {
    let default = Limits::default();
    let above_zero = Duration::from_millis(1);
    let whole = |most, default: u64| with_default(whole(0..=most), Some(default.into()));
    let mut keys = vec![
        key(
            "memory",
            "All linear memories and tables together.",
            size(Some(default.memory_bytes), 1),
        ),
        key(
            "cpu",
            "Time inside the component only.",
            duration(Some(default.cpu), above_zero),
        ),
        key(
            "timeout",
            "Wall time, host calls included.",
            duration(Some(default.timeout), above_zero),
        ),
        key(
            "fuel",
            "Instructions, counted deterministically; 0 for no limit.",
            whole(i64::MAX as u64, 0),
        ),
        key(
            "output",
            "Output, emissions and writes of state together.",
            size(Some(default.output_bytes), 1),
        ),
        key(
            "log",
            "Log lines and standard streams; the rest is cut.",
            size(Some(default.log_bytes), 0),
        ),
        key(
            "host_calls",
            "Calls of host functions.",
            whole(u32::MAX.into(), default.host_calls.into()),
        ),
        key(
            "host_bytes",
            "What goes to host functions and comes from them.",
            size(Some(default.host_bytes), 0),
        ),
        key(
            "table_elements",
            "Elements of all tables.",
            whole(MAX_TABLE_ELEMENTS, default.table_elements),
        ),
        key(
            "component",
            "The component itself.",
            size(Some(default.component_bytes), 1),
        ),
        key(
            "compile",
            "The time to compile it in.",
            duration(Some(default.compile), above_zero),
        ),
    ];
    if subject == Subject::Action {
        keys.extend(retry_keys());
    }
    table(keys)
}

/// The keys for when a failed call of an action is retried.
fn retry_keys() -> [Key; 2] {
    let retries = "How often it is tried again after a transient failure, a timeout or a host error; the count restarts with each resume.";
    [
        key(
            "retries",
            retries,
            with_default(whole(0..=MAX_RETRIES), Some(0.into())),
        ),
        key(
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
    let llm = table(vec![
        needed("models", models, some_texts()),
        key("calls", calls, whole(1..=u32::MAX.into())),
    ]);
    let http = json!({ "type": "array", "items": http() });
    let dirs = json!({ "type": "array", "items": dir() });
    table(vec![
        key("llm", "Language models.", llm),
        key("http", "Hosts on the network.", http),
        key("dirs", "Directories.", dirs),
        key(
            "env",
            "Environment variables that may be read.",
            variables(),
        ),
        key(
            "secrets",
            "Secrets that may be named without being sent anywhere.",
            variables(),
        ),
    ])
}

fn http() -> Value {
    let host = "`api.example.com`, `*.example.com` for the names below it, `*` for all public names; with `:PORT` where \
                that is not the scheme's own. Private addresses are granted literally.";
    let headers = "Request headers that may be set although servers may take a request for another one because of them: \
                   `x-http-method-override`, `x-original-url`, `x-forwarded-for` and their like. Others need no grant.";
    let header = json!({ "type": "string", "pattern": "^[0-9A-Za-z!#$%&'*+.^_`|~-]+$" });
    let method = json!({ "type": "string", "pattern": "^[A-Z]+$" });
    let methods = json!({ "type": "array", "items": method, "minItems": 1, "uniqueItems": true, "default": READS });
    let paths = json!({ "type": "string", "pattern": "^/", "default": ANY_PATH });
    table(vec![
        needed("host", host, json!({ "type": "string", "minLength": 1 })),
        key("methods", "Methods.", methods),
        key(
            "path",
            "Paths; `*` stands for any run of characters.",
            paths,
        ),
        key(
            "secrets",
            "Secrets (environment variables of the host's) that may be sent there.",
            variables(),
        ),
        key(
            "headers",
            headers,
            json!({ "type": "array", "items": header, "uniqueItems": true }),
        ),
    ])
}

fn dir() -> Value {
    let guest = json!({ "type": "string", "pattern": "^/" });
    table(vec![
        needed("host", "The directory, relative to this file.", path()),
        needed("guest", "What the component calls it: `/out`.", guest),
        key(
            "write",
            "Whether it may be written. It is made if it is missing.",
            flag(false),
        ),
        key(
            "max_size",
            "How large each role may make it in a step, where it may be written.",
            size(None, 0),
        ),
    ])
}
