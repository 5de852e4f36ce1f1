//! Tests the requests to the model and the use of its replies.

use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Action, FailureKind, HostErrorKind, llm::ChatMessage};
use write_document::{Section, WriteDocument};

fn call() -> Call {
    Call::new().news("write a game").config(json!({
        "document": "requirements",
        "instructions": "Be brief.",
        "sections": ["Goals", "Acceptance criteria"],
        "model": "large",
    }))
}

#[test]
fn the_prompt_contains_the_role_the_kind_and_the_sources() {
    let mut host = Host::new().reply("# Game\n## Goals\nFun.\n## Acceptance criteria\n- it runs");
    host.run::<WriteDocument>(call()).expect("a whole document");
    let request = &host.requests()[0];
    assert_eq!(request.model.as_deref(), Some("large"));
    let persona = ChatMessage::System("You are Tester.".into());
    assert_eq!(request.messages[0], persona);
    let prompt = request.messages[1].text();
    for part in [
        "Write the requirements",
        "Goals; Acceptance criteria.",
        "Be brief.",
        "write a game",
    ] {
        assert!(prompt.contains(part), "`{part}` is missing in {prompt}");
    }
}

#[test]
fn the_document_is_returned_whole_and_taken_apart() {
    let text = "# Game\n\n## Goals\n\nFun.\n\n## Acceptance criteria\n\n- it runs";
    let mut host = Host::new().reply(format!("\n{text}\n"));
    let output = host.run::<WriteDocument>(call()).expect("a whole document");
    assert_eq!(output.content, text);
    let document = output.data.expect("data");
    assert_eq!(document.title, "Game");
    let goals = Section {
        heading: "Goals".into(),
        text: "Fun.".into(),
    };
    assert_eq!(document.sections[0], goals);
    assert_eq!(document.sections.len(), 2);
}

#[test]
fn a_reply_that_is_not_such_a_document_is_rejected() {
    let cases = [
        (
            Host::new().reply(" \n"),
            FailureKind::Retryable,
            "the model replied nothing",
        ),
        (
            Host::new().reply("# G\n## Goals\n"),
            FailureKind::Retryable,
            "no section `Acceptance criteria`",
        ),
        (Host::new(), FailureKind::Denied, ""),
        (
            Host::new().llm_error(HostErrorKind::Upstream, "down"),
            FailureKind::Host,
            "down",
        ),
    ];
    for (mut host, kind, message) in cases {
        let failure = host.run::<WriteDocument>(call()).expect_err(message);
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(message), "{}", failure.message);
    }
}

#[test]
fn the_schemas_are_json() {
    for schema in [WriteDocument::CONFIG_SCHEMA, WriteDocument::OUTPUT_SCHEMA] {
        let schema: Value = serde_json::from_str(schema.expect("a schema")).expect("json");
        assert_eq!(schema["type"], "object");
    }
}
