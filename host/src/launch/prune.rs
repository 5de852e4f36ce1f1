//! Prunes a saved team: removes old checkpoints and frees the space that only they needed.

use std::path::Path;

use super::LaunchError;
use super::back::sum_up;
use super::resume::{Opened, Origin};
use super::saved::reader;
use crate::store::{Pruned, Store};

/// The number of checkpoints to keep if neither the operator nor the team file says otherwise.
pub const KEPT: u32 = 10;

/// The result of pruning.
pub struct Kept {
    /// The number of checkpoints that were kept in each lineage.
    pub keep: u32,
    /// What was freed.
    pub pruned: Pruned,
}

/// Removes old checkpoints of a saved team and frees what only they needed. Keeps `keep`
/// checkpoints, or the number in the team file if that is `None`.
pub fn prune(path: &Path, keep: Option<u32>) -> Result<Kept, LaunchError> {
    let opened = Opened::at_rest(path)?;
    let keep = keep
        .or(opened.definition.run.checkpoints_kept)
        .unwrap_or(KEPT);
    let stepper = opened.stepper;
    match opened.origin {
        Origin::Database { mut store, .. } => {
            let mut sum_up = |saved| match sum_up(&stepper, saved) {
                Ok(state) => Ok(state.into_env()),
                Err(error) => Err(error.to_string()),
            };
            let pruned = store.prune(keep, &mut sum_up)?;
            Ok(Kept { keep, pruned })
        }
        // It has no records. Returns the same error as other commands that need them.
        Origin::TeamJson(_) => Err(reader(path)
            .err()
            .unwrap_or_else(|| LaunchError::Missing("no records".into()))),
    }
}
