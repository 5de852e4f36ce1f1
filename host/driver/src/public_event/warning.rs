//! Which recorded events may become warnings. This is known without building their lines.

use strata_core::record::event::{AttemptEvent, Event, RoutingResult};

/// Returns whether a recorded event may become a line that an operator has to know of even if nothing
/// else is shown: one about a message that does not arrive, about a write that was not repeated or may
/// be repeated, or about a path that an action may not see.
pub fn may_be_warning(event: &Event) -> bool {
    match event {
        // What reaches nobody is a warning only for the idea.
        Event::RunStarted(_) | Event::HandOverFailed(_) => true,
        Event::MessageSent(sent) => is_lost(&sent.routed),
        Event::StepCommitted(committed) => committed.routed.iter().any(is_lost),
        Event::Attempt(_, AttemptEvent::WritesUnclaimed(_) | AttemptEvent::LookupsDenied(_)) => {
            true
        }
        Event::Attempt(_, AttemptEvent::CallStarted(started)) => !started.forgotten.is_empty(),
        _ => false,
    }
}

/// Returns whether a message does not reach somebody to whom it was sent, or may not have.
fn is_lost(routed: &RoutingResult) -> bool {
    routed.drop_reason.is_some()
        || !routed.undeliverable.is_empty()
        || !routed.failed_conditions.is_empty()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use strata_core::record::event::{
        CallStarted, FailedCondition, HandOverFailed, LookupsDenied, StepCommitted, WritesUnclaimed,
    };
    use strata_core::record::host_call::RecordedCallUse;
    use strata_core::record::id::{ActionId, Digest, MessageId, RoleId};
    use strata_core::record::shape::{RoleShape, Shape};
    use strata_core::record::work::{ActivationKey, CallKey, Work};

    use super::*;
    use crate::public_event::{EventLine, EventTranslator, PublicEvent};

    /// Returns the lines of an event in a team of one role.
    fn lines(event: &Event) -> Vec<EventLine> {
        let role = RoleShape {
            name: "A".into(),
            actions: vec!["a".into()],
            watch: Vec::new(),
            react: String::new(),
            tools: Vec::new(),
        };
        let shape = Shape {
            roles: vec![role],
            groups: BTreeMap::new(),
            routes: Vec::new(),
            joins: Vec::new(),
        };
        EventTranslator::new(shape, 3).translate(event, 1, 0)
    }

    fn routed(undeliverable: &[&str], drop_reason: Option<&str>) -> RoutingResult {
        RoutingResult {
            id: MessageId::from("m-1"),
            from: Some(RoleId(0)),
            cause_by: "a".into(),
            to: Vec::new(),
            joins: Vec::new(),
            undeliverable: undeliverable.iter().map(|to| (*to).into()).collect(),
            drop_reason: drop_reason.map(Into::into),
            remaining_route: Vec::new(),
            external: Vec::new(),
            failed_conditions: Vec::new(),
        }
    }

    #[test]
    fn events_that_may_be_warnings_are_known_without_building_their_lines() {
        let act = Work::Act {
            action: ActionId(0),
            task: None,
        };
        let call = CallKey::in_activation(ActivationKey::of_mail(RoleId(0)), act);
        let began = |forgotten: &[&str]| {
            let started = CallStarted {
                attempt: 1,
                digest: Some(Digest::from("digest")),
                call_reuse: RecordedCallUse::Reuse,
                forgotten: forgotten.iter().map(|what| (*what).into()).collect(),
            };
            Event::Attempt(call, AttemptEvent::CallStarted(started))
        };
        let committed = |routed| {
            Event::StepCommitted(StepCommitted {
                step: 3,
                checkpoint: "c".into(),
                parent: None,
                routed: vec![routed],
                released: Vec::new(),
            })
        };
        let writes = vec![(0, "POST a".to_owned())];
        let unclaimed = AttemptEvent::WritesUnclaimed(WritesUnclaimed { writes });
        let denied = AttemptEvent::LookupsDenied(LookupsDenied {
            paths: vec!["/data".to_owned()],
        });
        let (id, why) = (MessageId::from("m-1"), "gone".to_owned());
        let mut undecided = routed(&[], None);
        undecided.failed_conditions.push(FailedCondition {
            condition: "data.n == 1".into(),
            reason: "no such key".into(),
        });
        let events = [
            (began(&[]), false),
            (began(&["POST a"]), true),
            (Event::Attempt(call, unclaimed), true),
            (Event::Attempt(call, denied), true),
            (committed(routed(&[], None)), false),
            (committed(routed(&["nobody"], None)), true),
            (committed(routed(&[], Some("too many hops"))), true),
            (committed(undecided), true),
            (Event::HandOverFailed(HandOverFailed { id, why }), true),
        ];
        for (event, expected) in events {
            let lines = lines(&event);
            let is_warning = |line: &EventLine| {
                matches!(
                    line.event,
                    PublicEvent::DeadLetter { .. }
                        | PublicEvent::MessageDropped { .. }
                        | PublicEvent::ConditionFailed { .. }
                        | PublicEvent::MessageNotHandedOver { .. }
                        | PublicEvent::WritesUnclaimed { .. }
                        | PublicEvent::WritesForgotten { .. }
                        | PublicEvent::LookupsDenied { .. }
                )
            };
            assert_eq!(lines.iter().any(is_warning), expected, "{lines:?}");
            assert_eq!(may_be_warning(&event), expected, "{event:?}");
        }
    }
}
