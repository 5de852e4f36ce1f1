//! Requests that brought no reply, and what they used up all the same.

use super::Request;
use super::models::expected;
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
    /// The endpoint may be at work still, or was when its reply broke off: as much as was held back for it.
    Unknown,
}

impl Used {
    /// The tokens of the request, and of what was answered.
    pub(super) fn tokens(self, request: &Request) -> (u32, u32) {
        match self {
            Self::Nothing => (0, 0),
            Self::Tokens(input, output) => (input, output),
            Self::Unknown => expected(request),
        }
    }

    /// Both.
    pub(super) fn and(self, other: Self, request: &Request) -> Self {
        match (self, other) {
            (Self::Nothing, used) | (used, Self::Nothing) => used,
            _ => {
                let (one, two) = (self.tokens(request), other.tokens(request));
                Self::Tokens(one.0.saturating_add(two.0), one.1.saturating_add(two.1))
            }
        }
    }
}

impl From<HostError> for Unanswered {
    fn from(error: HostError) -> Self {
        Self { error, used: Used::Nothing }
    }
}
