//! Tests of the choice among replies.

use serde::Deserialize;
use strata_core::record::conversation::{ModelMessage, Part, ToolResult};

use super::*;

use crate::models::config::ModelNames;
use crate::models::{ModelCall, ModelCaller, user_message};

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

/// An entry in a test's file.
#[derive(Deserialize)]
struct TestEntry {
    r#match: Option<String>,
    text: String,
    times: Option<u32>,
    turn: Option<u32>,
    #[serde(default)]
    delay_ms: u64,
    status: Option<u16>,
    input: Option<u32>,
    output: Option<u32>,
}

impl From<TestEntry> for ScriptedEntry {
    fn from(entry: TestEntry) -> Self {
        let answer = match entry.status {
            Some(status) => ScriptedAnswer::Failure {
                status,
                body: entry.text,
            },
            None => ScriptedAnswer::Reply(ScriptedReply {
                text: entry.text,
                data: None,
                tool_calls: Vec::new(),
                input: entry.input,
                output: entry.output,
            }),
        };
        let filter = ReplyFilter {
            pattern: entry
                .r#match
                .map(|pattern| Regex::new(&pattern).expect("a pattern")),
            turn: entry.turn,
        };
        Self::new(
            filter,
            answer,
            Duration::from_millis(entry.delay_ms),
            entry.times,
        )
    }
}

/// Returns a provider of entries that are written in TOML.
fn scripted(source: &str) -> ScriptedProvider {
    #[derive(Deserialize)]
    struct TestFile {
        reply: Vec<TestEntry>,
    }
    let file: TestFile = toml::from_str(source).expect("a list of entries");
    let entries = file.reply.into_iter().map(Into::into).collect();
    ScriptedProvider::new(Path::new("replies.toml"), entries)
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
    let source =
        "[[reply]]\nstatus = 503\ntext = 'busy'\ndelay_ms = 1\ntimes = 1\n[[reply]]\ntext = 'fine'";
    check(
        source,
        &[("x", Err("answers 503: `busy`")), ("x", Ok("fine"))],
    )
    .await;
}

#[tokio::test]
async fn an_answer_takes_its_time() {
    let scripted = scripted("[[reply]]\ntext = 'slow'\ndelay_ms = 20");
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
