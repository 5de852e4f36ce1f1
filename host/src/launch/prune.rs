//! Pruning a saved team: old checkpoints are forgotten, and the room is freed that only they needed.

use std::path::Path;

use super::LaunchError;
use super::back::sum_up;
use super::resume::{Opened, Origin};
use super::saved::reader;
use crate::store::{Pruned, Store};

/// How many checkpoints are kept where neither the operator nor the team file says so.
pub const KEPT: u32 = 10;

/// What a prune came to.
pub struct Kept {
    /// How many checkpoints of each lineage were kept.
    pub keep: u32,
    /// What was freed.
    pub pruned: Pruned,
}

/// Forgets old checkpoints of a saved team and frees what only they needed. How many are kept is what is given, else
/// what the team file says.
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
        // It has no records; that is said as elsewhere.
        Origin::TeamJson(_) => Err(reader(path)
            .err()
            .unwrap_or_else(|| LaunchError::Missing("no records".into()))),
    }
}
