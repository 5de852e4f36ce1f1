//! Forks: creates a new lineage that begins at a checkpoint, in the same storage or in another
//! directory. The existing lineages do not change.

use std::path::{Path, PathBuf};

use strata_core::budget::Account;
use strata_core::edit::Edit;
use strata_core::event::Event;
use strata_core::id::{CheckpointId, hex};
use strata_core::stepper::Stepper;
use strata_core::team::Team;

use super::back::{absolute, account, account_left, is_held, next_name, sum_up};
use super::resume::{Opened, Origin};
use super::saved::{reader, saved};
use super::start::chance;
use super::{LaunchError, edit, files, saved_definition};
use crate::driver::{DriverError, clock};
use crate::public_event::{action_name, count};
use crate::sha256::sha256;
use crate::store::{At, Content, Directory, Durability, Record, Store, StoreError, team_json};
use crate::trust::mark;

/// The arguments of a fork.
#[derive(Clone, Debug)]
pub struct Fork {
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
pub struct Forked {
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
pub fn fork(fork: &Fork) -> Result<Forked, LaunchError> {
    match &fork.to {
        Some(to) => give(fork, to),
        None => put_aside(fork),
    }
}

/// Writes the new lineage into a directory of its own. Only reads the records of the original
/// storage, which a run may be writing at the same time.
fn give(fork: &Fork, to: &Path) -> Result<Forked, LaunchError> {
    let directory = Directory::new(to);
    if matches!(directory.content()?, Content::TeamJson | Content::Database) {
        return Err(StoreError::Occupied { path: to.into() }.into());
    }
    let origin = saved(&fork.path, &At::Checkpoint(fork.at.clone()))?;
    let head = saved(&fork.path, &At::Head)?;
    let account = match Directory::locate(&fork.path)?.team()? {
        Content::Database => {
            let reader = reader(&fork.path)?;
            account(reader.spent()?, &head.stepper, &reader.lineages()?, &|at| {
                reader.load(at)
            })?
        }
        _ => account_left(&head.stepper),
    };
    let mut stepper = origin.stepper;
    let edits = edits(stepper.team(), &fork.set)?;
    let name = given_name(&stepper, &edits, to);
    let known = mark::known(Directory::locate(&fork.path)?.path());
    let event = begin(&stepper, fork, name, edits, account)?;
    stepper.apply(&event).map_err(DriverError::from)?;
    let text = team_json::export(stepper.team(), stepper.env(), &origin.definition);
    match files::blobs(&fork.path, &stepper)? {
        blobs if blobs.is_empty() && text.len() as u64 <= team_json::MAX_BYTES => {
            directory.give(&text)?
        }
        // File contents, which `team.json` cannot hold, are written into a database, and so is a
        // state that is too large to be read from `team.json`.
        blobs => directory.give_with(&text, stepper.env(), &origin.definition, &blobs)?,
    }
    mark::carry(known, to);
    forked(event, &stepper, to)
}

/// Returns a lineage name that no other fork has. It is derived from the contents, the destination,
/// and a random number, because a fork may be made again after it was removed. Two lineages with
/// the same name would take each other's recorded effects for their own.
fn given_name(stepper: &Stepper, edits: &[Edit], to: &Path) -> String {
    /// The number of hexadecimal digits, enough to distinguish the forks of one run.
    const DIGITS: usize = 8;
    let env = stepper.env();
    let from = env.checkpoint.as_ref().map_or("", |id| id.0.as_str());
    let seed = format!(
        "{}\n{from}\n{edits:?}\n{}\n{:x}",
        env.run,
        absolute(to).display(),
        chance()
    );
    let first = env.lineage.name.split('.').next().unwrap_or_default();
    format!("{first}.{}", &hex(&sha256(seed))[..DIGITS])
}

/// Records the new lineage in the same storage. The current lineage stays the current one.
fn put_aside(fork: &Fork) -> Result<Forked, LaunchError> {
    let opened = Opened::at_rest(&fork.path)?;
    let current = opened.stepper;
    let mut stepper = current.clone();
    let mut store = match opened.origin {
        Origin::Database { store, .. } => {
            stepper = sum_up(&stepper, store.load(&At::Checkpoint(fork.at.clone()))?)?;
            *store
        }
        Origin::TeamJson(bytes) => {
            is_held(current.env(), &fork.at)?;
            // The edits are checked before the `team.json` is converted to a database.
            edits(stepper.team(), &fork.set)?;
            opened
                .directory
                .adopt(&bytes, current.env(), &saved_definition(&opened.definition))?
        }
    };
    let edits = edits(stepper.team(), &fork.set)?;
    let lineages = store.lineages()?;
    let account = account(store.spent()?, &current, &lineages, &|at| store.load(at))?;
    let event = begin(&stepper, fork, next_name(&lineages), edits, account)?;
    stepper.apply(&event).map_err(DriverError::from)?;
    let (line, time_ms) = (store.load(&At::Head)?.next_line, clock::now_ms());
    let lines = count(&event);
    store.append(
        &[Record {
            line,
            lines,
            time_ms,
            event: event.clone(),
        }],
        Durability::Full,
    )?;
    forked(event, &stepper, &fork.path)
}

fn edits(team: &Team, set: &[String]) -> Result<Vec<Edit>, LaunchError> {
    set.iter()
        .map(|text| edit::parse(team, text).map_err(LaunchError::Missing))
        .collect()
}

fn begin(
    stepper: &Stepper,
    fork: &Fork,
    name: String,
    edits: Vec<Edit>,
    account: Account,
) -> Result<Event, LaunchError> {
    let event = stepper.forked(name, edits, account);
    let none = || StoreError::NoCheckpoint {
        id: fork.at.0.clone(),
        known: Vec::new(),
    };
    Ok(event.ok_or_else(none)?)
}

fn forked(event: Event, stepper: &Stepper, path: &Path) -> Result<Forked, LaunchError> {
    let Event::Forked {
        lineage,
        from,
        checkpoint,
        step,
        edits,
        ..
    } = event
    else {
        unreachable!("a fork begins with the event that says so")
    };
    let pending = pending(stepper, &edits);
    Ok(Forked {
        lineage,
        checkpoint,
        parent: from,
        step,
        path: path.into(),
        pending,
    })
}

fn pending(stepper: &Stepper, edits: &[Edit]) -> Vec<Pending> {
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
                place: edit::place(team, edit),
            };
            if !pending.contains(&new) {
                pending.push(new);
            }
        }
    }
    pending
}
