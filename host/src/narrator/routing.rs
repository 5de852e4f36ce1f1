//! Converts the events about messages being routed and joins being released.

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
        for join in &routed.joins {
            told.push(self.buffered(*join, from, id));
        }
        for to in &routed.dead {
            let reason = if self.shape.joins.iter().any(|join| join.id == *to) {
                "the join does not wait for its sender"
            } else {
                "the team has no such role, alias, group or join"
            };
            told.push((
                "dead-letter",
                json!({ "id": id, "to": to, "reason": reason }),
            ));
        }
        told
    }

    pub(super) fn released(&self, released: &[Released]) -> Vec<Told> {
        let mut told = Vec::new();
        for Released {
            join,
            messages,
            to,
            into,
        } in released
        {
            let ids: Vec<&str> = messages.iter().map(|(_, id)| id.0.as_str()).collect();
            let to = self.receivers(to, into.as_slice());
            told.push((
                "join-released",
                json!({ "join": self.join(*join), "messages": ids, "to": to }),
            ));
            if let Some(next) = into {
                for (from, id) in messages {
                    told.push(self.buffered(*next, self.role(*from), &id.0));
                }
            }
        }
        told
    }

    fn buffered(&self, join: JoinId, from: &str, id: &str) -> Told {
        (
            "join-buffered",
            json!({ "join": self.join(join), "from": from, "id": id }),
        )
    }

    /// Returns the names of roles, followed by those of joins.
    fn receivers(&self, roles: &[RoleId], joins: &[JoinId]) -> Vec<&str> {
        roles
            .iter()
            .map(|role| self.role(*role))
            .chain(joins.iter().map(|join| self.join(*join)))
            .collect()
    }
}
