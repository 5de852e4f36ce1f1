//! Which of many runs something is done with, whether it can be done, and the deletion of runs.

use std::thread::sleep;
use std::time::{Duration, Instant};

use strata_base::advice::Advice;
use strata_core::record::event::Status;
use strata_driver::Halt;
use strata_storage::{LifecycleState, RunFilter, StorageLocation, StoreError, has_ended};

use super::list::{FoundRun, find_run, list_runs};
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

/// What is done with runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDeed {
    /// They are ended for good or for a while.
    Halt(Halt),
    /// They are continued.
    Resume,
    /// They are deleted.
    Delete(DeleteRuns),
    /// What is old of them is removed.
    Prune,
}

/// A run with which something is to be done.
#[derive(Debug)]
pub struct SelectedRun {
    /// Where it is kept.
    pub location: StorageLocation,
    /// What is listed of it; the error if there is no such run.
    pub found: Result<FoundRun, LaunchError>,
}

/// Returns the runs that are meant: those at the places that a filter accepts. Without a filter, each place has to name
/// one run; one that does not is returned with the error, so that the others are not forgotten.
///
/// # Errors
/// Fails if there is a filter and a place cannot be read.
pub fn select_runs(
    places: &[StorageLocation],
    filter: &RunFilter,
) -> Result<Vec<SelectedRun>, LaunchError> {
    if !filter.is_open() {
        let found = list_runs(places, filter)?.into_iter();
        let selected = found.map(|run| SelectedRun {
            location: run.listing.location.clone(),
            found: Ok(run),
        });
        return Ok(selected.collect());
    }
    let named = places.iter().map(|place| SelectedRun {
        location: place.clone(),
        found: find_named(place),
    });
    Ok(named.collect())
}

/// Returns what is listed of the run that a place names.
fn find_named(place: &StorageLocation) -> Result<FoundRun, LaunchError> {
    // The error for a place that names no run says what there is.
    place.saved_form()?;
    let absent = || StoreError::Absent {
        path: place.operand().to_owned(),
    };
    Ok(find_run(place)?.ok_or_else(absent)?)
}

/// Fails if something cannot be done with a run, as far as what is listed of it tells.
///
/// # Errors
/// Fails as the deed itself does.
pub fn check_deed(run: &FoundRun, deed: RunDeed) -> Result<(), LaunchError> {
    let listing = &run.listing;
    let status = listing.overview.as_ref().map(|overview| overview.status);
    let refuse = |what: &str| {
        let status = status.map_or("unreadable", Status::name);
        Err(LaunchError::InvalidInput(format!(
            "the run has ended ({status}), so there is nothing to {what}"
        )))
    };
    match deed {
        RunDeed::Halt(Halt::Cancel) if status == Some(Status::Done) => refuse("end"),
        RunDeed::Halt(Halt::Pause) if status.is_some_and(has_ended) => refuse("suspend"),
        RunDeed::Delete(DeleteRuns::Ended) => require_ended(run),
        RunDeed::Halt(_) | RunDeed::Resume | RunDeed::Delete(_) | RunDeed::Prune => Ok(()),
    }
}

/// Fails unless a run has ended or was refused.
fn require_ended(run: &FoundRun) -> Result<(), LaunchError> {
    let (location, state) = (&run.listing.location, run.listing.state);
    match state {
        LifecycleState::Ended | LifecycleState::Refused => Ok(()),
        _ => Err(LaunchError::Unsuitable {
            message: match &run.damage {
                Some(damage) => format!("`{location}` cannot be read: {damage}"),
                None => format!(
                    "`{location}` is {}; only a run that has ended is deleted",
                    state.name()
                ),
            },
            advice: Advice::ForceDeletion {
                storage: location.operand().to_owned(),
            },
        }),
    }
}

/// Deletes a run with all that is stored of it.
///
/// # Errors
/// Fails if the run has not ended and only ended ones are to be deleted, and if a process works on it.
pub fn delete_run(location: &StorageLocation, which: DeleteRuns) -> Result<(), LaunchError> {
    delete_run_by(location, which, None)
}

/// Deletes a run as `delete_run` does. A database remembers for a while who did that.
///
/// # Errors
/// Fails if the run has not ended and only ended ones are to be deleted, and if a process works on it.
pub fn delete_run_by(
    location: &StorageLocation,
    which: DeleteRuns,
    by: Option<&Author>,
) -> Result<(), LaunchError> {
    let run = find_named(location)?;
    match (require_ended(&run), which) {
        (Ok(()), _) => {}
        // What cannot be read cannot be cancelled either.
        (Err(_), DeleteRuns::All) if run.damage.is_some() => {}
        (Err(_), DeleteRuns::All) => halt_by(location, Halt::Cancel, by)?,
        (Err(refused), DeleteRuns::Ended) => return Err(refused),
    }
    let start = Instant::now();
    loop {
        match location.delete_run(by.map(Author::name)) {
            // Whoever worked on it is about to give it up.
            Err(StoreError::Locked { .. })
                if which == DeleteRuns::All && start.elapsed() < GIVE_UP_TIME =>
            {
                sleep(INTERVAL);
            }
            done => return Ok(done?),
        }
    }
}
