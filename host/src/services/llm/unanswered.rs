//! Requests that brought no reply.

use super::tokens::Used;
use crate::gateway::HostError;

/// No reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unanswered {
    /// Why there is none.
    pub(super) error: HostError,
    /// What it used up.
    pub(super) used: Used,
}

impl From<HostError> for Unanswered {
    fn from(error: HostError) -> Self {
        Self {
            error,
            used: Used::Nothing,
        }
    }
}
