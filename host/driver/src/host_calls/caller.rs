//! Who makes a host call: the names of requests in the record, and the keys of writes, depend on it.

use std::borrow::Cow;

use strata_core::record::id::GuardMoment;
use strata_services::gateway::{AttemptId, GuardedCall, name_about};

/// How many digits of a request's digest are part of the key of a write: enough to distinguish the
/// writes of one call.
const WRITE_KEY_DIGITS: usize = 16;

/// The attempt that makes a host call.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Caller<'a> {
    pub(in super::super) attempt: AttemptId,
    /// The number of the attempt, counted from 1.
    pub(in super::super) number: u32,
    /// The key by which a service recognizes a repetition. All attempts at this call have one key.
    pub(in super::super) idempotency_key: &'a str,
    /// The seed of its random numbers.
    pub(in super::super) seed: &'a str,
    /// The call about which a guard decides, if it is the guard that asks.
    pub(in super::super) about: Option<&'a GuardedCall>,
}

impl Caller<'_> {
    /// Returns the name in the record of a request with this digest.
    pub(super) fn request_name(&self, digest: &str) -> String {
        name_about(self.about, digest).into_owned()
    }

    /// Returns the idempotency key of the `nth` write with this digest. It is the same for the same
    /// numbered request in every attempt, and different for all others, so that no service mistakes one
    /// request for a repetition of another.
    pub(super) fn write_key(&self, digest: &str, nth: u32) -> String {
        let digest = digest.get(..WRITE_KEY_DIGITS).unwrap_or(digest);
        format!("{}/{digest}/{nth}", self.write_prefix())
    }

    fn write_prefix(&self) -> Cow<'_, str> {
        let guard = GuardMoment::Before.name();
        match self.about {
            Some(call) => format!("{}/{guard}/{}", self.idempotency_key, call.number).into(),
            None => self.idempotency_key.into(),
        }
    }
}
