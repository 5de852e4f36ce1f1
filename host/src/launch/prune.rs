//! Prunes a saved team: removes old checkpoints and frees the space that only they needed.

use strata_storage::{Pruned, StorageLocation, StoreError};

use super::LaunchError;
use super::opened_team::{OpenedTeam, StateOrigin};
use super::resume_plan::restore_stepper;

/// The number of checkpoints to keep if neither the operator nor the team file says otherwise.
pub const DEFAULT_KEPT_CHECKPOINTS: u32 = 10;

/// The result of pruning.
pub struct PruneResult {
    /// The number of checkpoints that were kept in each lineage.
    pub keep: u32,
    /// What was freed.
    pub pruned: Pruned,
}

/// Removes old checkpoints of a saved team and frees what only they needed. Keeps `keep`
/// checkpoints, or the number in the team file if that is `None`.
pub fn prune(location: &StorageLocation, keep: Option<u32>) -> Result<PruneResult, LaunchError> {
    let opened = OpenedTeam::open_without_running(location)?;
    let keep = keep
        .or(opened.definition.run.checkpoints_kept)
        .unwrap_or(DEFAULT_KEPT_CHECKPOINTS);
    let stepper = opened.stepper;
    match opened.origin {
        StateOrigin::Records { mut lease, .. } => {
            let mut sum_up = |saved| match restore_stepper(&stepper, saved) {
                Ok(state) => Ok(state.into_env()),
                Err(error) => Err(error.to_string()),
            };
            let pruned = lease.prune(keep, &mut sum_up)?;
            Ok(PruneResult { keep, pruned })
        }
        // It has no records. Returns the same error as other commands that need them.
        StateOrigin::TeamJson(_) => Err(StoreError::NoRecords {
            path: location.path().into(),
        }
        .into()),
    }
}
