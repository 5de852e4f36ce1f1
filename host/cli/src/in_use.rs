//! What can be done if another process has the file of many runs open in which a team is to be run.

use std::path::Path;

use strata_host::Advice;
use strata_host::launch::{LaunchError, continuation};
use strata_host::storage::{RunDatabase, StorageLocation, StoreError};
use strata_host::view::Continuation;

use super::CommandFailure;

/// Returns an error, with what its worker can do if that has the file of many runs open in which a run is: `team` is the
/// team file of a new one.
pub(super) fn with_worker(
    error: LaunchError,
    place: &StorageLocation,
    team: Option<&Path>,
) -> CommandFailure {
    let is_in_use = matches!(error, LaunchError::Store(StoreError::Locked { .. }));
    let database = place
        .database()
        .filter(|database| is_in_use && database.is_file());
    let is_worker = |database: &RunDatabase| database.workers().is_ok_and(|all| !all.is_empty());
    let advice = database.filter(is_worker).and_then(|database| match team {
        Some(team) => Some(Advice::SubmitToWorker {
            team_file: team.to_owned(),
            database: database.to_string(),
            name: place.run_name()?.to_owned(),
        }),
        None => {
            (continuation(place) != Continuation::OwnProcess).then(|| Advice::ResumeThroughWorker {
                storage: place.operand().to_owned(),
            })
        }
    });
    CommandFailure::from(error).advised(advice)
}
