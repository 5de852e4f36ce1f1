//! Budgets, told by hand: what is held back, what is lost, who is stopped.

use strata_core::activation::Phase;
use strata_core::budget::{Caps, Purse, Reserved};
use strata_core::effect::{Effect, Invocation};
use strata_core::event::{CallPolicy, Event, Status};
use strata_core::id::{ActionId, Part, RoleId, Slot};
use strata_core::message::IDEA_LABEL;
use strata_core::money::Usd;
use strata_core::team::{React, Team, Thinker};

use crate::hand::{Hand, says};
use crate::teams::{role, team};

/// Two roles at work at once.
fn pair() -> Team {
    team(vec![role("A", &[IDEA_LABEL], &["a"]), role("B", &[IDEA_LABEL], &["b"])])
}

fn hold_back(life: &mut Hand, call: &Invocation, usd: u64) {
    let reserved = Reserved { request: "q".into(), usd: Usd(usd) };
    life.record(Event::MoneyReserved { role: call.role, work: call.work, reserved });
}

fn suspend(life: &mut Hand, call: &Invocation) {
    life.record(Event::CallSuspended { role: call.role, work: call.work, attempt: call.attempt });
}

#[test]
fn what_is_held_back_counts_until_the_answer_settles_it() {
    let mut team = pair();
    team.policy.budget = Some(Usd(10));
    let mut life = Hand::start(team.clone());
    let (a, b) = (life.call(), life.call());
    hold_back(&mut life, &a, 10);
    let purse = |life: &Hand| life.env().exhausted(&team, (b.role, b.work), Usd::ZERO);
    assert_eq!((purse(&life), life.env().spent), (Some(Purse::Team), Usd::ZERO));
    life.ask(&a, "q", 3);
    assert_eq!((purse(&life), life.env().spent), (None, Usd(3)));
    assert_eq!(life.env().exhausted(&team, (b.role, b.work), Usd(7)), Some(Purse::Team));
}

#[test]
fn a_call_whose_answer_nobody_saw_counts_for_all_that_was_held_back() {
    let mut life = Hand::start(pair());
    let a = life.call();
    hold_back(&mut life, &a, 10);
    life.resume(pair(), CallPolicy::Auto);
    assert_eq!(life.env().spent, Usd(10));
    assert_eq!(life.env().spending(|at| at.role == RoleId(0)).usd, Usd(10));
    let again = life.call();
    hold_back(&mut life, &again, 5);
    life.end(again.role, Ok(says("done without waiting")));
    assert_eq!(life.env().spent, Usd(15));
}

#[test]
fn a_lower_limit_does_not_forget_what_was_held_back_for_a_choice() {
    let looping = |max_loop| {
        let mut team = team(vec![role("A", &[IDEA_LABEL], &["a"])]);
        team.roles[0].react = React::Choose { max_loop, thinker: Thinker::Model };
        team
    };
    let mut life = Hand::start(looping(2));
    let think = life.call();
    hold_back(&mut life, &think, 10);
    life.resume(looping(0), CallPolicy::Auto);
    assert_eq!(life.env().spent, Usd(10));
}

#[test]
fn an_attempt_that_cannot_pay_is_made_again_from_its_record_when_it_can() {
    let mut team = pair();
    team.policy.budget = Some(Usd(5));
    let mut life = Hand::start(team.clone());
    let (a, b) = (life.call(), life.call());
    life.ask(&a, "q", 5);
    suspend(&mut life, &a);
    assert!(matches!(life.go(), Effect::Wait), "its sibling finishes first");
    life.end(b.role, Ok(says("b ok")));
    assert_eq!(life.halt(), Status::OutOfBudget);
    life.resume(team.clone(), CallPolicy::Fresh);
    assert_eq!(life.halt(), Status::OutOfBudget);
    team.policy.budget = Some(Usd(6));
    life.resume(team, CallPolicy::Auto);
    let again = life.call();
    assert_eq!((again.role, again.attempt, again.recorded.len()), (a.role, 2, 1));
    life.end(again.role, Ok(says("a ok")));
    assert_eq!(life.halt(), Status::Done);
}

#[test]
fn a_role_without_money_stops_while_the_others_finish_their_step() {
    let mut team = pair();
    team.policy.purses.roles.insert(RoleId(0), Caps { usd: None, tokens: Some(0) });
    let mut life = Hand::start(team);
    assert_eq!(life.call().role, RoleId(1));
    life.end(RoleId(1), Ok(says("b ok")));
    assert_eq!(life.halt(), Status::OutOfBudget);
    assert_eq!(life.stepper.purses().collect::<Vec<_>>(), [Purse::Role(RoleId(0))]);
}

#[test]
fn an_action_without_money_of_its_own_may_do_what_costs_nothing() {
    let mut team = pair();
    let slot = Slot { role: RoleId(0), part: Part::Action(ActionId(0)) };
    team.policy.purses.actions.insert(slot, Caps { usd: Some(Usd(0)), tokens: None });
    let mut life = Hand::start(team.clone());
    let a = life.call();
    assert_eq!(life.env().exhausted(&team, (a.role, a.work), Usd::ZERO), Some(Purse::Action(slot)));
    life.end(a.role, Ok(says("a ok")));
    let activation = life.env().role(a.role).activation.as_ref().expect("the step is open");
    assert_eq!(activation.phase, Phase::Complete);
}
