//! Joins: the messages that wait in them, and which joins fire. Which messages enter a join is
//! decided in `routing`; the events that record a release are made in `stepper::joins`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::iter;

use serde::{Deserialize, Serialize};

use super::MessageRef;
use super::routing::{AddressBook, Addressee};
use crate::record::id::{JoinId, RoleId};
use crate::record::shape::JoinMode;
use crate::team::{Join, Team};

/// The messages that wait in a join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinState {
    /// A queue for each source, in the order of the sources; in each, the oldest message first.
    pub queues: Vec<VecDeque<MessageRef>>,
}

/// A message that enters a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The join.
    pub join: JoinId,
    /// The sender.
    pub from: RoleId,
    /// The message.
    pub message: MessageRef,
    /// The index of the message among those that are published together.
    pub published_index: usize,
}

/// A join that fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The join.
    pub join: JoinId,
    /// The messages it releases, in the order of its sources, each with its sender.
    pub messages: Vec<(RoleId, MessageRef)>,
    /// The roles that receive them, ascending, without duplicates.
    pub to: Vec<RoleId>,
    /// The join that receives them, if the target is a join; then `to` is empty.
    pub into: Option<JoinId>,
    /// The index of the published message that makes the join fire; also 0 if it fires without a
    /// new message.
    pub published_index: usize,
}

/// Whether a team has work other than its joins. This decides whether joins of mode `active` can
/// fire, which do so only when the team is quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeamActivity {
    /// There is other work: joins of mode `active` wait.
    Busy,
    /// The team is quiet: all joins can fire.
    Quiet,
}

impl JoinState {
    /// Returns the empty state of a join.
    pub fn new(join: &Join) -> Self {
        Self {
            queues: join.from.iter().map(|_| VecDeque::new()).collect(),
        }
    }

    /// Returns whether no message waits in the join.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Returns the sources of which no message waits.
    pub fn missing_sources<'a>(&'a self, join: &'a Join) -> impl Iterator<Item = RoleId> + 'a {
        join.from
            .iter()
            .zip(&self.queues)
            .filter(|(_, queue)| queue.is_empty())
            .map(|(source, _)| *source)
    }

    /// Appends a message to the queue of its sender.
    pub(crate) fn enqueue(&mut self, join: &Join, from: RoleId, message: MessageRef) {
        if let Some(queue) = self.queue(join, from) {
            queue.push_back(message);
        }
    }

    /// Appends a message released by another join, unless it waits here already; it may have
    /// arrived by both paths.
    pub(crate) fn enqueue_once(&mut self, join: &Join, from: RoleId, message: MessageRef) {
        if let Some(queue) = self
            .queue(join, from)
            .filter(|queue| !queue.contains(&message))
        {
            queue.push_back(message);
        }
    }

    /// Removes the oldest message of each of these senders.
    pub(crate) fn dequeue(&mut self, join: &Join, from: impl Iterator<Item = RoleId>) {
        for source in from {
            if let Some(queue) = self.queue(join, source) {
                queue.pop_front();
            }
        }
    }

    fn queue(&mut self, join: &Join, from: RoleId) -> Option<&mut VecDeque<MessageRef>> {
        join.source_index(from)
            .and_then(|source| self.queues.get_mut(source))
    }
}

/// Returns the joins that fire when these messages arrive, in order. After each publication, joins
/// fire one at a time, always the first that can, until none can. A released message may enter
/// another join.
///
/// This terminates: joins do not form cycles, so a message passes each join at most once per path
/// to it.
pub fn compute_firings(
    team: &Team,
    book: &AddressBook,
    joins: &[JoinState],
    arrivals: &[Arrival],
    activity: TeamActivity,
) -> Vec<Firing> {
    let mut simulation = JoinSimulation::new(team, book, joins);
    let mut fired = Vec::new();
    for published_together in
        arrivals.chunk_by(|one, next| one.published_index == next.published_index)
    {
        for arrival in published_together {
            simulation.enqueue(arrival.join, arrival.from, arrival.message);
        }
        simulation.fire_all(activity, published_together[0].published_index, &mut fired);
    }
    if arrivals.is_empty() {
        simulation.fire_all(activity, 0, &mut fired);
    }
    fired
}

/// Returns where a join sends its messages: to roles, or into another join.
fn join_target(team: &Team, book: &AddressBook, join: JoinId) -> (Vec<RoleId>, Option<JoinId>) {
    let (mut to, into) = match book.resolve(team, &team.join(join).to) {
        Some(Addressee::Role(role)) => (alloc::vec![role], None),
        Some(Addressee::Group(members)) => (members.to_vec(), None),
        Some(Addressee::Join(next)) => (Vec::new(), Some(next)),
        None => (Vec::new(), None),
    };
    to.sort_unstable();
    to.dedup();
    (to, into)
}

/// The joins while firings are computed. Waiting messages are borrowed, because there may be many
/// of them.
struct JoinSimulation<'a> {
    team: &'a Team,
    book: &'a AddressBook,
    /// In the order of the team.
    joins: Vec<SimulatedJoin<'a>>,
}

/// The state of one join in the simulation.
struct SimulatedJoin<'a> {
    queues: Vec<SimulatedQueue<'a>>,
    /// The sources of the messages that arrived, in order of arrival.
    arrived: VecDeque<usize>,
}

/// A queue: the messages that waited before, the messages that arrived since, and how many were
/// taken, counted over `waiting`, then `arrived`.
struct SimulatedQueue<'a> {
    waiting: &'a VecDeque<MessageRef>,
    taken: usize,
    arrived: Vec<MessageRef>,
}

impl<'a> JoinSimulation<'a> {
    fn new(team: &'a Team, book: &'a AddressBook, joins: &'a [JoinState]) -> Self {
        let queue = |waiting| SimulatedQueue {
            waiting,
            taken: 0,
            arrived: Vec::new(),
        };
        let simulated_join = |join: &'a JoinState| SimulatedJoin {
            queues: join.queues.iter().map(queue).collect(),
            arrived: VecDeque::new(),
        };
        Self {
            team,
            book,
            joins: joins.iter().map(simulated_join).collect(),
        }
    }

    fn enqueue(&mut self, join: JoinId, from: RoleId, message: MessageRef) {
        if let Some(source) = self.team.join(join).source_index(from) {
            let simulated_join = &mut self.joins[join.index()];
            simulated_join.queues[source].arrived.push(message);
            simulated_join.arrived.push_back(source);
        }
    }

    /// Enqueues a message released by another join, unless it waits there already.
    fn enqueue_once(&mut self, join: JoinId, from: RoleId, message: MessageRef) {
        let source = self.team.join(join).source_index(from);
        if source.is_some_and(|source| !self.joins[join.index()].queues[source].contains(message)) {
            self.enqueue(join, from, message);
        }
    }

    /// Fires joins until none can fire.
    fn fire_all(
        &mut self,
        mut activity: TeamActivity,
        published_index: usize,
        fired: &mut Vec<Firing>,
    ) {
        while let Some(join) = self.next_to_fire(activity) {
            // Messages released by a join of mode `active` may create other work.
            if self.team.join(join).mode == JoinMode::Active {
                activity = TeamActivity::Busy;
            }
            let messages = self.release(join);
            let (to, into) = join_target(self.team, self.book, join);
            if let Some(next) = into {
                for (from, message) in &messages {
                    self.enqueue_once(next, *from, *message);
                }
            }
            fired.push(Firing {
                join,
                messages,
                to,
                into,
                published_index,
            });
        }
    }

    /// Returns the first join that can fire.
    fn next_to_fire(&self, activity: TeamActivity) -> Option<JoinId> {
        let team = self.team;
        let first = |modes: &[JoinMode]| {
            let fires = |id: &JoinId| {
                let (mode, queues) = (team.join(*id).mode, &self.joins[id.index()].queues);
                let has_message = |queue: &SimulatedQueue<'_>| queue.front().is_some();
                modes.contains(&mode)
                    && queues.iter().any(has_message)
                    && (mode != JoinMode::All || queues.iter().all(has_message))
            };
            team.join_ids().find(fires)
        };
        let ready = first(&[JoinMode::All, JoinMode::Any]);
        if ready.is_none() && activity == TeamActivity::Quiet {
            return first(&[JoinMode::Active]);
        }
        ready
    }

    /// Takes the messages that a join releases: one of each source; for a join of mode `active`,
    /// all of them; for one of mode `any`, the one that arrived first or, if none arrived in this
    /// simulation, the first that waits, in the order of the sources.
    fn release(&mut self, id: JoinId) -> Vec<(RoleId, MessageRef)> {
        let (join, simulated_join) = (self.team.join(id), &mut self.joins[id.index()]);
        if join.mode == JoinMode::Any
            && let Some(source) = simulated_join.arrived.pop_front()
        {
            return simulated_join.queues[source]
                .pop()
                .map(|message| (join.from[source], message))
                .into_iter()
                .collect();
        }
        let max_per_source = if join.mode == JoinMode::Active {
            usize::MAX
        } else {
            1
        };
        let queues = join.from.iter().zip(&mut simulated_join.queues);
        let taken = queues.flat_map(|(source, queue)| {
            iter::from_fn(move || queue.pop())
                .take(max_per_source)
                .map(move |message| (*source, message))
        });
        taken
            .take(if join.mode == JoinMode::Any {
                1
            } else {
                usize::MAX
            })
            .collect()
    }
}

impl SimulatedQueue<'_> {
    fn front(&self) -> Option<MessageRef> {
        let from_arrived = || self.arrived.get(self.taken - self.waiting.len());
        self.waiting.get(self.taken).or_else(from_arrived).copied()
    }

    fn contains(&self, message: MessageRef) -> bool {
        self.waiting
            .iter()
            .chain(&self.arrived)
            .skip(self.taken)
            .any(|other| *other == message)
    }

    fn pop(&mut self) -> Option<MessageRef> {
        let first = self.front()?;
        self.taken += 1;
        Some(first)
    }
}
