//! Single runs, step by step, one for each thing that is easily got wrong.

use strata_core::machine::effect::Effect;
use strata_core::record::event::{AttemptEvent, ComponentChanged, Event, Status};
use strata_core::record::fault::{Fault, FaultKind, Retryability};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::{ActionId, Digest, RoleId, Slot, SlotKind};
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, Hop, IDEA_LABEL, TO_ALL};
use strata_core::record::rules::{Reducer, Thinker};
use strata_core::record::work::{ActivationKey, CallKey, CallResult, Task};
use strata_core::state::activation::{Addressing, Phase};
use strata_core::state::environment::routing::{AddressBook, OwnMessages, RouteInput, route};
use strata_core::state::environment::scope::ScopeKey;
use strata_core::team::condition::WorkBudget;
use strata_core::team::{OnFault, React, Team};

use crate::manual_run::{FIRST_ACTION, ManualRun, draft, mail, says, writes};
use crate::teams::{role, team};

fn chooser(max_loop: u32) -> Team {
    let mut chooser = role("C", &[IDEA_LABEL], &["x", "y"]);
    chooser.react = React::Choose {
        max_loop,
        thinker: Thinker::Component,
    };
    team(vec![chooser])
}

/// Returns a team of a role that chooses twice and another role; both may write to a scope.
fn beside_a_writer(reducer: Option<Reducer>) -> Team {
    let mut team = chooser(2);
    team.roles.push(role("B", &[IDEA_LABEL], &["b"]));
    team.scopes.insert("s0".into(), reducer);
    team
}

#[test]
fn a_raised_loop_limit_does_not_unsettle_what_was_recorded_under_the_lower_one() {
    let mut run = ManualRun::start(chooser(1));
    run.act(Ok(CallResult::Chosen(0)));
    run.act(Ok(says("x ok")));
    assert_eq!(run.halt(), Status::Done);
    run.resume(chooser(5), CallPolicy::Auto);
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "x ok"]);
}

#[test]
fn a_lowered_loop_limit_ends_an_activation_that_has_reached_it() {
    let mut run = ManualRun::start(chooser(5));
    run.act(Ok(CallResult::Chosen(0)));
    run.act(Ok(says("x ok")));
    run.resume(chooser(1), CallPolicy::Auto);
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "x ok"]);
}

#[test]
fn what_a_parked_role_had_done_is_published_when_a_lowered_limit_ends_its_activation() {
    let parking = |max_loop| {
        let mut team = chooser(max_loop);
        team.policy.on_fault = OnFault::Park;
        team
    };
    let mut run = ManualRun::start(parking(5));
    run.act(Ok(CallResult::Chosen(0)));
    run.act(Ok(says("x ok")));
    run.act(Err(Fault::new(FaultKind::Trap, "in the second choice")));
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!((run.env().is_step_open, run.history().len()), (false, 1));
    run.resume(parking(1), CallPolicy::Auto);
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "x ok"]);
}

#[test]
fn a_new_reducer_does_not_change_what_was_committed_without_one() {
    let with = |reducer| {
        let mut team = team(vec![role("A", &[IDEA_LABEL], &["a"])]);
        team.scopes.insert("s0".into(), reducer);
        team
    };
    let mut run = ManualRun::start(with(None));
    run.act(Ok(writes("a ok", &[("k", 1)])));
    assert_eq!(run.halt(), Status::Done);
    let before = run.env().shared_scopes.clone();
    run.resume(with(Some(Reducer::Append)), CallPolicy::Auto);
    assert_eq!(run.env().shared_scopes, before);
    assert_eq!(run.env().rules.scopes["s0"], Some(Reducer::Append));
}

/// Returns a team of two roles that receive the idea and share a scope.
fn two_writers(reducer: Option<Reducer>) -> Team {
    let mut team = team(vec![
        role("A", &[IDEA_LABEL], &["p", "a"]),
        role("B", &[IDEA_LABEL], &["b"]),
    ]);
    team.scopes.insert("s0".into(), reducer);
    team
}

/// Returns a run of this team up to the conflict. A called a model before it wrote.
fn conflict() -> ManualRun {
    let mut run = ManualRun::start(two_writers(None));
    run.act(Ok(says("p ok")));
    let call = run.call();
    run.ask(&call, "q", 5);
    run.end(call.role, Ok(writes("a ok", &[("k", 1)])));
    run.act(Ok(writes("b ok", &[("k", 2)])));
    assert_eq!(run.halt(), Status::Failed);
    run
}

#[test]
fn a_call_that_is_undone_by_a_conflict_is_made_again_as_the_next_attempt() {
    let mut run = conflict();
    let (_, failed) = run
        .env()
        .failed_calls(run.stepper.team())
        .next()
        .expect("A failed");
    assert_eq!(failed.progress.attempts, 1);
    run.resume(two_writers(Some(Reducer::Add)), CallPolicy::Auto);
    let again = run.act(Ok(writes("a again", &[("k", 1)])));
    assert_eq!(
        (again.attempt, again.idempotency_key.as_str()),
        (2, "run/0/A/1")
    );
    assert_eq!(again.outputs[0].content, "p ok");
    assert_eq!(
        again.recorded_calls.len(),
        1,
        "it was paid for, and what was wrong is not the action"
    );
    run.act(Ok(writes("b again", &[("k", 2)])));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(
        run.env().shared_scopes["s0"]["k"],
        Json::from(serde_json::json!(3))
    );
    assert_eq!(run.history(), ["idea", "a again", "b again"]);
}

#[test]
fn calls_after_an_undone_one_are_made_again_as_next_attempts_too() {
    let team = |reducer| {
        let mut team = two_writers(reducer);
        team.roles.swap(0, 1);
        team
    };
    let mut run = ManualRun::start(team(None));
    run.act(Ok(writes("b ok", &[("k", 1)])));
    run.act(Ok(writes("p ok", &[("k", 2)])));
    run.act(Ok(says("a ok")));
    assert_eq!(run.halt(), Status::Failed);
    run.resume(team(Some(Reducer::Last)), CallPolicy::Auto);
    let attempts: Vec<u32> = ["b", "p", "a"]
        .map(|text| run.act(Ok(says(text))).attempt)
        .into();
    assert_eq!(attempts, [2, 2, 2]);
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_scope_that_the_team_no_longer_declares_unites_nothing() {
    let mut run = ManualRun::start(two_writers(Some(Reducer::Add)));
    run.act(Ok(writes("p ok", &[("k", 1)])));
    run.act(Ok(says("a ok")));
    run.act(Ok(writes("b ok", &[("k", 2)])));
    let mut without = two_writers(None);
    without.scopes.clear();
    run.resume(without, CallPolicy::Auto);
    assert_eq!(run.halt(), Status::Failed);
}

#[test]
fn what_an_undone_call_recorded_can_still_be_reused() {
    let mut run = conflict();
    run.resume(two_writers(Some(Reducer::Add)), CallPolicy::Reuse);
    assert_eq!(run.call().recorded_calls.len(), 1);
}

#[test]
fn nothing_of_a_conflict_is_seen_anywhere() {
    let run = conflict();
    assert!(run.env().shared_scopes.is_empty());
    assert_eq!(run.history(), ["idea"]);
    for (role, scope) in [(0, "s0"), (1, "s0"), (0, "role")] {
        let value = run.env().read_key(
            run.stepper.team(),
            ActivationKey::of_mail(RoleId(role)),
            ScopeKey { scope, key: "k" },
            None,
            &[],
        );
        assert_eq!(value, Some(None));
    }
}

#[test]
fn a_plan_that_nobody_can_carry_out_is_a_fault() {
    let check = |actions: &[&str], action: Option<&str>, fails: bool| {
        let mut planner = role("P", &[IDEA_LABEL], actions);
        planner.react = React::PlanAndAct;
        let mut run = ManualRun::start(team(vec![planner]));
        let tasks = vec![Task {
            text: "t".into(),
            action: action.map(String::from),
        }];
        run.act(Ok(CallResult::Planned {
            tasks,
            emissions: Vec::new(),
            writes: Vec::new(),
        }));
        assert_eq!(
            run.env().failed_calls(run.stepper.team()).next().is_some(),
            fails,
            "{actions:?} {action:?}"
        );
    };
    check(&["plan"], None, true);
    check(&["plan"], Some("plan"), true);
    check(&["plan", "work"], Some("plan"), true);
    check(&["plan", "work"], Some("rest"), true);
    check(&["plan", "work"], Some("work"), false);
    check(&["plan", "work"], None, false);
}

#[test]
fn a_team_whose_roles_have_no_actions_ends_done() {
    for react in [
        React::ByOrder,
        React::PlanAndAct,
        React::Choose {
            max_loop: 0,
            thinker: Thinker::Model,
        },
    ] {
        let mut idle = role("I", &[IDEA_LABEL], &[]);
        idle.react = react;
        let mut run = ManualRun::start(team(vec![idle]));
        assert_eq!(run.halt(), Status::Done);
        assert_eq!(run.env().roles[0].memory.len(), 1, "it heard the idea");
    }
}

#[test]
fn a_run_that_has_ended_takes_in_nothing_more_of_its_steps() {
    let mut run = ManualRun::start(team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
    ]));
    let call = run.call();
    let late = [
        run.stepper
            .call_ended_event(call.key(), Ok(says("late")))
            .expect("an end"),
        run.stepper
            .call_ended_event(call.key(), Err(Fault::new(FaultKind::Trap, "late")))
            .expect("an end"),
        Event::Attempt(call.key(), AttemptEvent::RetryDue),
        run.stepper.run_ended_event(Status::Done),
    ];
    run.record(run.stepper.run_ended_event(Status::Interrupted));
    for event in late {
        let before = run.env().clone();
        assert!(run.stepper.apply(&event).is_err(), "{event:?}");
        assert_eq!(*run.env(), before);
    }
}

#[test]
fn a_component_is_changed_only_where_it_stands() {
    let mut run = ManualRun::start(team(vec![role("A", &[IDEA_LABEL], &["a"])]));
    let mut check = |slot, old: &str, fits: bool| {
        let event = Event::ComponentChanged(ComponentChanged {
            slot,
            old: Some(Digest::from(old)),
            new: Digest::from("build 1"),
        });
        assert_eq!(run.stepper.apply(&event).is_ok(), fits, "{event:?}");
    };
    check(
        Slot {
            role: RoleId(0),
            kind: SlotKind::Action(ActionId(1)),
        },
        "build 0",
        false,
    );
    check(
        Slot {
            role: RoleId(1),
            kind: SlotKind::Think,
        },
        "build 0",
        false,
    );
    check(
        Slot {
            role: RoleId(0),
            kind: SlotKind::Action(ActionId(0)),
        },
        "another",
        false,
    );
    check(
        Slot {
            role: RoleId(0),
            kind: SlotKind::Action(ActionId(0)),
        },
        "build 0",
        true,
    );
}

#[test]
fn a_message_from_outside_without_recipients_is_a_broadcast_and_is_taken_once() {
    let mut run = ManualRun::start(team(vec![role("A", &["x"], &["a"])]));
    let sent = run.stepper.message_sent_event(mail("hi", "x", &[]));
    run.record(sent.clone());
    assert!(run.stepper.apply(&sent).is_err());
    let mail = run.env().roles[0].mailbox[0];
    assert_eq!(run.env().message(mail.message).send_to, [TO_ALL]);
}

#[test]
fn a_failed_choice_is_a_fault_of_the_choice_and_keeps_its_reason() {
    let check = |result, message: &str| {
        let mut run = ManualRun::start(chooser(1));
        run.act(result);
        let (_, failed) = run
            .env()
            .failed_calls(run.stepper.team())
            .next()
            .expect("the choice failed");
        let Phase::Failed(fault) = &failed.phase else {
            panic!("it failed")
        };
        assert_eq!(
            (fault.kind, fault.message.as_str()),
            (FaultKind::Think, message)
        );
    };
    check(
        Ok(CallResult::Chosen(2)),
        "chose action 2 of 2; indices count from 0, and -1 stops",
    );
    check(
        Err(Fault::new(FaultKind::Trap, "unreachable")),
        "choosing failed: trap: unreachable",
    );
}

#[test]
fn legs_that_nobody_travels_do_not_multiply_where_copies_meet() {
    // A sends to B and C, both send to A, and so on; the hop of Z travels with every message.
    let mut team = team(vec![
        role("A", &[IDEA_LABEL, "b", "c"], &["a"]),
        role("B", &["a"], &["b"]),
        role("C", &["a"], &["c"]),
    ]);
    team.policy.max_steps = Some(20);
    let mut run = ManualRun::start(team);
    let route = vec![Hop {
        from: "Z".into(),
        to: vec!["A".into()],
    }];
    let output = Draft {
        route: route.clone(),
        ..draft("first", &[])
    };
    run.act(Ok(CallResult::Returned {
        output,
        emissions: Vec::new(),
        writes: Vec::new(),
    }));
    while let Effect::Call(_) = run.go() {
        run.act(Ok(says("on")));
    }
    let last = run.env().history.last().expect("a message");
    assert_eq!(run.env().message(*last).route, route);
}

#[test]
fn a_leg_that_names_nobody_drops_the_message_and_says_so() {
    let team = team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &["a"], &["b"]),
    ]);
    let check = |to: &[&[&str]], expected: Option<&str>| {
        let leg = |to: &&[&str]| Hop {
            from: "A".into(),
            to: to.iter().map(|name| (*name).into()).collect(),
        };
        let message = mail("x", "a", &[]);
        let itinerary = to.iter().map(leg).collect();
        let parcel = RouteInput {
            message: &message,
            from: Some(RoleId(0)),
            addressing: Addressing::ByEnvironment,
            itinerary,
        };
        let book = AddressBook::new(&team, OwnMessages::Delivered);
        let routed = route(&team, &book, parcel, &mut WorkBudget::default());
        assert_eq!(routed.drop_reason.as_deref(), expected);
    };
    check(&[&[]], Some("its itinerary names nobody for this leg"));
    check(&[&[], &["B"]], None);
    check(&[], None);
}

#[test]
fn a_role_of_an_imported_team_hears_itself_only_by_name() {
    let team = team(vec![
        role("A", &[IDEA_LABEL, "a"], &["a"]),
        role("B", &["a"], &["b"]),
    ]);
    let to = |own_messages, names: &[&str], addressed| {
        let message = mail("x", "a", names);
        let parcel = RouteInput {
            message: &message,
            from: Some(RoleId(0)),
            addressing: addressed,
            itinerary: Vec::new(),
        };
        route(
            &team,
            &AddressBook::new(&team, own_messages),
            parcel,
            &mut WorkBudget::default(),
        )
        .to
    };
    let (both, other) = ([RoleId(0), RoleId(1)], [RoleId(1)]);
    assert_eq!(
        to(OwnMessages::Delivered, &[], Addressing::ByEnvironment),
        both
    );
    assert_eq!(
        to(OwnMessages::Withheld, &[], Addressing::ByEnvironment),
        other
    );
    assert_eq!(
        to(OwnMessages::Withheld, &[TO_ALL], Addressing::Explicit),
        other
    );
    assert_eq!(
        to(OwnMessages::Withheld, &["A", TO_ALL], Addressing::Explicit),
        both
    );
    assert_eq!(
        to(OwnMessages::Withheld, &["<self>"], Addressing::Explicit),
        [RoleId(0)]
    );
}

#[test]
fn a_role_that_rests_before_another_try_holds_nobody_up() {
    let mut resting = role("A", &[IDEA_LABEL], &["a"]);
    resting.actions[0].retry.retries = 1;
    let mut team = team(vec![resting, role("B", &[IDEA_LABEL], &["b"])]);
    team.policy.max_parallel = 1;
    let mut run = ManualRun::start(team);
    let retryable = Fault {
        retryability: Retryability::Retryable,
        ..Fault::new(FaultKind::Error, "try again")
    };
    run.act(Err(retryable));
    assert_eq!(run.act(Ok(says("b ok"))).role, RoleId(1));
    assert_eq!(run.go(), Effect::Wait);
    run.record(Event::Attempt(
        CallKey::new(RoleId(0), FIRST_ACTION),
        AttemptEvent::RetryDue,
    ));
    assert_eq!(run.act(Ok(says("a ok"))).attempt, 2);
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "a ok", "b ok"]);
}

#[test]
fn a_choice_that_followed_an_undone_call_is_made_again() {
    let mut run = ManualRun::start(beside_a_writer(None));
    let chosen = |index| Ok(CallResult::Chosen(index));
    for result in [
        chosen(0),
        Ok(writes("x ok", &[("k", 1)])),
        chosen(1),
        Ok(says("y ok")),
    ] {
        assert_eq!(run.act(result).role, RoleId(0));
    }
    run.act(Ok(writes("b ok", &[("k", 2)])));
    assert_eq!(run.halt(), Status::Failed);
    run.resume(beside_a_writer(Some(Reducer::Last)), CallPolicy::Auto);
    assert_eq!(run.act(Ok(says("x again"))).idempotency_key, "run/0/C/0/0");
    let choice = run.act(chosen(-1));
    assert_eq!(
        (choice.idempotency_key.as_str(), choice.outputs.len()),
        ("run/0/C/think/1", 1)
    );
    run.act(Ok(says("b again")));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "x again", "b again"]);
}

#[test]
fn a_choice_that_the_operator_stopped_is_no_fault_of_the_choice() {
    let mut run = ManualRun::start(chooser(1));
    let stopped = Fault::new(FaultKind::Interrupted, "stopped by the operator");
    run.act(Err(stopped.clone()));
    let (_, failed) = run
        .env()
        .failed_calls(run.stepper.team())
        .next()
        .expect("it was stopped");
    assert_eq!(*failed.phase, Phase::Failed(stopped));
}

#[test]
fn tries_count_on_over_one_conflict_after_another() {
    let mut run = conflict();
    for attempt in [2, 3] {
        run.resume(two_writers(None), CallPolicy::Auto);
        assert_eq!(run.act(Ok(writes("a again", &[("k", 1)]))).attempt, attempt);
        assert_eq!(run.act(Ok(writes("b again", &[("k", 2)]))).attempt, attempt);
        assert_eq!(run.halt(), Status::Failed);
    }
}

#[test]
fn an_action_that_was_chosen_twice_and_is_undone_counts_its_tries_by_place() {
    let mut run = ManualRun::start(beside_a_writer(None));
    for result in [
        CallResult::Chosen(0),
        writes("once", &[("k", 1)]),
        CallResult::Chosen(0),
    ] {
        run.act(Ok(result));
    }
    run.act(Err(Fault::new(FaultKind::Trap, "in the second x")));
    run.act(Ok(writes("b ok", &[("k", 2)])));
    assert_eq!(run.halt(), Status::Failed);
    run.resume(beside_a_writer(None), CallPolicy::Auto);
    assert_eq!(run.act(Ok(says("twice"))).attempt, 2);
    assert_eq!(run.halt(), Status::Failed, "both wrote the same");
    run.resume(beside_a_writer(Some(Reducer::Last)), CallPolicy::Auto);
    let first = run.act(Ok(says("once")));
    run.act(Ok(CallResult::Chosen(0)));
    let second = run.act(Ok(says("twice")));
    assert_eq!(
        [first, second].map(|call| (call.outputs.len(), call.attempt)),
        [(0, 2), (1, 3)]
    );
}
