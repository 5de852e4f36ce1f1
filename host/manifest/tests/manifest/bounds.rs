//! Tests that an operator's bound holds in every place of a team where the same effect can be reached.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use strata_core::record::money::Usd;
use strata_core::team::{LoweredLimits, React};
use strata_manifest::operator::OperatorPolicy;
use strata_manifest::schema::{self, FileKind};
use strata_manifest::{Definition, Diagnostics};
use strata_services::models::config::{Endpoint, ProviderConfig};
use strata_services::plugin::{Limit, Limits};

/// The keys of a team file that `[limits]` of a policy bounds in all tables, by table.
const BOUNDED: [(&str, &[&str]); 10] = [
    ("action.limits", &CALL_LIMITS),
    ("guard.limits", &CALL_LIMITS),
    ("limits", &CALL_LIMITS),
    ("llm", &["retries", "timeout"]),
    ("role", &["max_calls", "max_react_loop", "max_turns"]),
    ("role-tool.limits", &CALL_LIMITS),
    ("run", &["max_parallel", "max_steps", "state"]),
    ("summarise.limits", &CALL_LIMITS),
    ("think.limits", &CALL_LIMITS),
    ("turn-limits", &["retries", "timeout"]),
];

/// The limits of a call. Those in `WITHOUT_RETRIES` have no `retries`.
const CALL_LIMITS: [&str; 13] = [
    "compile",
    "component",
    "cpu",
    "fuel",
    "host_bytes",
    "host_calls",
    "log",
    "memory",
    "output",
    "result",
    "retries",
    "table_elements",
    "timeout",
];

/// Tables of limits of what is repeated with the call that it belongs to.
const WITHOUT_RETRIES: [&str; 3] = ["guard", "summarise", "think"];

/// Quantities that a team file may set freely, or that other tables of a policy bound: `[budget]`
/// bounds money and tokens, `[allow]` what is granted. Waiting takes nothing from others.
const FREE: [&str; 30] = [
    "action.approve.expires",
    "action.investment",
    "action.limits.backoff",
    "action.max_calls",
    "action.tokens",
    "allow.dirs.max_size",
    "allow.llm.calls",
    "limits.backoff",
    "llm.max_tokens",
    "llm.price.cache_read",
    "llm.price.cache_write",
    "llm.price.input",
    "llm.price.output",
    "llm.requests_per_minute",
    "mcp-server.max_timeout",
    "mcp-server.start",
    "mcp-server.timeout",
    "memory.keep",
    "memory.summarise_at",
    "memory.summary_tokens",
    "role-tool.approve.expires",
    "role-tool.limits.backoff",
    "role-tool.max_calls",
    "role.investment",
    "role.repeat",
    "role.tokens",
    "run.checkpoints",
    "team.investment",
    "team.tokens",
    "turn-limits.backoff",
];

/// Returns whether a value is a number, a size or a duration.
fn is_quantity(schema: &Value) -> bool {
    let kind = schema["type"].as_str().unwrap_or_default();
    let is_duration = schema["pattern"]
        .as_str()
        .is_some_and(|pattern| pattern.contains("ms|h|m|s"));
    let alternatives = schema["anyOf"].as_array();
    matches!(kind, "integer" | "number")
        || is_duration
        || alternatives.is_some_and(|list| list.iter().any(is_quantity))
}

/// Adds the quantities below a schema, by table and key.
fn add_quantities(schema: &Value, table: &str, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                if matches!(name.as_str(), "properties" | "$defs") {
                    for (key, value) in member.as_object().into_iter().flatten() {
                        let path = match table {
                            "" => key.clone(),
                            table => format!("{table}.{key}"),
                        };
                        if is_quantity(value) {
                            found.insert(path.clone());
                        }
                        add_quantities(value, &path, found);
                    }
                } else {
                    add_quantities(member, table, found);
                }
            }
        }
        Value::Array(list) => {
            for member in list {
                add_quantities(member, table, found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_quantity_of_a_team_file_is_bounded_by_a_policy_or_known_to_be_harmless() {
    let mut found = BTreeSet::new();
    add_quantities(&schema::document(FileKind::Team), "", &mut found);
    let mut expected: BTreeSet<String> = FREE.iter().map(ToString::to_string).collect();
    for (table, keys) in BOUNDED {
        expected.extend(keys.iter().map(|key| format!("{table}.{key}")));
    }
    for table in WITHOUT_RETRIES {
        expected.remove(&format!("{table}.limits.retries"));
    }
    assert_eq!(found, expected);
    let mut bounds = BTreeSet::new();
    add_quantities(
        &schema::document(FileKind::Policy)["properties"]["limits"],
        "",
        &mut bounds,
    );
    for (table, keys) in BOUNDED {
        for key in keys {
            assert!(bounds.contains(*key), "`{key}` of {table}");
        }
    }
}

/// A team that sets every limit to a large value.
fn lavish_team(dir: &std::path::Path) -> Definition {
    let limits = "{ memory = \"900MiB\", table_elements = 9000000, cpu = \"9h\", timeout = \"9h\", fuel = 900000000, \
                  output = \"900MiB\", result = \"900MiB\", log = \"900MiB\", host_calls = 900000, \
                  host_bytes = \"900MiB\", component = \"900MiB\", compile = \"9h\"";
    let text = format!(
        r#"schema = "strata.team/1"
        limits = {limits}, retries = 90 }}
        team = {{ name = "t" }}
        run = {{ max_parallel = 900, max_steps = 900, state = "9GiB" }}
        llm = {{ provider = "openai", model = "m", base_url = "http://127.0.0.1:1/v1", timeout = "9h", retries = 90 }}
        [model.other]
        provider = "gemini"
        model = "g"
        base_url = "http://127.0.0.1:2"
        timeout = "9h"
        retries = 90
        [[role]]
        name = "Worker"
        watch = ["UserRequirement"]
        react = "react"
        max_react_loop = 900
        think = {{ component = "think.wasm", limits = {limits} }} }}
        [[role.action]]
        name = "Act"
        component = "act.wasm"
        limits = {limits}, retries = 90 }}
        [[role]]
        name = "Chooser"
        react = "react"
        max_react_loop = 900
        [[role.action]]
        name = "One"
        component = "act.wasm"
        [[role.action]]
        name = "Two"
        component = "act.wasm"
        [[role]]
        name = "Clerk"
        react = "tools"
        max_turns = 900
        max_calls = 900
        before = {{ component = "guard.wasm", limits = {limits} }} }}
        memory = {{ summarise = {{ component = "summarise.wasm", limits = {limits} }} }} }}
        limits = {{ timeout = "9h", retries = 90 }}
        [[role.action]]
        name = "search"
        component = "act.wasm"
        [[role.tool]]
        role = "Helper"
        [[role]]
        name = "Coder"
        react = "tools"
        max_turns = 900
        [[role.tool]]
        code = "python"
        tools = ["find"]
        limits = {limits}, retries = 90 }}
        [[role.action]]
        name = "find"
        component = "act.wasm"
        [[role]]
        name = "Helper"
        react = "tools"
        [[role.action]]
        name = "help"
        component = "act.wasm"
        "#
    );
    Definition::parse_without_files(&text, "team.toml", dir).unwrap()
}

fn policy(dir: &std::path::Path, text: &str) -> Result<OperatorPolicy, Diagnostics> {
    let file = dir.join("policy.toml");
    fs::write(&file, format!("schema = \"strata.policy/1\"\n{text}")).unwrap();
    OperatorPolicy::read(&file)
}

#[test]
fn a_bound_holds_wherever_a_team_can_set_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut team = lavish_team(dir.path());
    let bound = "[limits]\nmemory = 7\ntable_elements = 7\ncpu = \"7ms\"\ntimeout = \"7ms\"\nfuel = 7\noutput = 7\n\
                 result = 7\nlog = 7\nhost_calls = 7\nhost_bytes = 7\ncomponent = 7\ncompile = \"7ms\"\nretries = 2\n\
                 max_react_loop = 3\nmax_turns = 4\nmax_calls = 5\nmax_steps = 6\nmax_parallel = 7\nrun_memory = 14\nstate = 9\n";
    let operator = policy(dir.path(), bound).unwrap();
    team.apply_policies(&[operator]).unwrap();
    for (slot, plugin) in &team.plugins {
        for limit in Limit::ALL {
            assert_eq!(plugin.limits.get(limit), Some(7), "{limit:?} of {slot:?}");
        }
    }
    let most = Duration::from_millis(7);
    for role in &team.team.roles {
        assert!(role.actions.iter().all(|action| action.retry.retries <= 2));
        match &role.react {
            React::Choose { max_loop, .. } => assert_eq!(*max_loop, 3),
            React::Tools(tools) => {
                assert!(
                    (tools.max_turns, tools.max_calls) == (4, 5),
                    "{}",
                    role.name
                );
                assert!(tools.retry.retries <= 2);
            }
            _ => panic!("{}", role.name),
        }
    }
    assert_eq!(team.tool_roles.len(), 3);
    for settings in team.tool_roles.values() {
        assert_eq!(settings.timeout.duration, most);
        let advice = settings.timeout.advice.as_deref().unwrap_or_default();
        assert!(advice.contains("policy.toml:6"), "{advice}");
    }
    let clerk = &team.tool_roles.values().next().unwrap();
    assert_eq!(clerk.role_result_bytes, 7);
    assert_eq!(team.choice_timeout.as_ref().unwrap().duration, most);
    for model in team.llm.as_ref().unwrap().models.values() {
        let ProviderConfig::Endpoint(Endpoint {
            timeout, retries, ..
        }) = &model.provider
        else {
            panic!("{model:?}");
        };
        assert_eq!((*timeout, *retries), (most, 2));
    }
    // Two actions with 7 bytes each fit into 14 bytes.
    let policy = &team.team.policy;
    assert_eq!((policy.max_parallel, policy.max_steps), (2, Some(6)));
    assert_eq!(policy.state_bytes, 9);
    // A fault that comes from a lowered limit names the policy.
    let LoweredLimits {
        state_bytes,
        max_steps,
        max_turns,
    } = &policy.lowered;
    assert_eq!(max_turns.len(), 3);
    let notes = [state_bytes, max_steps].into_iter().flatten();
    let notes: Vec<&String> = notes.chain(max_turns.values()).collect();
    assert_eq!(notes.len(), 5);
    for note in notes {
        assert!(note.starts_with("its operator allows no more, "), "{note}");
        assert!(note.contains("policy.toml:"), "{note}");
    }
    let told = team.describe_reductions().join("\n");
    for expected in [
        "`Worker.Act`: `limits.memory` is 7 B, not 900 MiB",
        "`limits.timeout` is 7 ms, not 9 h, for the model of `Clerk`",
        "`timeout` is 7 ms, not 9 h, for `[model.other]`",
        "`max_turns` is 4, not 900, for `Clerk`",
        "`retries` is 2, not 90, for `Worker.Act`",
        "`max_parallel` is 7, not 900 (",
        "may take 14 B together",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
}

#[test]
fn a_submitted_team_has_bounds_that_its_author_did_not_choose() {
    let dir = tempfile::tempdir().unwrap();
    let mut team = lavish_team(dir.path());
    team.apply_submission_bounds(&[]);
    for plugin in team.plugins.values() {
        for limit in Limit::ALL {
            let Some(default) = Limits::default().get(limit) else {
                continue;
            };
            assert_eq!(plugin.limits.get(limit), Some(4 * default), "{limit:?}");
        }
    }
    // Each action may take 256 MiB, and all together 1 GiB.
    assert_eq!(team.team.policy.max_parallel, 4);
    assert_eq!(team.team.policy.state_bytes, 128 << 20);
    let note = team.team.policy.lowered.state_bytes.as_deref();
    assert!(note.is_some_and(|note| note.contains("for submitted teams")));
    // What a policy bounds is up to the policy, whether it allows more or less.
    let mut team = lavish_team(dir.path());
    let operator = policy(
        dir.path(),
        "limits = { memory = \"800MiB\", cpu = \"1s\", run_memory = \"80GiB\" }",
    );
    let operators = [operator.unwrap()];
    team.apply_policies(&operators).unwrap();
    team.apply_submission_bounds(&operators);
    let limits = &team.plugins.values().next().unwrap().limits;
    assert_eq!(limits.memory_bytes, 800 << 20);
    assert_eq!(limits.cpu, Duration::from_secs(1));
    assert_eq!(limits.timeout, 4 * Limits::default().timeout);
    assert_eq!(team.team.policy.max_parallel, 32);
}

/// A team whose model is at an endpoint.
fn team_with_model(settings: &str) -> Definition {
    let text = format!(
        "schema = \"strata.team/1\"\nteam = {{ name = \"t\" }}\n[llm]\nprovider = \"openai\"\nmodel = \"cheap\"\n\
         base_url = \"http://127.0.0.1:1/v1\"\n{settings}\n[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
         [[role.action]]\nname = \"Act\"\ncomponent = \"act.wasm\"\n"
    );
    Definition::parse_without_files(&text, "team.toml", "/teams".as_ref()).unwrap()
}

#[test]
fn only_options_that_are_harmless_or_named_are_sent_under_a_policy() {
    let dir = tempfile::tempdir().unwrap();
    let settings = "options = { top_p = 0.9, Models = [\"big\"], models = [\"big\"], fallbacks = [\"big\"], n = 9, \
                    service_tier = \"flex\", provider = { order = [\"x\"] } }\nwithout = [\"model\", \"seed\"]";
    let left = |allow: &str| {
        let mut team = team_with_model(settings);
        let operator = policy(
            dir.path(),
            &allow.replace("ENDPOINTS", "endpoints = [{ host = \"127.0.0.1:1\" }]"),
        );
        team.apply_policies(&[operator.unwrap()]).unwrap();
        let told = team.describe_reductions();
        let settings = team.llm.unwrap().models["default"].settings.clone();
        let options: Vec<String> = settings.options.keys().cloned().collect();
        (options.join(" "), settings.without.join(" "), told)
    };
    let (options, without, told) = left("[allow.llm]\nmodels = [\"*\"]\nENDPOINTS");
    assert_eq!((&*options, &*without), ("top_p", "seed"));
    assert_eq!(told.len(), 7, "{told:?}");
    assert!(
        told[0].starts_with("policy: `Models` in `options` of `[llm]` is not allowed ("),
        "{told:?}"
    );
    let (options, _, _) =
        left("[allow.llm]\nmodels = [\"*\"]\noptions = [\"service_*\", \"n\"]\nENDPOINTS");
    assert_eq!(options, "n service_tier top_p");
    // A policy that does not say what may be granted leaves them as they are.
    let (options, without, _) = left("limits = { memory = \"1GiB\" }");
    assert_eq!((options.split(' ').count(), &*without), (7, "model seed"));
}

#[test]
fn a_price_in_a_policy_counts_and_that_of_a_team_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let priced = |settings: &str, text: &str| {
        let mut team = team_with_model(settings);
        team.apply_policies(&[policy(dir.path(), text).unwrap()])?;
        Ok::<_, Diagnostics>(team.llm.unwrap().models["default"].price)
    };
    let own = "price = { input = 0, output = 0.000001 }";
    let of_policy = "[allow.llm]\nmodels = [\"*\"]\nendpoints = [{ host = \"127.0.0.1:2\", price = { input = 9 } }, \
                     { host = \"127.0.0.1:1\" }, { host = \"127.0.0.1:1\", price = { input = 2, output = 8 } }]";
    for settings in [own, ""] {
        let price = priced(settings, of_policy).unwrap().unwrap();
        assert_eq!(price.input, Usd::from_dollars(2.0));
        assert_eq!(price.output, Some(Usd::from_dollars(8.0)));
    }
    let demand = "budget = { needs_prices = true }\n";
    assert!(priced(own, &format!("{demand}{of_policy}")).is_ok());
    let without = "[allow.llm]\nmodels = [\"*\"]\nendpoints = [{ host = \"127.0.0.1:1\" }]";
    assert!(
        priced(own, without).unwrap().is_some(),
        "nothing else is known"
    );
    for settings in [own, ""] {
        let error = priced(settings, &format!("{demand}{without}")).unwrap_err();
        let expected = "the endpoint of `[llm]` has no `price` in the policy";
        assert!(error.to_string().contains(expected), "{error}");
    }
    // Without `[allow]` the team is trusted, and its model is on this machine.
    assert!(priced(own, demand).is_ok());
}

#[test]
fn the_schema_of_quantities_is_recognised() {
    let memory = json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] });
    assert!(is_quantity(&memory));
    assert!(!is_quantity(&json!({ "type": "string" })));
}
