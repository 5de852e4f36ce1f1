//! Tests of guests that ask a person.

use strata_core::record::fault::FaultKind;
use strata_core::record::id::RoleId;
use strata_host::gateway::{AttemptId, GUEST_REQUEST_QUEUE, Gateway, PendingGuestRequest};
use strata_host::sandbox::{ReturnValue, Sandbox, SandboxOutcome};
use tokio::sync::mpsc;

use crate::driver::{SANDBOX, block_on, call, limits, plugin, run_within};
use crate::guest::Guest;

/// Returns a guest that asks `how?` with this schema and time limit, and returns the answer.
pub fn asking(schema: &str, expires_s: Option<u32>) -> Vec<u8> {
    let (some, time) = (u8::from(expires_s.is_some()), expires_s.unwrap_or(0));
    let (has_schema, length) = (u8::from(!schema.is_empty()), schema.len());
    let text = schema.replace('"', "\\22");
    let guest = Guest {
        imports: r#"(import "strata:action/human@0.2.0" "ask"
            (func $ask (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
        items: &format!(r#"(data (i32.const 4096) "how?") (data (i32.const 4200) "{text}")"#),
        run: &format!(
            "(call $ask (i32.const 4096) (i32.const 4)
                (i32.const {has_schema}) (i32.const 4200) (i32.const {length})
                (i32.const 0) (i32.const 0)
                (i32.const {some}) (i32.const {time})
                (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 2048))
             (call $told (i32.const 0))"
        ),
        ..Guest::default()
    };
    guest.build()
}

pub fn text_or_fault(ended: SandboxOutcome) -> Result<String, (FaultKind, String)> {
    match ended.result {
        Ok(returned) => match returned.value {
            ReturnValue::Output(draft) => Ok(draft.content),
            other => panic!("not an output: {other:?}"),
        },
        Err(fault) => Err((fault.kind, fault.message)),
    }
}

#[test]
fn a_guest_gets_the_answer_or_why_there_is_none() {
    assert_eq!(
        text_or_fault(run_within(limits(), &asking("", None))),
        Ok("0".into())
    );
    let (kind, why) = text_or_fault(run_within(limits(), &asking("", Some(0)))).unwrap_err();
    assert!(why.contains("nobody answered in time"), "{kind}: {why}");
    let (_, why) =
        text_or_fault(run_within(limits(), &asking("{\"type\":\"sand\"}", None))).unwrap_err();
    assert!(
        why.contains("cannot ask a person: its schema cannot be used"),
        "{why}"
    );
}

#[test]
fn asking_counts_as_a_host_call() {
    let none = strata_host::plugin::Limits {
        host_calls: 0,
        ..limits()
    };
    let (kind, why) = text_or_fault(run_within(none, &asking("", None))).unwrap_err();
    assert_eq!(
        (kind, why.contains("human.ask")),
        (FaultKind::Host, true),
        "{why}"
    );
}

#[test]
fn an_attempt_whose_question_is_not_answered_ends_at_once_and_holds_nothing() {
    let guest = asking("", None);
    let ended = block_on(async {
        let (questions, mut asked) = mpsc::channel::<PendingGuestRequest>(GUEST_REQUEST_QUEUE);
        let calling = SANDBOX.call(
            call(&guest, plugin(limits())),
            Gateway::new(AttemptId::first(RoleId(0)), questions),
        );
        let unanswered = async {
            let question = asked.recv().await.expect("it asks");
            drop(question.reply);
        };
        let ((), ended) = tokio::join!(unanswered, calling);
        ended
    });
    // It ends when the reply channel is closed, not by its time limit.
    let (kind, _) = text_or_fault(ended).unwrap_err();
    assert_eq!(kind, FaultKind::Interrupted);
}
