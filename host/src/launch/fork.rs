//! Forks: creates a new lineage that begins at a checkpoint, in the same storage or in another. The existing lineages do not change.

use std::collections::BTreeMap;

use strata_base::clock;
use strata_base::files::blob::Blobs;
use strata_base::files::sha256::sha256;
use strata_base::random_id::random_id;
use strata_base::text::display_path::absolute_path;
use strata_core::machine::stepper::Stepper;
use strata_core::record::edit::Edit;
use strata_core::record::event::{Event, Forked};
use strata_core::record::id::{CheckpointId, to_hex};
use strata_core::record::spending::Account;
use strata_core::team::Team;
use strata_driver::DriverError;
use strata_driver::public_event::{action_name, count_lines};
use strata_manifest::Definition;
use strata_storage::{
    CapScope, Durability, Handover, NewSubmission, Record, RunNeeds, SavedDefinition, SavedRun,
    ServerRecord, StateSelector, StorageLocation, StoreError, SubmissionIdentity, check_run_name,
};

use super::opened_team::{OpenedTeam, StateOrigin};
use super::resume_plan::{
    account_at_stop, next_lineage_name, restore_stepper, total_account, with_questions_of,
};
use super::saved::{load_saved, require_checkpoint};
use super::submitted::unpack_beside;
use super::{LaunchError, StateEdit, edit, files, parse_saved_definition, saved_definition};
use crate::bundle::{BundleError, is_submitted};
use crate::storage_mark::{self, MarkedTeam, Recognition};

/// The arguments of a fork.
///
/// ```no_run
/// use strata_host::CheckpointId;
/// use strata_host::core::record::json::Json;
/// use strata_host::launch::{EditScope, ForkRequest, StateEdit, fork};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let request = ForkRequest {
///     storage: "store".into(),
///     at: CheckpointId::from("main-3"),
///     edits: vec![StateEdit::Value {
///         scope: EditScope::Shared("tracking".into()),
///         key: "round".into(),
///         value: Json::parse("9")?,
///     }],
///     to: None,
///     queued: None,
/// };
/// println!("{}", fork(&request)?.checkpoint.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// Where the run is kept.
    pub storage: StorageLocation,
    /// Where the new lineage begins.
    pub at: CheckpointId,
    /// The values to change in the new lineage.
    pub edits: Vec<StateEdit>,
    /// Where the fork is kept. With `None`, it stays in the same storage.
    pub to: Option<StorageLocation>,
    /// What the fork is for workers, if it is one of a submitted run that they take.
    pub queued: Option<QueuedFork>,
}

/// What a fork is that workers take.
#[derive(Clone, Debug)]
pub struct QueuedFork {
    /// By what clients know it, and whose it is.
    pub identity: SubmissionIdentity,
    /// The labels that a worker needs for it.
    pub needs: Vec<String>,
    /// What is noted with it to find it by.
    pub tags: BTreeMap<String, String>,
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<CapScope>,
    /// What a server remembers with it.
    pub records: Vec<ServerRecord>,
}

/// A new fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedFork {
    /// The new lineage.
    pub lineage: String,
    /// Its first checkpoint.
    pub checkpoint: CheckpointId,
    /// The checkpoint at which it begins.
    pub parent: CheckpointId,
    /// The step that is open or comes next.
    pub step: u64,
    /// Where it is kept.
    pub storage: StorageLocation,
    /// The changed values that will be overwritten when the open step is committed, because actions
    /// that wrote them have already finished in it.
    pub pending: Vec<Pending>,
}

/// A value that was set in a fork and that an action will overwrite which finished before the fork
/// begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The action, as `ROLE.ACTION`.
    pub action: String,
    /// The changed value, as it was given: `SCOPE/KEY`.
    pub place: String,
}

/// Makes a fork.
pub fn fork(fork: &ForkRequest) -> Result<CreatedFork, LaunchError> {
    match &fork.to {
        Some(to) => fork_elsewhere(fork, to),
        None => fork_in_storage(fork),
    }
}

/// Writes the new lineage into a storage of its own. Only reads the records of the original
/// storage, which a run may be writing at the same time.
fn fork_elsewhere(fork: &ForkRequest, to: &StorageLocation) -> Result<CreatedFork, LaunchError> {
    to.require_vacant()?;
    // A server names the forks of its tenants itself.
    if let (None, Some(_), Some(name)) = (&fork.queued, to.database(), to.run_name()) {
        check_run_name(name).map_err(LaunchError::InvalidInput)?;
    }
    let origin = load_saved(&fork.storage, &StateSelector::Checkpoint(fork.at.clone()))?;
    let head = load_saved(&fork.storage, &StateSelector::Head)?;
    let account = match fork.storage.read_saved()? {
        SavedRun::Records(reader) => {
            total_account(reader.spent()?, &head.stepper, &reader.lineages()?, &|at| {
                reader.load(at)
            })?
        }
        SavedRun::TeamJson(_) => account_at_stop(&head.stepper),
    };
    let mut stepper = origin.stepper;
    let edits = resolve_edits(stepper.team(), &fork.edits)?;
    let name = unique_lineage_name(&stepper, &edits, to);
    let known = storage_mark::known_definitions(&fork.storage);
    let event = fork_event(&stepper, fork, name, edits, account)?;
    let event = with_questions_of(&head.stepper, event);
    stepper.apply(&event).map_err(DriverError::from)?;
    let blobs = files::load_blobs(&fork.storage, &stepper)?;
    let mut definition = origin.definition;
    let mut is_own = false;
    if is_submitted(&definition) {
        if to.accepts_submissions() {
            place_submitted(fork, to, &stepper, &definition, &blobs)?;
            storage_mark::mark_copy(known, to);
            return created_fork(event, &stepper, to);
        }
        is_own = is_own_submission(&fork.storage, &definition)?;
        definition = unpack_beside(&fork.storage, &definition, to, &stepper)?;
    }
    let text = strata_team_json::export(stepper.team(), stepper.env(), &definition);
    match blobs {
        blobs
            if to.accepts_team_json()
                && blobs.is_empty()
                && text.len() as u64 <= strata_team_json::MAX_BYTES =>
        {
            to.place_team_json(&text)?
        }
        // File contents, which `team.json` cannot hold, are written into a database, and so is a
        // state that is too large to be read from `team.json`.
        blobs => to.place_run(&text, stepper.env(), &definition, &blobs)?,
    }
    storage_mark::mark_copy(known, to);
    if is_own {
        // Without the mark, its team file is not used unless it is trusted.
        let _ = storage_mark::add_mark(to, (&definition).into());
    }
    created_fork(event, &stepper, to)
}

/// Whether this user's host submitted a run with this team file. Then its copy on this machine is this user's own, too.
fn is_own_submission(
    storage: &StorageLocation,
    definition: &SavedDefinition,
) -> Result<bool, LaunchError> {
    let submission = storage.open_submission()?;
    let files = submission.ok_or_else(BundleError::not_submitted)?.files()?;
    let submitted = MarkedTeam {
        definition,
        files: Some(&files),
    };
    let recognized = storage_mark::recognize(storage, submitted);
    Ok(recognized.is_ok_and(|found| found == Recognition::Own))
}

/// Saves the fork of a submitted run in a database, with the files of its team. Workers do not take it.
fn place_submitted(
    fork: &ForkRequest,
    to: &StorageLocation,
    stepper: &Stepper,
    definition: &SavedDefinition,
    blobs: &Blobs,
) -> Result<(), LaunchError> {
    let submission = fork.storage.open_submission()?;
    let submission = submission.ok_or_else(BundleError::not_submitted)?;
    let files = submission.files()?;
    let mut contents = Blobs::new();
    for digest in files.values() {
        contents.insert(digest.clone(), submission.bytes(digest)?.into());
    }
    let secrets =
        parse_saved_definition(definition, Definition::parse_without_files)?.secret_names();
    let queued = fork.queued.as_ref();
    let tags = queued.map(|queued| queued.tags.clone()).unwrap_or_default();
    let identity = queued.map(|queued| queued.identity.clone());
    to.place_submission(&NewSubmission {
        name: to.run_name().unwrap_or_default(),
        team: &stepper.team().name,
        base: stepper.env(),
        definition,
        blobs,
        files: &files,
        contents: &contents,
        needs: &RunNeeds {
            labels: queued
                .map(|queued| queued.needs.clone())
                .unwrap_or_default(),
            secrets,
        },
        tags: &tags,
        handover: match queued {
            Some(_) => Handover::Queued,
            None => Handover::Detached,
        },
        scope: queued.and_then(|queued| queued.scope.as_ref()),
        identity: identity.unwrap_or_else(SubmissionIdentity::unserved),
        resume_note: None,
        records: queued.map_or(&[], |queued| &queued.records),
    })?;
    Ok(())
}

/// Returns a lineage name that no other fork has. It is derived from the contents, the destination,
/// and a random number, because a fork may be made again after it was removed. Two lineages with
/// the same name would take each other's recorded effects for their own.
fn unique_lineage_name(stepper: &Stepper, edits: &[Edit], to: &StorageLocation) -> String {
    /// The number of hexadecimal digits, enough to distinguish the forks of one run.
    const DIGITS: usize = 8;
    let env = stepper.env();
    let from = env.checkpoint.as_ref().map_or("", |id| id.0.as_str());
    let seed = format!(
        "{}\n{from}\n{edits:?}\n{}\n{:x}",
        env.run,
        absolute_path(to.path()).display(),
        random_id()
    );
    let first = env.lineage.name.split('.').next().unwrap_or_default();
    format!("{first}.{}", &to_hex(&sha256(seed))[..DIGITS])
}

/// Records the new lineage in the same storage. The current lineage stays the current one.
fn fork_in_storage(fork: &ForkRequest) -> Result<CreatedFork, LaunchError> {
    let opened = OpenedTeam::open_without_running(&fork.storage)?;
    let current = opened.stepper;
    let mut stepper = current.clone();
    let mut lease = match opened.origin {
        StateOrigin::Records { lease, .. } => {
            stepper = restore_stepper(
                &stepper,
                lease.load(&StateSelector::Checkpoint(fork.at.clone()))?,
            )?;
            lease
        }
        StateOrigin::TeamJson(bytes) => {
            require_checkpoint(current.env(), &fork.at)?;
            // The edits are checked before the `team.json` is converted to a database.
            resolve_edits(stepper.team(), &fork.edits)?;
            opened.location.import_team_json(
                &bytes,
                current.env(),
                &saved_definition(&opened.definition),
            )?
        }
    };
    let edits = resolve_edits(stepper.team(), &fork.edits)?;
    let lineages = lease.lineages()?;
    let account = total_account(lease.spent()?, &current, &lineages, &|at| lease.load(at))?;
    let event = fork_event(&stepper, fork, next_lineage_name(&lineages), edits, account)?;
    let event = with_questions_of(&current, event);
    stepper.apply(&event).map_err(DriverError::from)?;
    let (line, time_ms) = (opened.next_line, clock::now_ms());
    let lines = count_lines(&event);
    lease.append(
        &[Record {
            line,
            lines,
            time_ms,
            event: event.clone(),
        }],
        Durability::Full,
    )?;
    created_fork(event, &stepper, &fork.storage)
}

fn resolve_edits(team: &Team, edits: &[StateEdit]) -> Result<Vec<Edit>, LaunchError> {
    edits
        .iter()
        .map(|edit| edit.resolve(team).map_err(LaunchError::InvalidInput))
        .collect()
}

fn fork_event(
    stepper: &Stepper,
    fork: &ForkRequest,
    name: String,
    edits: Vec<Edit>,
    account: Account,
) -> Result<Event, LaunchError> {
    let event = stepper.forked_event(name, edits, account);
    let none = || StoreError::NoCheckpoint {
        id: fork.at.0.clone(),
        known: Vec::new(),
    };
    Ok(event.ok_or_else(none)?)
}

fn created_fork(
    event: Event,
    stepper: &Stepper,
    storage: &StorageLocation,
) -> Result<CreatedFork, LaunchError> {
    let Event::Forked(Forked {
        lineage,
        from,
        checkpoint,
        step,
        edits,
        ..
    }) = event
    else {
        unreachable!("a fork begins with the event that says so")
    };
    let pending = overwritten_edits(stepper, &edits);
    Ok(CreatedFork {
        lineage,
        checkpoint,
        parent: from,
        step,
        storage: storage.clone(),
        pending,
    })
}

fn overwritten_edits(stepper: &Stepper, edits: &[Edit]) -> Vec<Pending> {
    let team = stepper.team();
    let finished = stepper.env().activations().flat_map(|(key, activation)| {
        activation.done.iter().flat_map(move |done| {
            done.writes
                .iter()
                .map(move |write| (key.role, done.work, write))
        })
    });
    let mut pending = Vec::new();
    for (id, work, write) in finished {
        for edit in edits.iter().filter(|edit| edit.is_written_by(id, write)) {
            let role = team.role(id);
            let action = format!("{}.{}", role.name, action_name(role, work));
            let new = Pending {
                action,
                place: edit::edit_target(team, edit),
            };
            if !pending.contains(&new) {
                pending.push(new);
            }
        }
    }
    pending
}
