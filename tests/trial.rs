//! `try`: one action without a team. What it returns, what it may touch, how it fails, and that nothing is left of it.

use std::fs;

use serde_json::{Value, json};

use crate::probe::build;
use crate::process::Ended;
use crate::workspace::Workspace;

/// Tries the probe with these steps.
fn probe(place: &Workspace, steps: Value, options: &[&str]) -> Ended {
    let config = json!({ "steps": steps }).to_string();
    let args = ["try", "probe.wasm", "hello", "--config", &config];
    place.host(&[&args[..], options].concat())
}

#[track_caller]
fn said(ended: Ended, code: i32, parts: &[&str]) {
    let ended = ended.expect(code);
    for part in parts {
        assert!(ended.stderr.contains(part), "`{part}` in {}", ended.stderr);
    }
}

#[test]
fn the_output_is_printed_and_nothing_is_saved() {
    let place = Workspace::empty();
    let ended = probe(&place, json!([{ "say": "{inputs}!" }]), &[]).expect(0);
    assert_eq!((&*ended.stdout, &*ended.stderr), ("hello!\n", ""));
    let data = probe(&place, json!([{ "say": "", "data": { "a": 1 } }]), &[]).expect(0);
    assert_eq!(data.stdout, "{\n  \"a\": 1\n}\n");
    let left: Vec<_> = fs::read_dir(place.path("")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn an_action_is_called_as_a_tool_with_arguments() {
    let place = Workspace::empty();
    let arguments = ["--arguments", r#"{ "b": 1, "a": [true] }"#];
    let ended = probe(&place, json!([{ "say": "{arguments}" }]), &arguments).expect(0);
    assert_eq!(ended.stdout, "{\"a\":[true],\"b\":1}\n");
    let failed = probe(&place, json!([{ "fail": "trap" }]), &arguments).expect(3);
    assert!(
        failed.stderr.contains("the arguments:") && !failed.stderr.contains("turn"),
        "{}",
        failed.stderr
    );
    for (arguments, reason) in [
        ("[1]", "the value of `--arguments` is no JSON object"),
        ("{", "the value of `--arguments` is"),
    ] {
        let refused = probe(&place, json!([]), &["--arguments", arguments]);
        said(refused, 2, &[reason]);
    }
}

#[test]
fn arguments_have_to_match_the_schema_of_the_component() {
    let place = Workspace::empty();
    fs::copy(build("plugins/calculate"), place.path("calculate.wasm")).unwrap();
    let calculate = |arguments: &str| {
        place.host(&["try", "calculate.wasm", "--json", "--arguments", arguments])
    };
    let result: Value =
        serde_json::from_str(&calculate(r#"{"expression": "6 * 7"}"#).expect(0).stdout).unwrap();
    assert_eq!(result["status"], "done");
    assert_eq!(result["output"]["content"], "42");
    said(
        calculate(r#"{"expression": 6}"#),
        2,
        &["does not match the component's schema", "expression"],
    );
}

#[test]
fn what_is_granted_and_limited_is_spelled_as_in_a_team_file() {
    let place = Workspace::empty();
    let get = json!([{ "getenv": "LANG" }, { "say": "got it" }]);
    said(
        probe(&place, get.clone(), &[]),
        3,
        &[
            "fault: Try action 0 `probe` attempt 1: denied",
            "--allow 'env = …'",
        ],
    );
    let granted = probe(&place, get, &["--allow", "env = [\"LANG\"]"]).expect(0);
    assert_eq!(granted.stdout, "got it\n");
    let write = json!([{ "write": "/out/a", "text": "x" }]);
    let dirs = "dirs = [{ host = \"out\", guest = \"/out\", write = true }]";
    probe(&place, write, &["--allow", dirs]).expect(0);
    assert_eq!(place.read("out/a"), b"x");
    let spin = json!([{ "fail": "spin" }]);
    said(
        probe(&place, spin, &["--limit", "cpu = \"50ms\""]),
        3,
        &[": cpu: "],
    );
}

#[test]
fn a_wrong_option_is_an_error_with_its_text_and_a_hint() {
    let place = Workspace::empty();
    let wrong = |option: &str, value: &str| probe(&place, json!([]), &[option, value]);
    said(
        wrong("--allow", "htp = []"),
        2,
        &["arguments of `try`", "htp = []", "did you mean `http`?"],
    );
    said(
        wrong("--limit", "cpu = \"1 parsec\""),
        2,
        &["cpu = \"1 parsec\""],
    );
    said(wrong("--llm", "provider = \"nobody\""), 2, &["nobody"]);
    said(
        wrong("--allow", "[run]"),
        2,
        &["`--allow` takes one `KEY = VALUE`"],
    );
    said(
        place.host(&["try", "absent.wasm"]),
        2,
        &["cannot find the component", "component = \"absent.wasm\""],
    );
    said(
        place.host(&["try", "probe.wasm", "--config", "{"]),
        2,
        &["the value of `--config` is"],
    );
}

#[test]
fn a_model_is_asked_and_a_person_is_not() {
    let place = Workspace::empty();
    place.write(
        "replies.toml",
        "[[reply]]\ntext = \"a reply\"\ninput = 1_000_000\n",
    );
    let llm = [
        "--llm",
        "provider = \"scripted\"",
        "--llm",
        "replies = \"replies.toml\"",
        "--llm",
        "price = { input = 2.0, output = 0.0 }",
        "--allow",
        "llm = { models = [\"*\"] }",
    ];
    let steps = json!([
        { "llm": "anything" }, { "emit": "more", "to": ["<self>"] }, { "set": "k", "value": 7 }, { "say": "{reads}" }
    ]);
    let ended = probe(&place, steps, &[&llm[..], &["--json"]].concat()).expect(0);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["output"]["content"], "a reply");
    assert_eq!(result["emissions"][0]["content"], "more");
    assert_eq!(
        (&result["state"], &result["spent"]),
        (&json!({ "k": 7 }), &json!(2.0))
    );

    let ask = json!([{ "ask": "how many?" }]);
    said(
        probe(&place, ask, &[]),
        4,
        &["nobody who answers", "how many?"],
    );
}

#[test]
fn a_policy_applies() {
    let place = Workspace::empty();
    place.write("policy.toml", "schema = \"strata.policy/1\"\n[allow]\n");
    let options = ["--policy", "policy.toml", "--allow", "env = [\"LANG\"]"];
    let ended = probe(&place, json!([{ "getenv": "LANG" }]), &options);
    said(ended, 3, &["its operator does not allow it"]);
}
