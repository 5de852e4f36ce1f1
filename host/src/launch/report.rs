//! Collects the data for a report from what is saved. Reads without the lock, so that the team may
//! run at the same time.

use std::collections::BTreeSet;

use strata_core::stepper::Stepper;

use super::LaunchError;
use super::back::sum_up;
use super::compare::{chain, place};
use super::saved::{SavedTeam, checkpoints, reader, saved};
use crate::driver::DriverError;
use crate::report::{Beside, Gathering, Report};
use crate::store::{At, CheckpointRow, Reader, StoreError};

/// The maximum number of states of other lineages that are loaded. The newest are chosen; each has
/// to be read separately.
const MAX_ELSEWHERE: usize = 40;

/// Collects the data about the state that is given as `PATH` or `PATH@ID`, and about everything
/// that led to it.
pub fn report(at: &str) -> Result<Report, LaunchError> {
    let (path, at) = place(at)?;
    let (rows, current) = checkpoints(&path)?;
    let team = saved(&path, &at)?;
    let mut beside = Beside {
        path: path.display().to_string(),
        checkpoints: rows,
        ..Beside::default()
    };
    let reader = match reader(&path) {
        Ok(reader) => reader,
        // A `team.json` alone has no records.
        Err(LaunchError::Store(StoreError::NoRecords { .. })) => {
            return Ok(Gathering::new(team.stepper, []).finish(beside, Vec::new()));
        }
        Err(error) => return Err(error),
    };
    let lineage = match &at {
        At::Head => current,
        At::Lineage(name) => name.clone(),
        At::Checkpoint(id) => {
            let row = beside.checkpoints.iter().find(|row| row.id == *id);
            row.map_or(current, |row| row.lineage.clone())
        }
    };
    beside.lineages = reader.lineages()?;
    beside.events = true;
    let elsewhere = elsewhere(&reader, &team.stepper, &beside.checkpoints)?;
    let gathering = through(reader, &team, &at, &lineage, &mut beside)?;
    Ok(gathering.finish(beside, elsewhere))
}

/// Reads the events that lead to a state.
fn through(
    mut reader: Reader,
    team: &SavedTeam,
    at: &At,
    lineage: &str,
    beside: &mut Beside,
) -> Result<Gathering, LaunchError> {
    reader.turn_to(lineage)?;
    let last = if let At::Checkpoint(id) = at {
        Some(id)
    } else {
        None
    };
    let end = team.stepper.env().checkpoint.clone();
    let beginning = reader.beginning()?;
    beside.pruned = beginning.dropped;
    let mut gathering = Gathering::new(
        team.stepper.at(beginning.env),
        chain(&beside.checkpoints, end),
    );
    let is_reached = |gathering: &Gathering| {
        last.is_some() && gathering.stepper().env().checkpoint.as_ref() == last
    };
    for record in reader.all(beginning.from) {
        if is_reached(&gathering) {
            break;
        }
        gathering.record(&record?).map_err(DriverError::from)?;
    }
    Ok(gathering)
}

/// Returns the newest states that are not ancestors of this one, with their times.
fn elsewhere(
    reader: &Reader,
    here: &Stepper,
    rows: &[CheckpointRow],
) -> Result<Vec<(Stepper, Option<i64>)>, LaunchError> {
    let passed: BTreeSet<_> = chain(rows, here.env().checkpoint.clone())
        .into_iter()
        .collect();
    let others: Vec<_> = rows
        .iter()
        .filter(|row| !passed.contains(&row.id))
        .collect();
    let newest = &others[others.len().saturating_sub(MAX_ELSEWHERE)..];
    let ids: Vec<_> = newest.iter().map(|row| row.id.clone()).collect();
    let states = reader
        .load_each(&ids)?
        .into_iter()
        .map(|saved| sum_up(here, saved));
    states
        .zip(newest)
        .map(|(stepper, row)| Ok((stepper?, row.time_ms)))
        .collect()
}
