//! Limits on the work of route conditions.

use strata_core::machine::effect::Effect;
use strata_core::record::event::{Event, StepCommitted};
use strata_core::record::id::RoleId;
use strata_core::record::message::{IDEA_LABEL, Message};
use strata_core::record::work::CallResult;
use strata_core::team::condition::{Condition, WorkBudget};
use strata_core::team::{Route, RouteArm};

use crate::manual_run::{ManualRun, draft, says};
use crate::teams::{role, team};

/// Returns a run of two roles that act in one step. Each has a route whose condition uses a quarter
/// of the budget for each message.
fn costly() -> ManualRun {
    let mut team = team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
        role("C", &[], &["c"]),
    ]);
    let judge = |_: &Message, budget: &mut WorkBudget| {
        budget
            .spend(WorkBudget::PER_SENDER / 4)
            .map(|()| true)
            .ok_or_else(|| "too much".into())
    };
    for from in [RoleId(0), RoleId(1)] {
        let when = Some(Condition::new("true".into(), Box::new(judge)));
        team.routes.push(Route {
            from,
            label: String::new(),
            arms: vec![RouteArm {
                when,
                to: vec!["C".into()],
            }],
        });
    }
    let mut run = ManualRun::start(team);
    let (a, b) = (run.call(), run.call());
    let emissions = vec![draft("one of many", &[]); 6];
    run.end(
        a.role,
        Ok(CallResult::Returned {
            output: draft("the last", &[]),
            emissions,
            writes: Vec::new(),
        }),
    );
    run.end(b.role, Ok(says("the only one")));
    run
}

#[test]
fn what_a_sender_publishes_in_one_step_shares_a_budget_that_others_do_not_use_up() {
    let Effect::Record(Event::StepCommitted(StepCommitted { routed, .. })) =
        costly().stepper.next()
    else {
        panic!("no commit")
    };
    let reached: Vec<bool> = routed.iter().map(|routed| !routed.to.is_empty()).collect();
    assert_eq!(reached, [true, true, true, true, false, false, false, true]);
    let why = routed[4].drop_reason.as_deref();
    assert_eq!(why, Some("condition `true` cannot be judged: too much"));
    let failed = routed.iter().map(|routed| routed.failed_conditions.len());
    assert_eq!(failed.collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 0]);
}

#[test]
fn deciding_whom_a_commit_reaches_is_given_up_when_asked_to_and_can_be_done_later() {
    let run = costly();
    let asked = std::cell::Cell::new(0);
    let goes_on = || asked.replace(asked.get() + 1) < 3;
    assert_eq!(run.stepper.next_while(&goes_on), Effect::Wait);
    assert_eq!(asked.get(), 4);
    assert!(matches!(
        run.stepper.next(),
        Effect::Record(Event::StepCommitted(_))
    ));
}
