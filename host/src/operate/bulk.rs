//! Which of many runs something is done with, and their deletion.

use std::thread::sleep;
use std::time::{Duration, Instant};

use strata_driver::Halt;
use strata_storage::{LifecycleState, RunFilter, StorageLocation, StoreError};

use super::list::{find_run, list_runs};
use crate::launch::{Author, LaunchError, halt_by};

/// For how long it is waited until a run that was cancelled has been given up.
const GIVE_UP_TIME: Duration = Duration::from_secs(15);
/// How often that is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteRuns {
    /// Runs that have ended or were refused.
    Ended,
    /// All; those that have not ended are cancelled first.
    All,
}

/// Returns the runs that are meant: those at the places that a filter accepts. Without a filter, each place has to name
/// one run.
///
/// # Errors
/// Fails if a place cannot be read, or names several runs and there is no filter.
pub fn select_runs(
    places: &[StorageLocation],
    filter: &RunFilter,
) -> Result<Vec<StorageLocation>, LaunchError> {
    if !filter.is_open() {
        let found = list_runs(places, filter)?;
        return Ok(found.into_iter().map(|run| run.listing.location).collect());
    }
    for place in places {
        // The error for a place that names no run says what there is.
        place.saved_form()?;
    }
    Ok(places.to_vec())
}

/// Deletes a run with all that is stored of it.
///
/// # Errors
/// Fails if the run has not ended and only ended ones are to be deleted, and if a process works on it.
pub fn delete_run(location: &StorageLocation, which: DeleteRuns) -> Result<(), LaunchError> {
    delete_run_by(location, which, None)
}

/// Deletes a run as `delete_run` does. If it is cancelled first, its events say who does that.
///
/// # Errors
/// Fails if the run has not ended and only ended ones are to be deleted, and if a process works on it.
pub fn delete_run_by(
    location: &StorageLocation,
    which: DeleteRuns,
    by: Option<&Author>,
) -> Result<(), LaunchError> {
    let state = find_run(location)?.map(|run| run.listing.state);
    let has_ended = matches!(state, Some(LifecycleState::Ended | LifecycleState::Refused));
    if !has_ended {
        match which {
            DeleteRuns::Ended => {
                let state = state.map_or("not there", LifecycleState::name);
                return Err(LaunchError::InvalidInput(format!(
                    "`{location}` is {state}; only a run that has ended is deleted, unless it is forced"
                )));
            }
            DeleteRuns::All => halt_by(location, Halt::Cancel, by)?,
        }
    }
    let begun = Instant::now();
    loop {
        match location.delete_run() {
            // Whoever worked on it is about to give it up.
            Err(StoreError::Locked { .. })
                if which == DeleteRuns::All && begun.elapsed() < GIVE_UP_TIME =>
            {
                sleep(INTERVAL);
            }
            done => return Ok(done?),
        }
    }
}
