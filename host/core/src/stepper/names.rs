//! Whether the team has what an event speaks of. Applying an event checks that, and the rest; whoever looks at one before
//! that, say to tell which attempt begins, asks here first: a record may come from anywhere.

use super::Stepper;
use super::apply::Applied;
use crate::event::{Event, Work};
use crate::id::{Part, RoleId, Slot};

impl Stepper {
    /// Refuses an event that speaks of a role, an action or a place of a component that the team does not have.
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
            // What these say of roles is looked at only once they were applied.
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
}
