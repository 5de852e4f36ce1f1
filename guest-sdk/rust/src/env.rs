//! Environment variables of the host, as far as they are granted (`allow.env`).

use crate::{HostError, host};

/// Returns the value of a variable, or `None` if the host has no such variable.
///
/// # Errors
/// Fails if it is not granted.
pub fn var(name: &str) -> Result<Option<String>, HostError> {
    host::env::get(name)
}
