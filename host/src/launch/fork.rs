//! Forks: creates a new lineage that begins at a checkpoint, in the same storage or in another
//! directory. The existing lineages do not change.

use std::path::{Path, PathBuf};

use strata_core::machine::stepper::Stepper;
use strata_core::record::edit::Edit;
use strata_core::record::event::{Event, Forked};
use strata_core::record::id::{CheckpointId, to_hex};
use strata_core::record::spending::Account;
use strata_core::team::Team;

use super::resume::{OpenedTeam, StateOrigin};
use super::resume_plan::{
    account_at_stop, next_lineage_name, require_checkpoint, restore_stepper, total_account,
};
use super::saved::{load_saved, open_reader};
use super::start::random_id;
use super::{LaunchError, edit, files, saved_definition};
use crate::display_path::absolute_path;
use crate::driver::{DriverError, clock};
use crate::public_event::{action_name, count_lines};
use crate::sha256::sha256;
use crate::storage::{
    DirectoryContent, Durability, Lease, Record, StateSelector, StorageDirectory, StoreError,
    team_json,
};
use crate::trust::storage_mark;

/// The arguments of a fork.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// The storage directory or its `team.json`.
    pub path: PathBuf,
    /// Where the new lineage begins.
    pub at: CheckpointId,
    /// The values to change in the new lineage: `SCOPE/KEY=JSON` each.
    pub set: Vec<String>,
    /// The directory of the fork. With `None`, it stays in the same storage.
    pub to: Option<PathBuf>,
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
    /// The storage that contains it.
    pub path: PathBuf,
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
        Some(to) => fork_into_directory(fork, to),
        None => fork_in_storage(fork),
    }
}

/// Writes the new lineage into a directory of its own. Only reads the records of the original
/// storage, which a run may be writing at the same time.
fn fork_into_directory(fork: &ForkRequest, to: &Path) -> Result<CreatedFork, LaunchError> {
    let directory = StorageDirectory::new(to);
    if matches!(
        directory.content()?,
        DirectoryContent::TeamJson | DirectoryContent::Database
    ) {
        return Err(StoreError::Occupied { path: to.into() }.into());
    }
    let origin = load_saved(&fork.path, &StateSelector::Checkpoint(fork.at.clone()))?;
    let head = load_saved(&fork.path, &StateSelector::Head)?;
    let account = match StorageDirectory::locate(&fork.path)?.require_team()? {
        DirectoryContent::Database => {
            let reader = open_reader(&fork.path)?;
            total_account(reader.spent()?, &head.stepper, &reader.lineages()?, &|at| {
                reader.load(at)
            })?
        }
        _ => account_at_stop(&head.stepper),
    };
    let mut stepper = origin.stepper;
    let edits = parse_edits(stepper.team(), &fork.set)?;
    let name = unique_lineage_name(&stepper, &edits, to);
    let known = storage_mark::known_definitions(StorageDirectory::locate(&fork.path)?.path());
    let event = fork_event(&stepper, fork, name, edits, account)?;
    stepper.apply(&event).map_err(DriverError::from)?;
    let text = team_json::export(stepper.team(), stepper.env(), &origin.definition);
    match files::load_blobs(&fork.path, &stepper)? {
        blobs if blobs.is_empty() && text.len() as u64 <= team_json::MAX_BYTES => {
            directory.place_team_json(&text)?
        }
        // File contents, which `team.json` cannot hold, are written into a database, and so is a
        // state that is too large to be read from `team.json`.
        blobs => directory.place_team(&text, stepper.env(), &origin.definition, &blobs)?,
    }
    storage_mark::mark_copy(known, to);
    created_fork(event, &stepper, to)
}

/// Returns a lineage name that no other fork has. It is derived from the contents, the destination,
/// and a random number, because a fork may be made again after it was removed. Two lineages with
/// the same name would take each other's recorded effects for their own.
fn unique_lineage_name(stepper: &Stepper, edits: &[Edit], to: &Path) -> String {
    /// The number of hexadecimal digits, enough to distinguish the forks of one run.
    const DIGITS: usize = 8;
    let env = stepper.env();
    let from = env.checkpoint.as_ref().map_or("", |id| id.0.as_str());
    let seed = format!(
        "{}\n{from}\n{edits:?}\n{}\n{:x}",
        env.run,
        absolute_path(to).display(),
        random_id()
    );
    let first = env.lineage.name.split('.').next().unwrap_or_default();
    format!("{first}.{}", &to_hex(&sha256(seed))[..DIGITS])
}

/// Records the new lineage in the same storage. The current lineage stays the current one.
fn fork_in_storage(fork: &ForkRequest) -> Result<CreatedFork, LaunchError> {
    let opened = OpenedTeam::open_without_running(&fork.path)?;
    let current = opened.stepper;
    let mut stepper = current.clone();
    let mut store = match opened.origin {
        StateOrigin::Database { store, .. } => {
            stepper = restore_stepper(
                &stepper,
                store.load(&StateSelector::Checkpoint(fork.at.clone()))?,
            )?;
            *store
        }
        StateOrigin::TeamJson(bytes) => {
            require_checkpoint(current.env(), &fork.at)?;
            // The edits are checked before the `team.json` is converted to a database.
            parse_edits(stepper.team(), &fork.set)?;
            opened.directory.import_team_json(
                &bytes,
                current.env(),
                &saved_definition(&opened.definition),
            )?
        }
    };
    let edits = parse_edits(stepper.team(), &fork.set)?;
    let lineages = store.lineages()?;
    let account = total_account(store.spent()?, &current, &lineages, &|at| store.load(at))?;
    let event = fork_event(&stepper, fork, next_lineage_name(&lineages), edits, account)?;
    stepper.apply(&event).map_err(DriverError::from)?;
    let (line, time_ms) = (store.load(&StateSelector::Head)?.next_line, clock::now_ms());
    let lines = count_lines(&event);
    store.append(
        &[Record {
            line,
            lines,
            time_ms,
            event: event.clone(),
        }],
        Durability::Full,
    )?;
    created_fork(event, &stepper, &fork.path)
}

fn parse_edits(team: &Team, set: &[String]) -> Result<Vec<Edit>, LaunchError> {
    set.iter()
        .map(|text| edit::parse_edit(team, text).map_err(LaunchError::InvalidInput))
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

fn created_fork(event: Event, stepper: &Stepper, path: &Path) -> Result<CreatedFork, LaunchError> {
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
        path: path.into(),
        pending,
    })
}

fn overwritten_edits(stepper: &Stepper, edits: &[Edit]) -> Vec<Pending> {
    let team = stepper.team();
    let finished = stepper.env().activations().flat_map(|(id, activation)| {
        activation
            .done
            .iter()
            .flat_map(move |done| done.writes.iter().map(move |write| (id, done.work, write)))
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
