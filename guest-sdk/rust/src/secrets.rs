//! Secrets of the operator: named here, put in by the host where a request leaves it, never seen by an action.

use crate::{HostError, host};
use std::fmt;

/// A secret that the action may name. It prints as the placeholder that stands for it in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    name: String,
    placeholder: String,
}

/// Names a secret.
///
/// # Errors
/// Fails if neither `allow.secrets` nor `allow.http` names it.
pub fn named(name: &str) -> Result<Secret, HostError> {
    let placeholder = host::secrets::placeholder(name)?;
    Ok(Secret {
        name: name.to_owned(),
        placeholder,
    })
}

impl Secret {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.placeholder)
    }
}
