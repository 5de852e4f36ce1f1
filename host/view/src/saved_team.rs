//! A saved state, as it was read.

use strata_core::machine::stepper::Stepper;
use strata_storage::SavedDefinition;

/// A saved state.
pub struct SavedTeam {
    /// The team and the state.
    pub stepper: Stepper,
    /// The team file that it uses. Its text is empty if there is none: MetaGPT saves teams without
    /// one.
    pub definition: SavedDefinition,
}
