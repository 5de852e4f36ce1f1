//! Vectors for texts: what they cost, that they are paid for once, and who has none.

use serde_json::json;

use crate::stream;
use crate::workspace::Workspace;

/// An action that asks for vectors and then does `rest`.
fn team(llm: &str, rest: &str) -> Workspace {
    let place = Workspace::with(&format!(
        r#"schema = "strata.team/1"
[team]
name = "vectors"
idea = "go"
investment = 10.0
[llm]
{llm}
price = {{ input = 1_000_000.0, output = 0.0 }}
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Embed"
component = "probe.wasm"
config = {{ steps = [{{ embed = ["word", "word"], dimensions = 2 }}, {rest}] }}
[role.action.allow]
llm = {{ models = ["*"], calls = 1 }}
"#
    ));
    place.write("replies.toml", "[[reply]]\ntext = \"x\"\n");
    place
}

const SCRIPTED: &str = "provider = \"scripted\"\nreplies = \"replies.toml\"";

#[test]
fn vectors_are_recorded_and_paid_once() {
    let place = team(SCRIPTED, r#"{ ask = "fine?" }, { say = "{reads}" }"#);
    place.run().expect(4);
    let answer = [
        "run",
        "--recover_path",
        "store",
        "--events",
        "-",
        "--answer",
        "ask-0-0-0-0=1",
    ];
    let ended = place.host(&answer).expect(0);
    let recorded = place.recorded();
    let calls = stream::of_kind(&recorded, "host-call");
    let of_models: Vec<_> = calls.iter().filter(|call| call["call"] == "llm").collect();
    assert_eq!(of_models.len(), 2, "{calls:?}");
    assert_eq!(
        (&of_models[0]["source"], &of_models[1]["source"]),
        (&json!("live"), &json!("recorded"))
    );
    assert_eq!(of_models[0]["tokens"]["input"], 2);
    let team = place.team_json();
    assert_eq!(team["strata"]["budget"]["total"], 2.0);
    let output =
        stream::of_kind(&ended.events(), "action-finished")[0]["output"]["content"].clone();
    let output = output.as_str().unwrap().to_owned();
    let vectors: Vec<Vec<f32>> =
        serde_json::from_str(output.trim_end_matches(",1")).expect("vectors");
    assert!(vectors.len() == 2 && vectors[0] == vectors[1] && vectors[0].len() == 2);
    let shown = place
        .host(&["inspect", "store", "--calls"])
        .expect(0)
        .stdout;
    assert!(shown.contains("2 vectors"), "{shown}");
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn calls_for_vectors_count_as_calls_of_models() {
    let place = team(SCRIPTED, r#"{ embed = ["more"] }, { say = "{reads}" }"#);
    let ended = place.run().expect(3);
    assert!(ended.stderr.contains(": denied: "), "{}", ended.stderr);
}

#[test]
fn a_provider_without_vectors_is_named() {
    let place = team(
        "provider = \"anthropic\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1\"",
        "{ say = \"{reads}\" }",
    );
    let ended = place.run().expect(3);
    let reason = "the provider `anthropic` has no embeddings";
    assert!(ended.stderr.contains(reason), "{}", ended.stderr);
}
