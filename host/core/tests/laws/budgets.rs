//! Budgets, step by step: what is reserved, what counts as spent without an answer, and who is
//! stopped.

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::record::conversation::TokenUsage;
use strata_core::record::event::{
    AttemptEvent, CallSuspended, CapReached, Event, HostCalled, MoneyReserved, RunResumed, Status,
    SuspendReason,
};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::{
    AnswerSource, CallOutcome, CallPolicy, HostCall, HostCallKind, ModelUse,
};
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::json::Json;
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::money::Usd;
use strata_core::record::rules::Thinker;
use strata_core::record::spending::{Amount, Reservation};
use strata_core::record::work::CallKey;
use strata_core::state::activation::Phase;
use strata_core::state::budget::BudgetScope;
use strata_core::team::{BudgetLimits, OnFault, React, Team};

use crate::manual_run::{ManualRun, says};
use crate::teams::{role, team};

/// Returns a team of two roles that work at the same time.
fn pair() -> Team {
    team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
    ])
}

/// Returns this amount of money.
fn usd(usd: u64) -> Amount {
    Amount {
        usd: Usd(usd),
        tokens: 0,
    }
}

fn hold_back(run: &mut ManualRun, call: &Invocation, usd: u64) {
    hold_back_both(run, call, self::usd(usd));
}

fn hold_back_both(run: &mut ManualRun, call: &Invocation, amount: Amount) {
    let reserved = Reservation {
        request: "q".into(),
        amount,
    };
    run.record(Event::Attempt(
        call.key(),
        AttemptEvent::MoneyReserved(MoneyReserved { reserved }),
    ));
}

fn suspend(run: &mut ManualRun, call: &Invocation) {
    run.record(Event::Attempt(
        call.key(),
        AttemptEvent::CallSuspended(CallSuspended {
            attempt: call.attempt,
            reason: SuspendReason::Budget,
        }),
    ));
}

#[test]
fn what_is_held_back_counts_until_the_answer_settles_it() {
    let mut team = pair();
    team.policy.budget = Some(Usd(10));
    let mut run = ManualRun::start(team.clone());
    let (a, b) = (run.call(), run.call());
    hold_back(&mut run, &a, 10);
    let exhausted = |run: &ManualRun| {
        run.env()
            .exhausted_budget(&team, b.role, b.work, Amount::ZERO)
    };
    assert_eq!(
        (exhausted(&run), run.env().spent),
        (Some(BudgetScope::Team), Usd::ZERO)
    );
    run.ask(&a, "q", 3);
    assert_eq!((exhausted(&run), run.env().spent), (None, Usd(3)));
    assert_eq!(
        run.env().exhausted_budget(&team, b.role, b.work, usd(7)),
        Some(BudgetScope::Team)
    );
}

#[test]
fn a_budget_is_exhausted_by_what_was_spent_and_not_by_what_may_come_free() {
    let mut team = pair();
    team.policy.budget = Some(Usd(10));
    let mut run = ManualRun::start(team.clone());
    let (a, b) = (run.call(), run.call());
    let exhausted = |run: &ManualRun| {
        run.env()
            .exhausted_without_reservations(&team, b.role, b.work)
    };
    hold_back(&mut run, &a, 10);
    assert_eq!(exhausted(&run), None);
    // Nobody will see the answer.
    run.end(a.role, Err(Fault::new(FaultKind::Trap, "unreachable")));
    assert_eq!(exhausted(&run), Some(BudgetScope::Team));
}

#[test]
fn a_call_whose_answer_nobody_saw_counts_for_all_that_was_held_back() {
    let mut run = ManualRun::start(pair());
    let a = run.call();
    hold_back(&mut run, &a, 10);
    run.resume(pair(), CallPolicy::Auto);
    assert_eq!(run.env().spent, Usd(10));
    assert_eq!(run.env().spending(|at| at.role == RoleId(0)).usd, Usd(10));
    let again = run.call();
    hold_back(&mut run, &again, 5);
    run.end(again.role, Ok(says("done without waiting")));
    assert_eq!(run.env().spent, Usd(15));
    // What was answered is no estimate.
    let answered = run.call();
    hold_back(&mut run, &answered, 5);
    run.ask(&answered, "q", 3);
    let used = run.env().spending(|_| true);
    assert_eq!((used.usd, used.lost), (Usd(18), Usd(15)));
}

#[test]
fn tokens_are_held_back_as_money_is_and_counted_where_nobody_saw_the_answer() {
    let mut team = pair();
    team.policy.scoped_budgets.tokens = Some(100);
    let mut run = ManualRun::start(team.clone());
    let (a, b) = (run.call(), run.call());
    let exhausted = |run: &ManualRun, also| {
        run.env().exhausted_budget(
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
        &mut run,
        &a,
        Amount {
            usd: Usd::ZERO,
            tokens: 60,
        },
    );
    assert_eq!(
        (exhausted(&run, 39), exhausted(&run, 40)),
        (None, Some(BudgetScope::Team))
    );
    use_tokens(&mut run, &a, 10);
    assert_eq!(
        (exhausted(&run, 89), exhausted(&run, 90)),
        (None, Some(BudgetScope::Team))
    );
    hold_back_both(
        &mut run,
        &a,
        Amount {
            usd: Usd::ZERO,
            tokens: 60,
        },
    );
    run.resume(team.clone(), CallPolicy::Auto);
    assert_eq!(run.env().spending(|at| at.role == a.role).tokens, 70);
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
    let mut run = ManualRun::start(looping(2));
    let think = run.call();
    hold_back(&mut run, &think, 10);
    run.resume(looping(0), CallPolicy::Auto);
    assert_eq!(run.env().spent, Usd(10));
}

#[test]
fn an_attempt_that_cannot_pay_is_made_again_from_its_record_when_it_can() {
    let mut team = pair();
    team.policy.budget = Some(Usd(5));
    let mut run = ManualRun::start(team.clone());
    let (a, b) = (run.call(), run.call());
    run.ask(&a, "q", 5);
    suspend(&mut run, &a);
    assert!(
        matches!(run.go(), Effect::Wait),
        "its sibling finishes first"
    );
    run.end(b.role, Ok(says("b ok")));
    assert_eq!(run.halt(), Status::OutOfBudget);
    run.resume(team.clone(), CallPolicy::Fresh);
    assert_eq!(run.halt(), Status::OutOfBudget);
    team.policy.budget = Some(Usd(6));
    run.resume(team, CallPolicy::Auto);
    let again = run.call();
    assert_eq!(
        (again.role, again.attempt, again.recorded_calls.len()),
        (a.role, 2, 1)
    );
    run.end(again.role, Ok(says("a ok")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_run_that_reaches_a_cap_ends_when_its_step_does_and_goes_on_once_it_is_resumed() {
    let mut run = ManualRun::start(pair());
    let (a, b) = (run.call(), run.call());
    run.ask(&a, "q", 3);
    run.record(Event::CapReached(CapReached {
        scope: "all".into(),
        cap: Usd(5),
    }));
    let budgets = |run: &ManualRun| run.stepper.exhausted_budgets().collect::<Vec<_>>();
    suspend(&mut run, &a);
    assert_eq!(budgets(&run), [BudgetScope::Cap]);
    assert_eq!(run.go(), Effect::Wait, "the other role goes on");
    run.end(b.role, Ok(says("b ok")));
    assert_eq!(run.halt(), Status::OutOfBudget);
    run.resume(pair(), CallPolicy::Auto);
    assert_eq!(run.env().cap_reached, None);
    let again = run.call();
    assert_eq!((again.attempt, again.recorded_calls.len()), (2, 1));
    run.end(again.role, Ok(says("a ok")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_cap_that_applies_to_nothing_is_refused() {
    let mut run = ManualRun::start(pair());
    run.call();
    let before = run.env().clone();
    let reached = Event::CapReached(CapReached {
        scope: String::new(),
        cap: Usd(5),
    });
    assert!(run.stepper.apply(&reached).is_err());
    assert_eq!(*run.env(), before);
}

#[test]
fn a_role_without_money_stops_while_the_others_finish_their_step() {
    let mut team = pair();
    team.policy.scoped_budgets.roles.insert(
        RoleId(0),
        BudgetLimits {
            usd: None,
            tokens: Some(0),
        },
    );
    let mut run = ManualRun::start(team);
    assert_eq!(run.call().role, RoleId(1));
    run.end(RoleId(1), Ok(says("b ok")));
    assert_eq!(run.halt(), Status::OutOfBudget);
    assert_eq!(
        run.stepper.exhausted_budgets().collect::<Vec<_>>(),
        [BudgetScope::Role(RoleId(0))]
    );
}

#[test]
fn an_action_without_money_of_its_own_may_do_what_costs_nothing() {
    let mut team = pair();
    let slot = Slot {
        role: RoleId(0),
        kind: SlotKind::Action(ActionId(0)),
    };
    team.policy.scoped_budgets.actions.insert(
        slot,
        BudgetLimits {
            usd: Some(Usd(0)),
            tokens: None,
        },
    );
    let mut run = ManualRun::start(team.clone());
    let a = run.call();
    assert_eq!(
        run.env()
            .exhausted_budget(&team, a.role, a.work, Amount::ZERO),
        Some(BudgetScope::Action(slot))
    );
    run.end(a.role, Ok(says("a ok")));
    let activation = run
        .env()
        .role(a.role)
        .activation
        .as_ref()
        .expect("the step is open");
    assert_eq!(activation.phase, Phase::Complete);
}

/// Uses up tokens.
fn use_tokens(run: &mut ManualRun, call: &Invocation, tokens: u64) {
    let (kind, request, response, cost) = (HostCallKind::Llm, "q".into(), Json::null(), Usd::ZERO);
    let answer = HostCall {
        kind,
        request,
        response,
        cost,
        outcome: CallOutcome::Answered,
        model: Some(ModelUse {
            usage: TokenUsage {
                input: tokens,
                ..TokenUsage::default()
            },
            ..ModelUse::default()
        }),
    };
    let (role, work, source) = (call.role, call.work, AnswerSource::Live);
    run.record(Event::Attempt(
        CallKey::new(role, work),
        AttemptEvent::HostCalled(HostCalled {
            call: answer,
            source,
            summary: String::new(),
        }),
    ));
}

#[test]
fn only_the_purses_of_those_who_could_go_on_are_named() {
    let mut team = pair();
    let caps = BudgetLimits {
        usd: Some(Usd(5)),
        tokens: None,
    };
    team.policy.scoped_budgets.roles = [0, 1].map(|id| (RoleId(id), caps)).into();
    let mut run = ManualRun::start(team);
    let (a, b) = (run.call(), run.call());
    run.ask(&a, "q", 5);
    run.end(a.role, Err(Fault::new(FaultKind::Trap, "unreachable")));
    run.ask(&b, "q", 5);
    suspend(&mut run, &b);
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!(
        run.stepper.exhausted_budgets().collect::<Vec<_>>(),
        [BudgetScope::Role(b.role)],
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
        let mut run = ManualRun::start(team.clone());
        let (a, b) = (run.call(), run.call());
        run.ask(&b, "q", 5);
        suspend(&mut run, &b);
        run.end(a.role, Err(Fault::new(FaultKind::Trap, "unreachable")));
        assert_eq!(run.halt(), expected);
        // After the fault is fixed, only the lack of money keeps it from continuing.
        run.resume(team, CallPolicy::Auto);
        assert_eq!(run.halt(), Status::OutOfBudget);
    }
}

#[test]
fn a_resume_gives_no_money_back_and_counts_what_others_spent() {
    let mut run = ManualRun::start(pair());
    let a = run.call();
    run.ask(&a, "q", 5);
    run.record(run.stepper.run_ended_event(Status::Interrupted));
    for (others, counts) in [(3, 5), (5, 5), (9, 9)] {
        let resumed = run
            .stepper
            .run_resumed_event_with_spent(Usd(others), None, CallPolicy::Auto);
        assert!(
            matches!(resumed, Event::RunResumed(RunResumed { spent, .. }) if spent == Usd(counts)),
            "{others}"
        );
    }
    let mut cheap = run.stepper.run_resumed_event(None, CallPolicy::Auto);
    let Event::RunResumed(RunResumed { spent, .. }) = &mut cheap else {
        panic!("a resume")
    };
    *spent = Usd(4);
    let before = run.env().clone();
    assert!(run.stepper.apply(&cheap).is_err());
    assert_eq!(*run.env(), before);
}

#[test]
fn an_attempt_that_could_not_pay_is_served_its_record_whatever_the_policy() {
    for policy in [CallPolicy::Auto, CallPolicy::Reuse, CallPolicy::Fresh] {
        let mut team = team(vec![role("A", &[IDEA_LABEL], &["a"])]);
        team.policy.budget = Some(Usd(5));
        let mut run = ManualRun::start(team.clone());
        let a = run.call();
        run.ask(&a, "q", 5);
        suspend(&mut run, &a);
        assert_eq!(run.halt(), Status::OutOfBudget);
        team.policy.budget = Some(Usd(6));
        run.resume(team, policy);
        assert_eq!(
            run.call().recorded_calls.len(),
            1,
            "{policy:?}: it was paid for, and nothing went wrong"
        );
    }
}

#[test]
fn tokens_are_counted_by_whom_and_stop_the_team_that_has_used_up_its_own() {
    let mut team = pair();
    team.policy.scoped_budgets.tokens = Some(7);
    let mut run = ManualRun::start(team.clone());
    let (a, b) = (run.call(), run.call());
    use_tokens(&mut run, &a, 3);
    use_tokens(&mut run, &a, 1);
    let exhausted = |run: &ManualRun| {
        run.env()
            .exhausted_budget(&team, b.role, b.work, Amount::ZERO)
    };
    assert_eq!(exhausted(&run), None);
    use_tokens(&mut run, &b, 3);
    assert_eq!(exhausted(&run), Some(BudgetScope::Team));
    let spending = |role| run.env().spending(|at| at.role == role);
    assert_eq!((spending(a.role).tokens, spending(a.role).calls), (4, 2));
    assert_eq!((spending(b.role).tokens, spending(b.role).calls), (3, 1));
}

#[test]
fn a_cap_counts_what_is_its_own_and_nothing_else() {
    let mut team = pair();
    team.roles[0] = role("A", &[IDEA_LABEL], &["a", "a2"]);
    let slot = Slot {
        role: RoleId(0),
        kind: SlotKind::Action(ActionId(1)),
    };
    let caps = |usd| BudgetLimits {
        usd: Some(Usd(usd)),
        tokens: Some(1),
    };
    team.policy.scoped_budgets.actions.insert(slot, caps(5));
    team.policy.scoped_budgets.roles = [(RoleId(0), caps(9)), (RoleId(1), caps(5))].into();
    let mut run = ManualRun::start(team.clone());
    let a = run.call();
    run.ask(&a, "q", 5);
    run.end(a.role, Ok(says("a ok")));
    let a2 = run.call();
    let exhausted = |run: &ManualRun, call: &Invocation| {
        run.env()
            .exhausted_budget(&team, call.role, call.work, Amount::ZERO)
    };
    assert_eq!(exhausted(&run, &a2), None, "the other action spent it");
    let b = run.call();
    hold_back(&mut run, &a2, 4);
    assert_eq!(
        exhausted(&run, &a2),
        Some(BudgetScope::Role(a2.role)),
        "both actions are the role's"
    );
    run.ask(&a2, "q", 0);
    assert_eq!(exhausted(&run, &a2), None);
    hold_back(&mut run, &a2, 9);
    assert_eq!(
        exhausted(&run, &b),
        None,
        "it is held back for another role"
    );
    use_tokens(&mut run, &b, 1);
    assert_eq!(
        exhausted(&run, &b),
        Some(BudgetScope::Role(b.role)),
        "money is left, but no token"
    );
}

#[test]
fn the_answer_to_one_call_frees_only_what_was_held_back_for_it() {
    let mut run = ManualRun::start(pair());
    let a = run.call();
    for (request, much) in [("p", 10), ("q", 20)] {
        let reserved = Reservation {
            request: request.into(),
            amount: usd(much),
        };
        run.record(Event::Attempt(
            a.key(),
            AttemptEvent::MoneyReserved(MoneyReserved { reserved }),
        ));
    }
    run.ask(&a, "q", 3);
    assert_eq!(
        run.env()
            .role(a.role)
            .activation
            .as_ref()
            .map(|activation| activation.current_call.reserved()),
        Some(usd(10))
    );
    run.end(a.role, Ok(says("a ok")));
    assert_eq!(run.env().spent, Usd(13));
}

#[test]
fn what_nobody_here_spent_counts_against_the_budget() {
    let mut team = pair();
    team.policy.budget = Some(Usd(10));
    let mut run = ManualRun::start(team.clone());
    run.record(
        run.stepper
            .run_resumed_event_with_spent(Usd(8), Some(Usd(10)), CallPolicy::Auto),
    );
    let a = run.call();
    let exhausted = |also| run.env().exhausted_budget(&team, a.role, a.work, usd(also));
    assert_eq!(
        (exhausted(1), exhausted(2)),
        (None, Some(BudgetScope::Team))
    );
}

#[test]
fn a_planner_spends_in_the_name_of_its_first_action() {
    let mut planner = role("P", &[IDEA_LABEL], &["plan", "work"]);
    planner.react = React::PlanAndAct;
    let mut run = ManualRun::start(team(vec![planner]));
    let plan = run.call();
    run.ask(&plan, "q", 5);
    let slot = Slot {
        role: RoleId(0),
        kind: SlotKind::Action(ActionId(0)),
    };
    assert_eq!(run.env().spending(|at| at == slot).usd, Usd(5));
}
