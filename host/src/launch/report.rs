//! Collects the data for a report from what is saved. Reads without the lock, so that the team may
//! run at the same time.

use std::collections::BTreeSet;

use strata_core::machine::stepper::Stepper;
use strata_manifest::Definition;
use strata_report::{Report, ReportBuilder, RunContext, Standing, StorageOverview};
use strata_storage::{CheckpointRow, Reader, StateSelector, StorageLocation, StoreError};

use super::LaunchError;
use super::compare::{checkpoint_chain, parse_saved_state};
use super::parse_saved_definition;
use super::provenance::provenance_of;
use super::recorded_events::RecordedEvents;
use super::resume_plan::restore_stepper;
use super::saved::{list_checkpoints, load_saved};
use strata_view::SavedTeam;
use strata_view::{EndedRun, HolderState};

/// The maximum number of states of other lineages that are loaded. The newest are chosen; each has
/// to be read separately.
const MAX_OTHER_STATES: usize = 40;

/// Collects the data about the state that is given as `PATH` or `PATH@ID`, and about everything
/// that led to it.
pub fn gather_report(at: &str) -> Result<Report, LaunchError> {
    let (location, at) = parse_saved_state(at)?;
    let (rows, _) = list_checkpoints(&location)?;
    let holder = HolderState::read(&location, &at);
    let team = load_saved(&location, &at)?;
    let mut context = run_context(&team, &location, &at, holder)?;
    let mut beside = StorageOverview {
        path: location.to_string(),
        checkpoints: rows,
        ..StorageOverview::default()
    };
    let reader = match location.read() {
        Ok(reader) => reader,
        // A `team.json` alone has no records.
        Err(StoreError::NoRecords { .. }) => {
            context.storage = beside;
            return Ok(ReportBuilder::new(team.stepper, []).finish(context));
        }
        Err(error) => return Err(error.into()),
    };
    beside.lineages = reader.lineages()?;
    beside.has_events = true;
    context.other_states = load_other_states(reader.as_ref(), &team.stepper, &beside.checkpoints)?;
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
    context.storage = beside;
    let mut report = gathering.finish(context);
    report.embed_images(|digest| events.blob(digest))?;
    Ok(report)
}

/// Returns what the saved team file and the processes of this machine say about a run. `holder` was
/// read before the state.
fn run_context(
    saved: &SavedTeam,
    location: &StorageLocation,
    at: &StateSelector,
    holder: HolderState,
) -> Result<RunContext, LaunchError> {
    // A team saved by MetaGPT has no team file.
    if saved.definition.text.is_empty() {
        return Ok(RunContext::default());
    }
    let definition = parse_saved_definition(&saved.definition, Definition::parse_without_files)?;
    let stepper = &saved.stepper;
    let standing = (*at == StateSelector::Head).then(|| {
        let run = EndedRun {
            stepper,
            provenance: &provenance_of(&definition),
            storage: location.path(),
            policy: None,
            continuation: super::continuation(location),
        };
        let ending = run.ending(stepper.env().status);
        Standing::new(stepper, holder.reread(location), ending)
    });
    Ok(RunContext {
        standing,
        tool_roles: definition.tool_roles,
        ..RunContext::default()
    })
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
