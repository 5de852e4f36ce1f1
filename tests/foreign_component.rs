//! A component that was not made for this host, in a team: built from source, described, checked,
//! run, broken, locked, killed and replayed. The conversion of its types to JSON is tested with the
//! sandbox.

use std::fs;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::process::Ended;
use crate::stream;
use crate::workspace::Workspace;

/// The component with the text functions, built once for all tests.
static TEXT_TOOLS: LazyLock<std::path::PathBuf> =
    LazyLock::new(|| crate::probe::build("plugins/text-tools"));

/// A team of one role: a function that takes the idea, the probe, and a function that takes its
/// config.
const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "t"
idea = "To be, or not to be? That is it."
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Measure"
component = "text.wasm"
function = "measure"
[[role.action]]
name = "Wait"
component = "probe.wasm"
config = { steps = [WAIT] }
[[role.action]]
name = "Name"
component = "text.wasm"
function = "slug"
config = { args = { text = "TITLE" } }
"#;

fn place(wait: &str, title: &str) -> Workspace {
    let place = Workspace::with(&team(wait, title));
    fs::copy(&*TEXT_TOOLS, place.path("text.wasm")).unwrap();
    place
}

fn team(wait: &str, title: &str) -> String {
    TEAM.replace("WAIT", wait).replace("TITLE", title)
}

/// Returns the outputs of the actions, with their names.
fn outputs(ended: &Ended) -> Vec<(String, Value)> {
    let lines = ended.events();
    let finished = stream::of_kind(&lines, "action-finished");
    finished
        .iter()
        .map(|line| {
            (
                stream::text(&line["action"]).to_owned(),
                line["output"]["data"].clone(),
            )
        })
        .collect()
}

fn measured() -> (String, Value) {
    (
        "Measure".to_owned(),
        json!({ "words": 9, "sentences": 2, "longest": "That" }),
    )
}

#[test]
fn its_functions_are_described_checked_and_run() {
    let place = place("", "To be, or not?");
    let described: Value =
        serde_json::from_str(&place.host(&["describe", "text.wasm"]).expect(0).stdout).unwrap();
    let told = described.to_string();
    for part in ["measure", "slug", "headed", "sentences"] {
        assert!(told.contains(part), "`{part}`: {told}");
    }
    let checked = place.host(&["check", "team.toml"]).expect(0);
    assert!(checked.stdout.contains("slug"), "{}", checked.stdout);
    let ended = place.run().expect(0);
    let name = ("Name".to_owned(), json!("to-be-or-not"));
    assert_eq!(
        outputs(&ended),
        [measured(), ("Wait".to_owned(), Value::Null), name]
    );
    assert_eq!(place.team_json()["strata"]["status"], "done");
}

#[test]
fn an_unknown_function_is_rejected_with_its_position() {
    let cases = [
        (
            "function = \"measure\"",
            "function = \"mesure\"",
            "no function `mesure`; it has `headed`, `measure`, `slug`",
        ),
        (
            "function = \"measure\"\n",
            "",
            "`function = \"…\"` beside `component` calls one of its functions",
        ),
        ("text = \"x\"", "txt = \"x\"", "`txt`"),
    ];
    for (old, new, expected) in cases {
        let place = place("", "x");
        place.write("team.toml", team("", "x").replacen(old, new, 1));
        let refused = place.host(&["check", "team.toml"]).expect(2);
        assert!(
            refused.stderr.contains(expected),
            "`{expected}`: {}",
            refused.stderr
        );
        assert!(
            refused.stderr.contains("--> team.toml:"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn its_error_is_a_fault_and_earlier_results_are_kept() {
    let place = place("", "!?");
    let failed = place.run().expect(3);
    let told = "fault: A action 2 `Name` attempt 1: error: making a name of `!?`: it has neither letters nor digits";
    assert!(failed.stderr.contains(told), "{}", failed.stderr);
    place.write("team.toml", team("", "mended"));
    let resumed = place
        .host(&[
            "run",
            "team.toml",
            "--recover_path",
            "store",
            "--events",
            "-",
        ])
        .expect(0);
    assert_eq!(outputs(&resumed), [("Name".to_owned(), json!("mended"))]);
}

#[test]
fn it_is_locked_like_any_other() {
    let place = place("", "x");
    place.host(&["lock", "team.toml"]).expect(0);
    place.host(&["check", "team.toml"]).expect(0);
    let mut changed = place.read("text.wasm");
    // With an additional custom section it does the same, but is another component.
    changed.extend([0, 2, 1, b'x']);
    place.write("text.wasm", changed);
    let refused = place.host(&["run", "team.toml"]).expect(2);
    assert!(
        refused
            .stderr
            .contains("the component `text.wasm` has the sha256"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_killed_run_continues_and_can_be_replayed() {
    let place = place("{ sleep = \"90s\", attempts = [1] }", "The end");
    let mut process = place.start_run(&[]);
    while process.until("action-started", Some("A"))["action"] != "Wait" {}
    process.signal(crate::process::Signal::KILL);
    process.end();
    let resumed = outputs(&place.resume().expect(0));
    assert_eq!(
        resumed,
        [
            ("Wait".to_owned(), Value::Null),
            ("Name".to_owned(), json!("the-end"))
        ]
    );
    let recorded = place.recorded();
    assert_eq!(
        stream::actions(&recorded, "action-finished"),
        ["A.Measure", "A.Wait", "A.Name"]
    );
    let again = place.host(&["replay", "store", "--verify"]).expect(0);
    assert!(!again.stderr.contains("differ"), "{}", again.stderr);
}

/// A function that returns the number of its environment variables.
const VARIABLES: &str = r#"(component
    (import "wasi:cli/environment@0.2.0" (instance $cli
        (export "get-environment" (func (result (list (tuple string string)))))))
    (core module $memory
        (memory (export "memory") 4)
        (global $next (mut i32) (i32.const 1024))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
            global.get $next
            (global.set $next (i32.add (global.get $next) (i32.and (i32.add (local.get 3) (i32.const 7)) (i32.const -8))))))
    (core instance $memory (instantiate $memory))
    (core func $get (canon lower (func $cli "get-environment")
        (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
    (core module $count
        (import "cli" "get" (func $get (param i32)))
        (import "memory" "memory" (memory 1))
        (func (export "variables") (result i32)
            (call $get (i32.const 8))
            (i32.load (i32.const 12))))
    (core instance $cli-exports (export "get" (func $get)))
    (core instance $count (instantiate $count
        (with "cli" (instance $cli-exports)) (with "memory" (instance $memory))))
    (func (export "variables") (result u32) (canon lift (core func $count "variables"))))"#;

#[test]
fn a_component_that_imports_wasi_gets_what_is_granted() {
    let team = |grant: &str| {
        format!(
            "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[[role]]\nname = \"A\"\n\
             watch = [\"UserRequirement\"]\n[[role.action]]\nname = \"Count\"\ncomponent = \"count.wasm\"\n\
             function = \"variables\"\n{grant}"
        )
    };
    let cases = [("", 0), ("[role.action.allow]\nenv = [\"HOME\"]\n", 1)];
    for (grant, expected) in cases {
        let place = Workspace::with(&team(grant));
        place.write("count.wasm", wat::parse_str(VARIABLES).unwrap());
        assert_eq!(
            outputs(&place.run().expect(0)),
            [("Count".to_owned(), json!(expected))],
            "{grant}"
        );
    }
}
