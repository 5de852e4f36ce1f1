//! Comparison of two saved states: the history that their lineages share, and how they differ
//! since.

use std::collections::BTreeSet;
use std::path::Path;

use strata_core::machine::stepper::Stepper;
use strata_core::record::id::CheckpointId;
use strata_core::record::lineage::last_common_checkpoint;
use strata_storage::{CheckpointRow, StateSelector, StorageLocation, resolve_link};

use super::LaunchError;
use super::saved::{lineage_names, list_checkpoints, load_saved};
use crate::difference::{StateDifference, compare_states};
use strata_view::SavedTeam;

/// A saved state, as one side of a comparison.
pub struct ComparedState {
    /// Where it is kept.
    pub storage: StorageLocation,
    /// The lineage.
    pub lineage: String,
    /// Its newest checkpoint.
    pub checkpoint: Option<CheckpointId>,
    /// The first checkpoint that the other side does not share.
    pub first: Option<CheckpointId>,
}

/// The comparison of two states.
pub struct Comparison {
    /// The first state.
    pub one: ComparedState,
    /// The second state.
    pub other: ComparedState,
    /// The last checkpoint that both states share.
    pub common: Option<CheckpointId>,
    /// How they differ.
    pub difference: StateDifference,
}

/// One side, as it was read.
struct LoadedSide {
    storage: StorageLocation,
    team: SavedTeam,
    /// The checkpoints that lead to it, oldest first, as far as its storage lists them.
    chain: Vec<CheckpointId>,
}

/// Compares two saved states. Each is given as a path, optionally followed by `@` and a checkpoint
/// or a lineage.
pub fn compare(one: &str, other: &str) -> Result<Comparison, LaunchError> {
    let (one, other) = (load_side(one)?, load_side(other)?);
    let (shape, other_shape) = (
        &one.team.stepper.env().shape,
        &other.team.stepper.env().shape,
    );
    let differences = shape.differences(other_shape);
    if !differences.is_empty() {
        return Err(LaunchError::Mismatch(differences));
    }
    let common = last_shared_checkpoint(&one, &other)?;
    let difference = compare_states(&one.team.stepper, &other.team.stepper);
    Ok(Comparison {
        one: one.into_compared_state(common.as_ref()),
        other: other.into_compared_state(common.as_ref()),
        common,
        difference,
    })
}

impl LoadedSide {
    fn env(&self) -> &strata_core::state::environment::Environment {
        self.team.stepper.env()
    }

    fn into_compared_state(self, common: Option<&CheckpointId>) -> ComparedState {
        let shared = common.and_then(|common| self.chain.iter().position(|id| id == common));
        // If the shared checkpoint is not in the list, everything listed is later, unless nothing
        // followed.
        let first = self
            .chain
            .get(shared.map_or(0, |shared| shared + 1))
            .cloned();
        let env = self.team.stepper.into_env();
        ComparedState {
            storage: self.storage,
            lineage: env.lineage.name,
            checkpoint: env.checkpoint,
            first,
        }
    }
}

fn load_side(text: &str) -> Result<LoadedSide, LaunchError> {
    let (storage, team) = load_state(text)?;
    let (rows, _) = list_checkpoints(&storage)?;
    let chain = checkpoint_chain(&rows, team.stepper.env().checkpoint.clone());
    Ok(LoadedSide {
        storage,
        team,
        chain,
    })
}

/// Loads the state that `PATH` or `PATH@ID` names.
pub(super) fn load_state(text: &str) -> Result<(StorageLocation, SavedTeam), LaunchError> {
    let (storage, at) = parse_saved_state(text)?;
    let team = load_saved(&storage, &at)?;
    Ok((storage, team))
}

/// Returns which state `PATH` or `PATH@ID` names.
pub fn parse_saved_state(text: &str) -> Result<(StorageLocation, StateSelector), LaunchError> {
    let (path, id) = split_at_sign(text);
    let storage = StorageLocation::new(resolve_link(path));
    let Some(id) = id else {
        return Ok((storage, StateSelector::Head));
    };
    let at = if lineage_names(&storage)?.iter().any(|name| name == id) {
        StateSelector::Lineage(id.into())
    } else {
        StateSelector::Checkpoint(id.into())
    };
    Ok((storage, at))
}

/// Splits a path from the text behind its last `@`. If the whole text names an existing file, it is
/// a path.
pub(super) fn split_at_sign(text: &str) -> (&Path, Option<&str>) {
    // The account in a URL of a database is followed by `@`, too.
    let start = if StorageLocation::is_url(text) {
        text.find('?').unwrap_or(text.len())
    } else {
        0
    };
    match text.rsplit_once('@').filter(|(path, _)| path.len() > start) {
        Some((path, at)) if !Path::new(text).exists() => (Path::new(path), Some(at)),
        _ => (Path::new(text), None),
    }
}

/// Returns the checkpoints that lead to one, oldest first.
pub(super) fn checkpoint_chain(
    rows: &[CheckpointRow],
    mut at: Option<CheckpointId>,
) -> Vec<CheckpointId> {
    let mut chain = Vec::new();
    // A parent is older than its child, so one pass over the rows finds all ancestors.
    for row in rows.iter().rev() {
        if at.as_ref() == Some(&row.id) {
            chain.push(row.id.clone());
            at = row.parent.clone();
        }
    }
    chain.reverse();
    chain
}

/// Returns the last checkpoint that both sides share.
fn last_shared_checkpoint(
    one: &LoadedSide,
    other: &LoadedSide,
) -> Result<Option<CheckpointId>, LaunchError> {
    let theirs: BTreeSet<&CheckpointId> = other.chain.iter().collect();
    let shared: Vec<&CheckpointId> = one.chain.iter().filter(|id| theirs.contains(id)).collect();
    if one.storage.is_same(&other.storage) {
        return Ok(shared.last().map(|id| (*id).clone()));
    }
    if one.env().run != other.env().run {
        return Ok(None);
    }
    // Copies of a storage that were continued separately have checkpoints with equal names and
    // different contents.
    let (mut equal, mut unknown) = (0, shared.len());
    while equal < unknown {
        let middle = equal + (unknown - equal) / 2;
        if exported_state(one, shared[middle])? == exported_state(other, shared[middle])? {
            equal = middle + 1;
        } else {
            unknown = middle;
        }
    }
    if !shared.is_empty() {
        return Ok(equal.checked_sub(1).map(|last| shared[last].clone()));
    }
    // A fork in a directory of its own lists only the names of the checkpoints before it.
    let named =
        |read: &LoadedSide| Some((read.env().lineage.clone(), read.env().checkpoint.clone()?));
    let (Some(one), Some(other)) = (named(one), named(other)) else {
        return Ok(None);
    };
    Ok(last_common_checkpoint(&one.0, &one.1, &other.0, &other.1))
}

/// Returns a state as text, so that it can be compared with a state of another storage.
fn exported_state(read: &LoadedSide, id: &CheckpointId) -> Result<String, LaunchError> {
    let saved = load_saved(&read.storage, &StateSelector::Checkpoint(id.clone()))?;
    let stepper: &Stepper = &saved.stepper;
    let mut definition = saved.definition;
    (definition.base, definition.name) = Default::default();
    (definition.text, definition.components) = Default::default();
    Ok(strata_team_json::export(
        stepper.team(),
        stepper.env(),
        &definition,
    ))
}
