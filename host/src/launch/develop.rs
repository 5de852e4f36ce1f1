//! One round of `dev`: after the team file or an action has changed, the team continues from the
//! point where the change matters. Watching for changes is done elsewhere, by the command line.
//!
//! Nothing that was saved is lost: a state that is abandoned remains in a lineage of its own, and a
//! team that starts from the beginning moves the previous one aside.

mod edit;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, ComponentChanged, Event};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::{CheckpointId, Slot};
use strata_core::record::work::CallKey;
use strata_driver::{LineListener, expired_requests};
use strata_manifest::Overrides;
use strata_sandbox::WasmSandbox;
use strata_storage::{Lease, ReplacePolicy, StorageLocation, checkpoint_of, read_in_batches};

use self::edit::{Edit, ends_call};
use super::opened_team::{OpenedTeam, StateOrigin};
use super::resume::{Continuation, Membership, continue_team};
use super::{Components, LaunchError, Notice, Resume, ResumeNotes, RunHandle, Start, start};

/// The inputs of a round.
#[derive(Clone, Debug)]
pub struct DevelopRound {
    /// The team file.
    pub team: PathBuf,
    /// The idea, in place of the one in the file.
    pub idea: Option<String>,
    /// What the command line changes.
    pub overrides: Overrides,
    /// Where it is saved.
    pub storage: StorageLocation,
    /// The files that have changed since the last round.
    pub changed: Vec<PathBuf>,
}

/// The outcome of a round.
pub enum DevelopOutcome {
    /// There is something to run.
    Running(Box<RunHandle>, ResumeNotes),
    /// The team is done, and nothing that it ran with has changed.
    Unchanged,
}

/// The point at which a round begins.
#[derive(Debug, PartialEq, Eq)]
enum RoundStart {
    /// Where the last round ended.
    Newest,
    /// At an earlier checkpoint.
    Checkpoint(CheckpointId),
    /// At the beginning.
    Beginning,
    /// Nothing is to be done.
    Nothing,
}

/// Builds what has changed and continues from where the change matters. `report` receives the slow
/// operations that begin; `on_line` receives every public event line.
pub fn develop(
    round: &DevelopRound,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: LineListener,
) -> Result<DevelopOutcome, LaunchError> {
    if round.storage.saved_form().is_err() {
        return start_over(round, report, on_line);
    }
    let resume = Resume {
        team: Some(round.team.clone()),
        ..Resume::new(round.storage.clone(), round.overrides.clone())
    };
    let mut opened = match OpenedTeam::open(&resume) {
        Err(LaunchError::Mismatch(differences)) => {
            let differences = differences.join("; ");
            report(Notice::Note(&format!(
                "the team has changed and begins anew: {differences}"
            )));
            return start_over(round, report, on_line);
        }
        opened => opened?,
    };
    let sandbox = WasmSandbox::new()?;
    let components = Components::load(&opened.definition, &sandbox, report)?;
    match round_start(&opened, &components, round)? {
        RoundStart::Newest => {}
        RoundStart::Checkpoint(checkpoint) => opened.select_checkpoint(&checkpoint)?,
        RoundStart::Beginning => {
            // Releases the lock.
            drop(opened);
            report(Notice::Note("the team begins anew"));
            return start_over(round, report, on_line);
        }
        RoundStart::Nothing => return Ok(DevelopOutcome::Unchanged),
    }
    let verdicts = expired_requests(opened.stepper_to_continue()?.env());
    let continuation = Continuation {
        membership: Membership::default(),
        components,
        sandbox,
        resume: &resume,
        verdicts,
    };
    let (run, notes) = continue_team(opened, continuation, report, on_line)?;
    Ok(DevelopOutcome::Running(Box::new(run), notes))
}

fn start_over(
    round: &DevelopRound,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: LineListener,
) -> Result<DevelopOutcome, LaunchError> {
    let arguments = Start {
        idea: round.idea.clone(),
        replace: ReplacePolicy::Unfinished,
        calls: CallPolicy::Auto,
        ..Start::new(&round.team, round.storage.clone(), round.overrides.clone())
    };
    let started = start(arguments, report, on_line)?;
    if let Some(aside) = started.moved_to {
        let aside = aside.display();
        report(Notice::Note(&format!(
            "the team that was saved there is now in `{aside}`"
        )));
    }
    Ok(DevelopOutcome::Running(
        Box::new(started.run),
        ResumeNotes::default(),
    ))
}

/// Determines where the change matters. A call that failed is tried again where it is. Otherwise
/// everything that was made with a changed part is made again: the round begins before that part
/// was first used. If no changed part was used yet, the team just continues.
fn round_start(
    opened: &OpenedTeam,
    components: &Components,
    round: &DevelopRound,
) -> Result<RoundStart, LaunchError> {
    let StateOrigin::Records { lease, .. } = &opened.origin else {
        return Ok(RoundStart::Newest);
    };
    let (env, definition) = (opened.stepper.env(), &opened.definition);
    if !opened.has_begun() {
        return Ok(RoundStart::Newest);
    }
    let idea = round.idea.as_ref().or(definition.idea.as_ref());
    if idea.is_some_and(|idea| *idea != env.idea) {
        return Ok(RoundStart::Beginning);
    }
    let replaced = replaced_slots(opened, components);
    let mut edit = Edit::new(definition, &lease.definition()?, &round.changed);
    edit.add_slots(replaced.iter().copied());
    if edit.concerns_fault(&opened.stepper) {
        return Ok(RoundStart::Newest);
    }
    let mut first = first_use(lease.as_ref(), &opened.stepper, &edit)?;
    if matches!(first, FirstUse::Never) {
        // What a component says of itself is part of what a model is asked.
        let described = Edit::of_described_tools(&opened.stepper, &replaced);
        first = first_use(lease.as_ref(), &opened.stepper, &described)?;
    }
    let done = env.is_finished();
    Ok(match first {
        FirstUse::AfterCheckpoint(checkpoint) => RoundStart::Checkpoint(checkpoint),
        FirstUse::BeforeCheckpoints => RoundStart::Beginning,
        FirstUse::Never if done => RoundStart::Nothing,
        FirstUse::Never => RoundStart::Newest,
    })
}

/// Returns the slots whose components were replaced.
fn replaced_slots(opened: &OpenedTeam, components: &Components) -> BTreeSet<Slot> {
    let changes = opened.changed_components(components).into_iter();
    let slots = changes.filter_map(|event| match event {
        Event::ComponentChanged(ComponentChanged { slot, .. }) => Some(slot),
        _ => None,
    });
    slots.collect()
}

/// When a part was first used.
enum FirstUse {
    /// Not yet, or not successfully.
    Never,
    /// After this checkpoint.
    AfterCheckpoint(CheckpointId),
    /// Before all checkpoints that are kept.
    BeforeCheckpoints,
}

/// Returns the newest checkpoint before the call in which an edited part was first used began.
fn first_use(lease: &dyn Lease, stepper: &Stepper, edit: &Edit) -> Result<FirstUse, LaunchError> {
    if edit.is_empty() {
        return Ok(FirstUse::Never);
    }
    let existing: BTreeSet<CheckpointId> =
        lease.checkpoints()?.into_iter().map(|row| row.id).collect();
    let team = stepper.team();
    // The calls that may use a part, each with its position and the newest checkpoint before it.
    let mut begun: BTreeMap<CallKey, (usize, Option<CheckpointId>)> = BTreeMap::new();
    let mut newest = None;
    let read = |from, limit| {
        let records = lease.records(from, limit)?;
        let last = from + records.len() as u64;
        Ok((records, last))
    };
    for (record, position) in read_in_batches(0, read).zip(0..) {
        match record?.event {
            Event::Attempt(call, AttemptEvent::CallStarted(_)) if edit.may_concern(team, call) => {
                begun
                    .entry(call)
                    .or_insert_with(|| (position, newest.clone()));
            }
            Event::Attempt(call, event) if ends_call(&event) => {
                if edit.is_used(team, call, &event) {
                    let earliest = begun.into_values().min_by_key(|(position, _)| *position);
                    let checkpoint = earliest.and_then(|(_, checkpoint)| checkpoint);
                    return Ok(
                        checkpoint.map_or(FirstUse::BeforeCheckpoints, FirstUse::AfterCheckpoint)
                    );
                }
                begun.remove(&call);
            }
            event => {
                newest = checkpoint_of(&event)
                    .filter(|id| existing.contains(id))
                    .cloned()
                    .or(newest)
            }
        }
    }
    Ok(FirstUse::Never)
}
