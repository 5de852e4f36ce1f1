//! Recovery: a run that was disturbed ends like one that was not, and does nothing twice.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata_core::machine::effect::Invocation;
use strata_core::record::event::{
    AttemptEvent, CallFailed, ComponentChanged, Event, HostCalled, RunResumed, StepConflicted,
};
use strata_core::record::fault::Retryability;
use strata_core::record::host_call::{AnswerSource, CallPolicy, RecordedCallUse};
use strata_core::record::id::RoleId;
use strata_core::record::work::{CallKey, Work};
use strata_core::state::activation::Phase;
use strata_core::team::{RetryPolicy, Team};

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::script::{RecipientChoice, Script};
use crate::state_view::state_view;
use crate::teams::{any_team, cases, steady_team};

const MANY_FAULTS: FaultSchedule = FaultSchedule {
    kills: 4,
    stops: 3,
    mail: 0,
    resumes: 6,
    change: ResumeChange::ComponentsAndCalls,
};

/// Returns a run that is resumed until it is done.
fn disturbed(team: &Team, seed: u64, order: u64) -> SimulatedRun {
    SimulatedRun::complete(
        team,
        script(seed),
        FaultSchedule {
            resumes: 400,
            ..MANY_FAULTS
        },
        order,
    )
}

/// Returns every end of a call, with the attempt it ends and whether it succeeded.
fn ends(run: &SimulatedRun) -> Vec<(usize, &Invocation, bool)> {
    let mut started: BTreeMap<RoleId, &Invocation> = BTreeMap::new();
    let mut calls = run.calls.iter().peekable();
    let mut ends = Vec::new();
    for (at, event) in run.log.iter().enumerate() {
        if let Some((_, call)) = calls.next_if(|(start, _)| *start == at) {
            started.insert(call.role, call);
        }
        match event {
            Event::Attempt(CallKey { role, .. }, AttemptEvent::CallFinished(_)) => {
                ends.push((at, started[role], true))
            }
            Event::Attempt(CallKey { role, .. }, AttemptEvent::CallFailed(_)) => {
                ends.push((at, started[role], false))
            }
            _ => {}
        }
    }
    ends
}

/// A call that was made, or a call whose key may be used again by an unrelated call.
enum CallHistory<'a> {
    Made(&'a Invocation),
    Forget(&'a str),
}

/// Returns all calls and, after each conflict, those that followed a call that was reverted.
fn call_history(run: &SimulatedRun) -> Vec<CallHistory<'_>> {
    let mut all = Vec::new();
    let mut past_calls: Vec<&Invocation> = Vec::new();
    let mut calls = run.calls.iter().peekable();
    for (at, event) in run.log.iter().enumerate() {
        if let Some((_, call)) = calls.next_if(|(start, _)| *start == at) {
            past_calls.push(call);
            all.push(CallHistory::Made(call));
        }
        let Event::StepConflicted(StepConflicted { writers, .. }) = event else {
            continue;
        };
        for writer in writers {
            let activation = run.states[at]
                .role(writer.call.role)
                .activation
                .as_ref()
                .expect("an activation");
            let (opened, kept) = (
                format!("run/{}/", activation.opened_in_step),
                activation.done.len(),
            );
            let after = past_calls.iter().filter(|call| {
                call.role == writer.call.role && call.idempotency_key.starts_with(&opened)
            });
            let lost = after.filter(|call| call.outputs.len() > kept);
            all.extend(lost.map(|call| CallHistory::Forget(&call.idempotency_key)));
        }
    }
    all
}

fn retry(team: &Team, role: RoleId, work: Work) -> RetryPolicy {
    match work {
        Work::Think { .. } | Work::Answer => RetryPolicy {
            retries: 0,
            backoff_ms: 0,
        },
        Work::Plan => team.role(role).actions[0].retry,
        Work::Act { action, .. } => team.role(role).action(action).retry,
        Work::Turn { .. } | Work::Summary { .. } | Work::ToolCall { .. } => {
            unreachable!("these teams have no tools")
        }
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn a_disturbed_run_ends_as_the_undisturbed_one(team in steady_team(), seed: u64, order: u64, parallel in 1..5_usize) {
        let script = Script { seed, address: RecipientChoice::Often, failure_percent: 0 };
        let calm = SimulatedRun::complete(&team, script, FaultSchedule::default(), 0);
        let mut team = team;
        team.policy.max_parallel = parallel;
        let rough = disturbed(&team, seed, order);
        prop_assert_eq!(calm.env().status, rough.env().status);
        prop_assert_eq!(state_view(calm.env()), state_view(rough.env()));
    }

    #[test]
    fn what_is_finished_is_never_started_again(team in steady_team(), seed: u64, order: u64) {
        let run = disturbed(&team, seed, order);
        let mut finished = BTreeMap::new();
        for (at, call, succeeded) in ends(&run) {
            if succeeded {
                let twice = finished.insert(&call.idempotency_key, at);
                prop_assert_eq!(twice, None, "{:?} was finished twice", call);
            }
        }
        for (start, call) in &run.calls {
            let end = finished.get(&call.idempotency_key);
            prop_assert!(end.is_none_or(|end| start < end), "{:?} was started after it was finished", call);
        }
    }

    #[test]
    fn the_idea_is_published_once(team in any_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, script(seed), MANY_FAULTS, order);
        let all: Vec<_> = run.env().history.iter().map(|id| run.env().message(*id).id.0.as_str()).collect();
        prop_assert_eq!(all.iter().filter(|id| **id == "idea").count(), 1);
        prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn attempts_count_from_one_over_kills_stops_and_resumes(team in any_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, script(seed), MANY_FAULTS, order);
        let mut last: BTreeMap<&str, u32> = BTreeMap::new();
        for (_, call) in &run.calls {
            let attempts = last.entry(&call.idempotency_key).or_default();
            prop_assert_eq!(call.attempt, *attempts + 1, "{:?}", call);
            *attempts += 1;
        }
    }

    #[test]
    fn every_attempt_of_a_call_is_given_the_same_input(team in any_team(), seed: u64, order: u64) {
        let faults = FaultSchedule { mail: 3, change: ResumeChange::Everything, ..MANY_FAULTS };
        let run = SimulatedRun::complete(&team, script(seed), faults, order);
        let mut first: BTreeMap<&str, &Invocation> = BTreeMap::new();
        for call in call_history(&run) {
            match call {
                CallHistory::Made(call) => {
                    let before = first.entry(&call.idempotency_key).or_insert(call);
                    prop_assert_eq!((before.role, before.work, &before.task), (call.role, call.work, &call.task));
                    prop_assert_eq!(&before.news, &call.news);
                    prop_assert_eq!(&before.outputs, &call.outputs);
                }
                // A call after one that is made again sees another output.
                CallHistory::Forget(key) => drop(first.remove(key)),
            }
        }
    }

    #[test]
    fn only_what_may_pass_is_retried_and_ever_more_slowly(team in any_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, Script { failure_percent: 60, ..script(seed) }, MANY_FAULTS, order);
        let mut failures: BTreeMap<RoleId, u32> = BTreeMap::new();
        for (event, state) in run.log.iter().zip(&run.states) {
            match event {
                Event::RunResumed(_) => failures.clear(),
                Event::Attempt(CallKey { role, .. }, AttemptEvent::CallFinished(_)) => drop(failures.remove(role)),
                Event::Attempt(CallKey { role, work, .. }, AttemptEvent::CallFailed(CallFailed { fault, retry_ms, .. })) => {
                    let before = failures.entry(*role).or_default();
                    let RetryPolicy { retries, backoff_ms } = retry(&team, *role, *work);
                    let pause = (u64::from(backoff_ms) * 2_u64.pow(*before)).min(60_000.max(backoff_ms.into())) as u32;
                    let again = fault.retryability == Retryability::Retryable && *before < retries;
                    prop_assert_eq!(*retry_ms, again.then_some(pause));
                    let phase = &state.role(*role).activation.as_ref().expect("an activation").phase;
                    prop_assert_eq!(again, *phase == Phase::BackingOff);
                    *before += 1;
                }
                _ => {}
            }
        }
    }

    #[test]
    fn recorded_calls_are_served_as_the_end_of_the_last_attempt_and_the_operator_say(
        team in any_team(), seed: u64, order: u64,
    ) {
        let run = SimulatedRun::complete(&team, Script { failure_percent: 50, ..script(seed) }, MANY_FAULTS, order);
        // What is known of the current call of each role.
        let mut recorded = BTreeMap::new();
        let mut kept: BTreeMap<RoleId, bool> = BTreeMap::new();
        let mut policy = CallPolicy::Auto;
        let mut calls = run.calls.iter().peekable();
        for (at, event) in run.log.iter().enumerate() {
            match event {
                Event::RunResumed(RunResumed { call_policy, .. }) => {
                    policy = *call_policy;
                    let killed = run.states[at - 1].mail_activations().filter(|(_, a)| a.phase == Phase::Running);
                    kept.extend(killed.map(|(id, _)| (id, true)));
                }
                Event::ComponentChanged(ComponentChanged { slot, .. }) => {
                    let env = &run.states[at];
                    let activation = env.role(slot.role).activation.as_ref();
                    let work = activation.and_then(|a| a.current_work(team.role(slot.role)));
                    if work.and_then(|work| strata_core::machine::stepper::component_slot(team.role(slot.role), slot.role, work)) == Some(*slot) {
                        kept.insert(slot.role, true);
                    }
                }
                Event::Attempt(CallKey { role, .. }, AttemptEvent::CallFailed(CallFailed { fault, .. })) => drop(kept.insert(*role, fault.kind.keeps_recorded_calls())),
                Event::Attempt(CallKey { role, .. }, AttemptEvent::CallFinished(_)) => {
                    recorded.remove(role);
                    kept.remove(role);
                }
                // Calls reverted by a conflict are covered by the regression tests.
                Event::StepConflicted(_) => return Ok(()),
                Event::Attempt(CallKey { role, .. }, AttemptEvent::HostCalled(HostCalled { call, source: AnswerSource::Live, .. })) => {
                    recorded.entry(*role).or_insert_with(Vec::new).push(call.clone());
                }
                _ => {}
            }
            if let Some((_, call)) = calls.next_if(|(start, _)| *start == at) {
                let keep = match policy {
                    CallPolicy::Reuse => true,
                    CallPolicy::Fresh => false,
                    CallPolicy::Auto => kept.get(&call.role).copied().unwrap_or(false),
                };
                if !keep {
                    recorded.remove(&call.role);
                }
                prop_assert_eq!(call.call_reuse == RecordedCallUse::Reuse, keep, "{:?}", call);
                prop_assert_eq!(&call.recorded_calls, &recorded.get(&call.role).cloned().unwrap_or_default());
            }
        }
    }
}

fn script(seed: u64) -> Script {
    Script {
        seed,
        address: RecipientChoice::Often,
        failure_percent: 30,
    }
}
