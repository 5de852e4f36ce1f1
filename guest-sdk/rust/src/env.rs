//! Environment variables of the host, by grant (`allow.env`).

use crate::{HostError, host};

/// Reads a variable; none when the host has none of that name.
///
/// # Errors
/// Fails if it is not granted.
pub fn var(name: &str) -> Result<Option<String>, HostError> {
    host::env::get(name)
}
