//! Chooses the storage directory of a team if none is given: named after the team, unless another
//! team is saved there.

use std::path::{Path, PathBuf};

use strata_storage::{SavedRun, StorageLocation, default_directories};

use strata_manifest::{Definition, team_name};

/// Returns the directory in which a new run of a team file is saved if no storage is given.
///
/// It has the team's name. If another team is saved there, whose name maps to the same directory
/// name, a digest of the name is appended.
pub fn storage_by_name(team: &Path) -> PathBuf {
    directory_for(team, "")
}

/// Returns the directory in which a team is saved by `dev` if no storage is given. It differs from
/// the directory of ordinary runs, so that neither moves the other aside.
pub fn development_storage(team: &Path) -> PathBuf {
    directory_for(team, ".dev")
}

fn directory_for(team: &Path, suffix: &str) -> PathBuf {
    // A file that cannot be read or does not name a team is reported by the caller that runs it.
    let name = Definition::read_text(team)
        .and_then(|text| team_name(&text))
        .unwrap_or_default();
    let (usual, other) = default_directories(&name, suffix);
    let is_of_another = || saved_name(&usual).is_some_and(|saved| saved != name);
    if other.exists() || is_of_another() {
        other
    } else {
        usual
    }
}

/// Returns the name of the team that is saved in a directory, if it can be read.
fn saved_name(directory: &Path) -> Option<String> {
    let location = StorageLocation::new(directory);
    let definition = match location.read_saved().ok()? {
        SavedRun::Records(reader) => reader.definition().ok()?,
        SavedRun::TeamJson(bytes) => strata_team_json::saved_definition(&bytes).ok()??,
    };
    team_name(&definition.text)
}
