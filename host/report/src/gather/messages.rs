//! Follows which recipients each message reached.

use std::collections::BTreeMap;

use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::Part;
use strata_core::record::event::{
    AttemptEvent, Event, JoinRelease, JoinReleased, MessageSent, RoutingResult, RunStarted,
    StepCommitted,
};
use strata_core::record::id::MessageId;
use strata_core::record::turn::ToolRef;
use strata_core::record::work::Work;

use super::super::bounded::{Excerpt, FirstAndNewest};
use super::super::{MessageEntry, MessagePart};
use super::{MAX_MESSAGES, TEXT_CHARS};
use crate::graph::{ObservedRun, Recipient, Sender};

/// The recipients of all messages.
#[derive(Default)]
pub(super) struct Deliveries {
    by_message: BTreeMap<MessageId, MessageDelivery>,
    /// How many messages went which way.
    pub(super) observed: ObservedRun,
}

struct MessageDelivery {
    to: Vec<String>,
    undelivered: Vec<String>,
    /// The event that sent it.
    event: u64,
}

impl Deliveries {
    /// Processes an event that was applied. `number` is its number, counted from the first reported
    /// event.
    pub(super) fn add_event(&mut self, event: &Event, stepper: &Stepper, number: u64) {
        match event {
            Event::RunStarted(RunStarted { routed, .. }) => {
                self.add_routed(routed, stepper, number)
            }
            Event::MessageSent(MessageSent { routed, .. }) => {
                self.add_routed(routed, stepper, number)
            }
            Event::StepCommitted(StepCommitted {
                routed, released, ..
            }) => {
                for routed in routed {
                    self.add_routed(routed, stepper, number);
                }
                self.add_released(released, stepper);
            }
            Event::JoinReleased(JoinReleased { released }) => self.add_released(released, stepper),
            Event::Attempt(call, AttemptEvent::CallStarted(started)) if started.attempt == 1 => {
                if let Work::ToolCall {
                    tool: ToolRef::Role(to),
                    ..
                } = call.work
                {
                    *self.observed.calls.entry((call.role, to)).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    fn add_routed(&mut self, routed: &RoutingResult, stepper: &Stepper, event: u64) {
        let team = stepper.team();
        let roles = routed.to.iter().map(|id| team.role(*id).name.clone());
        let joins = routed
            .joins
            .iter()
            .map(|id| format!("join {}", team.joins[id.index()].id));
        let outside = routed
            .external
            .iter()
            .map(|name| format!("{name} (outside)"));
        let lost = routed
            .undeliverable
            .iter()
            .map(|name| format!("there is no role or alias {name}"));
        let to_roles = routed.to.iter().map(|id| Recipient::Role(*id));
        let to_joins = routed.joins.iter().map(|id| Recipient::Join(id.index()));
        let to_outside = routed
            .external
            .iter()
            .map(|name| Recipient::Outside(name.clone()));
        let from = match routed.from {
            Some(role) => Sender::Role(role),
            None => Sender::Outside(routed.cause_by.clone()),
        };
        for to in to_roles.chain(to_joins).chain(to_outside) {
            *self.observed.sent.entry((from.clone(), to)).or_default() += 1;
        }
        let way = MessageDelivery {
            to: roles.chain(joins).chain(outside).collect(),
            undelivered: lost.chain(routed.drop_reason.clone()).collect(),
            event,
        };
        self.by_message.insert(routed.id.clone(), way);
    }

    /// Adds the roles that messages reach after a join releases them.
    fn add_released(&mut self, released: &[JoinRelease], stepper: &Stepper) {
        let team = stepper.team();
        for release in released {
            let JoinRelease {
                join,
                messages,
                to,
                into,
            } = release;
            let to_roles = to.iter().map(|id| Recipient::Role(*id));
            let to_join = into.iter().map(|id| Recipient::Join(id.index()));
            for to in to_roles.chain(to_join) {
                let way = (Sender::Join(join.index()), to);
                *self.observed.sent.entry(way).or_default() += 1;
            }
            for (_, id) in messages {
                let Some(way) = self.by_message.get_mut(id) else {
                    continue;
                };
                for role in to.iter().map(|id| &team.role(*id).name) {
                    if !way.to.contains(role) {
                        way.to.push(role.clone());
                    }
                }
            }
        }
    }

    /// Returns all messages of the state.
    pub(super) fn messages(&self, stepper: &Stepper) -> FirstAndNewest<MessageEntry> {
        let env = stepper.env();
        let mut shown = FirstAndNewest::at_most(MAX_MESSAGES);
        for message in env.messages.iter() {
            shown.push(message);
        }
        shown.map(|message| {
            let way = self.by_message.get(&message.id);
            MessageEntry {
                id: message.id.0.clone(),
                from: message.sent_from.clone(),
                cause: message.cause_by.clone(),
                to: way.map(|way| way.to.clone()),
                undelivered: way.map_or_else(Vec::new, |way| way.undelivered.clone()),
                event: way.map(|way| way.event),
                text: Excerpt::from_text(&message.content, TEXT_CHARS),
                data: message
                    .instruct
                    .as_ref()
                    .map(|data| Excerpt::from_text(data.value.as_str(), TEXT_CHARS)),
                parts: message.parts.iter().map(message_part).collect(),
            }
        })
    }
}

fn message_part(part: &Part) -> MessagePart {
    match part {
        Part::Text(text) => MessagePart::Text(Excerpt::from_text(text, TEXT_CHARS)),
        Part::Image(media) | Part::File(media) => MessagePart::Media {
            media: media.clone(),
            image: None,
        },
    }
}
