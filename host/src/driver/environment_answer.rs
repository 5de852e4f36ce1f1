//! Answers to the requests of guests that read the environment.

use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::FaultCause;
use strata_core::record::id::RoleId;
use strata_core::record::json::Json;
use strata_core::record::scope_write::Write;
use strata_core::state::environment::scope::ScopeKey;

use crate::gateway::{HostAnswer, HostError, HostErrorKind};

/// Returns the value of a key as an attempt of this role sees it: with its own writes applied.
/// `last_read` is the value that it read last, and `pending` are its writes to the key since then.
pub(crate) fn read_key(
    stepper: &Stepper,
    role: RoleId,
    key: ScopeKey<'_>,
    last_read: Option<Option<Json>>,
    pending: &[Write],
) -> HostAnswer {
    let scope = key.scope;
    let value = stepper
        .env()
        .read_key(stepper.team(), role, key, last_read, pending);
    HostAnswer::Value(value.ok_or_else(|| unknown_scope_error(stepper, scope)))
}

/// Returns the keys of a scope as an attempt of this role sees them. `pending` are its writes to the
/// scope.
pub(crate) fn list_keys(
    stepper: &Stepper,
    role: RoleId,
    scope: &str,
    pending: &[Write],
) -> HostAnswer {
    let keys = stepper
        .env()
        .scope_keys(stepper.team(), role, scope, pending);
    HostAnswer::Keys(keys.ok_or_else(|| unknown_scope_error(stepper, scope)))
}

fn unknown_scope_error(stepper: &Stepper, name: &str) -> HostError {
    let scopes: Vec<_> = stepper
        .team()
        .scopes
        .keys()
        .map(|scope| format!("`{scope}`"))
        .collect();
    let known = if scopes.is_empty() {
        String::new()
    } else {
        format!(", {}", scopes.join(", "))
    };
    let message =
        format!("there is no scope `{name}`; scopes are `role`{known}; add `[env.scope.{name}]`");
    HostError::new(HostErrorKind::Invalid, message).caused_by(FaultCause::NoScope)
}
