//! Lists runs, wherever they are kept.

use std::path::Path;
use std::time::UNIX_EPOCH;

use strata_core::record::event::Event;
use strata_storage::{
    AppendedState, LifecycleState, RunFilter, RunListing, RunOverview, StateSelector,
    StorageLocation, StoreError,
};

use crate::launch::{LaunchError, load_saved};

/// A run that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRun {
    /// What is listed of it.
    pub listing: RunListing,
    /// Why its state cannot be read.
    pub damage: Option<String>,
}

/// Lists the runs at these places that a filter accepts, the one that changed last first. A database without the name of a run
/// stands for all of its runs, and a directory that contains storage directories for these. Reads the states of
/// runs of which nothing else tells what their state is.
///
/// # Errors
/// Fails if a place is not there or cannot be read. A run whose own state cannot be read is listed with the reason.
pub fn list_runs(
    places: &[StorageLocation],
    filter: &RunFilter,
) -> Result<Vec<FoundRun>, LaunchError> {
    let mut found = Vec::new();
    for place in places {
        for location in storage_directories(place)? {
            for listing in location.list_overviews(filter)? {
                let run = complete(listing)?;
                if filter.accepts(&run.listing) {
                    found.push(run);
                }
            }
        }
    }
    found.sort_by_key(|run| std::cmp::Reverse(run.listing.changed_ms));
    found.truncate(filter.limit);
    Ok(found)
}

/// Returns what is listed of the run at a location; `None` if there is none.
///
/// # Errors
/// Fails if the location cannot be read.
pub fn find_run(location: &StorageLocation) -> Result<Option<FoundRun>, LaunchError> {
    let listed = location.list_overviews(&RunFilter::default())?;
    listed.into_iter().next().map(complete).transpose()
}

/// Returns the storage directories in a directory that is none itself, or else the place.
fn storage_directories(place: &StorageLocation) -> Result<Vec<StorageLocation>, StoreError> {
    let [directory] = &place.local_paths()[..] else {
        return Ok(vec![place.clone()]);
    };
    if place.run_name().is_some() || place.saved_form().is_ok() {
        return Ok(vec![place.clone()]);
    }
    if !directory.is_dir() {
        // The error says what is there instead.
        place.saved_form()?;
        return Ok(vec![place.clone()]);
    }
    let entries = std::fs::read_dir(directory);
    let entries = entries.map_err(|error| StoreError::unreadable(directory, error))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| StoreError::unreadable(directory, error))?;
        // A link leads to one of the others.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let location = StorageLocation::new(entry.path());
            if location.saved_form().is_ok() {
                found.push(location);
            }
        }
    }
    Ok(found)
}

/// Reads the state of a run if what is listed does not tell what it is.
fn complete(listing: RunListing) -> Result<FoundRun, LaunchError> {
    if listing.overview.is_some() {
        return Ok(FoundRun {
            listing,
            damage: None,
        });
    }
    let location = listing.location.clone();
    let mut run = match load_saved(&location, &StateSelector::Head) {
        Ok(saved) => FoundRun {
            listing: listing.with_overview(RunOverview::of(AppendedState {
                team: saved.stepper.team(),
                env: saved.stepper.env(),
            })),
            damage: None,
        },
        Err(LaunchError::Store(error @ StoreError::Unreachable { .. })) => {
            return Err(error.into());
        }
        Err(error) => FoundRun {
            listing,
            damage: Some(error.to_string()),
        },
    };
    if run.listing.state == LifecycleState::Ended && run.listing.ended_ms.is_none() {
        run.listing.ended_ms = end_ms(&location);
    }
    if run.listing.changed_ms.is_none() {
        let times = location.changing_files();
        run.listing.changed_ms = times.iter().filter_map(|file| changed_ms(file)).max();
        run.listing.created_ms = location
            .identity()
            .ok()
            .and_then(|identity| identity.created_ns)
            .map(|created| (created / 1_000_000) as i64);
    }
    Ok(run)
}

/// Returns when the run at a location ended, if the newest event says so.
fn end_ms(location: &StorageLocation) -> Option<i64> {
    let reader = location.read().ok()?;
    let (dropped, all) = reader.dropped().ok()?;
    let newest = reader.records((all - dropped).checked_sub(1)?, 1).ok()?;
    let newest = newest.into_iter().next()?;
    matches!(newest.event, Event::RunEnded(_)).then_some(newest.time_ms)
}

fn changed_ms(file: &Path) -> Option<i64> {
    let changed = std::fs::metadata(file).ok()?.modified().ok()?;
    let since = changed.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}
