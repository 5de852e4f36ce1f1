//! What leaves the team: one message after another is handed over to those outside.

use alloc::string::String;

use super::Stepper;
use super::apply::{Applied, ensure};
use crate::id::MessageId;

impl Stepper {
    /// A message was handed over, or could not be: then it stays the next.
    pub(super) fn handed_over(&mut self, id: &MessageId, failed: Option<&String>) -> Applied {
        self.going()?;
        let next = self
            .env
            .outbox
            .first()
            .filter(|outbound| outbound.failed.is_none());
        let is_next = next.is_some_and(|outbound| self.env.message(outbound.message).id == *id);
        ensure(
            is_next,
            "the handing over of a message that is not the next on its way out",
        )?;
        match failed {
            None => drop(self.env.outbox.remove(0)),
            Some(why) => self.env.outbox[0].failed = Some(why.clone()),
        }
        Ok(())
    }
}
