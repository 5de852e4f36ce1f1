//! Teams that are run with the probes of all languages. The events, also after interruptions and
//! kills, must not depend on the language.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::process::Signal;
use crate::stream;
use crate::workspace::Workspace;

/// Returns the fields of events that must not depend on the language of the probe.
fn told(lines: &[Value]) -> Vec<Value> {
    let same = [
        "kind", "role", "index", "action", "attempt", "step", "fault", "from", "to", "cause_by",
        "call", "output", "status",
    ];
    let strip = |line: &Value| {
        let fields = line
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, _)| same.contains(&key.as_str()));
        Value::Object(
            fields
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        )
    };
    lines.iter().map(strip).collect()
}

/// Fails unless all teams produce the same events with this probe as with the one in Rust.
#[track_caller]
pub fn assert_same_events_as_rust(probe: &Path) {
    let rust = crate::probe::component();
    assert_eq!(
        events_of_all_functions(probe),
        events_of_all_functions(rust)
    );
    for end in [Signal::INT, Signal::TERM, Signal::KILL] {
        assert_eq!(
            events_when_interrupted(probe, end),
            events_when_interrupted(rust, end),
            "{end:?}"
        );
    }
}

/// Creates a directory with a team and this probe, whose component is already compiled. If the probe is a
/// directory with its source, the team names the directory.
fn place(team: &str, probe: &Path) -> Workspace {
    let named = if probe.is_dir() {
        probe.to_str().unwrap()
    } else {
        "probe.wasm"
    };
    let place = Workspace::with(&team.replace("probe.wasm", named));
    if probe.is_file() {
        fs::copy(probe, place.path("probe.wasm")).unwrap();
    }
    place.write("replies.toml", "[[reply]]\ntext = \"hi\"\n");
    // Compiling an interpreter takes longer than the time limit of a run.
    let checked = place.command(&["check", "team.toml"]).output().unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    place
}

/// Returns the exit code and the events of a run that a signal ends while an action waits, and the
/// events of its resume.
fn events_when_interrupted(probe: &Path, end: Signal) -> (Option<i32>, Vec<Value>, Vec<Value>) {
    let team = r#"schema = "strata.team/1"
[team]
name = "waits"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ count = true }, { set = "k", value = [1] }, { emit = "aside", cause = "Aside" }] }
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ get = "k" }, { set = "k", value = 2 }, { emit = "lost or once", cause = "Aside" }, { sleep = "90s", attempts = [1] }, { say = "{inputs}: {reads}" }] }
[[role]]
name = "B"
watch = ["Aside", "Two"]
[[role.action]]
name = "Hears"
component = "probe.wasm"
config = { steps = [{ say = "{inputs}" }] }
"#;
    let place = place(team, probe);
    let mut process = place.start_run(&[]);
    while process.until("action-started", Some("A"))["action"] != "Two" {}
    process.signal(end);
    let code = process.end().code;
    let recorded = told(&place.recorded());
    (
        code,
        recorded,
        told(&stream::parse(&place.resume().expect(0).stdout)),
    )
}

/// Returns the events of a team that uses all functions of the probe and all its faults.
fn events_of_all_functions(probe: &Path) -> Vec<Value> {
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
    let place = place(&team.replace("FAILING", &roles.concat()), probe);
    told(&stream::parse(&place.run().expect(3).stdout))
}
