//! Secrets of the operator. An action only names them: the host inserts their values into requests,
//! and the action never sees them.

use crate::{HostError, host};
use std::fmt;

/// A secret that the action may name. It is displayed as the placeholder that represents it in a
/// request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    name: String,
    placeholder: String,
}

/// Returns the secret with this name.
///
/// # Errors
/// Fails if neither `allow.secrets` nor `allow.http` grants it.
pub fn named(name: &str) -> Result<Secret, HostError> {
    let placeholder = host::secrets::placeholder(name)?;
    Ok(Secret {
        name: name.to_owned(),
        placeholder,
    })
}

impl Secret {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.placeholder)
    }
}
