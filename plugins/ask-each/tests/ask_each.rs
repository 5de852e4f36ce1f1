//! Tests the requests to the model and the use of its answers.

use ask_each::AskEach;
use serde_json::json;
use strata_action::testing::{Call, Host};
use strata_action::{FailureKind, HostErrorKind};

fn call() -> Call {
    Call::new()
        .news("go")
        .config(json!({ "questions": ["one?", "two?"] }))
}

#[test]
fn every_question_is_asked_by_itself_and_all_answers_are_returned() {
    let mut host = Host::new().reply("first\n").reply("second");
    let output = host.run::<AskEach>(call()).expect("answers");
    assert_eq!(output.content, "first\n\nsecond");
    assert_eq!(
        output.data,
        Some(vec!["first".to_owned(), "second".to_owned()])
    );
    assert_eq!(host.prompts(), ["one?", "two?"]);
}

#[test]
fn a_question_that_finds_no_answer_ends_it() {
    let mut host = Host::new()
        .reply("first")
        .llm_error(HostErrorKind::Upstream, "down");
    let failure = host.run::<AskEach>(call()).expect_err("no second answer");
    assert_eq!(failure.kind, FailureKind::Host);
}
