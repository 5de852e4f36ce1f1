//! Comparison of two saved states: the history that their lineages share, and how they differ
//! since.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use strata_core::environment::lineage::common;
use strata_core::id::CheckpointId;
use strata_core::stepper::Stepper;

use super::LaunchError;
use super::saved::{SavedTeam, checkpoints, saved};
use crate::difference::{Difference, compare as compare_states};
use crate::store::{At, CheckpointRow, Directory, StoreError, follow_link, team_json};

/// A saved state, as one side of a comparison.
pub struct Side {
    /// The storage directory or its `team.json`.
    pub path: PathBuf,
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
    pub one: Side,
    /// The second state.
    pub other: Side,
    /// The last checkpoint that both states share.
    pub common: Option<CheckpointId>,
    /// How they differ.
    pub difference: Difference,
}

/// One side, as it was read.
struct Read {
    path: PathBuf,
    team: SavedTeam,
    /// The checkpoints that lead to it, oldest first, as far as its storage lists them.
    chain: Vec<CheckpointId>,
}

/// Compares two saved states. Each is given as a path, optionally followed by `@` and a checkpoint
/// or a lineage.
pub fn compare(one: &str, other: &str) -> Result<Comparison, LaunchError> {
    let (one, other) = (read(one)?, read(other)?);
    let (team, given) = (
        &one.team.stepper.env().shape,
        &other.team.stepper.env().shape,
    );
    let differences = team.differences(given);
    if !differences.is_empty() {
        return Err(LaunchError::Unfit(differences));
    }
    let common = last_common(&one, &other)?;
    let difference = compare_states(&one.team.stepper, &other.team.stepper);
    Ok(Comparison {
        one: one.side(common.as_ref()),
        other: other.side(common.as_ref()),
        common,
        difference,
    })
}

impl Read {
    fn env(&self) -> &strata_core::environment::Environment {
        self.team.stepper.env()
    }

    fn side(self, common: Option<&CheckpointId>) -> Side {
        let shared = common.and_then(|common| self.chain.iter().position(|id| id == common));
        // If the shared checkpoint is not in the list, everything listed is later, unless nothing
        // followed.
        let first = self
            .chain
            .get(shared.map_or(0, |shared| shared + 1))
            .cloned();
        let env = self.team.stepper.into_env();
        Side {
            path: self.path,
            lineage: env.lineage.name,
            checkpoint: env.checkpoint,
            first,
        }
    }
}

fn read(text: &str) -> Result<Read, LaunchError> {
    let (path, team) = state_at(text)?;
    let (rows, _) = checkpoints(&path)?;
    let chain = chain(&rows, team.stepper.env().checkpoint.clone());
    Ok(Read { path, team, chain })
}

/// Loads the state that `PATH` or `PATH@ID` names.
pub(super) fn state_at(text: &str) -> Result<(PathBuf, SavedTeam), LaunchError> {
    let (path, at) = place(text)?;
    let team = saved(&path, &at)?;
    Ok((path, team))
}

/// Returns which state `PATH` or `PATH@ID` names.
pub fn place(text: &str) -> Result<(PathBuf, At), LaunchError> {
    let (path, id) = parted(text);
    let path = follow_link(path);
    let Some(id) = id else {
        return Ok((path, At::Head));
    };
    let (rows, _) = checkpoints(&path)?;
    let is_lineage = rows.iter().any(|row| row.lineage == id);
    let at = if is_lineage {
        At::Lineage(id.into())
    } else {
        At::Checkpoint(id.into())
    };
    Ok((path, at))
}

/// Splits a path from the text behind its last `@`. If the whole text names an existing file, it is
/// a path.
pub(super) fn parted(text: &str) -> (&Path, Option<&str>) {
    match text.rsplit_once('@') {
        Some((path, at)) if !Path::new(text).exists() => (Path::new(path), Some(at)),
        _ => (Path::new(text), None),
    }
}

/// Returns the checkpoints that lead to one, oldest first.
pub(super) fn chain(rows: &[CheckpointRow], mut at: Option<CheckpointId>) -> Vec<CheckpointId> {
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
fn last_common(one: &Read, other: &Read) -> Result<Option<CheckpointId>, LaunchError> {
    let theirs: BTreeSet<&CheckpointId> = other.chain.iter().collect();
    let shared: Vec<&CheckpointId> = one.chain.iter().filter(|id| theirs.contains(id)).collect();
    if same_place(&one.path, &other.path) {
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
        if state(one, shared[middle])? == state(other, shared[middle])? {
            equal = middle + 1;
        } else {
            unknown = middle;
        }
    }
    if !shared.is_empty() {
        return Ok(equal.checked_sub(1).map(|last| shared[last].clone()));
    }
    // A fork in a directory of its own lists only the names of the checkpoints before it.
    let named = |read: &Read| Some((read.env().lineage.clone(), read.env().checkpoint.clone()?));
    let (Some(one), Some(other)) = (named(one), named(other)) else {
        return Ok(None);
    };
    Ok(common(&one.0, &one.1, &other.0, &other.1))
}

fn same_place(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| -> Result<PathBuf, StoreError> {
        let directory = Directory::locate(path)?;
        Ok(std::fs::canonicalize(directory.path()).unwrap_or_else(|_| directory.path().into()))
    };
    matches!((place(one), place(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns a state as text, so that it can be compared with a state of another storage.
fn state(read: &Read, id: &CheckpointId) -> Result<String, LaunchError> {
    let saved = saved(&read.path, &At::Checkpoint(id.clone()))?;
    let stepper: &Stepper = &saved.stepper;
    let mut definition = saved.definition;
    (definition.base, definition.name) = Default::default();
    (definition.text, definition.components) = Default::default();
    Ok(team_json::export(
        stepper.team(),
        stepper.env(),
        &definition,
    ))
}
