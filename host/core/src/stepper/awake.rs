//! Who is awake: the roles with mail or open work, and how each stands. So that what happens next costs as much as takes
//! part in it, however many roles there are.
//!
//! It says nothing that the environment does not say, and is never saved: it is made from the environment, and kept
//! beside it by `apply`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::activation::Phase;
use crate::environment::{Environment, RoleState};
use crate::event::{Event, Work};
use crate::id::RoleId;
use crate::team::{Role, Team};

/// How a role stands that is awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// It has mail, and no open work.
    Mail,
    /// It can make a call.
    Ready,
    /// It is a person's, who is to be asked.
    Asking,
    /// Its call is being made.
    Running,
    /// It rests before another try.
    Resting,
    /// Its call failed.
    Failed,
    /// It waits for a person.
    Waiting,
    /// Its work waits for the commit.
    Complete,
}

/// All who are awake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Awake {
    stands: BTreeMap<RoleId, Stand>,
    ready: BTreeSet<RoleId>,
    asking: BTreeSet<RoleId>,
    counts: [usize; Stand::Complete as usize + 1],
}

impl Stand {
    /// None for a role that sleeps.
    fn of(role: &Role, state: &RoleState) -> Option<Self> {
        let Some(activation) = &state.activation else {
            return (!state.mailbox.is_empty()).then_some(Self::Mail);
        };
        Some(match activation.phase {
            Phase::Ready | Phase::Again(_) if activation.work(role) == Some(Work::Answer) => {
                Self::Asking
            }
            Phase::Ready | Phase::Again(_) => Self::Ready,
            Phase::Running => Self::Running,
            Phase::Resting => Self::Resting,
            Phase::Failed(_) => Self::Failed,
            Phase::Waiting(_) => Self::Waiting,
            Phase::Complete => Self::Complete,
        })
    }
}

impl Awake {
    /// Those of an environment, found by looking at every role.
    pub(super) fn of(team: &Team, env: &Environment) -> Self {
        let mut awake = Self::default();
        awake.look(team, env, team.role_ids());
        awake
    }

    /// Looks at these roles again.
    pub(super) fn look(
        &mut self,
        team: &Team,
        env: &Environment,
        ids: impl IntoIterator<Item = RoleId>,
    ) {
        for id in ids {
            let now = Stand::of(team.role(id), env.role(id));
            let before = match now {
                Some(stand) => self.stands.insert(id, stand),
                None => self.stands.remove(&id),
            };
            if before != now {
                before.into_iter().for_each(|stand| self.leave(id, stand));
                now.into_iter().for_each(|stand| self.enter(id, stand));
            }
        }
    }

    fn leave(&mut self, id: RoleId, stand: Stand) {
        self.counts[stand as usize] -= 1;
        match stand {
            Stand::Ready => drop(self.ready.remove(&id)),
            Stand::Asking => drop(self.asking.remove(&id)),
            _ => {}
        }
    }

    fn enter(&mut self, id: RoleId, stand: Stand) {
        self.counts[stand as usize] += 1;
        match stand {
            Stand::Ready => drop(self.ready.insert(id)),
            Stand::Asking => drop(self.asking.insert(id)),
            _ => {}
        }
    }

    /// How many stand like this.
    pub(super) fn count(&self, stand: Stand) -> usize {
        self.counts[stand as usize]
    }

    /// How many have open work.
    pub(super) fn open(&self) -> usize {
        self.stands.len() - self.count(Stand::Mail)
    }

    /// Everyone, in order.
    pub(super) fn all(&self) -> impl Iterator<Item = (RoleId, Stand)> {
        self.stands.iter().map(|(id, stand)| (*id, *stand))
    }

    /// Who can make a call, in order.
    pub(super) fn ready(&self) -> impl Iterator<Item = RoleId> {
        self.ready.iter().copied()
    }

    /// The first who is to ask a person.
    pub(super) fn asking(&self) -> Option<RoleId> {
        self.asking.first().copied()
    }

    /// Keeps up with an event that has happened.
    pub(super) fn follow(&mut self, team: &Team, env: &Environment, event: &Event) {
        match event {
            Event::CallStarted { role, .. }
            | Event::HostCallBegun { role, .. }
            | Event::HostCalled { role, .. }
            | Event::MoneyReserved { role, .. }
            | Event::DoubtSettled { role, .. }
            | Event::WritesUnclaimed { role, .. }
            | Event::CallSuspended { role, .. }
            | Event::CallFinished { role, .. }
            | Event::CallFailed { role, .. }
            | Event::RetryDue { role }
            | Event::FilesWritten { role, .. }
            | Event::RequestOpened { role, .. }
            | Event::RequestAnswered { role, .. } => self.look(team, env, [*role]),
            Event::RunStarted { routed, .. } | Event::MessageSent { routed, .. } => {
                self.look(team, env, routed.to.iter().copied());
            }
            Event::StepStarted { roles, .. } => self.look(team, env, roles.iter().copied()),
            Event::ComponentChanged { slot, .. } => self.look(team, env, [slot.role]),
            Event::StepCommitted {
                routed, released, ..
            } => {
                let closed: Vec<RoleId> = self.stands.keys().copied().collect();
                let told = routed.iter().flat_map(|routed| &routed.to);
                let told = told
                    .chain(released.iter().flat_map(|released| &released.to))
                    .copied();
                self.look(team, env, closed.into_iter().chain(told));
            }
            Event::JoinReleased { released } => {
                self.look(
                    team,
                    env,
                    released.iter().flat_map(|released| &released.to).copied(),
                );
            }
            // Rare, and some of these concern everyone.
            Event::RunResumed { .. }
            | Event::StepConflicted { .. }
            | Event::Forked { .. }
            | Event::RunEnded { .. } => *self = Self::of(team, env),
            Event::HandedOver { .. } | Event::HandOverFailed { .. } | Event::FilesPlaced { .. } => {
            }
        }
    }
}
