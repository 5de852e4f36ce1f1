//! Tests the requests to the model and the use of its replies.

use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Action, FailureKind, Message};
use write_code::{SourceFile, WriteCode};

fn call() -> Call {
    let config =
        json!({ "language": "html", "file": "snake.html", "instructions": "No libraries." });
    Call::new()
        .message(Message::new("WriteDesign", "One file."))
        .config(config)
}

#[test]
fn the_code_block_of_the_reply_becomes_the_file() {
    let mut host = Host::new().reply("Here you are:\n\n```html\n<p>\n```\nEnjoy!");
    let output = host.run::<WriteCode>(call()).expect("code");
    assert_eq!(output.content, "<p>\n");
    let source = SourceFile {
        file: "snake.html".into(),
        language: "html".into(),
        code: "<p>\n".into(),
    };
    assert_eq!(output.data, Some(source));
    let prompts = host.prompts();
    for part in [
        "Write the code of `snake.html`, in html.",
        "No libraries.",
        "One file.",
    ] {
        assert!(
            prompts[0].contains(part),
            "`{part}` is missing in {}",
            prompts[0]
        );
    }
}

#[test]
fn a_reply_without_whole_code_is_refused() {
    let cases = [
        ("", "is empty"),
        ("I would rather not.", "holds no code block"),
        ("```html\n<p>", "was cut off"),
        ("```html\n\n```", "holds an empty code block"),
    ];
    for (reply, expected) in cases {
        let failure = Host::new()
            .reply(reply)
            .run::<WriteCode>(call())
            .expect_err(expected);
        assert_eq!(failure.kind, FailureKind::Retryable);
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
}

#[test]
fn the_schemas_are_json() {
    for schema in [WriteCode::CONFIG_SCHEMA, WriteCode::OUTPUT_SCHEMA] {
        let schema: Value = serde_json::from_str(schema.expect("a schema")).expect("json");
        assert_eq!(schema["type"], "object");
    }
}
