//! One team for the probes of all languages: what is told of it must not depend on the language.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::place::Place;
use crate::stream;

/// What is the same for the same team, whatever the probe is written in.
fn told(lines: &[Value]) -> Vec<Value> {
    let same = [
        "kind", "role", "index", "action", "attempt", "step", "fault", "from", "to", "cause_by", "call", "output",
        "status",
    ];
    let strip = |line: &Value| {
        let fields = line.as_object().unwrap().iter().filter(|(key, _)| same.contains(&key.as_str()));
        Value::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    lines.iter().map(strip).collect()
}

/// Runs a team that does and suffers what a probe can, with this probe and with the one in Rust.
#[track_caller]
pub fn assert_told_like_rust(probe: &Path) {
    let team = r#"schema = "strata.team/1"
[team]
name = "two"
idea = "go"
on_fault = "park"
[run]
max_parallel = 1
[env.scope.tracking]
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "react"
max_react_loop = 3
think = { component = "probe.wasm", config = { steps = [{ choose = [1, 0, -1] }] } }
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ llm = "hello" }, { count = true }, { set = "k", value = { a = [1] } }, { get = "k" }, { emit = "aside", cause = "Aside" }, { say = "{inputs}: {reads}", data = { x = 1 } }] }
[role.action.allow]
llm = { models = ["*"] }
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ set = "k", value = 1, scope = "tracking" }, { delete = "none" }] }
[[role]]
name = "B"
watch = ["UserRequirement"]
react = "plan_and_act"
[[role.action]]
name = "Plan"
component = "probe.wasm"
config = { steps = [{ plan = ["t1", { text = "t2", action = "Work" }] }] }
[[role.action]]
name = "Work"
component = "probe.wasm"
FAILING"#;
    let failing = [
        ("trap", ""),
        ("error", ""),
        ("spin", "cpu = \"300ms\""),
        ("alloc", "memory = \"96MiB\""),
        ("big-output", "memory = \"128MiB\""),
        ("flood-calls", "host_calls = 50"),
        ("flood-log", "log = \"4KiB\""),
    ];
    let roles = failing.map(|(fail, limits)| {
        format!(
            "[[role]]\nname = \"{fail}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"Fails\"\n\
             component = \"probe.wasm\"\nconfig = {{ steps = [{{ fail = \"{fail}\" }}] }}\n[role.action.limits]\n{limits}\n"
        )
    });
    let team = team.replace("FAILING", &roles.concat());
    let run = |component: &Path| {
        let place = Place::with(&team);
        fs::copy(component, place.path("probe.wasm")).unwrap();
        place.write("replies.toml", "[[reply]]\ntext = \"hi\"\n");
        // Compiling an interpreter takes longer than a run is waited for.
        assert!(place.command(&["check", "team.toml"]).output().unwrap().status.success());
        let ended = place.run().expect(3);
        told(&stream::parse(&ended.stdout))
    };
    assert_eq!(run(probe), run(crate::probe::component()));
}
