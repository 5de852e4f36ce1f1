//! Single lives, told by hand: one for each thing that is easily got wrong.

use strata_core::effect::Effect;
use strata_core::event::{CallPolicy, Finished, Status};
use strata_core::id::RoleId;
use strata_core::json::Json;
use strata_core::message::IDEA_LABEL;
use strata_core::team::{React, Reducer, Team, Thinker};

use crate::hand::{Hand, says, writes};
use crate::teams::{role, team};

fn chooser(max_loop: u32) -> Team {
    let mut chooser = role("C", &[IDEA_LABEL], &["x", "y"]);
    chooser.react = React::Choose { max_loop, thinker: Thinker::Component };
    team(vec![chooser])
}

#[test]
fn a_raised_loop_limit_does_not_unsettle_what_was_recorded_under_the_lower_one() {
    let mut life = Hand::start(chooser(1));
    life.act(Ok(Finished::Chosen(0)));
    life.act(Ok(says("x ok")));
    assert_eq!(life.halt(), Status::Done);
    life.resume(chooser(5), CallPolicy::Auto);
    assert_eq!(life.halt(), Status::Done);
    assert_eq!(life.history(), ["idea", "x ok"]);
}

#[test]
fn a_lowered_loop_limit_ends_an_activation_that_has_reached_it() {
    let mut life = Hand::start(chooser(5));
    life.act(Ok(Finished::Chosen(0)));
    life.act(Ok(says("x ok")));
    life.resume(chooser(1), CallPolicy::Auto);
    assert_eq!(life.halt(), Status::Done);
    assert_eq!(life.history(), ["idea", "x ok"]);
}

#[test]
fn a_new_reducer_does_not_change_what_was_committed_without_one() {
    let with = |reducer| {
        let mut team = team(vec![role("A", &[IDEA_LABEL], &["a"])]);
        team.scopes.insert("s0".into(), reducer);
        team
    };
    let mut life = Hand::start(with(None));
    life.act(Ok(writes("a ok", &[("k", 1)])));
    assert_eq!(life.halt(), Status::Done);
    let before = life.env().shared.clone();
    life.resume(with(Some(Reducer::Append)), CallPolicy::Auto);
    assert_eq!(life.env().shared, before);
    assert_eq!(life.env().rules.scopes["s0"], Some(Reducer::Append));
}

/// Two roles that hear the idea and share a scope.
fn two_writers(reducer: Option<Reducer>) -> Team {
    let mut team = team(vec![role("A", &[IDEA_LABEL], &["p", "a"]), role("B", &[IDEA_LABEL], &["b"])]);
    team.scopes.insert("s0".into(), reducer);
    team
}

/// A life of theirs up to the conflict: A asked a model before it wrote.
fn conflict() -> Hand {
    let mut life = Hand::start(two_writers(None));
    life.act(Ok(says("p ok")));
    let call = life.call();
    life.ask(&call, "q", 5);
    life.end(call.role, Ok(writes("a ok", &[("k", 1)])));
    life.act(Ok(writes("b ok", &[("k", 2)])));
    assert_eq!(life.halt(), Status::Failed);
    life
}

#[test]
fn a_call_that_is_undone_by_a_conflict_is_made_again_as_the_next_attempt() {
    let mut life = conflict();
    let (_, failed) = life.env().failed().next().expect("A failed");
    assert_eq!(failed.current.attempts, 1);
    life.resume(two_writers(Some(Reducer::Add)), CallPolicy::Auto);
    let again = life.act(Ok(writes("a again", &[("k", 1)])));
    assert_eq!((again.attempt, again.idempotency_key.as_str()), (2, "run/0/A/1"));
    assert_eq!(again.outputs[0].content, "p ok");
    assert!(again.recorded.is_empty(), "the same answers would lead to the same write");
    life.act(Ok(writes("b again", &[("k", 2)])));
    assert_eq!(life.halt(), Status::Done);
    assert_eq!(life.env().shared["s0"]["k"], Json::from(serde_json::json!(3)));
    assert_eq!(life.history(), ["idea", "a again", "b again"]);
}

#[test]
fn what_an_undone_call_recorded_can_still_be_reused() {
    let mut life = conflict();
    life.resume(two_writers(Some(Reducer::Add)), CallPolicy::Reuse);
    assert_eq!(life.call().recorded.len(), 1);
}

#[test]
fn nothing_of_a_conflict_is_seen_anywhere() {
    let life = conflict();
    assert!(life.env().shared.is_empty());
    assert_eq!(life.history(), ["idea"]);
    for (role, scope) in [(0, "s0"), (1, "s0"), (0, "role")] {
        let value = life.env().read(life.stepper.team(), RoleId(role), (scope, "k"), &[]);
        assert_eq!(value, Some(None));
    }
}
