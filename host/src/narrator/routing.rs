//! What is told of messages on their way, and of joins.

use serde_json::json;
use strata_core::event::{Released, Routed};
use strata_core::id::{JoinId, RoleId};

use super::count::is_sent;
use super::{Narrator, Told};

impl Narrator {
    pub(super) fn routed(&self, routed: &Routed) -> Vec<Told> {
        let id = &routed.id.0;
        let from = routed.from.map(|role| self.role(role)).unwrap_or_default();
        if let Some(reason) = &routed.dropped {
            return vec![(
                "message-dropped",
                json!({ "id": id, "from": from, "reason": reason }),
            )];
        }
        let mut told = Vec::new();
        let to = self.receivers(&routed.to, &routed.joins);
        if is_sent(routed) {
            let mut fields =
                json!({ "id": id, "from": from, "to": to, "cause_by": routed.cause_by });
            if !routed.outside.is_empty() {
                fields["outside"] = json!(routed.outside);
            }
            told.push(("message-routed", fields));
        }
        told.extend(
            routed
                .joins
                .iter()
                .map(|join| self.buffered(*join, from, id)),
        );
        told.extend(routed.dead.iter().map(|to| {
            let reason = if self.shape.joins.iter().any(|join| join.id == *to) {
                "the join does not wait for its sender"
            } else {
                "the team has no such role, alias, group or join"
            };
            (
                "dead-letter",
                json!({ "id": id, "to": to, "reason": reason }),
            )
        }));
        told
    }

    pub(super) fn released(&self, released: &[Released]) -> Vec<Told> {
        let tell = |Released {
                        join,
                        messages,
                        to,
                        into,
                    }: &Released| {
            let ids: Vec<&str> = messages.iter().map(|(_, id)| id.0.as_str()).collect();
            let to = self.receivers(to, into.as_slice());
            let fields = json!({ "join": self.join(*join), "messages": ids, "to": to });
            let on = into.iter().flat_map(|next| {
                messages
                    .iter()
                    .map(|(from, id)| (*next, self.role(*from), &id.0))
            });
            let on = on.map(|(next, from, id)| self.buffered(next, from, id));
            [("join-released", fields)]
                .into_iter()
                .chain(on)
                .collect::<Vec<_>>()
        };
        released.iter().flat_map(tell).collect()
    }

    fn buffered(&self, join: JoinId, from: &str, id: &str) -> Told {
        (
            "join-buffered",
            json!({ "join": self.join(join), "from": from, "id": id }),
        )
    }

    /// The names of roles, then those of joins.
    fn receivers(&self, roles: &[RoleId], joins: &[JoinId]) -> Vec<&str> {
        roles
            .iter()
            .map(|role| self.role(*role))
            .chain(joins.iter().map(|join| self.join(*join)))
            .collect()
    }
}
