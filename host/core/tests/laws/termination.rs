//! Every run ends: within its step limit; without a limit if no message leads back to its sender;
//! and when the money is spent.

use std::sync::Arc;

use proptest::prelude::*;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event, HostCalled, RunEnded, Status};
use strata_core::record::host_call::AnswerSource;
use strata_core::record::money::Usd;
use strata_core::record::shape::{DeliveryMode, JoinMode};
use strata_core::record::spending::Amount;
use strata_core::record::work::CallKey;
use strata_core::state::activation::Phase;
use strata_core::state::budget::BudgetScope;
use strata_core::state::environment::Environment;
use strata_core::team::{React, Team};

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::script::{RecipientChoice, Script};
use crate::teams::{acyclic_team, any_team, cases};

/// No script plans more tasks.
const MAX_TASKS: usize = 3;
/// No script makes more host calls in one attempt.
const MAX_HOST_CALLS: usize = 3;

/// Returns the maximum number of events in this many steps.
fn most_events(team: &Team, steps: usize) -> usize {
    let calls = |role: &strata_core::team::Role| match &role.react {
        React::ByOrder => role.actions.len(),
        React::Choose { max_loop, .. } => 2 * *max_loop as usize + 1,
        React::PlanAndAct => 1 + MAX_TASKS,
        React::Human => 0,
        React::Tools(_) => unreachable!("these teams have no tools"),
    };
    let attempts: usize = team.roles.iter().map(|role| calls(role) * 3).sum();
    // An attempt: its start, its host calls, its end, the end of the pause after it. A step: its
    // start, its end, a conflict for every two roles. A run: its start and its end.
    2 + steps * (2 + team.roles.len() / 2 + attempts * (3 + 2 * MAX_HOST_CALLS))
}

/// Returns whether a budget of the team or of a role keeps a role from continuing, under the rules
/// in this state.
fn stopped_by_a_purse(team: &Team, state: &Environment) -> bool {
    Stepper::new(Arc::new(team.clone()), state.clone())
        .exhausted_budgets()
        .next()
        .is_some()
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn a_run_ends_within_its_step_limit(team in any_team(), seed: u64, order: u64, failure_percent in 0..100_u64) {
        let max_steps = team.policy.max_steps.expect("a limit");
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent }, FaultSchedule::default(), order);
        let of_joins = run.log.iter().filter(|event| matches!(event, Event::JoinReleased(_))).count();
        let others = run.log.len() - of_joins;
        prop_assert!(others <= most_events(&team, max_steps as usize), "{others} events");
        prop_assert!(of_joins <= team.joins.len() * run.env().history.len(), "each lets a message go on");
        prop_assert!(run.env().step <= max_steps);
        let steps = run.log.iter().filter(|event| matches!(event, Event::StepStarted(_))).count();
        prop_assert!(steps as u64 <= max_steps);
        prop_assert_ne!(run.env().status, Status::Running);
    }

    #[test]
    fn the_step_limit_counts_over_resumes_and_stops_before_the_step(team in any_team(), seed: u64, order: u64) {
        let faults = FaultSchedule { kills: 2, stops: 2, mail: 2, resumes: 3, change: ResumeChange::Everything };
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 20 }, faults, order);
        for (event, state) in run.log.iter().zip(&run.states) {
            if matches!(event, Event::RunEnded(RunEnded { status: Status::StepLimit, .. })) {
                prop_assert!(!state.is_step_open);
                prop_assert!(state.roles.iter().any(|role| !role.mailbox.is_empty() || role.activation.is_some()));
                prop_assert!(state.step >= team.policy.max_steps.expect("a limit"));
            }
        }
    }

    #[test]
    fn without_cycles_a_run_ends_by_itself_and_stalled_where_a_join_waits_in_vain(team in acyclic_team(), seed: u64, order: u64, failure_percent in 0..60_u64) {
        let mut team = team;
        team.policy.budget = None;
        team.policy.scoped_budgets = Default::default();
        let script = Script { seed, address: RecipientChoice::Never, failure_percent };
        let run = SimulatedRun::complete(&team, script, FaultSchedule::default(), order);
        // Each step goes on to a later role, or to further mail of the last role, to which joins
        // lead, or of a role that handles each message alone.
        let alone = team.roles.iter().filter(|role| role.deliver == DeliveryMode::Each).count();
        let further = (team.joins.len() + alone) * run.env().history.len();
        prop_assert!(run.log.len() <= most_events(&team, team.roles.len() + further) + further);
        prop_assert!(run.env().step <= (team.roles.len() + further) as u64);
        if failure_percent == 0 && run.env().failed_calls(&team).next().is_none() {
            let waits = run.env().joins.iter().any(|join| !join.is_empty());
            prop_assert_eq!(run.env().status, if waits { Status::Stalled } else { Status::Done });
        }
    }

    #[test]
    fn it_is_done_only_when_nothing_is_left_and_failed_only_with_a_fault(team in any_team(), seed: u64, order: u64) {
        let faults = FaultSchedule { kills: 1, stops: 1, mail: 3, resumes: 3, change: ResumeChange::Everything };
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 20 }, faults, order);
        for (event, state) in run.log.iter().zip(&run.states) {
            let Event::RunEnded(RunEnded { status, .. }) = event else { continue };
            match status {
                Status::Done => prop_assert!(state.is_drained()),
                Status::Stalled => {
                    prop_assert!(state.is_quiet());
                    for (join, left) in team.joins.iter().zip(&state.joins).filter(|(_, left)| !left.is_empty()) {
                        prop_assert!(join.mode == JoinMode::All && left.missing_sources(join).next().is_some());
                    }
                }
                Status::Failed => {
                    let stuck = state.outbox.first().is_some_and(|outbound| outbound.failed.is_some());
                    // The loop limits of the team may have changed since, so the phases are looked at.
                    let mut activations = state.mail_activations();
                    prop_assert!(stuck || activations.any(|(_, a)| matches!(a.phase, Phase::Failed(_))));
                }
                Status::OutOfBudget => {
                    prop_assert!(stopped_by_a_purse(&team, state));
                }
                Status::StepLimit | Status::Interrupted => {}
                other => prop_assert!(false, "nothing ends {other:?} here"),
            }
            if *status != Status::Interrupted {
                let busy = |phase: &Phase| matches!(phase, Phase::Running | Phase::BackingOff);
                prop_assert!(!state.mail_activations().any(|(_, a)| busy(&a.phase)), "siblings finish first");
            }
        }
    }

    #[test]
    fn no_call_starts_and_nothing_is_bought_when_a_budget_is_used_up(
        team in any_team(), seed: u64, order: u64, budget in 1..30_u64,
    ) {
        let mut team = team;
        team.policy.budget = Some(Usd(budget));
        let faults = FaultSchedule { kills: 2, stops: 1, mail: 1, resumes: 4, change: ResumeChange::ComponentsAndCalls };
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 25 }, faults, order);
        for (event, before) in run.log[1..].iter().zip(&run.states) {
            match event {
                Event::Attempt(CallKey { role, work, .. }, AttemptEvent::CallStarted(_)) => {
                    let purse = before.exhausted_budget(&team, *role, *work, Amount::ZERO);
                    prop_assert!(matches!(purse, None | Some(BudgetScope::Action(_))));
                }
                Event::Attempt(CallKey { role, work, .. }, AttemptEvent::MoneyReserved(_)) => {
                    prop_assert_eq!(before.exhausted_budget(&team, *role, *work, Amount::ZERO), None);
                }
                _ => {}
            }
            let whole = before.spending(|_| true);
            prop_assert_eq!(before.spent, whole.usd, "every cent is in somebody's name");
        }
    }

    #[test]
    fn a_call_is_paid_for_once_and_never_when_it_is_served_from_the_record(team in any_team(), seed: u64, order: u64) {
        let faults = FaultSchedule { kills: 3, stops: 2, mail: 1, resumes: 4, change: ResumeChange::Everything };
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 30 }, faults, order);
        let (mut sum, mut saved) = (0, 0);
        for (event, state) in run.log.iter().zip(&run.states) {
            match event {
                Event::Attempt(_, AttemptEvent::HostCalled(HostCalled { call, source: AnswerSource::Live, .. })) => sum += call.cost.0,
                Event::Attempt(_, AttemptEvent::HostCalled(HostCalled { call, source: AnswerSource::Recorded, .. })) => saved += call.cost.0,
                _ => {}
            }
            prop_assert_eq!(state.spent, Usd(sum));
            prop_assert_eq!(state.spending(|_| true).saved, Usd(saved));
        }
    }
}
