//! What may still go to a guest: looked at while an answer arrives, so that no more is taken and recorded than the guest
//! may have. What counts is `size`'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{HostError, HostErrorKind};

/// Bytes that calls that are made together may still bring, all of them.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// So many.
    pub fn of(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// As many as come: for what is no guest's.
    pub fn unlimited() -> Self {
        Self::of(u64::MAX)
    }

    /// Uses some of it up. Where there is less left it is used up as a whole: the calls beside this one have come too far
    /// as well.
    pub fn take(&self, bytes: usize) -> Result<(), HostError> {
        let after = |left: u64| Some(left.saturating_sub(bytes as u64));
        // Counts nothing but itself, so no order with other memory is needed.
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
    let allowance = Allowance::of(10);
    let other = allowance.clone();
    assert_eq!(allowance.take(4), Ok(()));
    assert_eq!(other.take(6), Ok(()));
    assert_eq!(allowance.take(0), Ok(()));
    assert_eq!(
        allowance.take(1).map_err(|error| error.kind),
        Err(HostErrorKind::BeyondLimit)
    );
    let allowance = Allowance::of(10);
    assert!(allowance.take(11).is_err());
    assert!(allowance.take(1).is_err(), "nothing is left");
    assert_eq!(Allowance::unlimited().take(usize::MAX), Ok(()));
}
