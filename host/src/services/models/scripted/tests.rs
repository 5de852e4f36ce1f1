//! Tests of the choice among replies, and of the errors in the file.

use std::io::Write;

use strata_core::record::conversation::{ModelMessage, Part, ToolResult};
use tempfile::NamedTempFile;

use super::*;

use crate::services::models::config::ModelNames;
use crate::services::models::{ModelCall, ModelCaller, user_message};

impl ScriptedProvider {
    async fn complete(
        &self,
        model: Option<&str>,
        call: &ModelCall,
    ) -> Result<ModelReply, RequestFailure> {
        let entry = self.choose(&call.request.newest_text(), call.turn)?;
        self.answer(entry, model, &call.request).await
    }
}

fn file(source: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(source.as_bytes()).expect("room for it");
    file
}

fn scripted(source: &str) -> ScriptedProvider {
    ScriptedProvider::load(file(source).path()).unwrap_or_else(|e| panic!("{e}"))
}

fn asking(content: &str) -> ModelCall {
    call(ModelRequest::ask(content), None)
}

fn call(request: ModelRequest, turn: Option<u32>) -> ModelCall {
    let caller = ModelCaller {
        turn,
        ..ModelCaller::default()
    };
    ModelCall::new(&ModelNames::default(), caller, request)
}

#[tokio::test]
async fn a_reply_for_a_turn_serves_that_turn_only() {
    let scripted = scripted("[[reply]]\nturn = 1\ntext = 'second'\n[[reply]]\ntext = 'any'");
    for (turn, expected) in [(None, "any"), (Some(0), "any"), (Some(1), "second")] {
        let call = call(ModelRequest::ask("x"), turn);
        let reply = scripted.complete(None, &call).await.expect("a reply");
        assert_eq!(reply.text(), expected, "{turn:?}");
    }
}

/// Sends one request after the other and compares the texts, or parts of the errors.
async fn check(source: &str, asked: &[(&str, Result<&str, &str>)]) {
    let scripted = scripted(source);
    for (question, expected) in asked {
        match (scripted.complete(None, &asking(question)).await, expected) {
            (Ok(reply), Ok(text)) => assert_eq!(&reply.text(), text, "{question}"),
            (Err(RequestFailure { error, .. }), Err(part)) => {
                assert_eq!(error.kind, HostErrorKind::Upstream);
                assert!(error.message.contains(part), "{}", error.message);
            }
            (found, _) => panic!("{question}: {found:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test]
async fn the_first_reply_that_matches_serves() {
    let source = r#"
        [[reply]]
        match = "(?i)design"
        text = "a design"
        [[reply]]
        match = "^write \\w+$"
        text = "code"
        [[reply]]
        match = "design|write"
        text = "never first"
    "#;
    let none = Err("no scripted reply to `sing`: no `match` fits; add a `[[reply]]` in `");
    let asked = [
        ("a Design please", Ok("a design")),
        ("write it", Ok("code")),
        ("write it now", Ok("never first")),
        ("sing", none),
    ];
    check(source, &asked).await;
}

#[tokio::test]
async fn a_reply_without_match_takes_anything() {
    check(
        "[[reply]]\ntext = 'any'",
        &[("", Ok("any")), ("x", Ok("any"))],
    )
    .await;
}

#[tokio::test]
async fn a_reply_serves_as_often_as_its_times() {
    let source = "[[reply]]\nmatch = 'a'\ntext = '1'\ntimes = 2\n[[reply]]\nmatch = 'a'\ntext = '2'\ntimes = 1";
    let out = Err("every reply that matches has served its `times`; raise `times` in `");
    check(
        source,
        &[
            ("a", Ok("1")),
            ("b", Err("no `match`")),
            ("a", Ok("1")),
            ("a", Ok("2")),
            ("a", out),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_failing_upstream_is_played() {
    let source = "[[reply]]\nstatus = 503\ntext = 'busy'\ndelay = '1ms'\ntimes = 1\n[[reply]]\nstatus = 200\ntext = 'fine'";
    check(
        source,
        &[("x", Err("answers 503: `busy`")), ("x", Ok("fine"))],
    )
    .await;
}

#[tokio::test]
async fn an_answer_takes_its_time() {
    let scripted = scripted("[[reply]]\ntext = 'slow'\ndelay = '20ms'");
    let begin = std::time::Instant::now();
    scripted
        .complete(None, &asking("x"))
        .await
        .expect("a reply");
    assert!(begin.elapsed() >= Duration::from_millis(20));
}

#[tokio::test]
async fn the_newest_message_is_matched_whoever_sent_it() {
    let scripted = scripted(
        "[[reply]]\nmatch = 'old|system'\ntext = 'wrong'\n[[reply]]\nmatch = 'tool'\ntext = 'right'",
    );
    let result = ToolResult {
        call: "c".into(),
        tool: "t".into(),
        content: vec![Part::Text("from the tool".into())],
        is_error: false,
    };
    let messages = vec![
        ModelMessage::System("system".into()),
        user_message("old"),
        ModelMessage::ToolResults(vec![result]),
    ];
    let reply = scripted
        .complete(None, &call(ModelRequest::new(messages), None))
        .await;
    assert_eq!(reply.map(|r| r.text()), Ok("right".to_owned()));
}

#[tokio::test]
async fn data_and_tool_calls_become_json() {
    let source = r#"
        [[reply]]
        data = { title = "Snake", size = [10, 1.5], on = 2026-01-02, ok = true }
        tool_calls = [
            { name = "add", arguments = { b = 2, a = 1 } },
            { id = "x", name = "now" },
            { name = "raw", arguments = '{ "a": 1 }' },
        ]
    "#;
    let reply = scripted(source)
        .complete(Some("m"), &asking("x"))
        .await
        .expect("a reply");
    let data = r#"{"ok":true,"on":"2026-01-02","size":[10,1.5],"title":"Snake"}"#;
    assert_eq!(
        (
            reply.text().as_str(),
            reply.data.as_deref(),
            reply.model.as_str()
        ),
        (data, Some(data), "m")
    );
    let calls = reply
        .tool_calls()
        .map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str()));
    let expected = [
        ("call-1-1", "add", r#"{"a":1,"b":2}"#),
        ("x", "now", "{}"),
        ("call-1-3", "raw", r#"{"a":1}"#),
    ];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn tokens_are_given_or_estimated() {
    let check = async |source: &str, expected: (u64, u64)| {
        let reply = scripted(source)
            .complete(None, &asking("123456789"))
            .await
            .expect("a reply");
        assert_eq!(
            (reply.usage.input, reply.usage.output),
            expected,
            "{source}"
        );
    };
    check("[[reply]]\ntext = 'ünï!'", (3, 1)).await;
    check("[[reply]]\ntext = ''", (3, 0)).await;
    check(
        "[[reply]]\ntext = 'x'\ninput = 1000000\noutput = 0",
        (1_000_000, 0),
    )
    .await;
}

#[test]
fn mistakes_in_the_file_show_their_place() {
    let check = |source: &str, place: (usize, usize), expected: &str| {
        let problems = ScriptedProvider::load(file(source).path()).expect_err(source);
        let first = problems.iter().next().expect("a problem");
        let (found, _) = first.location().expect("a location");
        assert_eq!(found, place, "{problems}");
        let text = format!(
            "{}; {}",
            first.message(),
            first.advice().unwrap_or_default()
        );
        assert!(text.contains(expected), "{text}");
    };
    check("", (1, 1), "a replies file needs `reply`; add `[[reply]]`");
    check("reply = []", (1, 9), "holds no replies");
    check("[[reply]]\ntxt = 'x'", (2, 1), "did you mean `text`?");
    check("[[replies]]\ntext = 'x'", (1, 3), "did you mean `reply`?");
    check(
        "[[reply]]\ntext = 'x'\nmatch = '(a'",
        (3, 9),
        "not a regular expression: unclosed group; put a backslash",
    );
    check(
        "[[reply]]\ntext = 'x'\n\n[[reply]]\nmatch = 'é'",
        (4, 1),
        "`[[reply]]` needs `text`, `data` or `tool_calls`",
    );
    check("[[reply]]\ntext = 'é' 'x'", (2, 12), "not valid TOML");
    check("[[reply]]\ntext = 'x'\ntimes = 0", (3, 9), "cannot be `0`");
    check("[[reply]]\ntext = 'x'\ninput = -1", (3, 9), "from 0");
    check(
        "[[reply]]\ntext = 'x'\nstatus = 99",
        (3, 10),
        "`status` cannot be `99`; expected a whole number from 100 to 599",
    );
    check(
        "[[reply]]\ntext = 'x'\ndelay = '2 parsecs'",
        (3, 9),
        "cannot be the duration `2 parsecs`",
    );
    check("[[reply]]\ntext = 'x'\ndelay = '-1s'", (3, 9), "duration");
    check(
        "[[reply]]\ndata = { a = [inf] }",
        (2, 15),
        "the number `inf`",
    );
    check(
        "[[reply]]\ntool_calls = [{ name = 'a', arguments = '{' }]",
        (2, 41),
        "not a JSON document",
    );
    check(
        "[[reply]]\ntool_calls = [{ arguments = {} }]",
        (2, 15),
        "a tool call needs `name`",
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = ScriptedProvider::load(Path::new("no/such/replies.toml")).expect_err("no file");
    let text = error.to_string();
    assert!(
        text.contains("`no/such/replies.toml`")
            && text.contains("is `replies` of its model right?"),
        "{text}"
    );
}

#[tokio::test]
async fn uses_are_counted_on_whatever_else_the_file_contains() {
    let entries = "[[reply]]\ntext = '1'\ntimes = 2\n[[reply]]\ntext = '1'\ntimes = 1\n[[reply]]\ntext = '2'\ntimes = 1\n";
    let before = scripted(entries);
    let mut uses = BTreeMap::new();
    for _ in 0..2 {
        let entry = before.choose("", None).expect("a reply");
        let id = entry.limited_id("model").expect("it is limited");
        *uses.entry(id).or_default() += 1;
    }
    let after = scripted(&format!("[[reply]]\nmatch = 'x'\ntext = '0'\n{entries}"));
    after.set_uses("model", &uses);
    for text in ["1", "2"] {
        let reply = after.complete(None, &asking("")).await.expect("a reply");
        assert_eq!(reply.text(), text);
    }
    assert!(after.choose("", None).is_err());
    // The counters of another model are its own.
    let other = scripted(entries);
    other.set_uses("other", &uses);
    let reply = other.complete(None, &asking("")).await.expect("a reply");
    assert_eq!(reply.text(), "1");
    assert_eq!(
        scripted("[[reply]]\ntext = '1'").entries[0].limited_id("m"),
        None
    );
}
