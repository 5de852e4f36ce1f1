//! Checks of events against the team and the state. `apply` makes all of them; whoever examines an
//! event before it is applied, e.g. to find out which attempt starts, calls `has_what_is_named`
//! first, because a record may come from anywhere.

use alloc::string::String;

use super::Stepper;
use super::awake::Stand;
use crate::activation::{Activation, Phase};
use crate::event::{Event, Routed, Status, Work};
use crate::id::{JoinId, Part, RoleId, Slot};

/// An event that cannot have happened in this state. The journal is damaged, or there is a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event does not fit the state it is applied to: {0}")]
pub struct Illegal(pub(super) String);

pub(super) type Applied = Result<(), Illegal>;

pub(super) fn ensure(holds: bool, why: &str) -> Applied {
    if holds {
        Ok(())
    } else {
        Err(Illegal(why.into()))
    }
}

impl Stepper {
    /// Fails if the event refers to a role, an action or a slot that the team does not have.
    pub fn has_what_is_named(&self, event: &Event) -> Applied {
        match event {
            Event::ComponentChanged { slot, .. } => self.has(*slot),
            Event::CallStarted { role, work, .. }
            | Event::HostCallBegun { role, work, .. }
            | Event::HostCalled { role, work, .. }
            | Event::MoneyReserved { role, work, .. }
            | Event::DoubtSettled { role, work, .. }
            | Event::WritesUnclaimed { role, work, .. }
            | Event::FilesWritten { role, work, .. }
            | Event::CallFinished { role, work, .. }
            | Event::CallFailed { role, work, .. }
            | Event::CallSuspended { role, work, .. }
            | Event::RequestOpened { role, work, .. } => self.can_do(*role, *work),
            Event::RetryDue { role } | Event::RequestAnswered { role, .. } => self.known(*role),
            Event::StepConflicted { writers, .. } => writers
                .iter()
                .try_for_each(|writer| self.can_do(writer.role, writer.work)),
            Event::StepStarted { roles, .. } => roles.iter().try_for_each(|role| self.known(*role)),
            // The roles in these events are examined only after they were applied.
            Event::RunStarted { .. }
            | Event::RunResumed { .. }
            | Event::MessageSent { .. }
            | Event::StepCommitted { .. }
            | Event::RunEnded { .. }
            | Event::Forked { .. }
            | Event::HandedOver { .. }
            | Event::HandOverFailed { .. }
            | Event::JoinReleased { .. }
            | Event::FilesPlaced { .. } => Ok(()),
        }
    }

    fn can_do(&self, role: RoleId, work: Work) -> Applied {
        match work {
            Work::Act { action, .. } => self.has(Slot {
                role,
                part: Part::Action(action),
            }),
            Work::Think { .. } | Work::Plan | Work::Answer => self.known(role),
        }
    }

    /// Fails if the run was never started.
    pub(super) fn started_run(&self) -> Applied {
        ensure(
            !self.env.run.0.is_empty(),
            "something of a run that never started",
        )
    }

    /// Fails if the run has ended.
    pub(super) fn going(&self) -> Applied {
        ensure(
            self.env.status == Status::Running,
            "something of a run that has ended",
        )
    }

    /// Returns whether no call of the open step is running or waiting to be made.
    pub(super) fn settled(&self) -> bool {
        let ended =
            [Stand::Complete, Stand::Failed, Stand::Waiting].map(|stand| self.awake.count(stand));
        self.going().is_ok() && self.env.open && self.awake.open() == ended.iter().sum::<usize>()
    }

    /// Fails if the team does not have this slot.
    pub(super) fn has(&self, slot: Slot) -> Applied {
        self.known(slot.role)?;
        let exists = match slot.part {
            Part::Think => true,
            Part::Action(action) => action.index() < self.team.role(slot.role).actions.len(),
        };
        ensure(exists, "a place of an action that the role does not have")
    }

    /// Fails if the team does not have this role.
    pub(super) fn known(&self, id: RoleId) -> Applied {
        ensure(
            id.index() < self.env.roles.len(),
            "a role that the team does not have",
        )
    }

    /// Fails unless the receivers are roles of the team and the joins wait for the sender, both
    /// ascending and without duplicates.
    pub(super) fn routed(&self, routed: &Routed) -> Applied {
        ensure(
            routed.to.is_sorted_by(|a, b| a < b),
            "receivers that are not in order",
        )?;
        routed.to.last().map_or(Ok(()), |id| self.known(*id))?;
        ensure(
            routed.joins.is_sorted_by(|a, b| a < b),
            "joins that are not in order",
        )?;
        let join = |id: &JoinId| self.team.joins.get(id.index());
        let waits = |id: &JoinId| {
            join(id)
                .zip(routed.from)
                .is_some_and(|(join, from)| join.source(from).is_some())
        };
        ensure(
            routed.joins.iter().all(waits),
            "a join that does not wait for the sender",
        )
    }

    /// Fails unless this is a valid routing of a message from outside.
    pub(super) fn incoming(&self, routed: &Routed) -> Applied {
        ensure(
            routed.from.is_none(),
            "a message from outside that a role sent",
        )?;
        self.routed(routed)
    }

    /// Returns the open activation of a role. Fails if it has none.
    pub(super) fn activation(&mut self, id: RoleId) -> Result<&mut Activation, Illegal> {
        self.known(id)?;
        self.env.roles[id.index()]
            .activation
            .as_mut()
            .ok_or_else(|| Illegal("a role that is idle".into()))
    }

    /// Returns the activation of a role that is running this call. Fails if it is not.
    pub(super) fn running(&mut self, id: RoleId, work: Work) -> Result<&mut Activation, Illegal> {
        self.going()?;
        let team = self.team.clone();
        let activation = self.activation(id)?;
        ensure(
            activation.phase == Phase::Running,
            "a call that is not running",
        )?;
        ensure(
            activation.work(team.role(id)) == Some(work),
            "a call that is not the running one",
        )?;
        Ok(activation)
    }

    /// Fails unless the role is running this attempt.
    pub(super) fn attempted(&mut self, id: RoleId, work: Work, attempt: u32) -> Applied {
        let activation = self.running(id, work)?;
        ensure(
            activation.current.attempts == attempt,
            "the end of another attempt",
        )
    }
}
