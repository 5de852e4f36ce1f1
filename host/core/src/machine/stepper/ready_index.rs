//! An index of the roles that have mail or open work, with the state of each. With it the cost of
//! deciding what happens next depends on the number of these roles, not on the number of all roles.
//!
//! The index contains nothing that cannot be derived from the environment. It is never saved: it is
//! built from the environment and updated by `apply`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::tool_calls::startable_tool_calls;
use crate::record::event::{Event, JoinReleased, MessageSent, RunStarted, StepCommitted};
use crate::record::id::RoleId;
use crate::record::work::Work;
use crate::state::activation::{Activation, Phase, TurnCall};
use crate::state::environment::{Environment, RoleState};
use crate::team::{Role, Team};

/// The state of a role that has mail or open work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoleStatus {
    /// It has mail and no open work.
    HasMail,
    /// It can make a call.
    Ready,
    /// It is a human role whose request is not opened yet, or has a tool call for which that holds.
    OpeningRequest,
    /// An attempt is in progress. Of several calls, none can be started.
    Running,
    /// It waits before a retry.
    BackingOff,
    /// Its call failed.
    Failed,
    /// It waits for a human.
    WaitingForHuman,
    /// Its activation waits for the commit.
    Complete,
}

/// The index of all roles that have mail or open work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyIndex {
    by_role: BTreeMap<RoleId, (RoleStatus, CallCounts)>,
    ready: BTreeSet<RoleId>,
    opening_request: BTreeSet<RoleId>,
    counts: [usize; RoleStatus::Complete as usize + 1],
    calls: CallCounts,
}

impl RoleStatus {
    /// Returns the status of a role, or `None` if it has neither mail nor open work.
    fn from_state(role: &Role, state: &RoleState) -> Option<Self> {
        let Some(activation) = &state.activation else {
            return (!state.mailbox.is_empty()).then_some(Self::HasMail);
        };
        Some(match activation.phase {
            Phase::Ready | Phase::ReadyAfterFault(_)
                if activation.current_work(role) == Some(Work::Answer) =>
            {
                Self::OpeningRequest
            }
            Phase::Ready | Phase::ReadyAfterFault(_) => Self::Ready,
            Phase::Running => Self::Running,
            Phase::BackingOff => Self::BackingOff,
            Phase::Failed(_) => Self::Failed,
            Phase::WaitingForHuman(_) => Self::WaitingForHuman,
            Phase::Complete => Self::Complete,
            Phase::CallingTools => Self::from_tool_calls(role, activation),
        })
    }

    /// Returns the status of a role with open tool calls: what the stepper has to do about it next.
    fn from_tool_calls(role: &Role, activation: &Activation) -> Self {
        let open = || {
            activation
                .tool_calls()
                .map(|(_, call)| call)
                .filter(|call| call.outcome.is_none())
        };
        let has = |phase: Phase| open().any(|call| call.phase == phase);
        let starts = |tools| startable_tool_calls(tools, activation).next().is_some();
        if open().any(TurnCall::needs_request) {
            Self::OpeningRequest
        } else if role.tool_loop().is_some_and(starts) {
            Self::Ready
        } else if has(Phase::Running) {
            Self::Running
        } else if has(Phase::BackingOff) {
            Self::BackingOff
        } else if open().any(|call| matches!(call.phase, Phase::Failed(_))) {
            Self::Failed
        } else {
            Self::WaitingForHuman
        }
    }
}

/// How many calls of a role are in a phase that matters to others, also while the role can do
/// something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CallCounts {
    running: usize,
    backing_off: usize,
    failed: usize,
}

impl CallCounts {
    /// Counts the calls of a role with this status.
    fn new(status: RoleStatus, state: &RoleState) -> Self {
        let tool_calls = state
            .activation
            .as_ref()
            .filter(|activation| activation.phase == Phase::CallingTools);
        let Some(activation) = tool_calls else {
            return Self {
                running: usize::from(status == RoleStatus::Running),
                backing_off: usize::from(status == RoleStatus::BackingOff),
                failed: usize::from(status == RoleStatus::Failed),
            };
        };
        let mut counts = Self::default();
        for (_, call) in activation.tool_calls() {
            match call.phase {
                Phase::Running => counts.running += 1,
                Phase::BackingOff => counts.backing_off += 1,
                Phase::Failed(_) => counts.failed += 1,
                _ => {}
            }
        }
        counts
    }
}

impl ReadyIndex {
    /// Builds the index by examining every role of an environment.
    pub(super) fn build(team: &Team, env: &Environment) -> Self {
        let mut awake = Self::default();
        awake.update(team, env, team.role_ids());
        awake
    }

    /// Updates the entries of these roles.
    pub(super) fn update(
        &mut self,
        team: &Team,
        env: &Environment,
        ids: impl IntoIterator<Item = RoleId>,
    ) {
        for id in ids {
            let state = env.role(id);
            let now = RoleStatus::from_state(team.role(id), state)
                .map(|status| (status, CallCounts::new(status, state)));
            let before = match now {
                Some(entry) => self.by_role.insert(id, entry),
                None => self.by_role.remove(&id),
            };
            if before != now {
                if let Some((status, calls)) = before {
                    self.remove(id, status);
                    self.calls.running -= calls.running;
                    self.calls.backing_off -= calls.backing_off;
                    self.calls.failed -= calls.failed;
                }
                if let Some((status, calls)) = now {
                    self.insert(id, status);
                    self.calls.running += calls.running;
                    self.calls.backing_off += calls.backing_off;
                    self.calls.failed += calls.failed;
                }
            }
        }
    }

    fn remove(&mut self, id: RoleId, status: RoleStatus) {
        self.counts[status as usize] -= 1;
        match status {
            RoleStatus::Ready => {
                self.ready.remove(&id);
            }
            RoleStatus::OpeningRequest => {
                self.opening_request.remove(&id);
            }
            _ => {}
        }
    }

    fn insert(&mut self, id: RoleId, status: RoleStatus) {
        self.counts[status as usize] += 1;
        match status {
            RoleStatus::Ready => {
                self.ready.insert(id);
            }
            RoleStatus::OpeningRequest => {
                self.opening_request.insert(id);
            }
            _ => {}
        }
    }

    /// Returns how many roles have this status.
    pub(super) fn count(&self, status: RoleStatus) -> usize {
        self.counts[status as usize]
    }

    /// Returns how many attempts are in progress.
    pub(super) fn running_calls(&self) -> usize {
        self.calls.running
    }

    /// Returns whether an attempt is in progress, or follows after a pause.
    pub(super) fn has_calls_in_progress(&self) -> bool {
        self.calls.running + self.calls.backing_off > 0
    }

    /// Returns whether a call has failed.
    pub(super) fn has_failed_calls(&self) -> bool {
        self.calls.failed > 0
    }

    /// Returns how many roles have open work.
    pub(super) fn open_count(&self) -> usize {
        self.by_role.len() - self.count(RoleStatus::HasMail)
    }

    /// Returns all entries, in the order of the roles.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RoleId, RoleStatus)> {
        self.by_role.iter().map(|(id, (status, _))| (*id, *status))
    }

    /// Returns the roles that can make a call, in order.
    pub(super) fn ready(&self) -> impl Iterator<Item = RoleId> {
        self.ready.iter().copied()
    }

    /// Returns the first human role whose request is to be opened.
    pub(super) fn first_opening_request(&self) -> Option<RoleId> {
        self.opening_request.first().copied()
    }

    /// Updates the index after an event was applied.
    pub(super) fn apply_event(&mut self, team: &Team, env: &Environment, event: &Event) {
        match event {
            Event::Attempt(call, _) => self.update(team, env, [call.role]),
            Event::RunStarted(RunStarted { routed, .. })
            | Event::MessageSent(MessageSent { routed, .. }) => {
                self.update(team, env, routed.to.iter().copied());
            }
            Event::StepStarted(started) => self.update(team, env, started.roles.iter().copied()),
            Event::ComponentChanged(changed) => self.update(team, env, [changed.slot.role]),
            Event::StepCommitted(StepCommitted {
                routed, released, ..
            }) => {
                let closed: Vec<RoleId> = self.by_role.keys().copied().collect();
                let receivers = routed.iter().flat_map(|routed| &routed.to);
                let receivers = receivers
                    .chain(released.iter().flat_map(|released| &released.to))
                    .copied();
                self.update(team, env, closed.into_iter().chain(receivers));
            }
            Event::JoinReleased(JoinReleased { released }) => {
                let receivers = released.iter().flat_map(|released| &released.to);
                self.update(team, env, receivers.copied());
            }
            // These are rare, and some of them affect all roles.
            Event::RunResumed(_)
            | Event::StepConflicted(_)
            | Event::Forked(_)
            | Event::RunEnded(_) => *self = Self::build(team, env),
            Event::HandedOver(_) | Event::HandOverFailed(_) | Event::FilesPlaced(_) => {}
        }
    }
}
