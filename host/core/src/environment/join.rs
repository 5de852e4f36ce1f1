//! Joins: what waits in them, and which of them fire. Which messages get into a join is decided in `routing`; where
//! they go from there, and that it is recorded, in `stepper::join`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::iter;

use serde::{Deserialize, Serialize};

use super::MessageRef;
use super::routing::{AddressBook, Named};
use crate::id::{JoinId, RoleId};
use crate::team::{Join, Mode, Team};

/// What waits in a join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinState {
    /// The messages of each source, in the order in which the join names them, oldest first.
    pub queues: Vec<VecDeque<MessageRef>>,
}

/// A message that gets into a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The join.
    pub join: JoinId,
    /// Who sent it.
    pub from: RoleId,
    /// The message.
    pub message: MessageRef,
    /// Which of the messages that are published together it is.
    pub publication: usize,
}

/// A join that fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The join.
    pub join: JoinId,
    /// What it lets go, in the order of its sources, with who sent it.
    pub messages: Vec<(RoleId, MessageRef)>,
    /// The roles that receive it, in order, each once.
    pub to: Vec<RoleId>,
    /// The join that it gets into.
    pub into: Option<JoinId>,
    /// Which of the messages that are published together completes it; the first if none does.
    pub publication: usize,
}

/// When joins are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// While there is other work.
    Busy,
    /// When the team is quiet.
    Quiet,
}

impl JoinState {
    /// An empty join.
    pub fn of(join: &Join) -> Self {
        Self {
            queues: join.from.iter().map(|_| VecDeque::new()).collect(),
        }
    }

    /// Whether nothing waits in it.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// The sources that nothing came from.
    pub fn missing<'a>(&'a self, join: &'a Join) -> impl Iterator<Item = RoleId> + 'a {
        join.from
            .iter()
            .zip(&self.queues)
            .filter(|(_, queue)| queue.is_empty())
            .map(|(source, _)| *source)
    }

    /// Puts a message behind those of its sender.
    pub(crate) fn put(&mut self, join: &Join, from: RoleId, message: MessageRef) {
        if let Some(queue) = self.queue(join, from) {
            queue.push_back(message);
        }
    }

    /// The same with what another join let go, unless it waits here already: it may have come by both ways.
    pub(crate) fn pass(&mut self, join: &Join, from: RoleId, message: MessageRef) {
        if let Some(queue) = self
            .queue(join, from)
            .filter(|queue| !queue.contains(&message))
        {
            queue.push_back(message);
        }
    }

    /// Takes the oldest message of each of these senders.
    pub(crate) fn take(&mut self, join: &Join, from: impl Iterator<Item = RoleId>) {
        for source in from {
            if let Some(queue) = self.queue(join, source) {
                queue.pop_front();
            }
        }
    }

    fn queue(&mut self, join: &Join, from: RoleId) -> Option<&mut VecDeque<MessageRef>> {
        join.source(from)
            .and_then(|source| self.queues.get_mut(source))
    }
}

/// Which joins fire when these messages arrive, in order: after each message the first that can, again and again, until
/// none can. What one lets go may get into another.
///
/// It ends: a message passes each join once at most, since no way over joins leads back to where it began.
pub fn firings(
    (team, book): (&Team, &AddressBook),
    joins: &[JoinState],
    arrivals: &[Arrival],
    moment: Moment,
) -> Vec<Firing> {
    let mut hall = Hall::of(joins);
    let mut fired = Vec::new();
    for same in arrivals.chunk_by(|one, next| one.publication == next.publication) {
        for Arrival {
            join,
            from,
            message,
            ..
        } in same
        {
            hall.put(team, *join, (*from, *message));
        }
        hall.fire((team, book), moment, same[0].publication, &mut fired);
    }
    if arrivals.is_empty() {
        hall.fire((team, book), moment, 0, &mut fired);
    }
    fired
}

/// Where a join lets its messages go: to roles, or into another join.
fn target((team, book): (&Team, &AddressBook), join: JoinId) -> (Vec<RoleId>, Option<JoinId>) {
    let (mut to, into) = match book.named(team, &team.join(join).to) {
        Some(Named::Role(role)) => (alloc::vec![role], None),
        Some(Named::Group(members)) => (members.to_vec(), None),
        Some(Named::Join(next)) => (Vec::new(), Some(next)),
        None => (Vec::new(), None),
    };
    to.sort_unstable();
    to.dedup();
    (to, into)
}

/// All joins as they become. What waits in them may be long and is not copied.
struct Hall<'a>(Vec<Row<'a>>);

/// One join.
struct Row<'a> {
    queues: Vec<Queue<'a>>,
    /// The sources of what came, in order of arrival.
    came: VecDeque<usize>,
}

/// What waits, of which some was taken, and what came since.
struct Queue<'a> {
    waiting: &'a VecDeque<MessageRef>,
    taken: usize,
    came: Vec<MessageRef>,
}

impl<'a> Hall<'a> {
    fn of(joins: &'a [JoinState]) -> Self {
        let queue = |waiting| Queue {
            waiting,
            taken: 0,
            came: Vec::new(),
        };
        let row = |join: &'a JoinState| Row {
            queues: join.queues.iter().map(queue).collect(),
            came: VecDeque::new(),
        };
        Self(joins.iter().map(row).collect())
    }

    fn put(&mut self, team: &Team, join: JoinId, (from, message): (RoleId, MessageRef)) {
        if let Some(source) = team.join(join).source(from) {
            let row = &mut self.0[join.index()];
            row.queues[source].came.push(message);
            row.came.push_back(source);
        }
    }

    /// The same with what another join let go, unless it waits there already.
    fn pass(&mut self, team: &Team, join: JoinId, (from, message): (RoleId, MessageRef)) {
        let source = team.join(join).source(from);
        if source.is_some_and(|source| !self.0[join.index()].queues[source].holds(message)) {
            self.put(team, join, (from, message));
        }
    }

    /// Lets joins fire until none can.
    fn fire(
        &mut self,
        (team, book): (&Team, &AddressBook),
        mut moment: Moment,
        publication: usize,
        fired: &mut Vec<Firing>,
    ) {
        while let Some(join) = self.ready(team, moment) {
            // What an active join lets go may end the quiet.
            if team.join(join).mode == Mode::Active {
                moment = Moment::Busy;
            }
            let messages = self.take(team, join);
            let (to, into) = target((team, book), join);
            if let Some(next) = into {
                messages
                    .iter()
                    .for_each(|message| self.pass(team, next, *message));
            }
            fired.push(Firing {
                join,
                messages,
                to,
                into,
                publication,
            });
        }
    }

    /// The first join that can fire.
    fn ready(&self, team: &Team, moment: Moment) -> Option<JoinId> {
        let first = |modes: &[Mode]| {
            let fires = |id: &JoinId| {
                let (mode, queues) = (team.join(*id).mode, &self.0[id.index()].queues);
                let waits = |queue: &Queue<'_>| queue.first().is_some();
                modes.contains(&mode)
                    && queues.iter().any(waits)
                    && (mode != Mode::All || queues.iter().all(waits))
            };
            team.join_ids().find(fires)
        };
        let ready = first(&[Mode::All, Mode::Any]);
        ready.or_else(|| {
            if moment == Moment::Quiet {
                first(&[Mode::Active])
            } else {
                None
            }
        })
    }

    /// Takes what a join lets go: one message of each source, or all that came where it waited for the quiet; where any
    /// fires it, the one that came first.
    fn take(&mut self, team: &Team, id: JoinId) -> Vec<(RoleId, MessageRef)> {
        let (join, row) = (team.join(id), &mut self.0[id.index()]);
        if join.mode == Mode::Any
            && let Some(source) = row.came.pop_front()
        {
            return row.queues[source]
                .pop()
                .map(|message| (join.from[source], message))
                .into_iter()
                .collect();
        }
        let of_each = if join.mode == Mode::Active {
            usize::MAX
        } else {
            1
        };
        let queues = join.from.iter().zip(&mut row.queues);
        let taken = queues.flat_map(|(source, queue)| {
            iter::from_fn(move || queue.pop())
                .take(of_each)
                .map(move |message| (*source, message))
        });
        taken
            .take(if join.mode == Mode::Any {
                1
            } else {
                usize::MAX
            })
            .collect()
    }
}

impl Queue<'_> {
    fn first(&self) -> Option<MessageRef> {
        let came = || self.came.get(self.taken - self.waiting.len());
        self.waiting.get(self.taken).or_else(came).copied()
    }

    fn holds(&self, message: MessageRef) -> bool {
        self.waiting
            .iter()
            .chain(&self.came)
            .skip(self.taken)
            .any(|held| *held == message)
    }

    fn pop(&mut self) -> Option<MessageRef> {
        let first = self.first()?;
        self.taken += 1;
        Some(first)
    }
}
