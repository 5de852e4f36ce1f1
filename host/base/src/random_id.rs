//! Random numbers that nothing else has.

use ring::rand::{SecureRandom, SystemRandom};
use strata_core::record::id::to_hex;

/// Returns a random number that has not been used before.
pub fn random_id() -> u128 {
    let mut bytes = [0; 16];
    // On Linux this does not fail once the system has booted. If it does, the other parts of the
    // names that contain it remain.
    let _ = SystemRandom::new().fill(&mut bytes);
    u128::from_le_bytes(bytes)
}

/// Returns a name that has not been used before.
pub fn random_name() -> String {
    to_hex(&random_id().to_le_bytes())
}
