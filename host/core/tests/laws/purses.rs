//! Budgets, told by hand: what is held back, what is lost, who is stopped.

use strata_core::activation::Phase;
use strata_core::budget::{Amount, Caps, Purse, Reserved};
use strata_core::effect::{Effect, Invocation};
use strata_core::event::{CallPolicy, Event, HostCall, HostCallKind, Outcome, Source, Status};
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::{ActionId, Part, RoleId, Slot};
use strata_core::json::Json;
use strata_core::message::IDEA_LABEL;
use strata_core::money::Usd;
use strata_core::team::{OnFault, React, Team, Thinker};

use crate::hand::{Hand, says};
use crate::teams::{role, team};

/// Two roles at work at once.
fn pair() -> Team {
    team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
    ])
}

/// So much money.
fn usd(usd: u64) -> Amount {
    Amount {
        usd: Usd(usd),
        tokens: 0,
    }
}

fn hold_back(life: &mut Hand, call: &Invocation, usd: u64) {
    hold_back_both(life, call, self::usd(usd));
}

fn hold_back_both(life: &mut Hand, call: &Invocation, amount: Amount) {
    let reserved = Reserved {
        request: "q".into(),
        amount,
    };
    life.record(Event::MoneyReserved {
        role: call.role,
        work: call.work,
        reserved,
    });
}

fn suspend(life: &mut Hand, call: &Invocation) {
    life.record(Event::CallSuspended {
        role: call.role,
        work: call.work,
        attempt: call.attempt,
    });
}

#[test]
fn what_is_held_back_counts_until_the_answer_settles_it() {
    let mut team = pair();
    team.policy.budget = Some(Usd(10));
    let mut life = Hand::start(team.clone());
    let (a, b) = (life.call(), life.call());
    hold_back(&mut life, &a, 10);
    let purse = |life: &Hand| life.env().exhausted(&team, b.role, b.work, Amount::NONE);
    assert_eq!(
        (purse(&life), life.env().spent),
        (Some(Purse::Team), Usd::ZERO)
    );
    life.ask(&a, "q", 3);
    assert_eq!((purse(&life), life.env().spent), (None, Usd(3)));
    assert_eq!(
        life.env().exhausted(&team, b.role, b.work, usd(7)),
        Some(Purse::Team)
    );
}

#[test]
fn a_purse_is_spent_out_by_what_was_spent_and_not_by_what_may_come_free() {
    let mut team = pair();
    team.policy.budget = Some(Usd(10));
    let mut life = Hand::start(team.clone());
    let (a, b) = (life.call(), life.call());
    let purse = |life: &Hand| life.env().spent_out(&team, b.role, b.work);
    hold_back(&mut life, &a, 10);
    assert_eq!(purse(&life), None);
    // Nobody will see the answer.
    life.end(a.role, Err(Fault::new(FaultKind::Trap, "unreachable")));
    assert_eq!(purse(&life), Some(Purse::Team));
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
fn tokens_are_held_back_as_money_is_and_counted_where_nobody_saw_the_answer() {
    let mut team = pair();
    team.policy.purses.tokens = Some(100);
    let mut life = Hand::start(team.clone());
    let (a, b) = (life.call(), life.call());
    let purse = |life: &Hand, also| {
        life.env().exhausted(
            &team,
            b.role,
            b.work,
            Amount {
                usd: Usd::ZERO,
                tokens: also,
            },
        )
    };
    hold_back_both(
        &mut life,
        &a,
        Amount {
            usd: Usd::ZERO,
            tokens: 60,
        },
    );
    assert_eq!(
        (purse(&life, 39), purse(&life, 40)),
        (None, Some(Purse::Team))
    );
    use_tokens(&mut life, &a, 10);
    assert_eq!(
        (purse(&life, 89), purse(&life, 90)),
        (None, Some(Purse::Team))
    );
    hold_back_both(
        &mut life,
        &a,
        Amount {
            usd: Usd::ZERO,
            tokens: 60,
        },
    );
    life.resume(team.clone(), CallPolicy::Auto);
    assert_eq!(life.env().spending(|at| at.role == a.role).tokens, 70);
}

#[test]
fn a_lower_limit_does_not_forget_what_was_held_back_for_a_choice() {
    let looping = |max_loop| {
        let mut team = team(vec![role("A", &[IDEA_LABEL], &["a"])]);
        team.roles[0].react = React::Choose {
            max_loop,
            thinker: Thinker::Model,
        };
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
    assert!(
        matches!(life.go(), Effect::Wait),
        "its sibling finishes first"
    );
    life.end(b.role, Ok(says("b ok")));
    assert_eq!(life.halt(), Status::OutOfBudget);
    life.resume(team.clone(), CallPolicy::Fresh);
    assert_eq!(life.halt(), Status::OutOfBudget);
    team.policy.budget = Some(Usd(6));
    life.resume(team, CallPolicy::Auto);
    let again = life.call();
    assert_eq!(
        (again.role, again.attempt, again.recorded.len()),
        (a.role, 2, 1)
    );
    life.end(again.role, Ok(says("a ok")));
    assert_eq!(life.halt(), Status::Done);
}

#[test]
fn a_role_without_money_stops_while_the_others_finish_their_step() {
    let mut team = pair();
    team.policy.purses.roles.insert(
        RoleId(0),
        Caps {
            usd: None,
            tokens: Some(0),
        },
    );
    let mut life = Hand::start(team);
    assert_eq!(life.call().role, RoleId(1));
    life.end(RoleId(1), Ok(says("b ok")));
    assert_eq!(life.halt(), Status::OutOfBudget);
    assert_eq!(
        life.stepper.purses().collect::<Vec<_>>(),
        [Purse::Role(RoleId(0))]
    );
}

#[test]
fn an_action_without_money_of_its_own_may_do_what_costs_nothing() {
    let mut team = pair();
    let slot = Slot {
        role: RoleId(0),
        part: Part::Action(ActionId(0)),
    };
    team.policy.purses.actions.insert(
        slot,
        Caps {
            usd: Some(Usd(0)),
            tokens: None,
        },
    );
    let mut life = Hand::start(team.clone());
    let a = life.call();
    assert_eq!(
        life.env().exhausted(&team, a.role, a.work, Amount::NONE),
        Some(Purse::Action(slot))
    );
    life.end(a.role, Ok(says("a ok")));
    let activation = life
        .env()
        .role(a.role)
        .activation
        .as_ref()
        .expect("the step is open");
    assert_eq!(activation.phase, Phase::Complete);
}

/// Uses up tokens.
fn use_tokens(life: &mut Hand, call: &Invocation, tokens: u64) {
    let (kind, request, response, cost) = (HostCallKind::Llm, "q".into(), Json::null(), Usd::ZERO);
    let answer = HostCall {
        kind,
        request,
        response,
        cost,
        tokens,
        outcome: Outcome::Answered,
        finish: None,
    };
    let (role, work, source) = (call.role, call.work, Source::Live);
    life.record(Event::HostCalled {
        role,
        work,
        call: answer,
        source,
        what: String::new(),
    });
}

#[test]
fn only_the_purses_of_those_who_could_go_on_are_named() {
    let mut team = pair();
    let caps = Caps {
        usd: Some(Usd(5)),
        tokens: None,
    };
    team.policy.purses.roles = [0, 1].map(|id| (RoleId(id), caps)).into();
    let mut life = Hand::start(team);
    let (a, b) = (life.call(), life.call());
    life.ask(&a, "q", 5);
    life.end(a.role, Err(Fault::new(FaultKind::Trap, "unreachable")));
    life.ask(&b, "q", 5);
    suspend(&mut life, &b);
    assert_eq!(life.halt(), Status::Failed);
    assert_eq!(
        life.stepper.purses().collect::<Vec<_>>(),
        [Purse::Role(b.role)],
        "the other one failed"
    );
}

#[test]
fn a_fault_that_stops_the_run_outweighs_a_want_of_money_and_one_that_is_parked_does_not() {
    for (on_fault, expected) in [
        (OnFault::Stop, Status::Failed),
        (OnFault::Park, Status::OutOfBudget),
    ] {
        let mut team = pair();
        (team.policy.on_fault, team.policy.budget) = (on_fault, Some(Usd(5)));
        let mut life = Hand::start(team.clone());
        let (a, b) = (life.call(), life.call());
        life.ask(&b, "q", 5);
        suspend(&mut life, &b);
        life.end(a.role, Err(Fault::new(FaultKind::Trap, "unreachable")));
        assert_eq!(life.halt(), expected);
        // Mended, it cannot go on for want of money alone.
        life.resume(team, CallPolicy::Auto);
        assert_eq!(life.halt(), Status::OutOfBudget);
    }
}

#[test]
fn a_resume_gives_no_money_back_and_counts_what_others_spent() {
    let mut life = Hand::start(pair());
    let a = life.call();
    life.ask(&a, "q", 5);
    life.record(life.stepper.ended(Status::Interrupted));
    for (others, counts) in [(3, 5), (5, 5), (9, 9)] {
        let resumed = life
            .stepper
            .resumed_with(Usd(others), None, CallPolicy::Auto);
        assert!(
            matches!(resumed, Event::RunResumed { spent, .. } if spent == Usd(counts)),
            "{others}"
        );
    }
    let mut cheap = life.stepper.resumed(None, CallPolicy::Auto);
    let Event::RunResumed { spent, .. } = &mut cheap else {
        panic!("a resume")
    };
    *spent = Usd(4);
    let before = life.env().clone();
    assert!(life.stepper.apply(&cheap).is_err());
    assert_eq!(*life.env(), before);
}

#[test]
fn an_attempt_that_could_not_pay_is_served_its_record_whatever_the_policy() {
    for policy in [CallPolicy::Auto, CallPolicy::Reuse, CallPolicy::Fresh] {
        let mut team = team(vec![role("A", &[IDEA_LABEL], &["a"])]);
        team.policy.budget = Some(Usd(5));
        let mut life = Hand::start(team.clone());
        let a = life.call();
        life.ask(&a, "q", 5);
        suspend(&mut life, &a);
        assert_eq!(life.halt(), Status::OutOfBudget);
        team.policy.budget = Some(Usd(6));
        life.resume(team, policy);
        assert_eq!(
            life.call().recorded.len(),
            1,
            "{policy:?}: it was paid for, and nothing went wrong"
        );
    }
}

#[test]
fn tokens_are_counted_by_whom_and_stop_the_team_that_has_used_up_its_own() {
    let mut team = pair();
    team.policy.purses.tokens = Some(7);
    let mut life = Hand::start(team.clone());
    let (a, b) = (life.call(), life.call());
    use_tokens(&mut life, &a, 3);
    use_tokens(&mut life, &a, 1);
    let purse = |life: &Hand| life.env().exhausted(&team, b.role, b.work, Amount::NONE);
    assert_eq!(purse(&life), None);
    use_tokens(&mut life, &b, 3);
    assert_eq!(purse(&life), Some(Purse::Team));
    let spending = |role| life.env().spending(|at| at.role == role);
    assert_eq!((spending(a.role).tokens, spending(a.role).calls), (4, 2));
    assert_eq!((spending(b.role).tokens, spending(b.role).calls), (3, 1));
}

#[test]
fn a_cap_counts_what_is_its_own_and_nothing_else() {
    let mut team = pair();
    team.roles[0] = role("A", &[IDEA_LABEL], &["a", "a2"]);
    let slot = Slot {
        role: RoleId(0),
        part: Part::Action(ActionId(1)),
    };
    let caps = |usd| Caps {
        usd: Some(Usd(usd)),
        tokens: Some(1),
    };
    team.policy.purses.actions.insert(slot, caps(5));
    team.policy.purses.roles = [(RoleId(0), caps(9)), (RoleId(1), caps(5))].into();
    let mut life = Hand::start(team.clone());
    let a = life.call();
    life.ask(&a, "q", 5);
    life.end(a.role, Ok(says("a ok")));
    let a2 = life.call();
    let purse = |life: &Hand, call: &Invocation| {
        life.env()
            .exhausted(&team, call.role, call.work, Amount::NONE)
    };
    assert_eq!(purse(&life, &a2), None, "the other action spent it");
    let b = life.call();
    hold_back(&mut life, &a2, 4);
    assert_eq!(
        purse(&life, &a2),
        Some(Purse::Role(a2.role)),
        "both actions are the role's"
    );
    life.ask(&a2, "q", 0);
    assert_eq!(purse(&life, &a2), None);
    hold_back(&mut life, &a2, 9);
    assert_eq!(purse(&life, &b), None, "it is held back for another role");
    use_tokens(&mut life, &b, 1);
    assert_eq!(
        purse(&life, &b),
        Some(Purse::Role(b.role)),
        "money is left, but no token"
    );
}

#[test]
fn the_answer_to_one_call_frees_only_what_was_held_back_for_it() {
    let mut life = Hand::start(pair());
    let a = life.call();
    for (request, much) in [("p", 10), ("q", 20)] {
        let reserved = Reserved {
            request: request.into(),
            amount: usd(much),
        };
        life.record(Event::MoneyReserved {
            role: a.role,
            work: a.work,
            reserved,
        });
    }
    life.ask(&a, "q", 3);
    assert_eq!(
        life.env()
            .role(a.role)
            .activation
            .as_ref()
            .map(|open| open.reserved()),
        Some(usd(10))
    );
    life.end(a.role, Ok(says("a ok")));
    assert_eq!(life.env().spent, Usd(13));
}

#[test]
fn what_nobody_here_spent_counts_against_the_budget() {
    let mut team = pair();
    team.policy.budget = Some(Usd(10));
    let mut life = Hand::start(team.clone());
    life.record(
        life.stepper
            .resumed_with(Usd(8), Some(Usd(10)), CallPolicy::Auto),
    );
    let a = life.call();
    let purse = |also| life.env().exhausted(&team, a.role, a.work, usd(also));
    assert_eq!((purse(1), purse(2)), (None, Some(Purse::Team)));
}

#[test]
fn a_planner_spends_in_the_name_of_its_first_action() {
    let mut planner = role("P", &[IDEA_LABEL], &["plan", "work"]);
    planner.react = React::PlanAndAct;
    let mut life = Hand::start(team(vec![planner]));
    let plan = life.call();
    life.ask(&plan, "q", 5);
    let slot = Slot {
        role: RoleId(0),
        part: Part::Action(ActionId(0)),
    };
    assert_eq!(life.env().spending(|at| at == slot).usd, Usd(5));
}
