//! How many lines an event is told in, without telling it: events are numbered as they happen, and told only where
//! somebody listens.

use strata_core::event::{Event, HostCallKind, Released, Routed, Work};

use crate::gateway::START;

/// How many lines `Narrator::tell` makes of an event.
pub fn count(event: &Event) -> u32 {
    let lines = match event {
        Event::RunStarted { routed, .. } => 1 + of_routed(routed),
        Event::RunResumed { kept, .. } => 1 + kept.iter().filter(|(_, work)| !is_choice(*work)).count(),
        Event::MessageSent { routed, .. } => of_routed(routed),
        Event::StepConflicted { writers, .. } => writers.len(),
        Event::JoinReleased { released } => of_released(released),
        Event::StepCommitted { routed, released, .. } => {
            routed.iter().map(of_routed).sum::<usize>() + of_released(released) + 1
        }
        Event::CallStarted { work, digest, forgotten, .. } => {
            let told = [!forgotten.is_empty(), digest.is_some(), !is_choice(*work)];
            told.into_iter().filter(|told| *told).count()
        }
        Event::HostCalled { call, .. } if call.kind == HostCallKind::Clock && call.request == START => 0,
        Event::FilesPlaced { aside, .. } => aside.len(),
        Event::RetryDue { .. } | Event::MoneyReserved { .. } => 0,
        Event::ComponentChanged { .. }
        | Event::StepStarted { .. }
        | Event::RunEnded { .. }
        | Event::Forked { .. }
        | Event::HandedOver { .. }
        | Event::HandOverFailed { .. }
        | Event::FilesWritten { .. }
        | Event::RequestOpened { .. }
        | Event::RequestAnswered { .. }
        | Event::HostCallBegun { .. }
        | Event::HostCalled { .. }
        | Event::DoubtSettled { .. }
        | Event::WritesUnclaimed { .. }
        | Event::CallSuspended { .. }
        | Event::CallFinished { .. }
        | Event::CallFailed { .. } => 1,
    };
    lines as u32
}

fn is_choice(work: Work) -> bool {
    matches!(work, Work::Think { .. })
}

fn of_routed(Routed { to, joins, outside, dead, dropped, .. }: &Routed) -> usize {
    if dropped.is_some() {
        return 1;
    }
    let anywhere = !to.is_empty() || !joins.is_empty() || !outside.is_empty() || dead.is_empty();
    usize::from(anywhere) + joins.len() + dead.len()
}

fn of_released(released: &[Released]) -> usize {
    released.iter().map(|released| 1 + released.into.map_or(0, |_| released.messages.len())).sum()
}
