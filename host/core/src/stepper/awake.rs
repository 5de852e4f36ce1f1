//! An index of the roles that have mail or open work, with the state of each. With it the cost of
//! deciding what happens next depends on the number of these roles, not on the number of all roles.
//!
//! The index contains nothing that cannot be derived from the environment. It is never saved: it is
//! built from the environment and updated by `apply`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::activation::Phase;
use crate::environment::{Environment, RoleState};
use crate::event::{Event, Work};
use crate::id::RoleId;
use crate::team::{Role, Team};

/// The state of a role that has mail or open work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// It has mail and no open work.
    Mail,
    /// It can make a call.
    Ready,
    /// It is a human role whose request is not opened yet.
    Asking,
    /// An attempt is in progress.
    Running,
    /// It waits before a retry.
    Resting,
    /// Its call failed.
    Failed,
    /// It waits for a human.
    Waiting,
    /// Its activation waits for the commit.
    Complete,
}

/// The index of all roles that have mail or open work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Awake {
    stands: BTreeMap<RoleId, Stand>,
    ready: BTreeSet<RoleId>,
    asking: BTreeSet<RoleId>,
    counts: [usize; Stand::Complete as usize + 1],
}

impl Stand {
    /// Returns the status of a role, or `None` if it has neither mail nor open work.
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
    /// Builds the index by examining every role of an environment.
    pub(super) fn of(team: &Team, env: &Environment) -> Self {
        let mut awake = Self::default();
        awake.look(team, env, team.role_ids());
        awake
    }

    /// Updates the entries of these roles.
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
                if let Some(stand) = before {
                    self.leave(id, stand);
                }
                if let Some(stand) = now {
                    self.enter(id, stand);
                }
            }
        }
    }

    fn leave(&mut self, id: RoleId, stand: Stand) {
        self.counts[stand as usize] -= 1;
        match stand {
            Stand::Ready => {
                self.ready.remove(&id);
            }
            Stand::Asking => {
                self.asking.remove(&id);
            }
            _ => {}
        }
    }

    fn enter(&mut self, id: RoleId, stand: Stand) {
        self.counts[stand as usize] += 1;
        match stand {
            Stand::Ready => {
                self.ready.insert(id);
            }
            Stand::Asking => {
                self.asking.insert(id);
            }
            _ => {}
        }
    }

    /// Returns how many roles have this status.
    pub(super) fn count(&self, stand: Stand) -> usize {
        self.counts[stand as usize]
    }

    /// Returns how many roles have open work.
    pub(super) fn open(&self) -> usize {
        self.stands.len() - self.count(Stand::Mail)
    }

    /// Returns all entries, in the order of the roles.
    pub(super) fn all(&self) -> impl Iterator<Item = (RoleId, Stand)> {
        self.stands.iter().map(|(id, stand)| (*id, *stand))
    }

    /// Returns the roles that can make a call, in order.
    pub(super) fn ready(&self) -> impl Iterator<Item = RoleId> {
        self.ready.iter().copied()
    }

    /// Returns the first human role whose request is to be opened.
    pub(super) fn asking(&self) -> Option<RoleId> {
        self.asking.first().copied()
    }

    /// Updates the index after an event was applied.
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
            // These are rare, and some of them affect all roles.
            Event::RunResumed { .. }
            | Event::StepConflicted { .. }
            | Event::Forked { .. }
            | Event::RunEnded { .. } => *self = Self::of(team, env),
            Event::HandedOver { .. } | Event::HandOverFailed { .. } | Event::FilesPlaced { .. } => {
            }
        }
    }
}
