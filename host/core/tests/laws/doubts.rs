//! Calls that may change the world: begun, answered, lost, settled, given up.

use strata_core::activation::Phase;
use strata_core::effect::Invocation;
use strata_core::event::{
    CallPolicy, Event, Finished, HostCall, HostCallKind, Journal, Outcome, Source, Status,
};
use strata_core::fault::{Fault, FaultKind, Hope};
use strata_core::host_call::{Again, Begun, Intent, Known, Verdict};
use strata_core::id::{ActionId, Digest, Part, RoleId, Slot};
use strata_core::json::Json;
use strata_core::message::IDEA_LABEL;
use strata_core::money::Usd;
use strata_core::request::{Answer, Request};
use strata_core::team::{OnFault, React, Reducer, Retry, Team, Thinker};

use crate::hand::{Hand, says, writes};
use crate::teams::{role, team};

const A: RoleId = RoleId(0);

fn single() -> Team {
    let mut team = team(vec![role("A", &[IDEA_LABEL], &["p"])]);
    team.roles[0].actions[0].retry = Retry {
        retries: 5,
        backoff_ms: 1,
    };
    team
}

fn begin(life: &mut Hand, call: &Invocation, request: &str, again: Again) {
    let intent = Intent {
        kind: HostCallKind::Http,
        request: request.into(),
        what: format!("POST {request}"),
        again,
    };
    life.record(Event::HostCallBegun {
        role: call.role,
        work: call.work,
        intent,
    });
}

fn answer(life: &mut Hand, call: &Invocation, request: &str, outcome: Outcome) {
    let (kind, request, response) = (HostCallKind::Http, request.into(), Json::null());
    let answer = HostCall {
        kind,
        request,
        response,
        cost: Usd::ZERO,
        tokens: 0,
        outcome,
        finish: None,
    };
    life.record(Event::HostCalled {
        role: call.role,
        work: call.work,
        call: answer,
        source: Source::Live,
        what: String::new(),
    });
}

fn settle(life: &mut Hand, call: &Invocation, place: u32, verdict: Verdict) {
    life.record(Event::DoubtSettled {
        role: call.role,
        work: call.work,
        place,
        what: String::new(),
        verdict,
    });
}

fn begun(life: &Hand) -> Vec<Begun> {
    life.env()
        .role(A)
        .activation
        .as_ref()
        .map(|activation| activation.current.begun.clone())
        .unwrap_or_default()
}

fn doubts(life: &Hand) -> Vec<String> {
    life.env()
        .doubts()
        .map(|(_, _, begun)| begun.intent.request.clone())
        .collect()
}

fn timeout() -> Result<Finished, Fault> {
    Err(Fault::new(FaultKind::Timeout, "too slow"))
}

/// The call under way asks a person, as the `index`-th that it asks.
fn asks(life: &mut Hand, index: u32) {
    let request = Request {
        id: life.stepper.request_id(A, index).expect("a call under way"),
        question: "go on?".into(),
        schema: None,
        choices: Vec::new(),
        default: None,
        expires_ms: None,
        call: "question".into(),
    };
    life.record(
        life.stepper
            .request_opened(A, request)
            .expect("a call under way"),
    );
}

#[test]
fn a_write_killed_in_flight_stops_the_run_until_it_is_settled() {
    let check = |verdict: Verdict, recorded: usize| {
        let mut life = Hand::start(single());
        let call = life.call();
        begin(&mut life, &call, "w", Again::Ask);
        assert_eq!(
            doubts(&life),
            Vec::<String>::new(),
            "an attempt waits for it"
        );
        for _ in 0..2 {
            life.resume(single(), CallPolicy::Auto);
            assert_eq!(life.halt(), Status::InDoubt);
            assert_eq!(doubts(&life), ["w"]);
        }
        life.resume(single(), CallPolicy::Auto);
        settle(&mut life, &call, 0, verdict);
        let again = life.call();
        assert_eq!(
            (again.attempt, again.journal, again.recorded.len()),
            (2, Journal::Keep, recorded)
        );
        life.end(A, Ok(says("ok")));
        assert_eq!(life.halt(), Status::Done);
    };
    check(Verdict::Redo, 0);
    check(Verdict::Answer(Json::null()), 1);
}

#[test]
fn what_is_known_of_a_write_follows_its_answer() {
    let check =
        |outcome: Option<Outcome>, again: Again, known: &[Known], status: Option<Status>| {
            let mut life = Hand::start(single());
            let call = life.call();
            begin(&mut life, &call, "w", again);
            if let Some(outcome) = outcome {
                answer(&mut life, &call, "w", outcome);
            }
            assert_eq!(
                begun(&life)
                    .iter()
                    .map(|begun| begun.result)
                    .collect::<Vec<_>>(),
                known,
                "{outcome:?}"
            );
            life.resume(single(), CallPolicy::Auto);
            assert_eq!(
                life.next_call().is_none(),
                status.is_some(),
                "{outcome:?} {again:?}"
            );
            if let Some(status) = status {
                assert_eq!(life.halt(), status);
            }
        };
    check(None, Again::Ask, &[Known::No], Some(Status::InDoubt));
    check(None, Again::Repeat, &[Known::No], None);
    check(
        Some(Outcome::Answered),
        Again::Ask,
        &[Known::Recorded],
        None,
    );
    check(Some(Outcome::Failed), Again::Ask, &[], None);
    check(
        Some(Outcome::Unknown),
        Again::Ask,
        &[Known::No],
        Some(Status::InDoubt),
    );
    check(Some(Outcome::Unknown), Again::Repeat, &[Known::No], None);
}

#[test]
fn what_is_in_doubt_is_not_tried_again_by_itself() {
    let check = |outcome: Option<Outcome>, retried: bool| {
        let mut life = Hand::start(single());
        let call = life.call();
        begin(&mut life, &call, "w", Again::Ask);
        if let Some(outcome) = outcome {
            answer(&mut life, &call, "w", outcome);
        }
        life.end(A, timeout());
        let phase = &life.env().role(A).activation.as_ref().unwrap().phase;
        assert_eq!(*phase == Phase::Resting, retried, "{outcome:?}");
        if !retried {
            assert_eq!(life.halt(), Status::InDoubt);
        }
    };
    check(None, false);
    check(Some(Outcome::Unknown), false);
    check(Some(Outcome::Failed), true);
    check(Some(Outcome::Answered), true);
    let mut life = Hand::start(single());
    let call = life.call();
    begin(&mut life, &call, "w", Again::Repeat);
    life.end(A, timeout());
    assert_eq!(
        life.env().role(A).activation.as_ref().unwrap().phase,
        Phase::Resting
    );
}

#[test]
fn an_action_that_gets_along_with_an_unknown_result_is_done() {
    let mut life = Hand::start(single());
    let call = life.call();
    begin(&mut life, &call, "w", Again::Ask);
    answer(&mut life, &call, "w", Outcome::Unknown);
    life.end(A, Ok(says("I looked: it is there")));
    assert_eq!(life.halt(), Status::Done);
}

#[test]
fn every_doubt_has_to_be_settled_and_nothing_else_can_be() {
    let mut life = Hand::start(single());
    let call = life.call();
    for (request, again) in [
        ("a", Again::Ask),
        ("b", Again::Repeat),
        ("c", Again::Ask),
        ("d", Again::Ask),
    ] {
        begin(&mut life, &call, request, again);
    }
    answer(&mut life, &call, "c", Outcome::Answered);
    life.resume(single(), CallPolicy::Auto);
    assert_eq!(doubts(&life), ["a", "d"]);
    for place in [1, 2, 4, u32::MAX] {
        let (what, verdict) = (String::new(), Verdict::Redo);
        let wrong = Event::DoubtSettled {
            role: A,
            work: call.work,
            place,
            what,
            verdict,
        };
        assert!(life.stepper.apply(&wrong).is_err(), "{place}");
    }
    settle(&mut life, &call, 3, Verdict::Redo);
    assert_eq!(life.halt(), Status::InDoubt);
    life.resume(single(), CallPolicy::Auto);
    settle(&mut life, &call, 0, Verdict::Answer(Json::null()));
    let again = life.call();
    assert_eq!(again.recorded.len(), 2);
    begin(&mut life, &again, "b", Again::Repeat);
    let requests: Vec<String> = begun(&life)
        .into_iter()
        .map(|begun| begun.intent.request)
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
    let mut life = Hand::start(roles());
    let (call, other) = (life.call(), life.call());
    begin(&mut life, &call, "w", Again::Ask);
    life.end(A, timeout());
    life.end(other.role, Ok(says("q ok")));
    life.act(Ok(says("r ok")));
    assert_eq!(life.halt(), Status::InDoubt);
    assert_eq!(life.history(), ["idea", "q ok", "r ok"]);
    life.resume(roles(), CallPolicy::Auto);
    settle(&mut life, &call, 0, Verdict::Redo);
    life.act(Ok(says("p ok")));
    assert_eq!(life.halt(), Status::Done);
}

#[test]
fn a_fresh_attempt_forgets_what_was_begun_and_an_unclaimed_write_is_forgotten_by_name() {
    let mut life = Hand::start(single());
    let call = life.call();
    begin(&mut life, &call, "w", Again::Ask);
    answer(&mut life, &call, "w", Outcome::Answered);
    begin(&mut life, &call, "k", Again::Repeat);
    life.resume(single(), CallPolicy::Auto);
    let again = life.call();
    let (role, work) = (again.role, again.work);
    let unclaimed = |writes: &[u32]| {
        let writes = writes.iter().map(|place| (*place, "POST".into())).collect();
        Event::WritesUnclaimed { role, work, writes }
    };
    for wrong in [&[][..], &[2], &[1, 0], &[0, 0]] {
        assert!(life.stepper.apply(&unclaimed(wrong)).is_err(), "{wrong:?}");
    }
    life.record(unclaimed(&[0, 1]));
    assert_eq!(begun(&life), []);
    begin(&mut life, &again, "v", Again::Ask);
    answer(&mut life, &again, "v", Outcome::Answered);
    let mut trap = Fault::new(FaultKind::Trap, "unreachable");
    trap.hope = Hope::Final;
    life.end(A, Err(trap));
    life.resume(single(), CallPolicy::Auto);
    assert_eq!(life.call().journal, Journal::Fresh);
    assert_eq!(begun(&life), []);
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
    let mut life = Hand::start(looping(2));
    life.act(Ok(Finished::Chosen(0)));
    life.act(Ok(says("once")));
    let think = life.call();
    begin(&mut life, &think, "w", Again::Ask);
    life.resume(looping(1), CallPolicy::Auto);
    assert_eq!(doubts(&life), Vec::<String>::new());
    assert_eq!(life.halt(), Status::Done);
}

#[test]
fn an_attempt_that_ends_to_wait_leaves_its_lost_write_in_doubt() {
    let begun = || {
        let mut life = Hand::start(single());
        let call = life.call();
        begin(&mut life, &call, "w", Again::Ask);
        answer(&mut life, &call, "w", Outcome::Unknown);
        (life, call)
    };
    let (mut life, call) = begun();
    life.record(Event::CallSuspended {
        role: A,
        work: call.work,
        attempt: call.attempt,
    });
    assert_eq!(
        (life.halt(), doubts(&life)),
        (Status::InDoubt, vec!["w".to_owned()])
    );

    let (mut life, _) = begun();
    asks(&mut life, 1);
    assert_eq!(life.halt(), Status::Waiting);
    life.record(
        life.stepper
            .request_answered(A, Answer::Given(Json::null()))
            .expect("an open request"),
    );
    life.resume(single(), CallPolicy::Auto);
    assert_eq!(
        (life.halt(), doubts(&life)),
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
    let mut life = Hand::start(team(None));
    life.act(Ok(writes("p ok", &[("k", 1)])));
    let call = life.call();
    begin(&mut life, &call, "w", Again::Ask);
    answer(&mut life, &call, "w", Outcome::Unknown);
    life.end(A, Ok(says("I looked: it is there")));
    life.act(Ok(writes("r ok", &[("k", 2)])));
    assert_eq!(life.halt(), Status::Failed, "both wrote the same");
    life.resume(team(Some(Reducer::Last)), CallPolicy::Auto);
    life.act(Ok(writes("p again", &[("k", 1)])));
    life.act(Ok(writes("r again", &[("k", 2)])));
    assert_eq!(
        (life.halt(), doubts(&life)),
        (Status::InDoubt, vec!["w".to_owned()])
    );
    life.resume(team(Some(Reducer::Last)), CallPolicy::Auto);
    settle(&mut life, &call, 0, Verdict::Answer(Json::null()));
    let again = life.call();
    assert_eq!((again.attempt, again.recorded.len()), (2, 2));
}

#[test]
fn what_the_operator_says_of_a_lost_write_is_served_whatever_the_failure_was() {
    let mut life = Hand::start(single());
    let call = life.call();
    begin(&mut life, &call, "w", Again::Ask);
    life.end(A, Err(Fault::new(FaultKind::Trap, "unreachable")));
    assert_eq!(life.halt(), Status::InDoubt);
    life.resume(single(), CallPolicy::Auto);
    settle(&mut life, &call, 0, Verdict::Answer(Json::null()));
    let again = life.call();
    assert_eq!(
        (again.journal, again.recorded.len()),
        (Journal::Keep, 1),
        "or the write is made twice"
    );
}

#[test]
fn a_doubt_is_settled_only_in_a_run_that_goes_on() {
    let mut life = Hand::start(single());
    let call = life.call();
    begin(&mut life, &call, "w", Again::Ask);
    life.end(A, timeout());
    assert_eq!(life.halt(), Status::InDoubt);
    let (role, work, what, verdict) = (A, call.work, String::new(), Verdict::Redo);
    let settled = Event::DoubtSettled {
        role,
        work,
        place: 0,
        what,
        verdict,
    };
    assert!(life.stepper.apply(&settled).is_err());
    life.resume(single(), CallPolicy::Auto);
    life.record(settled);
}

#[test]
fn the_same_write_begun_again_leaves_the_lost_one_in_doubt() {
    let mut life = Hand::start(single());
    let call = life.call();
    for _ in 0..2 {
        begin(&mut life, &call, "w", Again::Ask);
        answer(&mut life, &call, "w", Outcome::Unknown);
    }
    life.end(A, timeout());
    assert_eq!(
        (life.halt(), doubts(&life)),
        (Status::InDoubt, vec!["w".to_owned(); 2])
    );
}

#[test]
fn an_attempt_that_starts_afresh_says_which_writes_it_may_repeat() {
    let check = |policy: CallPolicy, expected: &[&str]| {
        let mut life = Hand::start(single());
        let call = life.call();
        begin(&mut life, &call, "w", Again::Ask);
        answer(&mut life, &call, "w", Outcome::Answered);
        // Whether this one took effect is not known, but the other side knows it again.
        begin(&mut life, &call, "k", Again::Repeat);
        life.end(A, Err(Fault::new(FaultKind::Trap, "unreachable")));
        life.resume(single(), policy);
        life.call();
        let Some(Event::CallStarted { forgotten, .. }) = life.log.last() else {
            panic!("a call has started")
        };
        assert_eq!(forgotten, expected, "{policy:?}");
    };
    check(CallPolicy::Auto, &["POST w"]);
    check(CallPolicy::Reuse, &[]);
}

#[test]
fn another_component_does_not_repeat_a_write_that_was_lost_before_the_old_one_asked() {
    let mut life = Hand::start(single());
    let call = life.call();
    begin(&mut life, &call, "w", Again::Ask);
    answer(&mut life, &call, "w", Outcome::Unknown);
    asks(&mut life, 0);
    assert_eq!((life.halt(), doubts(&life).len()), (Status::Waiting, 0));
    life.resume(single(), CallPolicy::Auto);
    let slot = Slot {
        role: A,
        part: Part::Action(ActionId(0)),
    };
    let (old, new) = (Some(Digest::from("build 0")), Digest::from("build 1"));
    life.record(Event::ComponentChanged { slot, old, new });
    assert_eq!(
        (life.halt(), doubts(&life)),
        (Status::InDoubt, vec!["w".to_owned()])
    );
}
