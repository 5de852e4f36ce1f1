//! What recorded events become.

use std::collections::BTreeMap;

use strata_core::record::event::{AttemptEvent, CallFailed, CallStarted};
use strata_core::record::fault::{Fault, FaultHandling};
use strata_core::record::host_call::RecordedCallUse;
use strata_core::record::id::{ActionId, Digest, RoleId};
use strata_core::record::nested_path::NestedPath;
use strata_core::record::shape::RoleShape;
use strata_core::record::work::ActivationKey;

use super::*;

/// Returns a translator of the events of a team of two roles with an action each.
fn translator() -> EventTranslator {
    let role = |name: &str| RoleShape {
        name: name.into(),
        actions: vec!["a".into()],
        watch: Vec::new(),
        react: String::new(),
        tools: Vec::new(),
    };
    let shape = Shape {
        roles: vec![role("A"), role("B")],
        groups: BTreeMap::new(),
        routes: Vec::new(),
        joins: Vec::new(),
    };
    EventTranslator::new(shape, 3)
}

fn started() -> AttemptEvent {
    AttemptEvent::CallStarted(CallStarted {
        attempt: 1,
        digest: Some(Digest::from("digest")),
        call_reuse: RecordedCallUse::Reuse,
        forgotten: Vec::new(),
    })
}

const ACT: Work = Work::Act {
    action: ActionId(0),
    task: None,
};

#[test]
fn nothing_is_kept_of_an_attempt_that_failed() {
    let call = CallKey::new(RoleId(0), ACT);
    let failed = AttemptEvent::CallFailed(CallFailed {
        attempt: 1,
        digest: None,
        fault: Fault::new(FaultKind::Trap, "unreachable"),
        retry_ms: None,
        handling: FaultHandling::Stops,
    });
    let mut translator = translator();
    translator.translate(&Event::Attempt(call, started()), 1, 0);
    assert_eq!(translator.names.running.len(), 1);
    translator.translate(&Event::Attempt(call, failed), 2, 0);
    assert!(translator.names.running.is_empty());
}

#[test]
fn events_of_a_called_role_name_the_call() {
    let called = ActivationKey::of_mail(RoleId(0)).called(RoleId(1), 5, 2, NestedPath::EMPTY);
    let call = CallKey::in_activation(called.expect("a short path"), ACT);
    let lines = translator().translate(&Event::Attempt(call, started()), 1, 0);
    assert_eq!(lines.len(), 2);
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(&line.to_json()).expect("JSON");
        assert_eq!(line["role"], "B");
        let via = serde_json::json!({ "role": "A", "turn": 5, "tool_call": 2 });
        assert_eq!(line["via"], via);
    }
}
