//! Calls to models, which may cost something: when they are made, and what happens where there is too little to spend.
//!
//! More is held back for a call under way than most calls cost. Whoever finds too little left only because of that waits
//! for what the others leave, within the time of the action, so that it makes no difference how many run at once. Where
//! it is spent, waiting is of no use: the guest is told, or its attempt ends until there is more.

use strata_core::budget::{Amount, Purse, Reserved};
use strata_core::event::{Event, Work};
use strata_core::fault::FaultCause;
use strata_core::id::RoleId;
use strata_core::money::Usd;

use super::attempt::Attempt;
use super::call::Outward;
use super::flights::Waiting;
use super::{Driver, DriverError, Equipment, Journal};
use crate::gateway::{HostError, HostErrorKind};
use crate::services::llm;

/// Whether a call can be made.
enum Means {
    /// It can; this much is held back for it.
    Enough(Amount),
    /// Not while so much is held back for others.
    Tied,
    /// No: the guest is told why.
    Refused(HostError),
    /// Not before there is more to spend.
    Spent,
}

impl Driver {
    /// Makes calls that wait, as far as there is enough to spend now: the roles in their order, each in that in which it
    /// asked. To be called whenever somebody has asked, or something that was held back has come free or was spent.
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
            // A model is asked without a key.
            self.take_off(role, (nth, String::new()), request, Outward::Complete(call));
        }
        roles.into_iter().for_each(|role| self.reply(role));
        Ok(())
    }

    /// Holds back what a role's waiting calls may cost, as far as there is enough, and puts them with the `ready` ones.
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
        // A guest that is gone waits for nothing.
        let Some(batch) = attempt
            .batch
            .as_mut()
            .filter(|batch| !batch.reply.is_closed())
        else {
            return Ok(());
        };
        let is_away = batch.is_away();
        while let Some(next) = batch.waiting.pop_front() {
            match means(&self.journal, &self.equipment, (role, work), &next.call) {
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
                // The answers to those that are away are paid for, and recorded before the attempt ends.
                Means::Spent | Means::Tied => {
                    batch.waiting.push_front(next);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Ends an attempt that cannot go on before there is more to spend; then it is made again and served what is
    /// recorded. With nobody left to answer it, the guest ends; how does not matter any more.
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

/// Finds what a call may cost, and whether there is as much.
fn means(
    journal: &Journal,
    equipment: &Equipment,
    at: (RoleId, Work),
    call: &llm::Request,
) -> Means {
    let Some(models) = &equipment.models else {
        return Means::Refused(no_model());
    };
    let (team, env) = (journal.stepper().team(), journal.env());
    if env.exhausted(team, at, Amount::NONE).is_none() {
        let (usd, tokens) = models.estimate(call);
        // For a call that costs nothing, where no tokens are capped, nothing has to be synced before it leaves.
        let counts = usd > Usd::ZERO || team.policy.purses.cap_tokens();
        return Means::Enough(if counts {
            Amount { usd, tokens }
        } else {
            Amount::NONE
        });
    }
    match env.spent_out(team, at) {
        None => Means::Tied,
        Some(Purse::Action(_)) => Means::Refused(own_budget_used_up()),
        Some(Purse::Team | Purse::Role(_)) => Means::Spent,
    }
}

/// What a guest is told in a team without a model.
pub(super) fn no_model() -> HostError {
    let message = "the team has no model; add `[llm] provider = …` to its file";
    HostError::new(HostErrorKind::Upstream, message).caused_by(FaultCause::NoModel)
}

/// What a guest is told whose own budget is used up.
pub(super) fn own_budget_used_up() -> HostError {
    let message = "the action's own budget is used up; raise its `investment` or `tokens`";
    HostError::new(HostErrorKind::OutOfBudget, message).caused_by(FaultCause::OwnBudget)
}
