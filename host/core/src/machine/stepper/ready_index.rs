//! An index of the roles that have mail or open work, with the state of each. With it the cost of
//! deciding what happens next depends on the number of these roles, not on the number of all roles.
//!
//! The index contains nothing that cannot be derived from the environment. It is never saved: it is
//! built from the environment and updated by `apply`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::nested_calls::has_blocked_attempt;
use super::tool_calls::startable_tool_calls;
use crate::record::event::{Event, JoinReleased, MessageSent, RunStarted, StepCommitted};
use crate::record::id::RoleId;
use crate::record::work::{ActivationKey, Work};
use crate::state::activation::{Activation, Phase};
use crate::state::environment::activations::called_key;
use crate::state::environment::{Environment, RoleState};
use crate::team::{Role, Team};

/// The state of a role that has mail or open work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoleStatus {
    /// It has mail and no open work.
    HasMail,
    /// It can make a call.
    Ready,
    /// An event is due that nothing outside has to happen for: a request of a human role or for a
    /// tool call is to be opened, or a called role is done.
    EventDue,
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
    event_due: BTreeSet<RoleId>,
    counts: [usize; RoleStatus::Complete as usize + 1],
    calls: CallCounts,
}

impl RoleStatus {
    /// Returns the status of a role, or `None` if it has neither mail nor open work.
    fn from_state(role: &Role, state: &RoleState, open: &OpenWork) -> Option<Self> {
        let Some(activation) = &state.activation else {
            return (!state.mailbox.is_empty()).then_some(Self::HasMail);
        };
        Some(match activation.phase {
            Phase::Ready | Phase::ReadyAfterFault(_)
                if activation.current_work(role) == Some(Work::Answer) =>
            {
                Self::EventDue
            }
            Phase::Ready | Phase::ReadyAfterFault(_) => Self::Ready,
            Phase::Running => Self::Running,
            Phase::BackingOff => Self::BackingOff,
            Phase::Failed(_) => Self::Failed,
            Phase::WaitingForHuman(_) => Self::WaitingForHuman,
            Phase::Complete => Self::Complete,
            Phase::CallingTools | Phase::CallingRole => open.status(),
        })
    }
}

/// What the calls of an activation, and of those it led to, have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenWork {
    event_due: bool,
    can_start: bool,
    calls: CallCounts,
}

/// How many calls are in a phase that matters to other roles, also while the role can do something
/// else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CallCounts {
    running: usize,
    backing_off: usize,
    failed: usize,
}

impl OpenWork {
    /// Counts the calls of an activation and of those it led to.
    pub(super) fn count(team: &Team, env: &Environment, key: ActivationKey) -> Self {
        let mut open = Self::default();
        for (other, activation) in env.activations_of(key.root()) {
            if other.continues(&key) {
                open.add(team.role(other.role), activation);
                open.event_due |= has_called_role_done(env, other, activation);
            }
        }
        open
    }

    fn add(&mut self, role: &Role, activation: &Activation) {
        match &activation.phase {
            Phase::Ready | Phase::ReadyAfterFault(_) => {
                let is_human = activation.current_work(role) == Some(Work::Answer);
                self.event_due |= is_human;
                self.can_start |= !is_human;
            }
            Phase::CallingTools => {
                for (work, call) in activation.unsettled_tool_calls() {
                    self.event_due |= call.needs_request() && activation.is_awaited(work);
                    // An attempt that waits for calls does nothing else, and the fault of a nested
                    // call becomes that of the call it was made in.
                    let is_nested_fault =
                        work.nested().is_some() && matches!(call.phase, Phase::Failed(_));
                    if !call.awaits_nested() && !is_nested_fault {
                        self.calls.add(&call.phase);
                    }
                }
                self.event_due |= has_blocked_attempt(activation);
                let starts = |tools| startable_tool_calls(tools, activation).next().is_some();
                self.can_start |= role.tool_loop().is_some_and(starts);
            }
            phase => self.calls.add(phase),
        }
    }

    /// Returns whether something can be done, or is being done.
    pub(super) fn can_go_on(&self) -> bool {
        self.event_due || self.can_start || self.calls.running + self.calls.backing_off > 0
    }

    /// Returns the status of a role with open tool calls: what the stepper has to do about it next.
    fn status(&self) -> RoleStatus {
        if self.event_due {
            RoleStatus::EventDue
        } else if self.can_start {
            RoleStatus::Ready
        } else if self.calls.running > 0 {
            RoleStatus::Running
        } else if self.calls.backing_off > 0 {
            RoleStatus::BackingOff
        } else if self.calls.failed > 0 {
            RoleStatus::Failed
        } else {
            RoleStatus::WaitingForHuman
        }
    }
}

/// Returns whether a tool call of an activation waits for a role that is done.
fn has_called_role_done(env: &Environment, key: ActivationKey, activation: &Activation) -> bool {
    let mut waiting = activation
        .unsettled_tool_calls()
        .filter(|(_, call)| call.phase == Phase::CallingRole);
    waiting.any(|(work, _)| {
        let called = called_key(key, work).and_then(|called| env.activation(called));
        called.is_some_and(|called| called.phase == Phase::Complete)
    })
}

impl CallCounts {
    fn add(&mut self, phase: &Phase) {
        match phase {
            Phase::Running => self.running += 1,
            Phase::BackingOff => self.backing_off += 1,
            Phase::Failed(_) => self.failed += 1,
            _ => {}
        }
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
            let open = OpenWork::count(team, env, ActivationKey::of_mail(id));
            let now = RoleStatus::from_state(team.role(id), state, &open)
                .map(|status| (status, open.calls));
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
            RoleStatus::EventDue => {
                self.event_due.remove(&id);
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
            RoleStatus::EventDue => {
                self.event_due.insert(id);
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

    /// Returns whether no call is running or waiting to be made.
    pub(super) fn is_settled(&self) -> bool {
        let ended = [
            RoleStatus::Complete,
            RoleStatus::Failed,
            RoleStatus::WaitingForHuman,
        ]
        .map(|status| self.count(status));
        self.open_count() == ended.iter().sum::<usize>()
    }

    /// Returns whether only answers of humans can advance the open step.
    pub(super) fn waits_for_humans(&self) -> bool {
        let (open, waiting) = (self.open_count(), self.count(RoleStatus::WaitingForHuman));
        // If an idle role has mail, the step has to end so that the next one can start.
        open > 0 && open == waiting && self.count(RoleStatus::HasMail) == 0
    }

    /// Returns all entries, in the order of the roles.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RoleId, RoleStatus)> {
        self.by_role.iter().map(|(id, (status, _))| (*id, *status))
    }

    /// Returns the roles that can make a call, in order.
    pub(super) fn ready(&self) -> impl Iterator<Item = RoleId> {
        self.ready.iter().copied()
    }

    /// Returns the first role about which an event is due.
    pub(super) fn first_event_due(&self) -> Option<RoleId> {
        self.event_due.first().copied()
    }

    /// Updates the index after an event was applied.
    pub(super) fn apply_event(&mut self, team: &Team, env: &Environment, event: &Event) {
        match event {
            Event::Attempt(call, _) => self.update(team, env, [call.activation().root()]),
            Event::RunStarted(RunStarted { routed, .. })
            | Event::MessageSent(MessageSent { routed, .. }) => {
                self.update(team, env, routed.to.iter().copied());
            }
            Event::StepStarted(started) => self.update(team, env, started.roles.iter().copied()),
            Event::ComponentChanged(changed) => {
                let of_role = env
                    .activations()
                    .filter(|(key, _)| key.role == changed.slot.role);
                let roots: Vec<RoleId> = of_role.map(|(key, _)| key.root()).collect();
                self.update(team, env, roots);
            }
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
            | Event::ConsentWithdrawn(_)
            | Event::RunEnded(_) => *self = Self::build(team, env),
            Event::HandedOver(_)
            | Event::HandOverFailed(_)
            | Event::FilesPlaced(_)
            | Event::CapReached(_)
            | Event::ServerChanged(_)
            | Event::ServerToolOmitted(_) => {}
        }
    }
}
