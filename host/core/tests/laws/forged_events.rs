//! Forged events: each differs in one thing from an event that happened, and cannot have happened
//! in its place.

use strata_core::record::event::{
    AttemptEvent, CallFailed, CallFinished, CallStarted, CallSuspended, ComponentChanged,
    DoubtSettled, Event, Forked, HandOverFailed, HandedOver, JoinRelease, JoinReleased,
    MessageSent, RequestAnswered, RequestOpened, RoutingResult, RunEnded, RunResumed, RunStarted,
    Status, StepCommitted, StepConflicted, StepStarted, WritesUnclaimed,
};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::{JoinId, RoleId};
use strata_core::record::json::Json;
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
        Event::RunStarted(_) => &[to_nobody, to_one_twice, other_join, by_a_role],
        Event::MessageSent(_) => &[to_nobody, to_one_twice, other_join, by_a_role, other_id],
        Event::StepCommitted(StepCommitted { routed, .. }) if routed.is_empty() => {
            &[other_step, release_more]
        }
        Event::StepCommitted(StepCommitted { released, .. }) if released.is_empty() => &[
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
        Event::StepCommitted(_) => &[
            release_less,
            release_other,
            release_to_nobody,
            release_one_twice,
        ],
        Event::JoinReleased(_) => &[
            release_less,
            release_other,
            release_to_nobody,
            release_one_twice,
        ],
        Event::RunResumed(_) => &[other_step, other_checkpoint, other_rules],
        Event::StepStarted(_) => &[other_step, one_less],
        Event::Attempt(_, event) => attempt_changes(event),
        Event::StepConflicted(_) => &[other_step, other_key, one_less, other_writer],
        Event::ComponentChanged(_) => &[other_component],
        Event::RunEnded(_) => &[no_end],
        Event::Forked(_) => &[other_step, other_checkpoint],
        Event::HandedOver(_) | Event::HandOverFailed(_) => &[other_outbound],
        // Simulated runs write no files, nothing limits what several cost together, nobody takes them over,
        // and they have no servers.
        Event::FilesPlaced(_)
        | Event::CapReached(_)
        | Event::ConsentWithdrawn(_)
        | Event::ServerChanged(_)
        | Event::ServerToolOmitted(_) => &[],
    }
}

fn attempt_changes(event: &AttemptEvent) -> &'static [Forgery] {
    match event {
        AttemptEvent::CallStarted(_)
        | AttemptEvent::CallFinished(_)
        | AttemptEvent::CallFailed(_)
        | AttemptEvent::CallSuspended(_) => &[other_attempt, other_work, other_role],
        AttemptEvent::HostCalled(_)
        | AttemptEvent::HostCallBegun(_)
        | AttemptEvent::MoneyReserved(_)
        | AttemptEvent::CallRevised(_)
        | AttemptEvent::RetryDue => &[other_work, other_role],
        AttemptEvent::DoubtSettled(_) | AttemptEvent::WritesUnclaimed(_) => {
            &[other_work, other_role, other_place]
        }
        AttemptEvent::RequestOpened(_) => &[other_work, other_role, other_request],
        AttemptEvent::RequestAnswered(_) => &[other_work, other_role, other_request, other_answer],
        // Simulated runs write no files, log nothing, look for no paths, replace nothing, and have neither
        // servers nor code that calls tools.
        AttemptEvent::FilesWritten(_)
        | AttemptEvent::ToolsListed(_)
        | AttemptEvent::CallAsks(_)
        | AttemptEvent::Logged(_)
        | AttemptEvent::LookupsDenied(_)
        | AttemptEvent::SkillLoaded(_)
        | AttemptEvent::MemoryRequested(_)
        | AttemptEvent::NestedCallMade(_) => &[],
    }
}

/// Returns the last of the messages that an event routes.
fn routed(event: &mut Event) -> &mut RoutingResult {
    match event {
        Event::RunStarted(RunStarted { routed, .. })
        | Event::MessageSent(MessageSent { routed, .. }) => routed,
        Event::StepCommitted(StepCommitted { routed, .. }) => routed.last_mut().expect("a message"),
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
        Event::StepCommitted(StepCommitted { released, .. })
        | Event::JoinReleased(JoinReleased { released }) => released,
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
    if let Event::StepConflicted(StepConflicted { writers, .. }) = event {
        writers.iter_mut().for_each(|writer| writer.attempt += 1);
    }
}

fn other_id(event: &mut Event) {
    routed(event).id = "another".into();
}

fn other_outbound(event: &mut Event) {
    if let Event::HandedOver(HandedOver { id }) | Event::HandOverFailed(HandOverFailed { id, .. }) =
        event
    {
        *id = "another".into();
    }
}

fn other_sender(event: &mut Event) {
    routed(event).from = None;
}

fn one_less(event: &mut Event) {
    match event {
        Event::StepCommitted(StepCommitted { routed, .. }) => routed.truncate(routed.len() - 1),
        Event::StepStarted(StepStarted { roles, .. }) => roles.truncate(roles.len() - 1),
        Event::StepConflicted(StepConflicted { writers, .. }) => {
            writers.truncate(writers.len() - 1)
        }
        other => panic!("nothing is listed by {other:?}"),
    }
}

fn one_more(event: &mut Event) {
    if let Event::StepCommitted(StepCommitted { routed, .. }) = event {
        routed.extend(routed.first().cloned());
    }
}

fn other_step(event: &mut Event) {
    match event {
        Event::RunResumed(RunResumed { step, .. })
        | Event::StepStarted(StepStarted { step, .. })
        | Event::StepConflicted(StepConflicted { step, .. })
        | Event::StepCommitted(StepCommitted { step, .. })
        | Event::Forked(Forked { step, .. }) => *step += 1,
        other => panic!("{other:?} belongs to no step"),
    }
}

fn other_checkpoint(event: &mut Event) {
    match event {
        Event::RunResumed(RunResumed { checkpoint, .. }) => *checkpoint = None,
        Event::Forked(Forked { from, .. }) => *from = "another".into(),
        other => panic!("{other:?} names no checkpoint"),
    }
}

fn other_rules(event: &mut Event) {
    if let Event::RunResumed(RunResumed { rules, .. }) = event {
        rules.roles.truncate(rules.roles.len() - 1);
    }
}

fn other_attempt(event: &mut Event) {
    match event {
        Event::Attempt(_, AttemptEvent::CallStarted(CallStarted { attempt, .. }))
        | Event::Attempt(_, AttemptEvent::CallFinished(CallFinished { attempt, .. }))
        | Event::Attempt(_, AttemptEvent::CallSuspended(CallSuspended { attempt, .. }))
        | Event::Attempt(_, AttemptEvent::CallFailed(CallFailed { attempt, .. })) => *attempt += 1,
        other => panic!("{other:?} is no call"),
    }
}

fn other_work(event: &mut Event) {
    match event {
        Event::Attempt(call, _) => call.work = Work::Think { round: 99 },
        other => panic!("{other:?} is no call"),
    }
}

fn other_place(event: &mut Event) {
    match event {
        Event::Attempt(_, AttemptEvent::DoubtSettled(DoubtSettled { index: place, .. })) => {
            *place = u32::MAX
        }
        Event::Attempt(_, AttemptEvent::WritesUnclaimed(WritesUnclaimed { writes })) => {
            writes.push((u32::MAX, String::new()))
        }
        other => panic!("{other:?} names no place"),
    }
}

fn other_role(event: &mut Event) {
    match event {
        Event::Attempt(call, _) => call.role = RoleId(u16::MAX),
        other => panic!("{other:?} is no call"),
    }
}

fn other_request(event: &mut Event) {
    match event {
        Event::Attempt(_, AttemptEvent::RequestOpened(RequestOpened { request })) => {
            request.id = "another".into()
        }
        Event::Attempt(_, AttemptEvent::RequestAnswered(RequestAnswered { request, .. })) => {
            *request = "another".into()
        }
        other => panic!("{other:?} is about no request"),
    }
}

fn other_answer(event: &mut Event) {
    if let Event::Attempt(_, AttemptEvent::RequestAnswered(RequestAnswered { answer, .. })) = event
    {
        *answer = HumanAnswer::Default(Json::from(serde_json::Value::from("of nobody")));
    }
}

fn other_key(event: &mut Event) {
    if let Event::StepConflicted(StepConflicted { key, .. }) = event {
        key.push('x');
    }
}

fn other_component(event: &mut Event) {
    if let Event::ComponentChanged(ComponentChanged { old, .. }) = event {
        *old = Some("another".into());
    }
}

fn no_end(event: &mut Event) {
    if let Event::RunEnded(RunEnded { status, .. }) = event {
        *status = Status::Running;
    }
}
