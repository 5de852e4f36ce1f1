//! Follows which recipients each message reached.

use std::collections::BTreeMap;

use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::Part;
use strata_core::record::event::{
    Event, JoinRelease, JoinReleased, MessageSent, RoutingResult, RunStarted, StepCommitted,
};
use strata_core::record::id::MessageId;

use super::super::bounded::{Excerpt, FirstAndNewest};
use super::super::{MessageEntry, MessagePart};
use super::{MAX_MESSAGES, TEXT_CHARS};
use crate::graph::{Recipient, SentMessages};

/// The recipients of all messages.
#[derive(Default)]
pub(super) struct Deliveries {
    by_message: BTreeMap<MessageId, MessageDelivery>,
    /// How many messages each role sent to each recipient, not counting the deliveries of joins.
    pub(super) sent_counts: SentMessages,
}

struct MessageDelivery {
    to: Vec<String>,
    undelivered: Vec<String>,
    sent: (i64, u64),
}

impl Deliveries {
    /// Processes an event that was applied.
    pub(super) fn add_event(&mut self, event: &Event, stepper: &Stepper, time_ms: i64) {
        let sent = |step| (time_ms, step);
        match event {
            Event::RunStarted(RunStarted { routed, .. }) => {
                self.add_routed(routed, stepper, sent(0))
            }
            Event::MessageSent(MessageSent { routed, .. }) => {
                self.add_routed(routed, stepper, sent(stepper.env().step))
            }
            Event::StepCommitted(StepCommitted {
                step,
                routed,
                released,
                ..
            }) => {
                for routed in routed {
                    self.add_routed(routed, stepper, sent(*step));
                }
                self.add_released(released, stepper);
            }
            Event::JoinReleased(JoinReleased { released }) => self.add_released(released, stepper),
            _ => {}
        }
    }

    fn add_routed(&mut self, routed: &RoutingResult, stepper: &Stepper, sent: (i64, u64)) {
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
        if let Some(from) = routed.from {
            for to in to_roles.chain(to_joins).chain(to_outside) {
                *self.sent_counts.entry((from, to)).or_default() += 1;
            }
        }
        let way = MessageDelivery {
            to: roles.chain(joins).chain(outside).collect(),
            undelivered: lost.chain(routed.drop_reason.clone()).collect(),
            sent,
        };
        self.by_message.insert(routed.id.clone(), way);
    }

    /// Adds the roles that messages reach after a join releases them.
    fn add_released(&mut self, released: &[JoinRelease], stepper: &Stepper) {
        let team = stepper.team();
        for JoinRelease { messages, to, .. } in released {
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
                sent: way.map(|way| way.sent),
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
