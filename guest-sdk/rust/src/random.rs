//! Random bytes from the host. They are seeded by the position of the call in the run, and
//! recorded.

use crate::{HostError, host};

/// Returns `length` random bytes.
///
/// # Errors
/// Fails if `length` is larger than 65536.
pub fn bytes(length: u32) -> Result<Vec<u8>, HostError> {
    host::random::bytes(length)
}
