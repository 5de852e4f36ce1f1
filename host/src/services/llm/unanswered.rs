//! Requests that brought no reply, and what they used up all the same.

use crate::gateway::HostError;

/// No reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unanswered {
    /// Why there is none.
    pub(super) error: HostError,
    /// What it used up.
    pub(super) used: Used,
}

/// What a request without a reply used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Used {
    /// Nothing, as far as can be known.
    Nothing,
    /// As many tokens as the endpoint says: of the request, and of what it answered.
    Tokens(u32, u32),
    /// The endpoint may be at work still: as much as was held back for it.
    Unknown,
}

impl From<HostError> for Unanswered {
    fn from(error: HostError) -> Self {
        Self { error, used: Used::Nothing }
    }
}
