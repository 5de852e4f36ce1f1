//! Examples of the events of requests to humans.

use strata_core::record::event::{AttemptEvent, Event, RequestAnswered, RequestOpened};
use strata_core::record::human_request::{HumanAnswer, HumanRequest, ProposedCall};
use strata_core::record::work::Work;

use super::samples::{json, of_call, texts};

/// Returns the events.
pub(super) fn all() -> Vec<Event> {
    let request = HumanRequest {
        id: "ask-1".into(),
        question: "question".into(),
        schema: Some(json(r#"{ "type": "number" }"#)),
        choices: texts(&["1", "2"]),
        default: Some(json("2")),
        expires_ms: Some(-5),
        proposed: Some(ProposedCall {
            tool: "tool".into(),
            arguments: json("{}"),
            input_schema: Some(json(r#"{"type":"object"}"#)),
        }),
        asked_by: None,
    };
    let answered = RequestAnswered {
        request: "ask-1".into(),
        answer: HumanAnswer::Given(json("2")),
        person: Some("Kim".into()),
        checkpoint: "main-8".into(),
        parent: Some("main-7".into()),
    };
    let opened = RequestOpened { request };
    vec![
        of_call(Work::Answer, AttemptEvent::RequestOpened(opened)),
        of_call(Work::Answer, AttemptEvent::RequestAnswered(answered)),
    ]
}
