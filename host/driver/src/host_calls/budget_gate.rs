//! The budget gate for calls that may cost something: whether a call is made now, and what happens
//! if the budget, or a cap above the run, does not suffice.
//!
//! The amount reserved for a pending call is more than most calls cost. A call that does not fit
//! only because of such reservations waits until they are released, within the time limit of its
//! action, so that the result does not depend on how many calls run at once. If the budget itself
//! is exhausted, waiting does not help: the guest gets an error, or its attempt is suspended until
//! the budget is raised.

use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::FaultCause;
use strata_core::record::money::Usd;
use strata_core::record::spending::Amount;
use strata_core::record::work::CallKey;
use strata_core::state::budget::BudgetScope;
use strata_services::gateway::{HostError, HostErrorKind};
use strata_storage::{CapAdmission, CapCharge, RunCaps};

use super::batch::PendingCall;

/// Whether a call may be made now.
pub(super) enum Admission {
    /// It may.
    Granted(Grant),
    /// Not before this was drawn from the caps above the run.
    Short(Usd),
    /// Not while others hold so much of a cap above the run.
    BlockedByCap,
    /// Not while so much is reserved for other calls.
    Blocked,
    /// It is refused with this error, which is returned to the guest.
    Denied(HostError),
    /// Not until the budget is raised.
    Exhausted,
}

/// What a call that may be made is counted with until it has returned.
pub(super) struct Grant {
    /// What is reserved for it in the budgets of the run.
    pub(super) amount: Amount,
    /// What the caps above the run are charged with.
    pub(super) charge: CapCharge,
}

/// Decides whether a call is made now. Its cost is estimated only if the budget is not used up, and only once,
/// although a blocked call is looked at again in every round.
pub(super) fn admit(
    stepper: &Stepper,
    CallKey { role, work, .. }: CallKey,
    call: &mut PendingCall,
    caps: &RunCaps,
) -> Admission {
    let (team, env) = (stepper.team(), stepper.env());
    if env
        .exhausted_budget(team, role, work, Amount::ZERO)
        .is_some()
    {
        return match env.exhausted_without_reservations(team, role, work) {
            None => Admission::Blocked,
            Some(BudgetScope::Action(_)) => Admission::Denied(action_budget_error()),
            Some(BudgetScope::Cap | BudgetScope::Team | BudgetScope::Role(_)) => {
                Admission::Exhausted
            }
        };
    }
    let expected = match call.expected_cost() {
        Ok(expected) => expected,
        Err(refusal) => return Admission::Denied(refusal),
    };
    let charge = match caps.charge(expected.usd) {
        CapAdmission::Charged(charge) => charge,
        CapAdmission::Short => return Admission::Short(expected.usd),
        CapAdmission::Blocked => return Admission::BlockedByCap,
    };
    // A call that costs nothing needs no durable reservation, unless tokens are limited.
    let is_free = expected.usd == Usd::ZERO && !team.policy.scoped_budgets.has_token_limit();
    let amount = if is_free { Amount::ZERO } else { expected };
    Admission::Granted(Grant { amount, charge })
}

/// Returns the error for a guest whose action has used up its own budget.
pub fn action_budget_error() -> HostError {
    let message = "the action's own budget is used up; raise its `investment` or `tokens`";
    HostError::new(HostErrorKind::OutOfBudget, message).caused_by(FaultCause::OwnBudget)
}
