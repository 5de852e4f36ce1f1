//! Events that do not fit the state are refused without any change, and never cause a panic.

use std::sync::Arc;

use proptest::prelude::*;
use strata_core::machine::effect::Effect;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{
    AttemptEvent, CallFailed, CallFinished, CallStarted, CallSuspended, CapReached,
    ComponentChanged, Event, FilesPlaced, FilesWritten, Forked, HandOverFailed, HandedOver,
    JoinRelease, JoinReleased, Logged, LookupsDenied, MessageSent, RequestAnswered, RequestOpened,
    RoutingResult, RunEnded, RunResumed, RunStarted, StepCommitted, StepConflicted, StepStarted,
};
use strata_core::record::id::{ActionId, JoinId, RoleId};
use strata_core::record::work::{CallKey, CallResult, Task, Work};
use strata_core::state::environment::Environment;

use crate::forged_events::forgeries;
use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::rng::Rng;
use crate::script::{RecipientChoice, Script};
use crate::teams::{any_team, cases};

const MANY_FAULTS: FaultSchedule = FaultSchedule {
    kills: 2,
    stops: 1,
    mail: 2,
    resumes: 2,
    change: ResumeChange::ComponentsAndCalls,
};

/// Returns the event with one random change.
fn mutated(event: &Event, rng: &mut Rng) -> Event {
    let mut event = event.clone();
    match &mut event {
        Event::RunStarted(RunStarted { routed, .. })
        | Event::MessageSent(MessageSent { routed, .. }) => mutate_routed(routed, rng),
        Event::RunResumed(RunResumed { step, rules, .. }) => match rng.below(2) {
            0 => *step += 1,
            _ => drop(rules.roles.pop()),
        },
        Event::ComponentChanged(ComponentChanged { slot, .. }) => slot.role = any_role(rng),
        Event::StepStarted(StepStarted { step, roles }) => match rng.below(3) {
            0 => *step = step.wrapping_sub(1),
            1 => roles.push(any_role(rng)),
            _ => drop(roles.pop()),
        },
        Event::StepConflicted(StepConflicted { key, writers, .. }) => match rng.below(2) {
            0 => key.push('x'),
            _ => {
                for writer in writers {
                    writer.call.role = any_role(rng);
                }
            }
        },
        Event::StepCommitted(StepCommitted {
            step,
            routed,
            released,
            ..
        }) => match routed.first_mut() {
            Some(routed) if rng.chance(70) => mutate_routed(routed, rng),
            _ if rng.chance(50) => mutate_released(released, rng),
            _ => *step += 1,
        },
        Event::JoinReleased(JoinReleased { released }) => mutate_released(released, rng),
        Event::HandedOver(HandedOver { id }) | Event::HandOverFailed(HandOverFailed { id, .. }) => {
            *id = "another".into()
        }
        Event::Forked(Forked {
            lineage,
            from,
            step,
            ..
        }) => match rng.below(3) {
            0 => lineage.clear(),
            1 => *from = "another".into(),
            _ => *step += 1,
        },
        Event::FilesPlaced(FilesPlaced { count, .. }) => *count += 1,
        Event::CapReached(CapReached { scope, .. }) => scope.clear(),
        // Simulated runs are not taken over, and have no servers.
        Event::ConsentWithdrawn(_) | Event::ServerChanged(_) | Event::ServerToolOmitted(_) => {}
        Event::RunEnded(RunEnded { status, .. }) => {
            *status = *rng.pick(&strata_core::record::event::Status::ALL)
        }
        Event::Attempt(call, event) => mutate_call_event(call, event, rng),
    }
    event
}

/// Makes one random change to an event of a call.
fn mutate_call_event(call: &mut CallKey, event: &mut AttemptEvent, rng: &mut Rng) {
    match event {
        AttemptEvent::CallStarted(CallStarted { attempt, .. })
        | AttemptEvent::CallSuspended(CallSuspended { attempt, .. })
        | AttemptEvent::CallFailed(CallFailed { attempt, .. }) => mutate_call(call, attempt, rng),
        AttemptEvent::HostCalled(_)
        | AttemptEvent::HostCallBegun(_)
        | AttemptEvent::WritesUnclaimed(_)
        | AttemptEvent::DoubtSettled(_)
        | AttemptEvent::MoneyReserved(_)
        | AttemptEvent::CallRevised(_)
        | AttemptEvent::MemoryRequested(_)
        | AttemptEvent::NestedCallMade(_)
        | AttemptEvent::RetryDue => mutate_call(call, &mut 0, rng),
        AttemptEvent::CallFinished(CallFinished { attempt, result }) => match rng.below(3) {
            0 => *result = CallResult::Chosen(*rng.pick(&[-2, 0, 7])),
            1 => {
                let task = Task {
                    text: "t".into(),
                    action: None,
                };
                *result = CallResult::Planned {
                    tasks: vec![task; 3],
                    emissions: Vec::new(),
                    writes: Vec::new(),
                };
            }
            _ => mutate_call(call, attempt, rng),
        },
        AttemptEvent::RequestOpened(RequestOpened { request }) => match rng.below(2) {
            0 => request.id = "another".into(),
            _ => mutate_call(call, &mut 0, rng),
        },
        AttemptEvent::RequestAnswered(RequestAnswered { request, .. }) => match rng.below(2) {
            0 => *request = "another".into(),
            _ => mutate_call(call, &mut 0, rng),
        },
        AttemptEvent::FilesWritten(FilesWritten { files }) => files.reverse(),
        AttemptEvent::Logged(Logged { lines, .. }) => lines.clear(),
        AttemptEvent::LookupsDenied(LookupsDenied { paths }) => paths.clear(),
        AttemptEvent::SkillLoaded(loaded) => loaded.skill.clear(),
        AttemptEvent::ToolsListed(listed) => listed.lists = Default::default(),
        AttemptEvent::CallAsks(asks) => asks.call.questions.clear(),
    }
}

fn any_role(rng: &mut Rng) -> RoleId {
    RoleId(*rng.pick(&[0, 1, 2, 3, 4, 5, u16::MAX]))
}

fn mutate_routed(routed: &mut RoutingResult, rng: &mut Rng) {
    match rng.below(4) {
        0 => routed.id = "another".into(),
        1 => routed.to.push(any_role(rng)),
        2 => routed.joins.push(JoinId(*rng.pick(&[0, 1, 2, u16::MAX]))),
        _ => routed.from = Some(any_role(rng)),
    }
}

fn mutate_released(released: &mut Vec<JoinRelease>, rng: &mut Rng) {
    let more = JoinRelease {
        join: JoinId(*rng.pick(&[0, 1, u16::MAX])),
        messages: vec![],
        to: vec![],
        into: None,
    };
    match (rng.below(4), released.first_mut()) {
        (0, Some(first)) => first.join = more.join,
        (1, Some(first)) => drop(first.messages.pop()),
        (2, Some(first)) => first.to.push(any_role(rng)),
        _ => released.push(more),
    }
}

fn mutate_call(call: &mut CallKey, attempt: &mut u32, rng: &mut Rng) {
    match rng.below(3) {
        0 => call.role = any_role(rng),
        1 => *attempt = attempt.wrapping_sub(1),
        _ => {
            call.work = *rng.pick(&[
                Work::Plan,
                Work::Think { round: 9 },
                Work::Act {
                    action: ActionId(9),
                    task: Some(9),
                },
            ])
        }
    }
}

/// Returns whether what the stepper decides next can be done.
fn goes_on(stepper: &Stepper) -> bool {
    let mut next = stepper.clone();
    match stepper.next() {
        Effect::Record(event) => next.apply(&event).is_ok(),
        Effect::Call(call) => next.apply(&next.call_started_event(&call)).is_ok(),
        Effect::Wait | Effect::Halt(_) => true,
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn an_event_that_does_not_fit_leaves_the_state_untouched(
        (team, other) in (any_team(), any_team()), seeds in any::<[u64; 3]>(),
    ) {
        let run = SimulatedRun::complete(&team, Script { seed: seeds[0], address: RecipientChoice::Often, failure_percent: 25 }, MANY_FAULTS, seeds[0]);
        let script = Script { seed: seeds[1], address: RecipientChoice::Often, failure_percent: 25 };
        let foreign = SimulatedRun::complete(&other, script, MANY_FAULTS, seeds[1]);
        let sibling = SimulatedRun::complete(&team, script, MANY_FAULTS, seeds[1]);
        let pool: Vec<&Event> = run.log.iter().chain(&foreign.log).chain(&sibling.log).collect();
        let mut rng = Rng::new(seeds[2], "illegal");
        let blank = Environment::new(&team);
        for _ in 0..8 {
            let at = rng.below(run.states.len() + 1);
            let state = at.checked_sub(1).map_or(&blank, |at| &run.states[at]);
            let mut stepper = Stepper::new(Arc::new(team.clone()), state.clone());
            prop_assert!(goes_on(&stepper));
            // One after another: an event that is accepted by chance changes the state for the
            // next.
            for _ in 0..24 {
                let near = run.log.get(at + rng.below(4)).unwrap_or(pool[0]);
                let event = if rng.chance(40) { near } else { *rng.pick(&pool) };
                let event = if rng.chance(50) { mutated(event, &mut rng) } else { event.clone() };
                let before = stepper.env().clone();
                let is_named = stepper.ensure_names_exist(&event).is_ok();
                match stepper.apply(&event) {
                    Ok(()) if !is_named => prop_assert!(false, "it names what is not there: {:?}", event),
                    Err(_) => prop_assert_eq!(stepper.env(), &before, "{:?}", event),
                    Ok(()) => prop_assert!(goes_on(&stepper), "{:?}", event),
                }
            }
        }
    }

    #[test]
    fn nothing_happens_twice(team in any_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 25 }, MANY_FAULTS, order);
        for (event, state) in run.log.iter().zip(&run.states) {
            // A resume may be repeated, and a guest may make the same host call again.
            if matches!(event, Event::RunResumed(_) | Event::Attempt(_, AttemptEvent::HostCalled(_)) | Event::Attempt(_, AttemptEvent::MoneyReserved(_))) {
                continue;
            }
            let mut stepper = Stepper::new(run.team().clone(), state.clone());
            prop_assert!(stepper.apply(event).is_err(), "{:?}", event);
        }
    }

    #[test]
    fn what_happened_did_not_happen_otherwise(team in any_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 25 }, MANY_FAULTS, order);
        let blank = Environment::new(&team);
        for (at, event) in run.log.iter().enumerate() {
            let before = at.checked_sub(1).map_or(&blank, |at| &run.states[at]);
            for forged in forgeries(event) {
                let mut stepper = Stepper::new(run.team().clone(), before.clone());
                prop_assert!(stepper.apply(&forged).is_err(), "{:?}", forged);
            }
        }
    }
}
