//! Follows which recipients each message reached.

use std::collections::BTreeMap;

use strata_core::event::{Event, Released, Routed};
use strata_core::id::MessageId;
use strata_core::stepper::Stepper;

use super::super::Message;
use super::super::room::{Kept, Text};
use super::{MAX_MESSAGES, TEXT_CHARS};
use crate::graph::{Recipient, Sent};

/// The recipients of all messages.
#[derive(Default)]
pub(super) struct Ways {
    of: BTreeMap<MessageId, Way>,
    /// How many messages each role sent to each recipient, not counting the deliveries of joins.
    pub(super) sent: Sent,
}

struct Way {
    to: Vec<String>,
    lost: Vec<String>,
    sent: (i64, u64),
}

impl Ways {
    /// Processes an event that was applied.
    pub(super) fn event(&mut self, event: &Event, stepper: &Stepper, time_ms: i64) {
        let sent = |step| (time_ms, step);
        match event {
            Event::RunStarted { routed, .. } => self.routed(routed, stepper, sent(0)),
            Event::MessageSent { routed, .. } => {
                self.routed(routed, stepper, sent(stepper.env().step))
            }
            Event::StepCommitted {
                step,
                routed,
                released,
                ..
            } => {
                for routed in routed {
                    self.routed(routed, stepper, sent(*step));
                }
                self.released(released, stepper);
            }
            Event::JoinReleased { released } => self.released(released, stepper),
            _ => {}
        }
    }

    fn routed(&mut self, routed: &Routed, stepper: &Stepper, sent: (i64, u64)) {
        let team = stepper.team();
        let roles = routed.to.iter().map(|id| team.role(*id).name.clone());
        let joins = routed
            .joins
            .iter()
            .map(|id| format!("join {}", team.joins[id.index()].id));
        let outside = routed
            .outside
            .iter()
            .map(|name| format!("{name} (outside)"));
        let lost = routed
            .dead
            .iter()
            .map(|name| format!("there is no role or alias {name}"));
        let to_roles = routed.to.iter().map(|id| Recipient::Role(*id));
        let to_joins = routed.joins.iter().map(|id| Recipient::Join(id.index()));
        let to_outside = routed
            .outside
            .iter()
            .map(|name| Recipient::Outside(name.clone()));
        if let Some(from) = routed.from {
            for to in to_roles.chain(to_joins).chain(to_outside) {
                *self.sent.entry((from, to)).or_default() += 1;
            }
        }
        let way = Way {
            to: roles.chain(joins).chain(outside).collect(),
            lost: lost.chain(routed.dropped.clone()).collect(),
            sent,
        };
        self.of.insert(routed.id.clone(), way);
    }

    /// Adds the roles that messages reach after a join releases them.
    fn released(&mut self, released: &[Released], stepper: &Stepper) {
        let team = stepper.team();
        for Released { messages, to, .. } in released {
            for (_, id) in messages {
                let Some(way) = self.of.get_mut(id) else {
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
    pub(super) fn messages(&self, stepper: &Stepper) -> Kept<Message> {
        let env = stepper.env();
        let mut kept = Kept::at_most(MAX_MESSAGES);
        for message in env.messages.iter() {
            kept.push(message);
        }
        kept.map(|message| {
            let way = self.of.get(&message.id);
            Message {
                id: message.id.0.clone(),
                from: message.sent_from.clone(),
                cause: message.cause_by.clone(),
                to: way.map(|way| way.to.clone()),
                lost: way.map_or_else(Vec::new, |way| way.lost.clone()),
                sent: way.map(|way| way.sent),
                text: Text::of(&message.content, TEXT_CHARS),
                data: message
                    .instruct
                    .as_ref()
                    .map(|data| Text::of(data.value.as_str(), TEXT_CHARS)),
            }
        })
    }
}
