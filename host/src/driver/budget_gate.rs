//! The budget gate for calls to models: when they are made, and what happens if the budget does not
//! suffice.
//!
//! The amount reserved for a pending call is more than most calls cost. A call that does not fit
//! only because of such reservations waits until they are released, within the time limit of its
//! action, so that the result does not depend on how many calls run at once. If the budget itself
//! is exhausted, waiting does not help: the guest gets an error, or its attempt is suspended until
//! the budget is raised.

use strata_core::record::event::{AttemptEvent, CallSuspended, Event, MoneyReserved};
use strata_core::record::fault::FaultCause;
use strata_core::record::money::Usd;
use strata_core::record::spending::{Amount, Reservation};
use strata_core::record::work::CallKey;
use strata_core::state::budget::BudgetScope;

use super::attempt::RunningAttempt;
use super::call::{OutboundCall, ReadyCall};
use super::in_flight::CallAwaitingBudget;
use super::{Driver, DriverError, HostServices, Journal};
use crate::gateway::{HostError, HostErrorKind};
use crate::services::models::ModelCall;

/// Whether a call may be made now.
enum Admission {
    /// It may; this amount is reserved for it.
    Granted(Amount),
    /// Not while so much is reserved for other calls.
    Blocked,
    /// It is refused with this error, which is returned to the guest.
    Denied(HostError),
    /// Not until the budget is raised.
    Exhausted,
}

impl Driver {
    /// Dispatches waiting calls as far as the budget allows: by role, and in the order in which
    /// each attempt made them. Must be called whenever calls were added, or a reservation was released
    /// or spent.
    pub(super) fn dispatch_waiting(&mut self) -> Result<(), DriverError> {
        let waits = |attempt: &&RunningAttempt| {
            attempt
                .batch
                .as_ref()
                .is_some_and(|batch| !batch.awaiting_budget.is_empty())
        };
        let waiting: Vec<CallKey> = self
            .attempts
            .values()
            .filter(waits)
            .map(RunningAttempt::key)
            .collect();
        let mut ready = Vec::new();
        for call in &waiting {
            self.reserve_budget(*call, &mut ready)?;
        }
        if !waiting.is_empty() {
            self.journal.flush()?;
        }
        for (key, allowed) in ready {
            let CallAwaitingBudget {
                nth,
                request_name,
                call,
            } = allowed;
            // A request to a model has no idempotency key.
            let ready = ReadyCall {
                nth,
                request_name,
                call: OutboundCall::Model(call),
                key: String::new(),
            };
            self.dispatch(key, ready);
        }
        for call in waiting {
            self.answer_if_complete(call);
        }
        Ok(())
    }

    /// Reserves the estimated cost of an attempt's waiting calls as far as the budget allows, and moves
    /// them to `ready`.
    fn reserve_budget(
        &mut self,
        key: CallKey,
        ready: &mut Vec<(CallKey, CallAwaitingBudget)>,
    ) -> Result<(), DriverError> {
        let open = self
            .attempts
            .get_mut(&key)
            .filter(|attempt| !attempt.in_flight.is_draining());
        let Some(attempt) = open else { return Ok(()) };
        // A guest that is gone needs no answer.
        let Some(batch) = attempt
            .batch
            .as_mut()
            .filter(|batch| !batch.reply.is_closed())
        else {
            return Ok(());
        };
        let is_away = batch.has_calls_in_flight();
        while let Some(next) = batch.awaiting_budget.pop_front() {
            match admit(&self.journal, &self.services, key, &next.call) {
                Admission::Granted(amount) => {
                    if amount != Amount::ZERO {
                        let reserved = Reservation {
                            request: next.request_name.clone(),
                            amount,
                        };
                        self.journal.stage(Event::Attempt(
                            key,
                            AttemptEvent::MoneyReserved(MoneyReserved { reserved }),
                        ))?;
                    }
                    ready.push((key, next));
                }
                Admission::Denied(refusal) => batch.answers[next.nth] = Some(Err(refusal)),
                Admission::Exhausted if !is_away => return self.suspend(key),
                // Calls in flight are paid for, so their answers are recorded before the attempt
                // ends.
                Admission::Exhausted | Admission::Blocked => {
                    batch.awaiting_budget.push_front(next);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Ends an attempt that cannot continue until the budget is raised. It is then made again and
    /// answered from the record. Dropping the reply channel ends the guest, and its result is
    /// ignored.
    fn suspend(&mut self, key: CallKey) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.remove(&key) else {
            return Ok(());
        };
        self.journal.stage(Event::Attempt(
            key,
            AttemptEvent::CallSuspended(CallSuspended {
                attempt: attempt.number(),
            }),
        ))
    }
}

/// Estimates the cost of a call and compares it with what is left.
fn admit(
    journal: &Journal,
    services: &HostServices,
    CallKey { role, work }: CallKey,
    call: &ModelCall,
) -> Admission {
    let Some(models) = &services.models else {
        return Admission::Denied(no_model_error());
    };
    let (team, env) = (journal.stepper().team(), journal.env());
    if env
        .exhausted_budget(team, role, work, Amount::ZERO)
        .is_none()
    {
        let expected = models.estimate(call);
        let (usd, tokens) = (expected.cost, expected.usage.total());
        // A call that costs nothing needs no durable reservation, unless tokens are limited.
        let counts = usd > Usd::ZERO || team.policy.scoped_budgets.has_token_limit();
        return Admission::Granted(if counts {
            Amount { usd, tokens }
        } else {
            Amount::ZERO
        });
    }
    match env.exhausted_without_reservations(team, role, work) {
        None => Admission::Blocked,
        Some(BudgetScope::Action(_)) => Admission::Denied(action_budget_error()),
        Some(BudgetScope::Team | BudgetScope::Role(_)) => Admission::Exhausted,
    }
}

/// Returns the error for guests of a team without a model.
pub(super) fn no_model_error() -> HostError {
    let message = "the team has no model; add `[llm] provider = …` to its file";
    HostError::new(HostErrorKind::Upstream, message).caused_by(FaultCause::NoModel)
}

/// Returns the error for a guest whose action has used up its own budget.
pub(super) fn action_budget_error() -> HostError {
    let message = "the action's own budget is used up; raise its `investment` or `tokens`";
    HostError::new(HostErrorKind::OutOfBudget, message).caused_by(FaultCause::OwnBudget)
}
