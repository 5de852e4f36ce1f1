//! Prunes a saved team: removes old checkpoints and frees the space that only they needed.

use strata_manifest::Definition;
use strata_storage::{PruneNote, Pruned, StorageLocation, StoreError};

use super::control::{self, ControlOutcome};
use super::opened_team::{OpenedTeam, StateOrigin};
use super::resume_plan::restore_stepper;
use super::saved::read_saved_definition;
use super::via_owner::via_owner;
use super::{Author, LaunchError, parse_saved_definition};

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
/// checkpoints, or the number in the team file if that is `None`. A process that runs the team does it itself.
pub fn prune(location: &StorageLocation, keep: Option<u32>) -> Result<PruneResult, LaunchError> {
    prune_by(location, keep, None)
}

/// Prunes a saved team as `prune` does, and notes who asks for it with the run.
pub fn prune_by(
    location: &StorageLocation,
    keep: Option<u32>,
    by: Option<&Author>,
) -> Result<PruneResult, LaunchError> {
    via_owner(
        location,
        |opened| prune_opened(opened, keep, by),
        || match kept_checkpoints(location, keep) {
            Ok(keep) => {
                control::send_prune(location, keep, by).map(|pruned| PruneResult { keep, pruned })
            }
            Err(error) => ControlOutcome::Answered(Err(error)),
        },
    )
}

/// Returns how many checkpoints are kept of a run that another process owns.
fn kept_checkpoints(location: &StorageLocation, keep: Option<u32>) -> Result<u32, LaunchError> {
    match keep {
        Some(keep) => Ok(keep),
        None => {
            let saved = read_saved_definition(location)?;
            Ok(kept_by(&parse_saved_definition(
                &saved,
                Definition::parse_without_files,
            )?))
        }
    }
}

/// Returns how many checkpoints a team file says are kept.
fn kept_by(definition: &Definition) -> u32 {
    let keep = definition.run.checkpoints_kept;
    keep.unwrap_or(DEFAULT_KEPT_CHECKPOINTS)
}

fn prune_opened(
    opened: OpenedTeam,
    keep: Option<u32>,
    by: Option<&Author>,
) -> Result<PruneResult, LaunchError> {
    let keep = keep.unwrap_or_else(|| kept_by(&opened.definition));
    let (location, stepper) = (opened.location, opened.stepper);
    match opened.origin {
        StateOrigin::Records { mut lease, .. } => {
            let mut sum_up = |saved| match restore_stepper(&stepper, saved) {
                Ok(state) => Ok(state.into_env()),
                Err(error) => Err(error.to_string()),
            };
            let pruned = lease.prune(keep, &mut sum_up)?;
            let by = by.map(|by| by.name().to_owned());
            PruneNote::store(lease.as_mut(), by, keep, &pruned)?;
            Ok(PruneResult { keep, pruned })
        }
        // It has no records. Returns the same error as other commands that need them.
        StateOrigin::TeamJson(_) => Err(StoreError::NoRecords {
            path: location.path().into(),
        }
        .into()),
    }
}
