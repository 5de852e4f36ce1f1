//! Tests which files are saved and which are refused.

use save_file::{SaveFile, Saved};
use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Action, FailureKind, Message};

fn call(data: &Value) -> Call {
    let code = Message {
        data: Some(data.to_string()),
        ..Message::new("WriteCode", "<p>")
    };
    Call::new()
        .news("a design")
        .output(code)
        .config(json!({ "directory": "/out/" }))
}

#[test]
fn the_file_of_the_earlier_action_is_saved() {
    let mut host = Host::new().writable("/out");
    let data = json!({ "file": "games/snake.html", "language": "html", "code": "<p>é\n" });
    let output = host.run::<SaveFile>(call(&data)).expect("saved");
    assert_eq!(output.content, "saved `/out/games/snake.html` (6 bytes)");
    let saved = Saved {
        path: "/out/games/snake.html".into(),
        language: "html".into(),
        bytes: 6,
    };
    assert_eq!(output.data, Some(saved));
    assert_eq!(
        host.content("/out/games/snake.html"),
        Some("<p>é\n".as_bytes())
    );
}

#[test]
fn a_path_outside_of_the_directory_is_rejected() {
    let names = [
        "",
        "/etc/passwd",
        "../evil",
        "a/../b",
        "a//b",
        ".",
        "a\\b",
        "a\0",
    ];
    for name in names {
        let mut host = Host::new().writable("/out");
        let failure = host
            .run::<SaveFile>(call(&json!({ "file": name, "code": "x" })))
            .expect_err("it is no file name");
        assert_eq!(failure.kind, FailureKind::Error, "{name:?}");
        assert!(
            failure.message.contains("no name of a file"),
            "{}",
            failure.message
        );
    }
}

#[test]
fn without_a_file_or_a_grant_it_fails_and_says_why() {
    let file = json!({ "file": "a", "code": "x" });
    let cases = [
        (call(&file), FailureKind::Denied, "/out/a"),
        (
            call(&json!({ "file": "a" })),
            FailureKind::Error,
            "missing field `code`",
        ),
        (
            Call::new().news("x").config(json!({ "directory": "/out" })),
            FailureKind::Error,
            "`UserRequirement`: it has none",
        ),
    ];
    for (call, kind, expected) in cases {
        let failure = Host::new().run::<SaveFile>(call).expect_err(expected);
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
}

#[test]
fn the_schemas_are_json() {
    for schema in [SaveFile::CONFIG_SCHEMA, SaveFile::OUTPUT_SCHEMA] {
        let schema: Value = serde_json::from_str(schema.expect("a schema")).expect("json");
        assert_eq!(schema["type"], "object");
    }
}
