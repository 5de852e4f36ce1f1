//! Decides, one after another, which of the waiting host calls the budget allows.

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event, MoneyReserved};
use strata_core::record::money::Usd;
use strata_core::record::spending::{Amount, Reservation};
use strata_core::record::work::CallKey;

use super::HostCalls;
use super::attempt_calls::AttemptCalls;
use super::budget_gate::{Admission, Grant, admit};

/// A round of decisions about the calls that wait for the budget: the attempts that remain, the
/// next one last.
pub(in super::super) struct AdmissionRound(Vec<CallKey>);

/// A decision of the budget gate that has to be recorded before the next one is taken.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a value exists only until its caller has matched it"
)]
pub(in super::super) enum AdmissionDecision {
    /// Money is reserved for a call: the event that records it.
    Reserve(Event),
    /// So much has to be drawn from the caps above the run.
    Draw(Usd),
    /// The attempt cannot continue until the budget is raised.
    Suspend(CallKey),
}

impl HostCalls {
    /// Begins a round of decisions about the calls that wait for the budget: by call, and in the
    /// order in which each attempt made them. A round is due whenever calls were added, or a
    /// reservation was released or spent.
    pub(in super::super) fn admission_round(&mut self) -> AdmissionRound {
        self.waits_for_cap = false;
        let waits = |calls: &AttemptCalls| {
            let batch = calls.batch.as_ref();
            batch.is_some_and(|batch| !batch.awaiting_budget.is_empty())
        };
        let waiting = self.attempts.iter().rev();
        AdmissionRound(
            waiting
                .filter(|(_, calls)| waits(calls))
                .map(|(key, _)| *key)
                .collect(),
        )
    }

    /// Takes the next decision of a round that has to be recorded; `None` ends the round. The
    /// stepper must have applied the decision before.
    pub(in super::super) fn decide_next(
        &mut self,
        round: &mut AdmissionRound,
        stepper: &Stepper,
    ) -> Option<AdmissionDecision> {
        while let Some(key) = round.0.last().copied() {
            match self.decide_for(key, stepper) {
                Some(decision) => return Some(decision),
                None => round.0.pop(),
            };
        }
        None
    }

    /// Decides about the waiting calls of an attempt until a decision has to be recorded, or no
    /// further call can be made now.
    fn decide_for(&mut self, key: CallKey, stepper: &Stepper) -> Option<AdmissionDecision> {
        let calls = self.attempts.get_mut(&key)?;
        if calls.in_flight.is_draining() {
            return None;
        }
        // A guest that is gone needs no answer.
        let batch = calls
            .batch
            .as_mut()
            .filter(|batch| !batch.reply.is_closed())?;
        loop {
            let is_away = batch.has_calls_in_flight();
            let mut next = batch.awaiting_budget.pop_front()?;
            match admit(stepper, key, &mut next, &self.caps) {
                Admission::Granted(Grant { amount, charge }) => {
                    let request = next.request_name.clone();
                    next.charge = charge;
                    self.ready.push(next);
                    if amount != Amount::ZERO {
                        let reserved = Reservation { request, amount };
                        let event = AttemptEvent::MoneyReserved(MoneyReserved { reserved });
                        return Some(AdmissionDecision::Reserve(Event::Attempt(key, event)));
                    }
                }
                Admission::Short(usd) => {
                    batch.awaiting_budget.push_front(next);
                    return Some(AdmissionDecision::Draw(usd));
                }
                Admission::BlockedByCap => {
                    batch.awaiting_budget.push_front(next);
                    self.waits_for_cap = true;
                    return None;
                }
                Admission::Denied(refusal) => batch.answers[next.nth] = Some(Err(refusal)),
                Admission::Exhausted if !is_away => {
                    return Some(AdmissionDecision::Suspend(key));
                }
                // Calls in flight are paid for, so their answers are recorded before the attempt
                // ends.
                Admission::Exhausted | Admission::Blocked => {
                    batch.awaiting_budget.push_front(next);
                    return None;
                }
            }
        }
    }
}
