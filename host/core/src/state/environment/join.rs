//! Joins: the messages that wait in them, and which joins fire. Which messages enter a join is
//! decided in `routing`; the events that record a release are made in `stepper::joins`.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

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

    /// Appends a message to the queue of a source. Returns how many were added.
    pub(crate) fn enqueue(&mut self, source: usize, message: MessageRef) -> usize {
        let Some(queue) = self.queues.get_mut(source) else {
            return 0;
        };
        queue.push_back(message);
        1
    }

    /// Appends a message released by another join, unless it waits here already; it may have
    /// arrived by both paths. Returns how many were added.
    pub(crate) fn enqueue_once(&mut self, source: usize, message: MessageRef) -> usize {
        let queue = self.queues.get(source);
        if queue.is_some_and(|queue| !queue.contains(&message)) {
            self.enqueue(source, message)
        } else {
            0
        }
    }

    /// Removes the oldest message of a source. Returns how many were removed.
    pub(crate) fn dequeue(&mut self, source: usize) -> usize {
        let queue = self.queues.get_mut(source);
        usize::from(queue.and_then(VecDeque::pop_front).is_some())
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

/// The joins while firings are computed. Only what changes is copied, because there may be many joins
/// with many sources, and many messages that wait.
struct JoinSimulation<'a> {
    team: &'a Team,
    book: &'a AddressBook,
    /// In the order of the team.
    joins: Vec<SimulatedJoin<'a>>,
    /// The joins of modes `all` and `any` that can fire.
    ready: BTreeSet<JoinId>,
    /// The joins of mode `active` that can fire once the team is quiet.
    ready_when_quiet: BTreeSet<JoinId>,
}

/// The state of one join in the simulation.
struct SimulatedJoin<'a> {
    waiting: &'a [VecDeque<MessageRef>],
    /// The queues that have changed, by the index of their source.
    changed: BTreeMap<usize, SimulatedQueue>,
    /// How many queues have a message.
    filled: usize,
    /// The sources of the messages that arrived, in order of arrival.
    arrived: VecDeque<usize>,
}

/// A queue that has changed: the messages that arrived, and how many were taken, counted over those
/// that waited before, then `arrived`.
#[derive(Default)]
struct SimulatedQueue {
    taken: usize,
    arrived: Vec<MessageRef>,
}

impl<'a> JoinSimulation<'a> {
    fn new(team: &'a Team, book: &'a AddressBook, joins: &'a [JoinState]) -> Self {
        let simulated_join = |join: &'a JoinState| SimulatedJoin {
            waiting: &join.queues,
            changed: BTreeMap::new(),
            filled: join.queues.iter().filter(|queue| !queue.is_empty()).count(),
            arrived: VecDeque::new(),
        };
        let mut simulation = Self {
            team,
            book,
            joins: joins.iter().map(simulated_join).collect(),
            ready: BTreeSet::new(),
            ready_when_quiet: BTreeSet::new(),
        };
        for join in team.join_ids() {
            simulation.update_ready(join);
        }
        simulation
    }

    /// Updates whether a join can fire.
    fn update_ready(&mut self, id: JoinId) {
        let join = &self.joins[id.index()];
        let mode = self.team.join(id).mode;
        let can_fire = match mode {
            JoinMode::All => join.filled > 0 && join.filled == join.waiting.len(),
            JoinMode::Any | JoinMode::Active => join.filled > 0,
        };
        let ready = match mode {
            JoinMode::All | JoinMode::Any => &mut self.ready,
            JoinMode::Active => &mut self.ready_when_quiet,
        };
        if can_fire {
            ready.insert(id);
        } else {
            ready.remove(&id);
        };
    }

    fn enqueue(&mut self, join: JoinId, from: RoleId, message: MessageRef) {
        if let Some(source) = self.book.source_index(join, from) {
            self.joins[join.index()].push(source, message);
            self.update_ready(join);
        }
    }

    /// Enqueues a message released by another join, unless it waits there already.
    fn enqueue_once(&mut self, join: JoinId, from: RoleId, message: MessageRef) {
        let source = self.book.source_index(join, from);
        if source.is_some_and(|source| !self.joins[join.index()].contains(source, message)) {
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
            self.update_ready(join);
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
        match (self.ready.first(), activity) {
            (None, TeamActivity::Quiet) => self.ready_when_quiet.first().copied(),
            (first, _) => first.copied(),
        }
    }

    /// Takes the messages that a join releases: one of each source; for a join of mode `active`,
    /// all of them; for one of mode `any`, the one that arrived first or, if none arrived in this
    /// simulation, the first that waits, in the order of the sources.
    fn release(&mut self, id: JoinId) -> Vec<(RoleId, MessageRef)> {
        let (join, simulated_join) = (self.team.join(id), &mut self.joins[id.index()]);
        if join.mode == JoinMode::Any
            && let Some(source) = simulated_join.arrived.pop_front()
        {
            let message = simulated_join.pop(source);
            return message
                .map(|message| (join.from[source], message))
                .into_iter()
                .collect();
        }
        let mut released = Vec::new();
        for (source, from) in join.from.iter().enumerate() {
            while let Some(message) = simulated_join.pop(source) {
                released.push((*from, message));
                match join.mode {
                    JoinMode::Any => return released,
                    JoinMode::All => break,
                    JoinMode::Active => {}
                }
            }
        }
        released
    }
}

impl SimulatedJoin<'_> {
    /// Returns the first message of a source.
    fn front(&self, source: usize) -> Option<MessageRef> {
        self.queued(source).next()
    }

    /// Returns the messages of a source, in order.
    fn queued(&self, source: usize) -> impl Iterator<Item = MessageRef> {
        let changed = self.changed.get(&source);
        let (taken, arrived) = changed.map_or((0, &[][..]), |queue| (queue.taken, &queue.arrived));
        let waiting = &self.waiting[source];
        let still_waiting = waiting.range(taken.min(waiting.len())..);
        let new = &arrived[taken.saturating_sub(waiting.len())..];
        still_waiting.chain(new).copied()
    }

    fn contains(&self, source: usize, message: MessageRef) -> bool {
        self.queued(source).any(|other| other == message)
    }

    fn push(&mut self, source: usize, message: MessageRef) {
        if self.front(source).is_none() {
            self.filled += 1;
        }
        self.changed
            .entry(source)
            .or_default()
            .arrived
            .push(message);
        self.arrived.push_back(source);
    }

    fn pop(&mut self, source: usize) -> Option<MessageRef> {
        let first = self.front(source)?;
        self.changed.entry(source).or_default().taken += 1;
        if self.front(source).is_none() {
            self.filled -= 1;
        }
        Some(first)
    }
}
