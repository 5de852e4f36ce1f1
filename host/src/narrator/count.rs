//! How many lines an event is told in, without telling it: events are numbered as they happen, and told only where
//! somebody listens. What is told at all is decided here, for the narrator too.

use strata_core::event::{Event, HostCallKind, Released, Routed, Work};
use strata_core::host_call::HostCall;

use crate::gateway::START;

/// How many lines `Narrator::tell` makes of an event.
pub fn count(event: &Event) -> u32 {
    let lines = match event {
        Event::RunStarted { routed, .. } => 1 + of_routed(routed),
        Event::RunResumed { kept, .. } => {
            1 + kept.iter().filter(|(_, work)| !is_choice(*work)).count()
        }
        Event::MessageSent { routed, .. } => of_routed(routed),
        Event::StepConflicted { writers, .. } => writers.len(),
        Event::JoinReleased { released } => of_released(released),
        Event::StepCommitted {
            routed, released, ..
        } => routed.iter().map(of_routed).sum::<usize>() + of_released(released) + 1,
        Event::CallStarted {
            work,
            digest,
            forgotten,
            ..
        } => {
            let told = [!forgotten.is_empty(), digest.is_some(), !is_choice(*work)];
            told.into_iter().filter(|told| *told).count()
        }
        Event::HostCalled { call, .. } if is_start(call) => 0,
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

/// Whether some work chooses what to do, which is not told as an action.
pub(super) fn is_choice(work: Work) -> bool {
    matches!(work, Work::Think { .. })
}

/// Whether a call only holds when an attempt began.
pub(super) fn is_start(call: &HostCall) -> bool {
    call.kind == HostCallKind::Clock && call.request == START
}

/// Whether a message is told as routed.
pub fn is_routed(routed: &Routed) -> bool {
    routed.dropped.is_none() && is_sent(routed)
}

/// Whether a message that was not dropped is told as sent: nobody may hear it, but not if it went to the dead alone.
pub(super) fn is_sent(
    Routed {
        to,
        joins,
        outside,
        dead,
        ..
    }: &Routed,
) -> bool {
    !to.is_empty() || !joins.is_empty() || !outside.is_empty() || dead.is_empty()
}

fn of_routed(routed: &Routed) -> usize {
    match routed.dropped {
        Some(_) => 1,
        None => usize::from(is_sent(routed)) + routed.joins.len() + routed.dead.len(),
    }
}

fn of_released(released: &[Released]) -> usize {
    released
        .iter()
        .map(|released| 1 + released.into.map_or(0, |_| released.messages.len()))
        .sum()
}
