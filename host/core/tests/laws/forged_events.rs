//! Forged events: each differs in one thing from an event that happened, and cannot have happened
//! in its place.

use strata_core::record::event::{Event, JoinRelease, RoutingResult, Status};
use strata_core::record::id::{JoinId, RoleId};
use strata_core::record::json::Json;
use strata_core::record::request::HumanAnswer;
use strata_core::record::work::Work;

/// A change to an event.
type Forgery = fn(&mut Event);

/// Returns all forgeries of an event.
pub fn forgeries(event: &Event) -> Vec<Event> {
    let forge = |change: &Forgery| {
        let mut forged = event.clone();
        change(&mut forged);
        forged
    };
    changes(event).iter().map(forge).collect()
}

fn changes(event: &Event) -> &'static [Forgery] {
    match event {
        Event::RunStarted { .. } => &[to_nobody, to_one_twice, other_join, by_a_role],
        Event::MessageSent { .. } => &[to_nobody, to_one_twice, other_join, by_a_role, other_id],
        Event::StepCommitted { routed, .. } if routed.is_empty() => &[other_step, release_more],
        Event::StepCommitted { released, .. } if released.is_empty() => &[
            other_step,
            to_nobody,
            to_one_twice,
            other_id,
            other_sender,
            one_less,
            one_more,
            other_join,
            release_more,
        ],
        Event::StepCommitted { .. } => &[
            release_less,
            release_other,
            release_to_nobody,
            release_one_twice,
        ],
        Event::JoinReleased { .. } => &[
            release_less,
            release_other,
            release_to_nobody,
            release_one_twice,
        ],
        Event::RunResumed { .. } => &[other_step, other_checkpoint, other_rules],
        Event::StepStarted { .. } => &[other_step, one_less],
        Event::CallStarted { .. } | Event::CallFinished { .. } | Event::CallFailed { .. } => {
            &[other_attempt, other_work, other_role]
        }
        Event::CallSuspended { .. } => &[other_attempt, other_work, other_role],
        Event::HostCalled { .. } | Event::HostCallBegun { .. } | Event::MoneyReserved { .. } => {
            &[other_work, other_role]
        }
        Event::DoubtSettled { .. } => &[other_work, other_role, other_place],
        Event::WritesUnclaimed { .. } => &[other_work, other_role, other_place],
        Event::RetryDue { .. } => &[other_role],
        Event::StepConflicted { .. } => &[other_step, other_key, one_less, other_writer],
        Event::ComponentChanged { .. } => &[other_component],
        Event::RequestOpened { .. } => &[other_work, other_role, other_request],
        Event::RequestAnswered { .. } => &[other_role, other_request, other_answer],
        Event::RunEnded { .. } => &[no_end],
        Event::Forked { .. } => &[other_step, other_checkpoint],
        Event::HandedOver { .. } | Event::HandOverFailed { .. } => &[other_outbound],
        // Simulated runs write no files.
        Event::FilesWritten { .. } | Event::FilesPlaced { .. } => &[],
    }
}

/// Returns the last of the messages that an event routes.
fn routed(event: &mut Event) -> &mut RoutingResult {
    match event {
        Event::RunStarted { routed, .. } | Event::MessageSent { routed, .. } => routed,
        Event::StepCommitted { routed, .. } => routed.last_mut().expect("a message"),
        other => panic!("nothing is routed by {other:?}"),
    }
}

fn to_nobody(event: &mut Event) {
    routed(event).to = vec![RoleId(u16::MAX)];
}

fn to_one_twice(event: &mut Event) {
    routed(event).to = vec![RoleId(0), RoleId(0)];
}

fn other_join(event: &mut Event) {
    routed(event).joins = vec![JoinId(u16::MAX)];
}

fn by_a_role(event: &mut Event) {
    routed(event).from = Some(RoleId(0));
}

fn released(event: &mut Event) -> &mut Vec<JoinRelease> {
    match event {
        Event::StepCommitted { released, .. } | Event::JoinReleased { released } => released,
        other => panic!("nothing is released by {other:?}"),
    }
}

fn release_more(event: &mut Event) {
    let more = JoinRelease {
        join: JoinId(0),
        messages: Vec::new(),
        to: Vec::new(),
        into: None,
    };
    released(event).push(more);
}

fn release_less(event: &mut Event) {
    released(event).pop();
}

fn release_other(event: &mut Event) {
    for released in released(event) {
        released
            .messages
            .iter_mut()
            .for_each(|(_, id)| *id = "another".into());
    }
}

fn release_to_nobody(event: &mut Event) {
    released(event)
        .iter_mut()
        .for_each(|released| released.to = vec![RoleId(u16::MAX)]);
}

fn release_one_twice(event: &mut Event) {
    let released = released(event);
    let twice = released.first().cloned();
    released.splice(0..0, twice);
}

fn other_writer(event: &mut Event) {
    if let Event::StepConflicted { writers, .. } = event {
        writers.iter_mut().for_each(|writer| writer.attempt += 1);
    }
}

fn other_id(event: &mut Event) {
    routed(event).id = "another".into();
}

fn other_outbound(event: &mut Event) {
    if let Event::HandedOver { id } | Event::HandOverFailed { id, .. } = event {
        *id = "another".into();
    }
}

fn other_sender(event: &mut Event) {
    routed(event).from = None;
}

fn one_less(event: &mut Event) {
    match event {
        Event::StepCommitted { routed, .. } => routed.truncate(routed.len() - 1),
        Event::StepStarted { roles, .. } => roles.truncate(roles.len() - 1),
        Event::StepConflicted { writers, .. } => writers.truncate(writers.len() - 1),
        other => panic!("nothing is listed by {other:?}"),
    }
}

fn one_more(event: &mut Event) {
    if let Event::StepCommitted { routed, .. } = event {
        routed.extend(routed.first().cloned());
    }
}

fn other_step(event: &mut Event) {
    match event {
        Event::RunResumed { step, .. }
        | Event::StepStarted { step, .. }
        | Event::StepConflicted { step, .. }
        | Event::StepCommitted { step, .. }
        | Event::Forked { step, .. } => *step += 1,
        other => panic!("{other:?} belongs to no step"),
    }
}

fn other_checkpoint(event: &mut Event) {
    match event {
        Event::RunResumed { checkpoint, .. } => *checkpoint = None,
        Event::Forked { from, .. } => *from = "another".into(),
        other => panic!("{other:?} names no checkpoint"),
    }
}

fn other_rules(event: &mut Event) {
    if let Event::RunResumed { rules, .. } = event {
        rules.roles.truncate(rules.roles.len() - 1);
    }
}

fn other_attempt(event: &mut Event) {
    match event {
        Event::CallStarted { attempt, .. }
        | Event::CallFinished { attempt, .. }
        | Event::CallSuspended { attempt, .. }
        | Event::CallFailed { attempt, .. } => *attempt += 1,
        other => panic!("{other:?} is no call"),
    }
}

fn other_work(event: &mut Event) {
    match event {
        Event::CallStarted { work, .. }
        | Event::HostCalled { work, .. }
        | Event::HostCallBegun { work, .. }
        | Event::MoneyReserved { work, .. }
        | Event::CallSuspended { work, .. }
        | Event::DoubtSettled { work, .. }
        | Event::WritesUnclaimed { work, .. }
        | Event::CallFinished { work, .. }
        | Event::CallFailed { work, .. }
        | Event::RequestOpened { work, .. } => *work = Work::Think { round: 99 },
        other => panic!("{other:?} is no call"),
    }
}

fn other_place(event: &mut Event) {
    match event {
        Event::DoubtSettled { index: place, .. } => *place = u32::MAX,
        Event::WritesUnclaimed { writes, .. } => writes.push((u32::MAX, String::new())),
        other => panic!("{other:?} names no place"),
    }
}

fn other_role(event: &mut Event) {
    match event {
        Event::CallStarted { role, .. }
        | Event::HostCalled { role, .. }
        | Event::HostCallBegun { role, .. }
        | Event::MoneyReserved { role, .. }
        | Event::CallSuspended { role, .. }
        | Event::DoubtSettled { role, .. }
        | Event::WritesUnclaimed { role, .. }
        | Event::CallFinished { role, .. }
        | Event::CallFailed { role, .. }
        | Event::RequestOpened { role, .. }
        | Event::RequestAnswered { role, .. }
        | Event::RetryDue { role } => *role = RoleId(u16::MAX),
        other => panic!("{other:?} is no call"),
    }
}

fn other_request(event: &mut Event) {
    match event {
        Event::RequestOpened { request, .. } => request.id = "another".into(),
        Event::RequestAnswered { request, .. } => *request = "another".into(),
        other => panic!("{other:?} is about no request"),
    }
}

fn other_answer(event: &mut Event) {
    if let Event::RequestAnswered { answer, .. } = event {
        *answer = HumanAnswer::Default(Json::from(serde_json::Value::from("of nobody")));
    }
}

fn other_key(event: &mut Event) {
    if let Event::StepConflicted { key, .. } = event {
        key.push('x');
    }
}

fn other_component(event: &mut Event) {
    if let Event::ComponentChanged { old, .. } = event {
        *old = Some("another".into());
    }
}

fn no_end(event: &mut Event) {
    if let Event::RunEnded { status, .. } = event {
        *status = Status::Running;
    }
}
