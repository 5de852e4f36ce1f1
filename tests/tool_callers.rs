//! The interface `tools` in every language: an action in each makes the calls of one list and is told the same. The
//! actions are in `fixtures/tool-callers`.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::probe::project;
use crate::stream::{self, of_kind};
use crate::workspace::Workspace;

const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "callers"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "tools"
[[role.action]]
name = "echo"
component = "probe.wasm"
description = "Returns its arguments."
config = { steps = [{ say = "{arguments}" }] }
[[role.action]]
name = "known"
component = "probe.wasm"
config = { steps = [{ say = "", data = { list = [1, 2.5, true], text = "€ 𝄞", large = 9007199254740991 } }] }
[[role.action]]
name = "broken"
component = "probe.wasm"
config = { steps = [{ fail = "error" }] }
[[role.action]]
name = "strict"
component = "probe.wasm"
input_schema = "strict.json"
[[role.action]]
name = "hidden"
component = "probe.wasm"
CALLER
"#;

const GRANT: &str = "tools = [\"echo\", \"known\", \"broken\", \"strict\"]";
const STRICT: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

/// The calls that are made, and what the code is told: a value, or the kind of an error and a part of its message.
static CASES: LazyLock<Vec<(Value, Result<Value, (&str, &str)>)>> = LazyLock::new(|| {
    let any = json!({ "type": "object" });
    let tool = |name: &str, description: &str, schema: &Value| json!({ "name": name, "description": description, "schema": schema });
    let probe = "Does what its config's steps say, for trying teams, limits and recovery without writing code";
    let strict: Value = serde_json::from_str(STRICT).expect("a schema");
    let many: Vec<Value> = (0..65).map(|n| json!(["echo", { "n": n }])).collect();
    vec![
        (
            json!(["list"]),
            Ok(json!([
                tool("echo", "Returns its arguments.", &any),
                tool("known", probe, &any),
                tool("broken", probe, &any),
                tool("strict", probe, &strict)
            ])),
        ),
        (
            json!(["call", "echo", { "b": "\u{e9}\"\\\n", "a": [1, false] }]),
            Ok(json!(r#"{"a":[1,false],"b":"é\"\\\n"}"#)),
        ),
        (json!(["call", "echo"]), Ok(json!("{}"))),
        (
            json!(["call", "known", {}]),
            Ok(json!({ "list": [1, 2.5, true], "text": "€ 𝄞", "large": 9007199254740991_i64 })),
        ),
        (json!(["call", "broken", {}]), Err(("failed", "error"))),
        (
            json!(["call", "strict", { "n": "one" }]),
            Err(("failed", "rejected")),
        ),
        (
            json!(["call", "strict", { "n": 1 }]),
            Ok(json!("strict ok")),
        ),
        (
            json!(["call", "hidden", {}]),
            Err(("denied", "`hidden` is not granted")),
        ),
        (
            json!(["call", "nosuch", {}]),
            Err(("denied", "there is no tool `nosuch`; there are `echo`, ")),
        ),
        (json!(["many", []]), Ok(json!([]))),
        (
            json!(["many", [["echo", { "n": 1 }], ["known", {}], ["echo", { "n": 1 }]]]),
            Ok(json!([
                r#"{"n":1}"#,
                { "list": [1, 2.5, true], "text": "€ 𝄞", "large": 9007199254740991_i64 },
                r#"{"n":1}"#
            ])),
        ),
        (
            json!(["many", [["echo", {}], ["hidden", {}], ["broken", {}]]]),
            Err(("denied", "`hidden` is not granted")),
        ),
        (json!(["many", many]), Err(("invalid", "65 tools"))),
    ]
});

/// Returns the calls that are made.
fn calls() -> Value {
    CASES.iter().map(|(made, _)| made.clone()).collect()
}

/// Runs a team with this action, which makes the calls, and fails unless it is told what is expected.
#[track_caller]
fn check(place: &Workspace, caller: &str, name: &str, arguments: &str) {
    let caller = caller.replace("GRANT", GRANT);
    place.write("team.toml", TEAM.replace("CALLER", &caller));
    place.write("strict.json", STRICT);
    place.write(
        "replies.toml",
        format!(
            "[[reply]]\nturn = 0\ntool_calls = [{{ name = \"{name}\", arguments = {arguments} }}]\n\
             [[reply]]\nturn = 1\ntext = \"done\"\n"
        ),
    );
    // Setting up tools and compiling interpreters takes longer than the time limit of a run.
    let checked = place
        .command(&["check", "team.toml"])
        .output()
        .expect("it runs");
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    let lines = place.run().expect(0).events();
    let finished = of_kind(&lines, "action-finished");
    let ended = finished.iter().find(|line| line["action"] == name);
    let results = &ended.expect("it ends")["output"]["data"]["results"];
    let results = results.as_array().expect("a list of results");
    assert_eq!(results.len(), CASES.len());
    for ((made, expected), told) in CASES.iter().zip(results) {
        match expected {
            Ok(value) => assert_eq!(told, value, "{made}"),
            Err((kind, part)) => {
                assert_eq!(told["error"], *kind, "{made}: {told}");
                let message = stream::text(&told["message"]);
                assert!(message.contains(part), "{made}: {message}");
            }
        }
    }
    let nested = finished
        .iter()
        .filter(|line| !line["nested"].is_null())
        .count();
    assert_eq!(
        nested, 8,
        "every call that was made is an attempt of its own"
    );
    place.host(&["replay", "store", "--verify"]).expect(0);
}

/// Returns the table of the action whose component is `named`, and which is configured with the calls.
fn action(named: &str) -> String {
    format!(
        "[[role.action]]\nname = \"caller\"\n{named}\nconfig = {{ calls = {} }}\n[role.action.allow]\nGRANT\n",
        toml_of(&calls())
    )
}

/// Writes a value as TOML, which has no null.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(toml_of).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("\"{key}\" = {}", toml_of(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/tool-callers")
        .join(name)
}

/// Copies the files of a fixture into a directory `caller`.
fn copy(place: &Workspace, language: &str, files: &[&str]) {
    for file in files {
        let text = fs::read_to_string(fixture(language).join(file)).expect("a file of the fixture");
        let sdk = project().join("guest-sdk/rust");
        place.write(
            &format!("caller/{file}"),
            text.replace("SDK", sdk.to_str().expect("a path")),
        );
    }
}

#[track_caller]
fn check_directory(language: &str, files: &[&str]) {
    let place = Workspace::empty();
    copy(&place, language, files);
    check(&place, &action("component = \"caller\""), "caller", "{}");
}

#[test]
fn an_action_in_rust_calls_tools() {
    check_directory("rust", &["Cargo.toml", "src/lib.rs"]);
}

#[test]
fn an_action_in_c_calls_tools() {
    check_directory("c", &["action.c"]);
}

#[test]
fn an_action_in_python_calls_tools() {
    check_directory("python", &["pyproject.toml", "action.py"]);
}

#[test]
fn an_action_in_javascript_calls_tools() {
    check_directory("js", &["package.json", "src/action.js"]);
}

#[track_caller]
fn check_built(language: &str, files: &[&str]) {
    let place = Workspace::empty();
    copy(&place, language, files);
    let built = place
        .command(&["build", "caller"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(built.status.success(), "{said}");
    let component = String::from_utf8(built.stdout).expect("a path");
    let named = format!("component = \"{}\"", component.trim());
    check(&place, &action(&named), "caller", "{}");
}

#[test]
fn a_component_of_python_calls_tools() {
    check_built("python", &["pyproject.toml", "action.py"]);
}

#[test]
fn a_component_of_javascript_calls_tools() {
    check_built("js", &["package.json", "src/action.js"]);
}

#[track_caller]
fn check_script(file: &str) {
    let place = Workspace::empty();
    let text = fs::read_to_string(fixture(file)).expect("a script of the fixture");
    place.write(file, text);
    check(
        &place,
        &action(&format!("script = \"{file}\"")),
        "caller",
        "{}",
    );
}

#[test]
fn a_script_in_python_calls_tools() {
    check_script("script.py");
}

#[test]
fn a_script_in_javascript_calls_tools() {
    check_script("script.js");
}

/// Checks code that a model writes: the script, with the calls in place of the config, which it does not have.
#[track_caller]
fn check_code(code: &str, file: &str, from: &str, read: &str) {
    let place = Workspace::empty();
    let text = json!(calls().to_string()).to_string();
    let script = fs::read_to_string(fixture(file)).expect("a script of the fixture");
    assert!(script.contains(from));
    let script = script.replace(from, &read.replace("TEXT", &text));
    let tool = format!("[[role.tool]]\ncode = \"{code}\"\nGRANT\n");
    let arguments = format!("{{ code = {} }}", json!(script));
    check(&place, &tool, "run_code", &arguments);
}

#[test]
fn code_in_python_calls_tools() {
    check_code(
        "python",
        "script.py",
        "cx.config[\"calls\"]",
        "__import__(\"json\").loads(TEXT)",
    );
}

#[test]
fn code_in_javascript_calls_tools() {
    check_code("js", "script.js", "cx.config.calls", "JSON.parse(TEXT)");
}
