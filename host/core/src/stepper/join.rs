//! Joins at work: what gets into them with a commit, and what they let go, then or once the team is quiet. Which of
//! them fire is decided in `environment::join`.

use alloc::vec::Vec;

use super::Stepper;
use crate::activation::Outgoing;
use crate::environment::join::{Arrival, Firing, Moment, firings};
use crate::event::{Event, Released, Routed};
use crate::id::RoleId;

impl Stepper {
    /// What gets into joins with these messages.
    pub(super) fn arrivals(
        &self,
        published: &[(RoleId, Outgoing)],
        routed: &[Routed],
    ) -> Vec<Arrival> {
        let all = published.iter().zip(routed).enumerate();
        let arrivals = all.flat_map(|(publication, ((from, outgoing), routed))| {
            let arrival = move |join| Arrival {
                join,
                from: *from,
                message: outgoing.message,
                publication,
            };
            routed.joins.iter().copied().map(arrival)
        });
        arrivals.collect()
    }

    /// The joins that fire when these messages get into them.
    pub(super) fn fired_by(&self, arrivals: &[Arrival]) -> Vec<Firing> {
        firings(
            (&self.team, &self.book),
            &self.env.joins,
            arrivals,
            Moment::Busy,
        )
    }

    /// The same as that of the environment, without a look at every role.
    fn is_quiet(&self) -> bool {
        self.env.outbox.is_empty() && self.awake.all().next().is_none()
    }

    /// The joins that fire between steps. With other work left those are that were filled by hand.
    pub(super) fn fired_between_steps(&self) -> Vec<Firing> {
        let moment = if self.is_quiet() {
            Moment::Quiet
        } else {
            Moment::Busy
        };
        firings((&self.team, &self.book), &self.env.joins, &[], moment)
    }

    /// The event that lets joins fire between steps.
    pub(super) fn release(&self) -> Option<Event> {
        let released = self.told(&self.fired_between_steps());
        (!released.is_empty()).then_some(Event::JoinReleased { released })
    }

    /// What fired, as it is recorded.
    pub(super) fn told(&self, firings: &[Firing]) -> Vec<Released> {
        let released = |Firing {
                            join,
                            messages,
                            to,
                            into,
                            ..
                        }: &Firing| Released {
            join: *join,
            messages: messages
                .iter()
                .map(|(from, message)| (*from, self.env.message(*message).id.clone()))
                .collect(),
            to: to.clone(),
            into: *into,
        };
        firings.iter().map(released).collect()
    }

    /// Lets messages get into joins, and those fire.
    pub(super) fn join(&mut self, arrivals: &[Arrival], firings: &[Firing]) {
        let team = self.team.clone();
        let joins = &mut self.env.joins;
        for Arrival {
            join,
            from,
            message,
            ..
        } in arrivals
        {
            joins[join.index()].put(team.join(*join), *from, *message);
        }
        for Firing {
            join: id,
            messages,
            to,
            into,
            ..
        } in firings
        {
            let join = team.join(*id);
            joins[id.index()].take(join, messages.iter().map(|(from, _)| *from));
            for (from, message) in messages {
                if let Some(next) = into {
                    joins[next.index()].pass(team.join(*next), *from, *message);
                }
                for role in to {
                    self.env.roles[role.index()].pass(*message, join.deliver);
                }
            }
        }
    }
}
