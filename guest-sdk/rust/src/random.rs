//! Randomness, from the host: seeded by the place of the call in the run, and recorded.

use crate::{HostError, host};

/// Returns `length` random bytes.
///
/// # Errors
/// Fails if more than 65536 are asked for.
pub fn bytes(length: u32) -> Result<Vec<u8>, HostError> {
    host::random::bytes(length)
}
