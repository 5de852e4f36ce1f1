//! Chance: in the names of runs and lineages only, which nobody else may have. What happens in a run is left to none.

use ring::rand::{SecureRandom, SystemRandom};

/// A number that nobody has seen before.
pub(super) fn chance() -> u128 {
    let mut bytes = [0; 16];
    // Linux has it from the first moment of its life; without it there is still the rest of the name.
    let _ = SystemRandom::new().fill(&mut bytes);
    u128::from_le_bytes(bytes)
}
