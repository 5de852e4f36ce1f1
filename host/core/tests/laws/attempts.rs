//! Attempts, step by step: how many run concurrently, which comes next, and how long the pause
//! before another one is.

use std::collections::BTreeSet;

use strata_core::machine::effect::Effect;
use strata_core::record::event::{AttemptEvent, CallFailed, Event, Logged, LookupsDenied, Status};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::rules::{Reducer, Thinker};
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::state::activation::{Activation, idempotency_base};
use strata_core::team::{React, RetryPolicy, Team};

use crate::manual_run::{FIRST_ACTION, ManualRun, says, writes};
use crate::teams::{role, team};

#[test]
fn no_more_calls_run_at_once_than_the_policy_allows() {
    for most in [1, 2] {
        let mut team = team(
            ["A", "B", "C"]
                .map(|name| role(name, &[IDEA_LABEL], &["act"]))
                .into(),
        );
        team.policy.max_parallel = most;
        let mut run = ManualRun::start(team);
        (0..most).for_each(|_| drop(run.call()));
        assert_eq!(run.go(), Effect::Wait, "{most} are under way");
        run.end(RoleId(0), Ok(says("A ok")));
        assert_eq!(run.call().role, RoleId(most as u16));
    }
}

#[test]
fn what_is_noted_about_a_running_attempt_changes_nothing() {
    let mut run = ManualRun::start(team(vec![role("A", &[IDEA_LABEL], &["a", "b"])]));
    let call = run.call();
    let lines = |lines: &[&str]| {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        AttemptEvent::Logged(Logged { lines, left_out: 3 })
    };
    let paths = vec!["/data".to_owned()];
    let notes = [
        AttemptEvent::LookupsDenied(LookupsDenied { paths }),
        lines(&["one", "two"]),
    ];
    let before = run.env().clone();
    for note in &notes {
        run.record(Event::Attempt(call.key(), note.clone()));
    }
    assert_eq!(run.env(), &before);
    assert!(
        run.stepper
            .apply(&Event::Attempt(call.key(), lines(&[])))
            .is_err()
    );
    run.end(call.role, Ok(says("a ok")));
    for note in notes {
        let late = Event::Attempt(call.key(), note);
        assert!(run.stepper.apply(&late).is_err(), "{late:?}");
    }
}

#[test]
fn only_who_is_ready_has_a_next_attempt() {
    let one = || team(vec![role("A", &[IDEA_LABEL], &["a"])]);
    let next = |run: &ManualRun| {
        run.stepper
            .next_invocation(CallKey::new(RoleId(0), FIRST_ACTION))
            .map(|call| call.attempt)
    };
    let mut run = ManualRun::start(one());
    assert_eq!(next(&run), None, "it has only mail");
    run.go();
    assert_eq!(next(&run), Some(1));
    run.call();
    assert_eq!(next(&run), None, "it is under way");
    run.end(RoleId(0), Err(Fault::new(FaultKind::Trap, "unreachable")));
    assert_eq!(next(&run), None, "it failed");
    assert_eq!(run.halt(), Status::Failed);
    run.resume(one(), CallPolicy::Auto);
    assert_eq!(next(&run), Some(2));
}

#[test]
fn a_role_that_a_file_says_is_past_an_action_goes_on_behind_it() {
    let mut run = ManualRun::start(team(vec![role("A", &[IDEA_LABEL], &["x", "y", "z"])]));
    run.go();
    let mut env = run.env().clone();
    env.roles[0]
        .activation
        .as_mut()
        .expect("the step has begun")
        .skipped_actions = 1;
    run.stepper = run.stepper.with_env(env);
    assert_eq!(run.act(Ok(says("y ok"))).idempotency_key, "run/0/A/1");
    assert_eq!(run.call().idempotency_key, "run/0/A/2");
    assert_eq!(
        run.stepper
            .first_request_id(run.open_call(RoleId(0)), 0)
            .map(|id| id.0)
            .as_deref(),
        Some("ask-0-0-2-0")
    );
    run.end(RoleId(0), Ok(says("z ok")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn no_two_calls_of_a_step_have_one_key_whatever_their_roles_are_called() {
    let activation = |choices: &[i32]| {
        let opened = Activation::new(0, Vec::new(), &role("A", &[], &["x", "y"]));
        Activation {
            choices: choices.into(),
            ..opened
        }
    };
    let act = |action, task| Work::Act {
        action: ActionId(action),
        task,
    };
    let works = [
        act(1, None),
        act(1, Some(1)),
        Work::Think { round: 1 },
        Work::Plan,
        Work::Answer,
    ];
    let roles = ["A", "A/1", "A/think", "A/0", "A/1/1", "A%2F1", "A%"];
    let base = |role| idempotency_base("run", 0, role);
    let mut keys = BTreeSet::new();
    for role in roles {
        assert!(
            works
                .into_iter()
                .all(|work| keys.insert(activation(&[]).idempotency_key(&base(role), work))),
            "{role}"
        );
    }
    assert!(
        roles
            .into_iter()
            .all(|role| keys.insert(activation(&[1]).idempotency_key(&base(role), act(1, None))))
    );
    assert!(
        keys.contains("run/0/A/1/1") && keys.contains("run/0/A%2F1/1"),
        "{keys:?}"
    );
}

/// Returns a team of a role that chooses its actions and another role that writes the same key.
fn beside_a_writer(reducer: Option<Reducer>) -> Team {
    let mut team = team(vec![
        role("C", &[IDEA_LABEL], &["x", "y"]),
        role("B", &[IDEA_LABEL], &["b"]),
    ]);
    team.roles[0].react = React::Choose {
        max_loop: 3,
        thinker: Thinker::Component,
    };
    team.scopes.insert("s0".into(), reducer);
    team
}

/// Returns a run in which a role made two paid choices, and its first action has to be made again
/// because the other role wrote the same key.
fn chosen_in_vain() -> ManualRun {
    let mut run = ManualRun::start(beside_a_writer(None));
    for (choice, result) in [(0, writes("x ok", &[("k", 1)])), (1, says("y ok"))] {
        let call = run.call();
        run.ask(&call, "which", 5);
        run.end(call.role, Ok(CallResult::Chosen(choice)));
        run.act(Ok(result));
    }
    run.act(Ok(CallResult::Chosen(-1)));
    run.act(Ok(writes("b ok", &[("k", 2)])));
    assert_eq!(run.halt(), Status::Failed);
    run
}

#[test]
fn a_choice_that_has_to_be_made_again_is_the_next_attempt_and_served_what_is_recorded() {
    let mut run = chosen_in_vain();
    for (attempt, reducer) in [(2, None), (3, Some(Reducer::Last))] {
        run.resume(beside_a_writer(reducer), CallPolicy::Auto);
        run.act(Ok(writes("x again", &[("k", 1)])));
        let choice = run.act(Ok(CallResult::Chosen(1)));
        assert_eq!(
            (choice.attempt, choice.recorded_calls.len()),
            (attempt, 1),
            "{reducer:?}"
        );
        run.act(Ok(says("y again")));
        let last = run.act(Ok(CallResult::Chosen(-1)));
        assert_eq!(
            (last.attempt, last.recorded_calls.len()),
            (attempt, 0),
            "{reducer:?}"
        );
        run.act(Ok(writes("b again", &[("k", 2)])));
        run.go();
    }
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn the_pause_before_another_try_is_doubled_up_to_a_minute_or_longer_from_the_start() {
    let pauses_of = |backoff_ms| {
        let mut team = team(vec![role("A", &[IDEA_LABEL], &["a"])]);
        team.roles[0].actions[0].retry = RetryPolicy {
            retries: 3,
            backoff_ms,
        };
        let mut run = ManualRun::start(team);
        let mut pauses = Vec::new();
        for _ in 0..4 {
            run.act(Err(Fault::new(FaultKind::Timeout, "too slow")));
            let Some(Event::Attempt(_, AttemptEvent::CallFailed(CallFailed { retry_ms, .. }))) =
                run.log.last()
            else {
                panic!("a call has failed")
            };
            pauses.push(*retry_ms);
            if retry_ms.is_some() {
                run.record(Event::Attempt(
                    CallKey::new(RoleId(0), FIRST_ACTION),
                    AttemptEvent::RetryDue,
                ));
            }
        }
        pauses
    };
    assert_eq!(
        pauses_of(25_000),
        [Some(25_000), Some(50_000), Some(60_000), None]
    );
    assert_eq!(
        pauses_of(90_000),
        [Some(90_000), Some(90_000), Some(90_000), None]
    );
}
