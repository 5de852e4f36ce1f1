//! The budget gate for calls that may cost something: whether a call is made now, and what happens
//! if the budget does not suffice.
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

use crate::gateway::{HostError, HostErrorKind};
use crate::services::outbound::OutboundCall;

/// Whether a call may be made now.
pub(super) enum Admission {
    /// It may; this amount is reserved for it.
    Granted(Amount),
    /// Not while so much is reserved for other calls.
    Blocked,
    /// It is refused with this error, which is returned to the guest.
    Denied(HostError),
    /// Not until the budget is raised.
    Exhausted,
}

/// Decides whether a call is made now. Its cost is estimated only if the budget is not used up: an
/// estimate reads the whole request, and a blocked call is looked at again in every round.
pub(super) fn admit(
    stepper: &Stepper,
    CallKey { role, work, .. }: CallKey,
    call: &dyn OutboundCall,
) -> Admission {
    let (team, env) = (stepper.team(), stepper.env());
    if env
        .exhausted_budget(team, role, work, Amount::ZERO)
        .is_some()
    {
        return match env.exhausted_without_reservations(team, role, work) {
            None => Admission::Blocked,
            Some(BudgetScope::Action(_)) => Admission::Denied(action_budget_error()),
            Some(BudgetScope::Team | BudgetScope::Role(_)) => Admission::Exhausted,
        };
    }
    match call.expected_cost() {
        // A call that costs nothing needs no durable reservation, unless tokens are limited.
        Ok(expected)
            if expected.usd == Usd::ZERO && !team.policy.scoped_budgets.has_token_limit() =>
        {
            Admission::Granted(Amount::ZERO)
        }
        Ok(expected) => Admission::Granted(expected),
        Err(refusal) => Admission::Denied(refusal),
    }
}

/// Returns the error for a guest whose action has used up its own budget.
pub(crate) fn action_budget_error() -> HostError {
    let message = "the action's own budget is used up; raise its `investment` or `tokens`";
    HostError::new(HostErrorKind::OutOfBudget, message).caused_by(FaultCause::OwnBudget)
}
