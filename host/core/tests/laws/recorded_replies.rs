//! Replies of models in turns, which are recorded with the host call and not stored again.

use strata_core::record::event::{AttemptEvent, CallFinished, Event, HostCalled};
use strata_core::record::host_call::{AnswerSource, CallOutcome, HostCall, HostCallKind, ModelUse};
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_core::record::turn::{ReplyMessage, TurnReply};
use strata_core::record::work::CallResult;

use crate::manual_run::ManualRun;
use crate::tool_roles::{analyst, calls};

#[test]
fn a_recorded_reply_is_not_stored_again() {
    let mut run = ManualRun::start(analyst(|_| {}));
    let turn = run.call();
    let CallResult::Replied(reply) = calls(&run, &["x"]) else {
        panic!("a reply");
    };
    let ReplyMessage::Parts(parts) = &reply.message else {
        panic!("a reply that is not recorded yet");
    };
    let response = serde_json::json!({ "parts": parts, "model": "m" });
    let recorded = HostCall {
        kind: HostCallKind::Llm,
        request: "q".into(),
        response: Json::from(response),
        cost: Usd(5),
        outcome: CallOutcome::Answered,
        model: Some(ModelUse::default()),
    };
    let unrecorded = Event::Attempt(
        turn.key(),
        AttemptEvent::CallFinished(CallFinished {
            attempt: 1,
            result: CallResult::Replied(TurnReply {
                message: ReplyMessage::OfLastCall,
                ..reply.clone()
            }),
        }),
    );
    assert!(run.stepper.clone().apply(&unrecorded).is_err());
    run.record(Event::Attempt(
        turn.key(),
        AttemptEvent::HostCalled(HostCalled {
            call: recorded,
            source: AnswerSource::Live,
            summary: String::new(),
        }),
    ));
    let ended = run
        .stepper
        .call_ended_event(turn.key(), Ok(CallResult::Replied(reply.clone())))
        .expect("a running turn");
    let Event::Attempt(_, AttemptEvent::CallFinished(CallFinished { result, .. })) = &ended else {
        panic!("the end of the turn: {ended:?}");
    };
    let CallResult::Replied(stored) = result else {
        panic!("a reply: {result:?}");
    };
    assert_eq!(stored.message, ReplyMessage::OfLastCall);
    run.record(ended.clone());
    let activation = run.env().activation(turn.key().activation());
    let kept = &activation.expect("an open activation").turns[0];
    assert_eq!((&kept.message, kept.cost), (parts, Usd(5)));
}
