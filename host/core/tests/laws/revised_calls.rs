//! Tool calls about which it is decided again after a resume, because their tools have changed.

use strata_core::machine::effect::Invocation;
use strata_core::record::event::{AttemptEvent, CallRevised, Event, Status};
use strata_core::record::fault::FaultKind;
use strata_core::record::host_call::{CallPolicy, RecordedCallUse};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::RoleId;
use strata_core::record::json::Json;
use strata_core::record::turn::{Approval, CallRevision};
use strata_core::record::work::CallKey;

use crate::manual_run::{ManualRun, says};
use crate::tool_roles::{analyst, answers, calls, fault};

const A: RoleId = RoleId(0);

fn revised(call: CallKey, revision: CallRevision) -> Event {
    let revised = AttemptEvent::CallRevised(CallRevised { revision });
    Event::Attempt(call, revised)
}

fn rejected(call: CallKey) -> Event {
    revised(call, CallRevision::Reject("it does not fit".into()))
}

fn asked(call: CallKey, schema: &str) -> Event {
    let approval = Approval {
        input_schema: Some(Json::parse(schema).expect("JSON")),
        ..Approval::default()
    };
    revised(call, CallRevision::AskFirst(approval))
}

/// Returns a run whose only tool call has trapped, after a resume. One call may be made.
fn trapped() -> (ManualRun, Invocation) {
    let team = || analyst(|tools| tools.max_calls = 1);
    let mut run = ManualRun::start(team());
    run.turn(|run| calls(run, &["x"]));
    let x = run.call();
    run.end_call(&x, fault(FaultKind::Trap));
    assert_eq!(run.halt(), Status::Failed);
    run.resume(team(), CallPolicy::Auto);
    (run, x)
}

impl ManualRun {
    fn answer(&mut self, answer: &str) {
        let request = self.open_request(A);
        let answer = HumanAnswer::Given(Json::parse(answer).expect("JSON"));
        let event = self.stepper.request_answered_event(&request, answer, None);
        self.record(event.expect("an open request"));
    }

    fn continue_unchanged(&mut self) {
        let team = self.stepper.team().as_ref().clone();
        self.resume(team, CallPolicy::Auto);
    }

    #[track_caller]
    fn assert_illegal(&mut self, event: &Event) {
        let before = self.env().clone();
        assert!(self.stepper.apply(event).is_err(), "{event:?}");
        assert_eq!(*self.env(), before);
    }
}

#[test]
fn a_call_that_is_rejected_before_it_is_repeated_is_not_made_and_counts_as_none() {
    let (mut run, x) = trapped();
    run.record(rejected(x.key()));
    assert_eq!(run.outcomes(), ["rejected: it does not fit"]);
    run.assert_illegal(&rejected(x.key()));
    run.continue_unchanged();
    run.turn(|run| calls(run, &["y"]));
    let y = run.call();
    run.end_call(&y, Ok(says("y ok")));
    assert_eq!(run.outcomes(), ["rejected: it does not fit", "y ok"]);
    run.turn(|_| answers("done"));
    run.act(Ok(says("b ok")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_call_that_is_repeated_can_need_approval_once() {
    let (mut run, x) = trapped();
    run.record(asked(x.key(), "{}"));
    assert_eq!(run.halt(), Status::Waiting);
    assert_eq!(run.open_request(A).0, "ask-0-0-0-0");
    run.answer(r#"{ "approve": true }"#);
    run.continue_unchanged();
    let again = run.call();
    assert_eq!((again.work, again.attempt), (x.work, 2));
    // The answers that led to the trap are not served again.
    assert_eq!(again.call_reuse, RecordedCallUse::Fresh);
    run.assert_illegal(&asked(x.key(), "{}"));
    run.end_call(&again, fault(FaultKind::Trap));
    assert_eq!(run.halt(), Status::Failed);
    run.continue_unchanged();
    run.assert_illegal(&asked(x.key(), "{}"));
    let last = run.call();
    run.end_call(&last, Ok(says("x ok")));
    assert_eq!(run.outcomes(), ["x ok"]);
}

#[test]
fn a_call_that_an_attempt_cannot_make_any_more_is_rejected_and_the_attempt_ends_with_it() {
    let mut run = ManualRun::start(analyst(|_| {}));
    run.turn(|run| calls(run, &["x"]));
    let x = run.call();
    let ended = run.stepper.call_ended_event(x.key(), Ok(says("x ok")));
    run.record(rejected(x.key()));
    assert_eq!(run.outcomes(), ["rejected: it does not fit"]);
    run.assert_illegal(&ended.expect("a call that was running"));
    run.turn(|_| answers("done"));
    run.act(Ok(says("b ok")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_request_is_opened_again_with_another_schema_or_withdrawn() {
    let team = || analyst(|_| {});
    let mut run = ManualRun::start(team());
    run.turn(|run| calls(run, &["x?", "y?"]));
    assert_eq!(run.halt(), Status::Waiting);
    let open = run.env().open_calls(run.stepper.team());
    let keys: Vec<_> = open.map(|(call, _)| call).collect();
    run.resume(team(), CallPolicy::Auto);
    let schema = r#"{"type":"object"}"#;
    run.record(asked(keys[0], schema));
    run.record(revised(keys[1], CallRevision::Reject("no".into())));
    assert_eq!(run.halt(), Status::Waiting);
    let requests: Vec<_> = run.env().open_requests().collect();
    assert_eq!(requests.len(), 1);
    let (_, request) = &requests[0];
    let proposed = request.proposed.as_ref().expect("a tool call");
    assert_eq!(
        (request.id.0.as_str(), &proposed.input_schema),
        ("ask-0-0-0-0-r1", &Some(Json::parse(schema).expect("JSON"))),
        "the id belongs to the question with the other schema"
    );
    run.answer(r#"{ "approve": true }"#);
    run.continue_unchanged();
    let x = run.call();
    run.end_call(&x, Ok(says("x ok")));
    assert_eq!(run.outcomes(), ["x ok", "rejected: no"]);
}
