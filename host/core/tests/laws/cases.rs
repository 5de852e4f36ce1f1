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
