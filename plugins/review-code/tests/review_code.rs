//! Tests the requests to the model and the use of its replies.

use review_code::{Review, ReviewCode, Verdict};
use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Action, FailureKind, Message};

fn call(data: &Value) -> Call {
    let message = Message {
        data: Some(data.to_string()),
        ..Message::new("SaveCode", "saved")
    };
    Call::new()
        .message(message)
        .config(json!({ "criteria": ["it ends", "it is short"] }))
}

#[test]
fn the_code_is_read_from_the_file_that_the_message_names() {
    let mut host = Host::new()
        .file("/out/a.md", "```\nx\n```\n")
        .reply("APPROVED\n- short");
    let output = host
        .run::<ReviewCode>(call(&json!({ "path": "/out/a.md", "language": "md" })))
        .expect("a review");
    assert_eq!(output.content, "APPROVED\n- short");
    let review = Review {
        verdict: Verdict::Approved,
        remarks: vec!["short".into()],
    };
    assert_eq!(output.data, Some(review));
    let prompts = host.prompts();
    for part in [
        "APPROVED or CHANGES REQUESTED",
        "it ends; it is short.",
        "\n\n````md\n```\nx\n```\n````",
    ] {
        assert!(
            prompts[0].contains(part),
            "`{part}` is missing in {}",
            prompts[0]
        );
    }
}

#[test]
fn code_in_the_message_needs_no_file() {
    let mut host = Host::new().reply("CHANGES REQUESTED\n1. too long");
    let output = host
        .run::<ReviewCode>(call(&json!({ "code": "fn f() {}" })))
        .expect("a review");
    assert_eq!(
        output.data.expect("data").verdict,
        Verdict::ChangesRequested
    );
}

#[test]
fn an_input_that_cannot_be_reviewed_is_rejected() {
    let code = json!({ "code": "x" });
    let cases = [
        (
            Host::new().reply("Fine."),
            code.clone(),
            FailureKind::Retryable,
            "open with a verdict",
        ),
        (
            Host::new().reply(""),
            code.clone(),
            FailureKind::Retryable,
            "open with a verdict",
        ),
        (Host::new(), code, FailureKind::Denied, ""),
        (
            Host::new(),
            json!({}),
            FailureKind::Error,
            "neither a `code` nor a `path`",
        ),
        (
            Host::new(),
            json!({ "path": "/out/a" }),
            FailureKind::Denied,
            "/out/a",
        ),
    ];
    for (mut host, data, kind, expected) in cases {
        let failure = host.run::<ReviewCode>(call(&data)).expect_err(expected);
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
}

#[test]
fn the_schemas_are_json() {
    for schema in [ReviewCode::CONFIG_SCHEMA, ReviewCode::OUTPUT_SCHEMA] {
        let schema: Value = serde_json::from_str(schema.expect("a schema")).expect("json");
        assert_eq!(schema["type"], "object");
    }
}
