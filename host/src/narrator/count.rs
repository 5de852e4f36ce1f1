//! Counts the public events of a recorded event without creating them: all events are numbered when
//! they are recorded, but converted only if there is a listener. The predicates here decide which
//! public events there are, and the narrator uses them too.

use strata_core::event::{Event, HostCallKind, Released, Routed, Work};
use strata_core::host_call::HostCall;

use crate::gateway::START;

/// Returns how many public events `Narrator::tell` creates for an event.
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

/// Returns whether the work is a choice of the next action, which is not reported as an action.
pub(super) fn is_choice(work: Work) -> bool {
    matches!(work, Work::Think { .. })
}

/// Returns whether a host call only records when an attempt started.
pub(super) fn is_start(call: &HostCall) -> bool {
    call.kind == HostCallKind::Clock && call.request == START
}

/// Returns whether a message is reported as routed.
pub fn is_routed(routed: &Routed) -> bool {
    routed.dropped.is_none() && is_sent(routed)
}

/// Returns whether a message that was not dropped is reported as sent. It is if nobody receives it,
/// but not if all of its recipients are dead letters.
pub(super) fn is_sent(routed: &Routed) -> bool {
    !routed.to.is_empty()
        || !routed.joins.is_empty()
        || !routed.outside.is_empty()
        || routed.dead.is_empty()
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
