//! The budget gate for calls to models: when they are made, and what happens if the budget does not
//! suffice.
//!
//! The amount reserved for a pending call is more than most calls cost. A call that does not fit
//! only because of such reservations waits until they are released, within the time limit of its
//! action, so that the result does not depend on how many calls run at once. If the budget itself
//! is exhausted, waiting does not help: the guest gets an error, or its attempt is suspended until
//! the budget is raised.

use strata_core::budget::{Amount, Purse, Reserved};
use strata_core::event::{Event, Work};
use strata_core::fault::FaultCause;
use strata_core::id::RoleId;
use strata_core::money::Usd;

use super::attempt::Attempt;
use super::call::{Outward, ReadyCall};
use super::flights::Waiting;
use super::{Driver, DriverError, Equipment, Journal};
use crate::gateway::{HostError, HostErrorKind};
use crate::services::llm;

/// Whether a call may be made now.
enum Means {
    /// It may; this amount is reserved for it.
    Enough(Amount),
    /// Not while so much is reserved for other calls.
    Tied,
    /// It is refused with this error, which is returned to the guest.
    Refused(HostError),
    /// Not until the budget is raised.
    Spent,
}

impl Driver {
    /// Dispatches waiting calls as far as the budget allows: by role, and in the order in which
    /// each role made them. Must be called whenever calls were added, or a reservation was released
    /// or spent.
    pub(super) fn make_waiting(&mut self) -> Result<(), DriverError> {
        let waits = |attempt: &&Attempt| {
            attempt
                .batch
                .as_ref()
                .is_some_and(|batch| !batch.waiting.is_empty())
        };
        let roles: Vec<RoleId> = self
            .attempts
            .values()
            .filter(waits)
            .map(Attempt::role)
            .collect();
        let mut ready = Vec::new();
        for role in &roles {
            self.hold_back(*role, &mut ready)?;
        }
        if !roles.is_empty() {
            self.journal.flush()?;
        }
        for (role, Waiting { nth, request, call }) in ready {
            // A request to a model has no idempotency key.
            let ready = ReadyCall {
                nth,
                request,
                call: Outward::Complete(call),
                key: String::new(),
            };
            self.take_off(role, ready);
        }
        for role in roles {
            self.reply(role);
        }
        Ok(())
    }

    /// Reserves the estimated cost of a role's waiting calls as far as the budget allows, and moves
    /// them to `ready`.
    fn hold_back(
        &mut self,
        role: RoleId,
        ready: &mut Vec<(RoleId, Waiting)>,
    ) -> Result<(), DriverError> {
        let open = self
            .attempts
            .get_mut(&role)
            .filter(|attempt| !attempt.flights.are_last());
        let Some(attempt) = open else { return Ok(()) };
        let work = attempt.work();
        // A guest that is gone needs no answer.
        let Some(batch) = attempt
            .batch
            .as_mut()
            .filter(|batch| !batch.reply.is_closed())
        else {
            return Ok(());
        };
        let is_away = batch.is_away();
        while let Some(next) = batch.waiting.pop_front() {
            match means(&self.journal, &self.equipment, role, work, &next.call) {
                Means::Enough(amount) => {
                    if amount != Amount::NONE {
                        let reserved = Reserved {
                            request: next.request.clone(),
                            amount,
                        };
                        self.journal.stage(Event::MoneyReserved {
                            role,
                            work,
                            reserved,
                        })?;
                    }
                    ready.push((role, next));
                }
                Means::Refused(refusal) => batch.answers[next.nth] = Some(Err(refusal)),
                Means::Spent if !is_away => return self.suspend(role),
                // Calls in flight are paid for, so their answers are recorded before the attempt
                // ends.
                Means::Spent | Means::Tied => {
                    batch.waiting.push_front(next);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Ends an attempt that cannot continue until the budget is raised. It is then made again and
    /// answered from the record. Dropping the reply channel ends the guest, and its result is
    /// ignored.
    fn suspend(&mut self, role: RoleId) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.remove(&role) else {
            return Ok(());
        };
        self.journal.stage(Event::CallSuspended {
            role,
            work: attempt.work(),
            attempt: attempt.number(),
        })
    }
}

/// Estimates the cost of a call and compares it with what is left.
fn means(
    journal: &Journal,
    equipment: &Equipment,
    role: RoleId,
    work: Work,
    call: &llm::Request,
) -> Means {
    let at = (role, work);
    let Some(models) = &equipment.models else {
        return Means::Refused(no_model());
    };
    let (team, env) = (journal.stepper().team(), journal.env());
    let (role, work) = at;
    if env.exhausted(team, role, work, Amount::NONE).is_none() {
        let (usd, tokens) = models.estimate(call);
        // A call that costs nothing needs no durable reservation, unless tokens are limited.
        let counts = usd > Usd::ZERO || team.policy.purses.cap_tokens();
        return Means::Enough(if counts {
            Amount { usd, tokens }
        } else {
            Amount::NONE
        });
    }
    match env.spent_out(team, role, work) {
        None => Means::Tied,
        Some(Purse::Action(_)) => Means::Refused(own_budget_used_up()),
        Some(Purse::Team | Purse::Role(_)) => Means::Spent,
    }
}

/// Returns the error for guests of a team without a model.
pub(super) fn no_model() -> HostError {
    let message = "the team has no model; add `[llm] provider = …` to its file";
    HostError::new(HostErrorKind::Upstream, message).caused_by(FaultCause::NoModel)
}

/// Returns the error for a guest whose action has used up its own budget.
pub(super) fn own_budget_used_up() -> HostError {
    let message = "the action's own budget is used up; raise its `investment` or `tokens`";
    HostError::new(HostErrorKind::OutOfBudget, message).caused_by(FaultCause::OwnBudget)
}
