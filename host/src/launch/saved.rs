//! Reads what is saved, to display it. Opens it without the lock, so that the team may run at the
//! same time.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use strata_base::advice::Advice;
use strata_core::machine::stepper::Stepper;
use strata_core::record::id::CheckpointId;
use strata_core::state::environment::Environment;
use strata_core::team::Team;
use strata_driver::{DriverError, HumanReply, check_replies};
use strata_manifest::Definition;
use strata_storage::{
    CheckpointRow, SavedDefinition, SavedRun, StateSelector, StorageLocation, StoreError,
    checkpoints_of_state,
};
use strata_team_json::ImportError;

use strata_view::{Provenance, SavedTeam};

use super::provenance::provenance_of;
use super::{LaunchError, parse_saved_definition};

/// Reads a saved state with where its team and its components come from.
pub fn load_saved_with_provenance(
    location: &StorageLocation,
    at: &StateSelector,
) -> Result<(SavedTeam, Provenance), LaunchError> {
    let saved = load_saved(location, at)?;
    let definition = parse_saved_definition(&saved.definition, Definition::parse_without_files)?;
    Ok((saved, provenance_of(&definition)))
}

/// Checks answers against the open requests of what is saved, without recording them.
///
/// # Errors
/// Fails if one of them answers no open request, or is not valid for its request.
pub fn check_answers(
    location: &StorageLocation,
    replies: &[HumanReply],
) -> Result<(), LaunchError> {
    let saved = load_saved(location, &StateSelector::Head)?;
    check_replies(saved.stepper.env(), replies)?;
    Ok(())
}

/// Reads a saved state: the newest one, or that of a checkpoint.
pub fn load_saved(
    location: &StorageLocation,
    at: &StateSelector,
) -> Result<SavedTeam, LaunchError> {
    match location.read_saved()? {
        SavedRun::Records(reader) => {
            let definition = reader.definition()?;
            let team = Arc::new(
                parse_saved_definition(&definition, Definition::parse_without_files)?.team,
            );
            let saved = reader.load(at)?;
            let mut stepper = Stepper::new(team, saved.base);
            for record in &saved.tail {
                stepper.apply(&record.event).map_err(DriverError::from)?;
            }
            Ok(SavedTeam {
                stepper,
                definition,
            })
        }
        SavedRun::TeamJson(bytes) => {
            let (team, definition) = match team_of_metagpt(location, &bytes)? {
                Some(team) => (team, SavedDefinition::default()),
                None => {
                    let definition = definition_in_team_json(location, &bytes)?;
                    (
                        parse_saved_definition(&definition, Definition::parse_without_files)?.team,
                        definition,
                    )
                }
            };
            let team = Arc::new(team);
            let env = import_team_json(location, &team, &bytes)?;
            match at {
                StateSelector::Checkpoint(id) => require_checkpoint(&env, id)?,
                StateSelector::Head | StateSelector::Lineage(_) => {}
            }
            Ok(SavedTeam {
                stepper: Stepper::new(team, env),
                definition,
            })
        }
    }
}

/// Returns the checkpoints of a saved team, oldest first, and the name of its current lineage.
pub fn list_checkpoints(
    location: &StorageLocation,
) -> Result<(Vec<CheckpointRow>, String), LaunchError> {
    if let SavedRun::Records(reader) = location.read_saved()? {
        let current = reader.lineages()?.into_iter().find(|row| row.current);
        return Ok((
            reader.checkpoints()?,
            current.map_or_else(String::new, |row| row.name),
        ));
    }
    // A `team.json` alone has one.
    let env = load_saved(location, &StateSelector::Head)?
        .stepper
        .into_env();
    let name = env.lineage.name.clone();
    Ok((checkpoints_of_state(&env), name))
}

/// Returns the names of the lineages of a saved team.
pub(super) fn lineage_names(location: &StorageLocation) -> Result<Vec<String>, LaunchError> {
    if let SavedRun::Records(reader) = location.read_saved()? {
        let lineages = reader.lineages()?.into_iter();
        return Ok(lineages.map(|row| row.name).collect());
    }
    // A `team.json` alone has one.
    let saved = load_saved(location, &StateSelector::Head)?;
    Ok(vec![saved.stepper.into_env().lineage.name])
}

/// Returns the path of the team file from which the saved team was read, if its text has changed
/// since.
pub fn edited_team_file(location: &StorageLocation) -> Result<Option<PathBuf>, LaunchError> {
    let saved = read_saved_definition(location)?;
    let file = saved.file();
    // A file that no longer exists cannot be used, so it does not count as changed.
    let is_edited = Definition::read_text(&file).is_some_and(|text| text != saved.text);
    Ok(is_edited.then_some(file))
}

/// Returns the team file that is saved at a location.
pub(super) fn read_saved_definition(
    location: &StorageLocation,
) -> Result<SavedDefinition, LaunchError> {
    match location.read_saved()? {
        SavedRun::Records(reader) => Ok(reader.definition()?),
        SavedRun::TeamJson(bytes) => definition_in_team_json(location, &bytes),
    }
}

/// Returns the team file that a `team.json` contains.
pub(super) fn definition_in_team_json(
    location: &StorageLocation,
    bytes: &[u8],
) -> Result<SavedDefinition, LaunchError> {
    let path = location.team_json_path();
    match strata_team_json::saved_definition(bytes) {
        Ok(Some(definition)) => Ok(definition),
        Ok(None) => {
            let file = path.display();
            Err(LaunchError::Unsuitable {
                message: format!("`{file}` does not hold the team file it goes by"),
                advice: Advice::GiveTeamFile {
                    storage: location.operand().to_owned(),
                },
            })
        }
        Err(source) => Err(LaunchError::Import { path, source }),
    }
}

/// Returns the team that a `team.json` of MetaGPT describes, which contains no team file. Returns
/// `None` for a `team.json` of this host.
fn team_of_metagpt(location: &StorageLocation, bytes: &[u8]) -> Result<Option<Team>, LaunchError> {
    if !strata_team_json::is_foreign(bytes) {
        return Ok(None);
    }
    strata_team_json::described_team(bytes)
        .map(Some)
        .map_err(|source| LaunchError::Import {
            path: location.team_json_path(),
            source,
        })
}

/// Returns the state that a `team.json` contains.
pub(super) fn import_team_json(
    location: &StorageLocation,
    team: &Team,
    bytes: &[u8],
) -> Result<Environment, LaunchError> {
    let imported =
        strata_team_json::import_with_warnings(team, bytes).map_err(|source| match source {
            ImportError::Misfit(differences) => LaunchError::Mismatch(differences),
            source => LaunchError::Import {
                path: location.team_json_path(),
                source,
            },
        })?;
    let file = location.team_json_path();
    for warning in &imported.warnings {
        tracing::warn!("`{}`: {warning}", file.display());
    }
    Ok(imported.env)
}

/// Fails unless `id` is the checkpoint of `env`. A `team.json` alone has only one checkpoint.
pub(super) fn require_checkpoint(env: &Environment, id: &CheckpointId) -> Result<(), LaunchError> {
    if env.checkpoint.as_ref() == Some(id) {
        return Ok(());
    }
    let known = env.checkpoint.iter().map(|id| id.0.clone()).collect();
    Err(StoreError::NoCheckpoint {
        id: id.0.clone(),
        known,
    }
    .into())
}
