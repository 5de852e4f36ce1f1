//! Tests what counts as a word and as a text.

use count_words::CountWords;
use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Action, FailureKind, Message};

fn call(files: &[&str]) -> Call {
    let data = Some(json!({ "shares": { "Tester": files, "Other": ["/in/other"] } }).to_string());
    Call::new().message(Message {
        data,
        ..Message::new("DealFiles", "")
    })
}

#[test]
fn words_are_counted_whatever_is_between_them() {
    let cases = [
        ("", 0, json!({})),
        ("a A  b\n", 3, json!({ "a": 2, "b": 1 })),
        ("don't 'don't' dont", 3, json!({ "don't": 2, "dont": 1 })),
        ("Größe—größe, 42.", 3, json!({ "größe": 2, "42": 1 })),
        ("--- ' ’", 0, json!({})),
        ("日本 語", 2, json!({ "日本": 1, "語": 1 })),
    ];
    for (text, sum, words) in cases {
        let mut host = Host::new().file("/in/x", text);
        let data = host
            .run::<CountWords>(call(&["/in/x"]))
            .expect("counted")
            .data;
        assert_eq!(
            serde_json::to_value(data).expect("json"),
            json!({ "files": { "/in/x": sum }, "skipped": [], "words": words }),
            "{text}"
        );
    }
}

#[test]
fn files_are_counted_apart_and_those_without_text_are_left_out() {
    let mut host = Host::new()
        .file("/in/a", "one two")
        .file("/in/b", "two")
        .file("/in/c", "a\0b")
        .file("/in/d", b"\xff");
    let output = host
        .run::<CountWords>(call(&["/in/a", "/in/b", "/in/c", "/in/d"]))
        .expect("counted");
    assert_eq!(output.content, "3 words in 2 files, 2 of them different");
    assert_eq!(output.data.expect("data").skipped, ["/in/c", "/in/d"]);
    assert_eq!(
        host.run::<CountWords>(call(&[])).expect("counted").content,
        "0 words in 0 files, 0 of them different"
    );
}

#[test]
fn an_input_that_cannot_be_counted_is_rejected() {
    let many: String = (0..50_001).map(|i| format!("w{i} ")).collect();
    let cases = [
        (
            Host::new().file("/in/x", &many),
            call(&["/in/x"]),
            FailureKind::Error,
            "more than 50000 different",
        ),
        (
            Host::new(),
            call(&["/etc/passwd"]),
            FailureKind::Denied,
            "/etc/passwd",
        ),
        (
            Host::new(),
            Call::new().message(Message {
                data: Some("{\"shares\":{}}".into()),
                ..Message::new("DealFiles", "")
            }),
            FailureKind::Error,
            "no share for `Tester`",
        ),
        (
            Host::new(),
            Call::new().news("x"),
            FailureKind::Error,
            "it has none",
        ),
    ];
    for (mut host, call, kind, expected) in cases {
        let failure = host.run::<CountWords>(call).expect_err(expected);
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
}

#[test]
fn the_schema_is_json() {
    let schema: Value =
        serde_json::from_str(CountWords::OUTPUT_SCHEMA.expect("a schema")).expect("json");
    assert_eq!(schema["type"], "object");
}
