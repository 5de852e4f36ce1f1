//! Constructors of failures, and conversions from errors, so that `?` can be used.

use crate::{Failure, FailureKind, HostError, HostErrorKind};

impl Failure {
    /// Creates a permanent failure: a retry would fail again.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Error,
            message: message.into(),
        }
    }

    /// Creates a transient failure: the host may retry, within the action's `retries`.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Retryable,
            message: message.into(),
        }
    }

    /// Creates a failure because of something that the team file does not grant.
    pub fn denied(message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Denied,
            message: message.into(),
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let kind = match error.kind {
            HostErrorKind::Denied => FailureKind::Denied,
            HostErrorKind::Upstream | HostErrorKind::OutOfBudget => FailureKind::Host,
            HostErrorKind::Invalid
            | HostErrorKind::NotFound
            | HostErrorKind::Expired
            | HostErrorKind::Failed => FailureKind::Error,
        };
        Self {
            kind,
            message: error.message,
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::error(format!("handling json: {error}"))
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::error(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::error(message)
    }
}

/// Converts a failure to the error type of host functions, for one that occurs before the host is
/// called.
pub(crate) fn invalid(failure: Failure) -> HostError {
    HostError {
        kind: HostErrorKind::Invalid,
        message: failure.message,
    }
}
