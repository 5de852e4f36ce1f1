//! The host calls of a call that an activation has open: the answers that are recorded, the external
//! writes whose outcome may be unknown, and the reservations.

use alloc::format;

use super::{CallProgress, OpenCall, Phase};
use crate::record::fault::{Fault, FaultKind};
use crate::record::host_call::{
    CallOutcome, ExternalWrite, HostCall, HostCallKind, Intent, LostAnswerPolicy, WriteResult,
};
use crate::record::spending::Amount;

impl<'a> OpenCall<'a> {
    /// Returns the host calls in doubt with their indices among the external writes: the result is
    /// unknown, no attempt is waiting for it, and repeating the call could do harm.
    pub fn writes_in_doubt(self) -> impl Iterator<Item = (usize, &'a ExternalWrite)> {
        let stands = matches!(self.phase, Phase::Failed(_));
        self.progress
            .external_writes
            .iter()
            .enumerate()
            .filter(move |(_, write)| stands && write.may_be_in_doubt())
    }
}

impl CallProgress {
    /// Returns whether an attempt that ends now leaves calls in doubt.
    pub(crate) fn leaves_writes_in_doubt(&self) -> bool {
        self.first_write_in_doubt().is_some()
    }

    /// Returns the phase after an attempt that did not come to its end: ready for the next attempt,
    /// or failed if the result of a call is unknown and it must not be repeated without asking the
    /// operator.
    pub(crate) fn ready_or_in_doubt(&self) -> Phase {
        let Some(write) = self.first_write_in_doubt() else {
            return Phase::Ready;
        };
        let message = format!(
            "cut off while `{}` was under way: whether it took effect is not known",
            write.intent.description
        );
        Phase::Failed(Fault::new(FaultKind::Interrupted, message))
    }

    /// Returns what is reserved for the host calls of the call.
    pub fn reserved(&self) -> Amount {
        self.reservations
            .iter()
            .fold(Amount::ZERO, |sum, reserved| sum + reserved.amount)
    }

    /// Releases the reservation of a host call that was answered.
    pub(crate) fn release_reservation(&mut self, request: &str) {
        let at = self
            .reservations
            .iter()
            .position(|reserved| reserved.request == request);
        if let Some(at) = at {
            self.reservations.remove(at);
        }
    }

    /// Records that a call that may change something outside is about to be made. It replaces the
    /// unanswered call that it repeats, if there is one.
    pub(crate) fn begin_write(&mut self, intent: &Intent) {
        self.external_writes.retain(|write| {
            intent.if_answer_lost == LostAnswerPolicy::AskOperator
                || !write.is_unanswered(intent.kind, &intent.request)
        });
        self.external_writes
            .push(ExternalWrite::new(intent.clone()));
    }

    /// Records the answer of a call.
    pub(crate) fn record_answer(&mut self, call: &HostCall) {
        // What a tool returned is kept with the nested call.
        if call.kind != HostCallKind::Tool {
            self.recorded_calls.push(call.clone());
        }
        self.asking
            .take_if(|asking| (asking.kind, &asking.request) == (call.kind, &call.request));
        let Some(at) = self
            .external_writes
            .iter()
            .position(|write| write.is_unanswered(call.kind, &call.request))
        else {
            return;
        };
        match call.outcome {
            CallOutcome::Answered => self.external_writes[at].result = WriteResult::Recorded,
            CallOutcome::Failed => {
                self.external_writes.remove(at);
            }
            CallOutcome::Unknown => {}
        }
    }
}
