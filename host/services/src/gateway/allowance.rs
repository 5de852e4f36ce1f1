//! How many bytes may still be sent to a guest. It is checked while an answer arrives, so that no
//! more is received and recorded than the guest may have. `size` defines what is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{HostError, HostErrorKind};

/// The bytes that all calls of a batch together may still return.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// Creates an allowance of this size.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Creates an unlimited allowance, for requests that are not a guest's.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// Takes this many bytes. Fails if fewer are left, and then uses up the rest: the other calls
    /// of the batch have exceeded the limit too.
    pub fn take(&self, bytes: usize) -> Result<(), HostError> {
        let after = |left: u64| Some(left.saturating_sub(bytes as u64));
        // The counter guards no other memory, so relaxed ordering suffices.
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, after)
            .unwrap_or_default();
        if before >= bytes as u64 {
            return Ok(());
        }
        Err(HostError::new(
            HostErrorKind::BeyondLimit,
            "the answer is larger than what `host_bytes` leaves for it",
        ))
    }
}

#[test]
fn an_allowance_is_shared_and_used_up_by_what_goes_beyond_it() {
    let allowance = Allowance::new(10);
    let other = allowance.clone();
    assert_eq!(allowance.take(4), Ok(()));
    assert_eq!(other.take(6), Ok(()));
    assert_eq!(allowance.take(0), Ok(()));
    assert_eq!(
        allowance.take(1).map_err(|error| error.kind),
        Err(HostErrorKind::BeyondLimit)
    );
    let allowance = Allowance::new(10);
    assert!(allowance.take(11).is_err());
    assert!(allowance.take(1).is_err(), "nothing is left");
    assert_eq!(Allowance::unlimited().take(usize::MAX), Ok(()));
}
