//! Events that do not fit: refused without a trace, and never a panic.

use std::sync::Arc;

use proptest::prelude::*;
use strata_core::effect::Effect;
use strata_core::environment::Environment;
use strata_core::event::{Event, Finished, Released, Routed, Work};
use strata_core::id::{ActionId, JoinId, RoleId};
use strata_core::stepper::Stepper;
use strata_core::team::Task;

use crate::dice::Dice;
use crate::forgery::forgeries;
use crate::life::{Change, Life, Weather};
use crate::script::{Address, Script};
use crate::teams::{any_team, cases};

const STORMY: Weather = Weather {
    kills: 2,
    stops: 1,
    mail: 2,
    resumes: 2,
    change: Change::Circumstances,
};

/// The event, with something about it changed.
fn warped(event: &Event, dice: &mut Dice) -> Event {
    let mut event = event.clone();
    match &mut event {
        Event::RunStarted { routed, .. } | Event::MessageSent { routed, .. } => {
            warp_routed(routed, dice)
        }
        Event::RunResumed { step, rules, .. } => match dice.below(2) {
            0 => *step += 1,
            _ => drop(rules.roles.pop()),
        },
        Event::ComponentChanged { slot, .. } => slot.role = any_role(dice),
        Event::StepStarted { step, roles } => match dice.below(3) {
            0 => *step = step.wrapping_sub(1),
            1 => roles.push(any_role(dice)),
            _ => drop(roles.pop()),
        },
        Event::CallStarted {
            role,
            work,
            attempt,
            ..
        } => warp_call(role, work, attempt, dice),
        Event::HostCalled { role, work, .. }
        | Event::HostCallBegun { role, work, .. }
        | Event::WritesUnclaimed { role, work, .. }
        | Event::DoubtSettled { role, work, .. } => warp_call(role, work, &mut 0, dice),
        Event::MoneyReserved { role, work, .. } => warp_call(role, work, &mut 0, dice),
        Event::CallSuspended {
            role,
            work,
            attempt,
        } => warp_call(role, work, attempt, dice),
        Event::CallFailed {
            role,
            work,
            attempt,
            ..
        } => warp_call(role, work, attempt, dice),
        Event::CallFinished {
            role,
            work,
            attempt,
            result,
        } => match dice.below(3) {
            0 => *result = Finished::Chosen(*dice.pick(&[-2, 0, 7])),
            1 => {
                let tasks = vec![
                    Task {
                        text: "t".into(),
                        action: None
                    };
                    3
                ];
                *result = Finished::Planned {
                    tasks,
                    emissions: Vec::new(),
                    writes: Vec::new(),
                };
            }
            _ => warp_call(role, work, attempt, dice),
        },
        Event::RetryDue { role } => *role = any_role(dice),
        Event::StepConflicted { key, writers, .. } => match dice.below(2) {
            0 => key.push('x'),
            _ => writers
                .iter_mut()
                .for_each(|writer| writer.role = any_role(dice)),
        },
        Event::StepCommitted {
            step,
            routed,
            released,
            ..
        } => match routed.first_mut() {
            Some(routed) if dice.chance(70) => warp_routed(routed, dice),
            _ if dice.chance(50) => warp_released(released, dice),
            _ => *step += 1,
        },
        Event::JoinReleased { released } => warp_released(released, dice),
        Event::RequestOpened {
            role,
            work,
            request,
        } => match dice.below(2) {
            0 => request.id = "another".into(),
            _ => warp_call(role, work, &mut 0, dice),
        },
        Event::RequestAnswered { role, request, .. } => match dice.below(2) {
            0 => *request = "another".into(),
            _ => *role = any_role(dice),
        },
        Event::HandedOver { id } | Event::HandOverFailed { id, .. } => *id = "another".into(),
        Event::Forked {
            lineage,
            from,
            step,
            ..
        } => match dice.below(3) {
            0 => lineage.clear(),
            1 => *from = "another".into(),
            _ => *step += 1,
        },
        Event::FilesWritten { files, .. } => files.reverse(),
        Event::FilesPlaced { count, .. } => *count += 1,
        Event::RunEnded { status, .. } => *status = *dice.pick(&strata_core::event::Status::ALL),
    }
    event
}

fn any_role(dice: &mut Dice) -> RoleId {
    RoleId(*dice.pick(&[0, 1, 2, 3, 4, 5, u16::MAX]))
}

fn warp_routed(routed: &mut Routed, dice: &mut Dice) {
    match dice.below(4) {
        0 => routed.id = "another".into(),
        1 => routed.to.push(any_role(dice)),
        2 => routed.joins.push(JoinId(*dice.pick(&[0, 1, 2, u16::MAX]))),
        _ => routed.from = Some(any_role(dice)),
    }
}

fn warp_released(released: &mut Vec<Released>, dice: &mut Dice) {
    let more = Released {
        join: JoinId(*dice.pick(&[0, 1, u16::MAX])),
        messages: vec![],
        to: vec![],
        into: None,
    };
    match (dice.below(4), released.first_mut()) {
        (0, Some(first)) => first.join = more.join,
        (1, Some(first)) => drop(first.messages.pop()),
        (2, Some(first)) => first.to.push(any_role(dice)),
        _ => released.push(more),
    }
}

fn warp_call(role: &mut RoleId, work: &mut Work, attempt: &mut u32, dice: &mut Dice) {
    match dice.below(3) {
        0 => *role = any_role(dice),
        1 => *attempt = attempt.wrapping_sub(1),
        _ => {
            *work = *dice.pick(&[
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

/// What the stepper wants next can be done.
fn goes_on(stepper: &Stepper) -> bool {
    let mut next = stepper.clone();
    match stepper.next() {
        Effect::Record(event) => next.apply(&event).is_ok(),
        Effect::Call(call) => next.apply(&next.call_started(&call)).is_ok(),
        Effect::Wait | Effect::Halt(_) => true,
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn an_event_that_does_not_fit_leaves_the_state_untouched(
        (team, other) in (any_team(), any_team()), seeds in any::<[u64; 3]>(),
    ) {
        let life = Life::tell(&team, Script { seed: seeds[0], address: Address::Often, trouble: 25 }, STORMY, seeds[0]);
        let script = Script { seed: seeds[1], address: Address::Often, trouble: 25 };
        let foreign = Life::tell(&other, script, STORMY, seeds[1]);
        let sibling = Life::tell(&team, script, STORMY, seeds[1]);
        let pool: Vec<&Event> = life.log.iter().chain(&foreign.log).chain(&sibling.log).collect();
        let mut dice = Dice::new(seeds[2], "illegal");
        let blank = Environment::new(&team);
        for _ in 0..8 {
            let at = dice.below(life.states.len() + 1);
            let state = at.checked_sub(1).map_or(&blank, |at| &life.states[at]);
            let mut stepper = Stepper::new(Arc::new(team.clone()), state.clone());
            prop_assert!(goes_on(&stepper));
            // One after another: what was accepted by chance is built upon.
            for _ in 0..24 {
                let near = life.log.get(at + dice.below(4)).unwrap_or(pool[0]);
                let event = if dice.chance(40) { near } else { *dice.pick(&pool) };
                let event = if dice.chance(50) { warped(event, &mut dice) } else { event.clone() };
                let before = stepper.env().clone();
                let is_named = stepper.has_what_is_named(&event).is_ok();
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
        let life = Life::tell(&team, Script { seed, address: Address::Often, trouble: 25 }, STORMY, order);
        for (event, state) in life.log.iter().zip(&life.states) {
            // A resume may be repeated; a guest may ask the same again.
            if matches!(event, Event::RunResumed { .. } | Event::HostCalled { .. } | Event::MoneyReserved { .. }) {
                continue;
            }
            let mut stepper = Stepper::new(life.team().clone(), state.clone());
            prop_assert!(stepper.apply(event).is_err(), "{:?}", event);
        }
    }

    #[test]
    fn what_happened_did_not_happen_otherwise(team in any_team(), seed: u64, order: u64) {
        let life = Life::tell(&team, Script { seed, address: Address::Often, trouble: 25 }, STORMY, order);
        let blank = Environment::new(&team);
        for (at, event) in life.log.iter().enumerate() {
            let before = at.checked_sub(1).map_or(&blank, |at| &life.states[at]);
            for forged in forgeries(event) {
                let mut stepper = Stepper::new(life.team().clone(), before.clone());
                prop_assert!(stepper.apply(&forged).is_err(), "{:?}", forged);
            }
        }
    }
}
