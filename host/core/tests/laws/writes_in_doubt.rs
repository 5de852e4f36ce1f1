//! External writes: started, answered, lost, decided by the operator, given up.

use strata_core::machine::effect::Invocation;
use strata_core::record::event::{
    AttemptEvent, CallStarted, CallSuspended, ComponentChanged, DoubtSettled, Event, HostCallBegun,
    HostCalled, Status, SuspendReason, WritesUnclaimed,
};
use strata_core::record::fault::{Fault, FaultKind, Retryability};
use strata_core::record::host_call::{
    AnswerSource, CallOutcome, CallPolicy, DoubtResolution, ExternalWrite, HostCall, HostCallKind,
    Intent, LostAnswerPolicy, RecordedCallUse, WriteResult,
};
use strata_core::record::human_request::{HumanAnswer, HumanRequest};
use strata_core::record::id::{ActionId, Digest, RoleId, Slot, SlotKind};
use strata_core::record::json::Json;
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::money::Usd;
use strata_core::record::rules::{Reducer, Thinker};
use strata_core::record::work::{CallKey, CallResult};
use strata_core::state::activation::Phase;
use strata_core::team::{OnFault, React, RetryPolicy, Team};

use crate::manual_run::{ManualRun, says, writes};
use crate::teams::{role, team};

const A: RoleId = RoleId(0);

fn single() -> Team {
    let mut team = team(vec![role("A", &[IDEA_LABEL], &["p"])]);
    team.roles[0].actions[0].retry = RetryPolicy {
        retries: 5,
        backoff_ms: 1,
    };
    team
}

fn begin(run: &mut ManualRun, call: &Invocation, request: &str, again: LostAnswerPolicy) {
    let intent = Intent {
        kind: HostCallKind::Http,
        request: request.into(),
        description: format!("POST {request}"),
        if_answer_lost: again,
    };
    run.record(Event::Attempt(
        call.key(),
        AttemptEvent::HostCallBegun(HostCallBegun { intent }),
    ));
}

fn answer(run: &mut ManualRun, call: &Invocation, request: &str, outcome: CallOutcome) {
    let (kind, request, response) = (HostCallKind::Http, request.into(), Json::null());
    let answer = HostCall {
        kind,
        request,
        response,
        cost: Usd::ZERO,
        outcome,
        model: None,
    };
    run.record(Event::Attempt(
        call.key(),
        AttemptEvent::HostCalled(HostCalled {
            call: answer,
            source: AnswerSource::Live,
            summary: String::new(),
        }),
    ));
}

fn settle(run: &mut ManualRun, call: &Invocation, place: u32, verdict: DoubtResolution) {
    run.record(Event::Attempt(
        call.key(),
        AttemptEvent::DoubtSettled(DoubtSettled {
            index: place,
            description: String::new(),
            resolution: verdict,
        }),
    ));
}

fn external_writes(run: &ManualRun) -> Vec<ExternalWrite> {
    run.env()
        .role(A)
        .activation
        .as_ref()
        .map(|activation| activation.current_call.external_writes.clone())
        .unwrap_or_default()
}

fn doubts(run: &ManualRun) -> Vec<String> {
    run.env()
        .writes_in_doubt(run.stepper.team())
        .map(|(_, _, write)| write.intent.request.clone())
        .collect()
}

fn timeout() -> Result<CallResult, Fault> {
    Err(Fault::new(FaultKind::Timeout, "too slow"))
}

/// The current call asks a human; `index` is how many it asked before.
fn asks(run: &mut ManualRun, index: u32) {
    let request = HumanRequest {
        id: run
            .stepper
            .first_request_id(run.open_call(A), index)
            .expect("a call under way"),
        question: "go on?".into(),
        schema: None,
        choices: Vec::new(),
        default: None,
        expires_ms: None,
        proposed: None,
        asked_by: None,
    };
    run.record(
        run.stepper
            .request_opened_event(run.open_call(A), request)
            .expect("a call under way"),
    );
}

#[test]
fn a_write_killed_in_flight_stops_the_run_until_it_is_settled() {
    let check = |verdict: DoubtResolution, recorded: usize| {
        let mut run = ManualRun::start(single());
        let call = run.call();
        begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
        assert_eq!(
            doubts(&run),
            Vec::<String>::new(),
            "an attempt waits for it"
        );
        for _ in 0..2 {
            run.resume(single(), CallPolicy::Auto);
            assert_eq!(run.halt(), Status::InDoubt);
            assert_eq!(doubts(&run), ["w"]);
        }
        run.resume(single(), CallPolicy::Auto);
        settle(&mut run, &call, 0, verdict);
        let again = run.call();
        assert_eq!(
            (again.attempt, again.call_reuse, again.recorded_calls.len()),
            (2, RecordedCallUse::Reuse, recorded)
        );
        run.end(A, Ok(says("ok")));
        assert_eq!(run.halt(), Status::Done);
    };
    check(DoubtResolution::Redo, 0);
    check(DoubtResolution::Answer(Json::null()), 1);
}

#[test]
fn what_is_known_of_a_write_follows_its_answer() {
    let check = |outcome: Option<CallOutcome>,
                 again: LostAnswerPolicy,
                 known: &[WriteResult],
                 status: Option<Status>| {
        let mut run = ManualRun::start(single());
        let call = run.call();
        begin(&mut run, &call, "w", again);
        if let Some(outcome) = outcome {
            answer(&mut run, &call, "w", outcome);
        }
        assert_eq!(
            external_writes(&run)
                .iter()
                .map(|write| write.result)
                .collect::<Vec<_>>(),
            known,
            "{outcome:?}"
        );
        run.resume(single(), CallPolicy::Auto);
        assert_eq!(
            run.next_call().is_none(),
            status.is_some(),
            "{outcome:?} {again:?}"
        );
        if let Some(status) = status {
            assert_eq!(run.halt(), status);
        }
    };
    check(
        None,
        LostAnswerPolicy::AskOperator,
        &[WriteResult::Unknown],
        Some(Status::InDoubt),
    );
    check(
        None,
        LostAnswerPolicy::Repeat,
        &[WriteResult::Unknown],
        None,
    );
    check(
        Some(CallOutcome::Answered),
        LostAnswerPolicy::AskOperator,
        &[WriteResult::Recorded],
        None,
    );
    check(
        Some(CallOutcome::Failed),
        LostAnswerPolicy::AskOperator,
        &[],
        None,
    );
    check(
        Some(CallOutcome::Unknown),
        LostAnswerPolicy::AskOperator,
        &[WriteResult::Unknown],
        Some(Status::InDoubt),
    );
    check(
        Some(CallOutcome::Unknown),
        LostAnswerPolicy::Repeat,
        &[WriteResult::Unknown],
        None,
    );
}

#[test]
fn what_is_in_doubt_is_not_tried_again_by_itself() {
    let check = |outcome: Option<CallOutcome>, retried: bool| {
        let mut run = ManualRun::start(single());
        let call = run.call();
        begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
        if let Some(outcome) = outcome {
            answer(&mut run, &call, "w", outcome);
        }
        run.end(A, timeout());
        let phase = &run.env().role(A).activation.as_ref().unwrap().phase;
        assert_eq!(*phase == Phase::BackingOff, retried, "{outcome:?}");
        if !retried {
            assert_eq!(run.halt(), Status::InDoubt);
        }
    };
    check(None, false);
    check(Some(CallOutcome::Unknown), false);
    check(Some(CallOutcome::Failed), true);
    check(Some(CallOutcome::Answered), true);
    let mut run = ManualRun::start(single());
    let call = run.call();
    begin(&mut run, &call, "w", LostAnswerPolicy::Repeat);
    run.end(A, timeout());
    assert_eq!(
        run.env().role(A).activation.as_ref().unwrap().phase,
        Phase::BackingOff
    );
}

#[test]
fn an_action_that_gets_along_with_an_unknown_result_is_done() {
    let mut run = ManualRun::start(single());
    let call = run.call();
    begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
    answer(&mut run, &call, "w", CallOutcome::Unknown);
    run.end(A, Ok(says("I looked: it is there")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn every_doubt_has_to_be_settled_and_nothing_else_can_be() {
    let mut run = ManualRun::start(single());
    let call = run.call();
    for (request, again) in [
        ("a", LostAnswerPolicy::AskOperator),
        ("b", LostAnswerPolicy::Repeat),
        ("c", LostAnswerPolicy::AskOperator),
        ("d", LostAnswerPolicy::AskOperator),
    ] {
        begin(&mut run, &call, request, again);
    }
    answer(&mut run, &call, "c", CallOutcome::Answered);
    run.resume(single(), CallPolicy::Auto);
    assert_eq!(doubts(&run), ["a", "d"]);
    for place in [1, 2, 4, u32::MAX] {
        let (description, verdict) = (String::new(), DoubtResolution::Redo);
        let wrong = Event::Attempt(
            CallKey::new(A, call.work),
            AttemptEvent::DoubtSettled(DoubtSettled {
                index: place,
                description,
                resolution: verdict,
            }),
        );
        assert!(run.stepper.apply(&wrong).is_err(), "{place}");
    }
    settle(&mut run, &call, 3, DoubtResolution::Redo);
    assert_eq!(run.halt(), Status::InDoubt);
    run.resume(single(), CallPolicy::Auto);
    settle(&mut run, &call, 0, DoubtResolution::Answer(Json::null()));
    let again = run.call();
    assert_eq!(again.recorded_calls.len(), 2);
    begin(&mut run, &again, "b", LostAnswerPolicy::Repeat);
    let requests: Vec<String> = external_writes(&run)
        .into_iter()
        .map(|write| write.intent.request)
        .collect();
    assert_eq!(
        requests,
        ["a", "c", "b"],
        "a repetition takes the place of what it repeats"
    );
}

#[test]
fn a_doubt_parks_its_role_and_the_others_go_on() {
    let roles = || {
        let mut team = team(vec![
            role("A", &[IDEA_LABEL], &["p"]),
            role("B", &[IDEA_LABEL], &["q"]),
        ]);
        team.roles.push(role("C", &["q"], &["r"]));
        team.policy.on_fault = OnFault::Park;
        team
    };
    let mut run = ManualRun::start(roles());
    let (call, other) = (run.call(), run.call());
    begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
    run.end(A, timeout());
    run.end(other.role, Ok(says("q ok")));
    run.act(Ok(says("r ok")));
    assert_eq!(run.halt(), Status::InDoubt);
    assert_eq!(run.history(), ["idea", "q ok", "r ok"]);
    run.resume(roles(), CallPolicy::Auto);
    settle(&mut run, &call, 0, DoubtResolution::Redo);
    run.act(Ok(says("p ok")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_fresh_attempt_forgets_what_was_begun_and_an_unclaimed_write_is_forgotten_by_name() {
    let mut run = ManualRun::start(single());
    let call = run.call();
    begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
    answer(&mut run, &call, "w", CallOutcome::Answered);
    begin(&mut run, &call, "k", LostAnswerPolicy::Repeat);
    run.resume(single(), CallPolicy::Auto);
    let again = run.call();
    let (role, work) = (again.role, again.work);
    let unclaimed = |writes: &[u32]| {
        let writes = writes.iter().map(|place| (*place, "POST".into())).collect();
        Event::Attempt(
            CallKey::new(role, work),
            AttemptEvent::WritesUnclaimed(WritesUnclaimed { writes }),
        )
    };
    for wrong in [&[][..], &[2], &[1, 0], &[0, 0]] {
        assert!(run.stepper.apply(&unclaimed(wrong)).is_err(), "{wrong:?}");
    }
    run.record(unclaimed(&[0, 1]));
    assert_eq!(external_writes(&run), []);
    begin(&mut run, &again, "v", LostAnswerPolicy::AskOperator);
    answer(&mut run, &again, "v", CallOutcome::Answered);
    let mut trap = Fault::new(FaultKind::Trap, "unreachable");
    trap.retryability = Retryability::Final;
    run.end(A, Err(trap));
    run.resume(single(), CallPolicy::Auto);
    assert_eq!(run.call().call_reuse, RecordedCallUse::Fresh);
    assert_eq!(external_writes(&run), []);
}

#[test]
fn a_doubt_of_an_action_that_a_lower_limit_takes_away_holds_nobody_up() {
    let looping = |max_loop| {
        let mut team = single();
        team.roles[0].react = React::Choose {
            max_loop,
            thinker: Thinker::Component,
        };
        team
    };
    let mut run = ManualRun::start(looping(2));
    run.act(Ok(CallResult::Chosen(0)));
    run.act(Ok(says("once")));
    let think = run.call();
    begin(&mut run, &think, "w", LostAnswerPolicy::AskOperator);
    run.resume(looping(1), CallPolicy::Auto);
    assert_eq!(doubts(&run), Vec::<String>::new());
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn an_attempt_that_ends_to_wait_leaves_its_lost_write_in_doubt() {
    let start_with_lost_write = || {
        let mut run = ManualRun::start(single());
        let call = run.call();
        begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
        answer(&mut run, &call, "w", CallOutcome::Unknown);
        (run, call)
    };
    let (mut run, call) = start_with_lost_write();
    run.record(Event::Attempt(
        CallKey::new(A, call.work),
        AttemptEvent::CallSuspended(CallSuspended {
            attempt: call.attempt,
            reason: SuspendReason::Budget,
        }),
    ));
    assert_eq!(
        (run.halt(), doubts(&run)),
        (Status::InDoubt, vec!["w".to_owned()])
    );

    let (mut run, _) = start_with_lost_write();
    asks(&mut run, 1);
    assert_eq!(run.halt(), Status::Waiting);
    run.record(
        run.stepper
            .request_answered_event(&run.open_request(A), HumanAnswer::Given(Json::null()), None)
            .expect("an open request"),
    );
    run.resume(single(), CallPolicy::Auto);
    assert_eq!(
        (run.halt(), doubts(&run)),
        (Status::InDoubt, vec!["w".to_owned()])
    );
}

#[test]
fn a_lost_write_of_an_action_that_is_taken_back_with_the_one_before_it_is_in_doubt() {
    let team = |reducer| {
        let roles = vec![
            role("A", &[IDEA_LABEL], &["p", "q"]),
            role("B", &[IDEA_LABEL], &["r"]),
        ];
        let mut team = team(roles);
        team.scopes.insert("s0".into(), reducer);
        team
    };
    let mut run = ManualRun::start(team(None));
    run.act(Ok(writes("p ok", &[("k", 1)])));
    let call = run.call();
    begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
    answer(&mut run, &call, "w", CallOutcome::Unknown);
    run.end(A, Ok(says("I looked: it is there")));
    run.act(Ok(writes("r ok", &[("k", 2)])));
    assert_eq!(run.halt(), Status::Failed, "both wrote the same");
    run.resume(team(Some(Reducer::Last)), CallPolicy::Auto);
    run.act(Ok(writes("p again", &[("k", 1)])));
    run.act(Ok(writes("r again", &[("k", 2)])));
    assert_eq!(
        (run.halt(), doubts(&run)),
        (Status::InDoubt, vec!["w".to_owned()])
    );
    run.resume(team(Some(Reducer::Last)), CallPolicy::Auto);
    settle(&mut run, &call, 0, DoubtResolution::Answer(Json::null()));
    let again = run.call();
    assert_eq!((again.attempt, again.recorded_calls.len()), (2, 2));
}

#[test]
fn what_the_operator_says_of_a_lost_write_is_served_whatever_the_failure_was() {
    let mut run = ManualRun::start(single());
    let call = run.call();
    begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
    run.end(A, Err(Fault::new(FaultKind::Trap, "unreachable")));
    assert_eq!(run.halt(), Status::InDoubt);
    run.resume(single(), CallPolicy::Auto);
    settle(&mut run, &call, 0, DoubtResolution::Answer(Json::null()));
    let again = run.call();
    assert_eq!(
        (again.call_reuse, again.recorded_calls.len()),
        (RecordedCallUse::Reuse, 1),
        "or the write is made twice"
    );
}

#[test]
fn a_doubt_is_settled_only_in_a_run_that_goes_on() {
    let mut run = ManualRun::start(single());
    let call = run.call();
    begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
    run.end(A, timeout());
    assert_eq!(run.halt(), Status::InDoubt);
    let (role, work, description, verdict) = (A, call.work, String::new(), DoubtResolution::Redo);
    let settled = Event::Attempt(
        CallKey::new(role, work),
        AttemptEvent::DoubtSettled(DoubtSettled {
            index: 0,
            description,
            resolution: verdict,
        }),
    );
    assert!(run.stepper.apply(&settled).is_err());
    run.resume(single(), CallPolicy::Auto);
    run.record(settled);
}

#[test]
fn the_same_write_begun_again_leaves_the_lost_one_in_doubt() {
    let mut run = ManualRun::start(single());
    let call = run.call();
    for _ in 0..2 {
        begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
        answer(&mut run, &call, "w", CallOutcome::Unknown);
    }
    run.end(A, timeout());
    assert_eq!(
        (run.halt(), doubts(&run)),
        (Status::InDoubt, vec!["w".to_owned(); 2])
    );
}

#[test]
fn an_attempt_that_starts_afresh_says_which_writes_it_may_repeat() {
    let check = |policy: CallPolicy, expected: &[&str]| {
        let mut run = ManualRun::start(single());
        let call = run.call();
        begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
        answer(&mut run, &call, "w", CallOutcome::Answered);
        // Whether this write took effect is unknown, but the receiver recognises it by its key.
        begin(&mut run, &call, "k", LostAnswerPolicy::Repeat);
        run.end(A, Err(Fault::new(FaultKind::Trap, "unreachable")));
        run.resume(single(), policy);
        run.call();
        let Some(Event::Attempt(_, AttemptEvent::CallStarted(CallStarted { forgotten, .. }))) =
            run.log.last()
        else {
            panic!("a call has started")
        };
        assert_eq!(forgotten, expected, "{policy:?}");
    };
    check(CallPolicy::Auto, &["POST w"]);
    check(CallPolicy::Reuse, &[]);
}

#[test]
fn another_component_does_not_repeat_a_write_that_was_lost_before_the_old_one_asked() {
    let mut run = ManualRun::start(single());
    let call = run.call();
    begin(&mut run, &call, "w", LostAnswerPolicy::AskOperator);
    answer(&mut run, &call, "w", CallOutcome::Unknown);
    asks(&mut run, 0);
    assert_eq!((run.halt(), doubts(&run).len()), (Status::Waiting, 0));
    run.resume(single(), CallPolicy::Auto);
    let slot = Slot {
        role: A,
        kind: SlotKind::Action(ActionId(0)),
    };
    let (old, new) = (Some(Digest::from("build 0")), Digest::from("build 1"));
    run.record(Event::ComponentChanged(ComponentChanged { slot, old, new }));
    assert_eq!(
        (run.halt(), doubts(&run)),
        (Status::InDoubt, vec!["w".to_owned()])
    );
}
