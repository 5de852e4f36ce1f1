//! One round of `dev`: after the team file or an action has changed, the team continues from the
//! point where the change matters. Watching for changes is done elsewhere, by the command line.
//!
//! Nothing that was saved is lost: a state that is abandoned remains in a lineage of its own, and a
//! team that starts from the beginning moves the previous one aside.

use std::collections::BTreeSet;
use std::path::PathBuf;

use strata_core::machine::stepper::{Stepper, component_slot};
use strata_core::record::event::{AttemptEvent, ComponentChanged, Event};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::{CheckpointId, RoleId, Slot};
use strata_core::record::work::CallKey;

use strata_core::team::Role;
use strata_driver::{LineListener, expired_requests};
use strata_manifest::{Definition, Overrides};
use strata_sandbox::WasmSandbox;
use strata_storage::{Lease, ReplacePolicy, StorageLocation, checkpoint_of, read_in_batches};

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

/// Determines where the change matters. A role that failed is tried again where it is. Otherwise
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
    let saved = lease.definition()?;
    let before = Definition::parse_without_files(&saved.text, &saved.name, &saved.base).ok();
    let replaced = opened
        .changed_components(components)
        .into_iter()
        .filter_map(|event| match event {
            Event::ComponentChanged(ComponentChanged { slot, .. }) => Some(slot),
            _ => None,
        });
    let rewritten = before
        .iter()
        .flat_map(|before| rewritten_slots(before, definition));
    let depends = |slot: &Slot| {
        round
            .changed
            .iter()
            .any(|file| definition.depends_on(*slot, file))
    };
    let depending = definition.plugins.keys().copied().filter(depends);
    let changed: BTreeSet<Slot> = replaced.chain(rewritten).chain(depending).collect();
    if failed_slots(&opened.stepper).any(|slot| changed.contains(&slot)) {
        return Ok(RoundStart::Newest);
    }
    let done = env.is_finished();
    Ok(
        match first_use(lease.as_ref(), &opened.stepper, &changed)? {
            FirstUse::AfterCheckpoint(checkpoint) => RoundStart::Checkpoint(checkpoint),
            FirstUse::BeforeCheckpoints => RoundStart::Beginning,
            FirstUse::Never if done => RoundStart::Nothing,
            FirstUse::Never => RoundStart::Newest,
        },
    )
}

/// Returns the slots whose inputs the new team file changes. Limits do not count, because they do
/// not alter the results.
fn rewritten_slots(before: &Definition, now: &Definition) -> Vec<Slot> {
    let description =
        |role: &Role| [&role.profile, &role.goal, &role.constraints, &role.desc].map(Clone::clone);
    let is_rewritten = |slot: &Slot| {
        let (Some(was), Some(is)) = (before.plugins.get(slot), now.plugins.get(slot)) else {
            return true;
        };
        let uses_other_model = is.grants.llm.is_some() && before.llm != now.llm;
        let is_described_otherwise =
            description(before.team.role(slot.role)) != description(now.team.role(slot.role));
        was.config != is.config
            || was.grants != is.grants
            || uses_other_model
            || is_described_otherwise
    };
    now.plugins.keys().copied().filter(is_rewritten).collect()
}

/// Returns the slots of the calls that failed and are not retried automatically.
fn failed_slots(stepper: &Stepper) -> impl Iterator<Item = Slot> {
    let team = stepper.team();
    let failed = stepper.env().failed_calls(team);
    failed.filter_map(move |(call, _)| component_slot(team.role(call.role), call.role, call.work))
}

/// When a slot was first used.
enum FirstUse {
    /// Not yet, or not successfully.
    Never,
    /// After this checkpoint.
    AfterCheckpoint(CheckpointId),
    /// Before all checkpoints that are kept.
    BeforeCheckpoints,
}

/// Returns the newest checkpoint before one of these slots was first used successfully.
fn first_use(
    lease: &dyn Lease,
    stepper: &Stepper,
    slots: &BTreeSet<Slot>,
) -> Result<FirstUse, LaunchError> {
    if slots.is_empty() {
        return Ok(FirstUse::Never);
    }
    let existing: BTreeSet<CheckpointId> =
        lease.checkpoints()?.into_iter().map(|row| row.id).collect();
    let is_one = |id: RoleId, work| {
        component_slot(stepper.team().role(id), id, work).is_some_and(|slot| slots.contains(&slot))
    };
    let (mut newest, mut last_before) = (None, None);
    let read = |from, limit| {
        let records = lease.records(from, limit)?;
        let last = from + records.len() as u64;
        Ok((records, last))
    };
    for record in read_in_batches(0, read) {
        match record?.event {
            Event::Attempt(CallKey { role, work, .. }, AttemptEvent::CallStarted(_))
                if is_one(role, work) =>
            {
                last_before.get_or_insert_with(|| newest.clone());
            }
            Event::Attempt(CallKey { role, work, .. }, AttemptEvent::CallFinished(_))
                if is_one(role, work) =>
            {
                return Ok(last_before
                    .flatten()
                    .map_or(FirstUse::BeforeCheckpoints, FirstUse::AfterCheckpoint));
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
