//! Collects the data for a report from what is saved. Reads without the lock, so that the team may
//! run at the same time.

use std::collections::BTreeSet;

use strata_core::machine::stepper::Stepper;

use super::LaunchError;
use super::compare::{checkpoint_chain, parse_saved_state};
use super::recorded_events::RecordedEvents;
use super::resume_plan::restore_stepper;
use super::saved::{list_checkpoints, load_saved};
use crate::report::{Report, ReportBuilder, StorageOverview};
use crate::storage::{CheckpointRow, Reader, StoreError};

/// The maximum number of states of other lineages that are loaded. The newest are chosen; each has
/// to be read separately.
const MAX_OTHER_STATES: usize = 40;

/// Collects the data about the state that is given as `PATH` or `PATH@ID`, and about everything
/// that led to it.
pub fn gather_report(at: &str) -> Result<Report, LaunchError> {
    let (location, at) = parse_saved_state(at)?;
    let (rows, _) = list_checkpoints(&location)?;
    let team = load_saved(&location, &at)?;
    let mut beside = StorageOverview {
        path: location.to_string(),
        checkpoints: rows,
        ..StorageOverview::default()
    };
    let reader = match location.read() {
        Ok(reader) => reader,
        // A `team.json` alone has no records.
        Err(StoreError::NoRecords { .. }) => {
            return Ok(ReportBuilder::new(team.stepper, []).finish(beside, Vec::new()));
        }
        Err(error) => return Err(error.into()),
    };
    beside.lineages = reader.lineages()?;
    beside.has_events = true;
    let elsewhere = load_other_states(reader.as_ref(), &team.stepper, &beside.checkpoints)?;
    let events = RecordedEvents::select(reader, &at, &beside.checkpoints)?;
    let beginning = events.earliest_state()?;
    beside.pruned_events = beginning.dropped;
    let end = team.stepper.env().checkpoint.clone();
    let mut gathering = ReportBuilder::new(
        team.stepper.with_env(beginning.env),
        checkpoint_chain(&beside.checkpoints, end),
    );
    let newest = gathering.stepper().env().checkpoint.clone();
    events.replay(beginning.position, newest, |record| {
        gathering.add_event(record)?;
        Ok(gathering.stepper().env().checkpoint.clone())
    })?;
    let mut report = gathering.finish(beside, elsewhere);
    report.embed_images(|digest| events.blob(digest))?;
    Ok(report)
}

/// Returns the newest states that are not ancestors of this one, with their times.
fn load_other_states(
    reader: &dyn Reader,
    here: &Stepper,
    rows: &[CheckpointRow],
) -> Result<Vec<(Stepper, Option<i64>)>, LaunchError> {
    let passed: BTreeSet<_> = checkpoint_chain(rows, here.env().checkpoint.clone())
        .into_iter()
        .collect();
    let others: Vec<_> = rows
        .iter()
        .filter(|row| !passed.contains(&row.id))
        .collect();
    let newest = &others[others.len().saturating_sub(MAX_OTHER_STATES)..];
    let ids: Vec<_> = newest.iter().map(|row| row.id.clone()).collect();
    let states = reader
        .load_each(&ids)?
        .into_iter()
        .map(|saved| restore_stepper(here, saved));
    states
        .zip(newest)
        .map(|(stepper, row)| Ok((stepper?, row.time_ms)))
        .collect()
}
