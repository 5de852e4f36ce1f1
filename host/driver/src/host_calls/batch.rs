//! A batch: the calls that a guest makes at once and whose answers it receives together.

use std::collections::VecDeque;
use std::sync::Arc;

use strata_core::record::asking_call::AskingCall;
use strata_core::record::spending::Amount;
use strata_storage::CapCharge;
use tokio::sync::oneshot;

use strata_services::gateway::{Allowance, AttemptId, HostAnswer, HostError, HostErrorKind};
use strata_services::outbound::{CallAnswer, OutboundCall};

/// Calls that a guest makes at once.
pub(super) struct CallBatch {
    /// The answers, in the order of the calls; `None` if the call is in flight or waits.
    pub(super) answers: Vec<Option<CallAnswer>>,
    /// Calls that are made as soon as the budget allows it.
    pub(super) awaiting_budget: VecDeque<PendingCall>,
    /// How many bytes the answers may still have.
    pub(super) allowance: Allowance,
    pub(super) reply: oneshot::Sender<HostAnswer>,
}

/// A call that is not recorded and has not been sent yet.
pub(super) struct PendingCall {
    pub(super) attempt: AttemptId,
    /// The number of the attempt, counted from 1.
    pub(super) attempt_number: u32,
    /// Its index in the batch.
    pub(super) nth: usize,
    /// The name of the request in the record.
    pub(super) request_name: String,
    pub(super) call: Arc<dyn OutboundCall>,
    /// A generated idempotency key for a write; used only if the request has none. Empty for other
    /// calls.
    pub(super) idempotency_key: String,
    /// What it is expected to cost, once that was estimated: an estimate reads the whole request.
    pub(super) expected_cost: Option<Amount>,
    /// What the caps above the run are charged with once it may be made.
    pub(super) charge: CapCharge,
    /// What an earlier attempt at the same call asked people, with their answers.
    pub(super) asking_call: Option<AskingCall>,
}

impl PendingCall {
    /// Returns what the call is expected to cost at most. Fails if there is no service that could answer it.
    pub(super) fn expected_cost(&mut self) -> Result<Amount, HostError> {
        match self.expected_cost {
            Some(expected) => Ok(expected),
            None => {
                let expected = self.call.expected_cost()?;
                self.expected_cost = Some(expected);
                Ok(expected)
            }
        }
    }
}

impl CallBatch {
    /// Returns whether calls of this batch are in flight, or about to be sent.
    pub(super) fn has_calls_in_flight(&self) -> bool {
        self.answers
            .iter()
            .filter(|answer| answer.is_none())
            .count()
            > self.awaiting_budget.len()
    }

    /// Returns whether every call has an answer.
    pub(super) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// Deducts the sizes of the recorded answers from the allowance. `calls` are those of this
    /// batch.
    pub(super) fn deduct_recorded_bytes(&self, calls: &[Arc<dyn OutboundCall>]) {
        for (call, answer) in calls.iter().zip(&self.answers) {
            if let Some(Ok(recorded)) = answer {
                // An error means that the allowance is used up already.
                let _ = self.allowance.take(call.answer_bytes(recorded));
            }
        }
    }

    /// Sends the answers to the guest.
    pub(super) fn answer(self) {
        let lost = || {
            Err(HostError::new(
                HostErrorKind::Upstream,
                "the call was not answered",
            ))
        };
        let answers = self
            .answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(lost));
        // It is no error if the guest is gone.
        let _ = self.reply.send(HostAnswer::Outbound(answers.collect()));
    }
}
