//! Replies of models that are truncated, refused, mixed with reasoning, or failures: what the
//! action receives, what the operator is shown, and that streamed replies give the same results.

use serde_json::{Value, json};

use crate::calls::{output, team, total};
use crate::stream;
use crate::web::Web;
use crate::workspace::Workspace;

/// Steps that call a model and output its reply.
const ASK: &str = r#"steps = [{ llm = "q" }, { say = "got: {reads}" }]"#;
/// The same steps, followed by a failure.
const ASK_AND_FAIL: &str = r#"steps = [{ llm = "q" }, { fail = "error" }]"#;

/// Returns a reply by its name.
pub fn reply(name: &str) -> Option<String> {
    let (content, finish) = match name {
        "truncated" => (json!("the first half"), "length"),
        "filtered" => (Value::Null, "content_filter"),
        "thinking" => (json!("<think>\nhm\n</think>\n\n42"), "stop"),
        "parts" => (
            json!([{ "type": "text", "text": "Hello " }, { "type": "text", "text": "parts" }]),
            "stop",
        ),
        "failed" => (json!("half a tho"), "error"),
        _ => return None,
    };
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 1000 });
    let message = json!({ "role": "assistant", "content": content });
    Some(
        json!({ "choices": [{ "message": message, "finish_reason": finish }], "usage": usage })
            .to_string(),
    )
}

/// Runs a team whose model gives this reply, first unstreamed and then streamed.
fn check_reply(name: &str, config: &str, code: i32, check: impl Fn(&Workspace, &str)) {
    for (how, flag) in [("whole", "--quiet"), ("streamed", "-v")] {
        let web = Web::new();
        let place = team(
            &web,
            &format!("document/{name}/{how}"),
            "probe.wasm",
            config,
        );
        let stderr = place
            .host(&["run", "team.toml", "--storage", "store", flag])
            .expect(code)
            .stderr;
        assert_eq!(total(&place), 2.0, "{name} {how}");
        check(&place, &stderr);
    }
}

fn finish(place: &Workspace) -> Value {
    let lines = place.recorded();
    stream::of_kind(&lines, "host-call")[0]["finish"].clone()
}

#[test]
fn the_operator_sees_that_a_reply_is_incomplete() {
    let check = |name: &str, expected: &str, reason: &str, counted: &str| {
        check_reply(name, ASK, 0, |place, _| {
            assert_eq!(output(place), expected);
            assert_eq!(finish(place), reason);
            let calls = place
                .host(&["inspect", "store", "--calls"])
                .expect(0)
                .stdout;
            assert!(calls.contains(&format!("  {reason}  ")), "{calls}");
            let state = place.host(&["inspect", "store"]).expect(0).stdout;
            assert!(state.contains(counted), "{state}");
        });
    };
    check(
        "truncated",
        "got: the first half",
        "length",
        ", truncated replies: 1",
    );
    check(
        "filtered",
        "got: ",
        "refusal",
        ", refused or filtered replies: 1",
    );
}

#[test]
fn the_operator_is_warned_of_a_truncated_reply() {
    let web = Web::new();
    let place = team(&web, "document/truncated/whole", "probe.wasm", ASK);
    let stderr = place.run().expect(0).stderr;
    assert!(
        stderr.contains("was truncated (finish reason `length`)"),
        "{stderr}"
    );
}

#[test]
fn a_fault_after_a_truncated_reply_names_the_finish_reason() {
    check_reply("truncated", ASK_AND_FAIL, 3, |_, stderr| {
        let fault = stderr
            .lines()
            .find(|line| line.starts_with("fault:"))
            .unwrap_or_default();
        assert!(fault.contains("finish reason `length`"), "{stderr}");
    });
}

#[test]
fn the_answer_is_the_same_whether_it_is_streamed_or_not() {
    let check = |name: &str, expected: &str| {
        check_reply(name, ASK, 0, |place, _| {
            assert_eq!(output(place), expected);
            assert_eq!(finish(place), "stop");
        });
    };
    check("thinking", "got: 42");
    check("parts", "got: Hello parts");
}

#[test]
fn a_reply_that_states_its_failure_is_a_fault_and_is_paid_for() {
    check_reply("failed", ASK, 3, |place, stderr| {
        assert!(stderr.contains("finish reason is `error`"), "{stderr}");
        assert_eq!(finish(place), Value::Null);
    });
}

/// A model whose first reply may be used twice; the action asks twice and fails at first.
const TWICE: &str = r#"schema = "strata.team/1"
[team]
name = "twice"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ llm = "q" }, { ask = "go on?" }, { llm = "q" }, { llm = "q" }, { say = "{reads}" }] }
[role.action.allow]
llm = { models = ["*"] }
"#;

#[test]
fn how_often_a_scripted_reply_was_used_is_remembered_over_a_resume() {
    let replies = "[[reply]]\ntext = \"first\"\ntimes = 2\n[[reply]]\ntext = \"then\"\n";
    for storage in ["store", "copy"] {
        let place = Workspace::with(TWICE);
        place.write("replies.toml", replies);
        place.run().expect(4);
        if storage == "copy" {
            place.write("copy/team.json", place.read("store/team.json"));
        }
        // The reply counts as the same although its place in the file is another.
        place.write(
            "replies.toml",
            format!("[[reply]]\nmatch = \"nothing\"\ntext = \"\"\n{replies}"),
        );
        let answer = "ask-0-0-0-0=true";
        let args = [
            "run",
            "team.toml",
            "--recover_path",
            storage,
            "--quiet",
            "--answer",
            answer,
        ];
        let ended = place.host(&args).expect(0);
        assert_eq!(ended.stdout, "first,true,first,then\n", "{storage}");
    }
}
