//! Files of actions: recorded with the success of an attempt, committed with the step, and reverted
//! if two roles changed the same file in one step.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::team_state::{ApplyResult, TeamState, ensure};
use crate::record::file::{FileChange, PathContent};
use crate::record::id::RoleId;
use crate::record::work::{ActivationKey, CallKey, Work};
use crate::state::activation::Activation;
use crate::state::environment::Environment;

/// Stands in place of the name of a scope when a conflict over a file is reported.
pub const FILES_SCOPE: &str = "<files>";

pub(super) fn apply_files_written(
    state: &mut TeamState,
    call: CallKey,
    files: &[FileChange],
) -> ApplyResult {
    let once =
        files.is_sorted_by(|a, b| a.path < b.path) && files.iter().all(FileChange::is_recorded);
    ensure(
        once && !files.is_empty(),
        "changes of files that are not in order",
    )?;
    state.running_call_mut(call)?.progress.files = files.to_vec();
    if call.work.nested().is_some() {
        // They take effect if the call succeeds that this one was made in.
        return Ok(());
    }
    let activation = state.activation_mut(call.activation())?;
    // A later call of the turn wins, also if it ended sooner.
    let changed_later: Vec<String> = activation
        .file_changes()
        .filter(|(work, _)| activation.is_of_incomplete_turn(*work) && *work > call.work)
        .map(|(_, change)| change.path.clone())
        .collect();
    for change in files {
        if !changed_later.contains(&change.path) {
            state.env.files.record_change(change);
        }
    }
    Ok(())
}

/// Records the file changes of the calls within a tool call of a model, which succeeds. Those of the
/// call itself are recorded already, and win.
pub(super) fn record_nested_files(state: &mut TeamState, call: CallKey) -> ApplyResult {
    if call.work.nested().is_some() {
        return Ok(());
    }
    let activation = state.activation_mut(call.activation())?;
    let Some(ending) = activation.tool_call(call.work) else {
        return Ok(());
    };
    let nested = ending.nested_files(call.work);
    if nested.is_empty() {
        // Looking at the changes of all other calls takes the longer the longer the conversation is.
        return Ok(());
    }
    let later = activation
        .file_changes()
        .filter(|(work, _)| activation.is_of_incomplete_turn(*work) && *work > call.work)
        .map(|(_, change)| change);
    let winning: Vec<&FileChange> = later.chain(&ending.progress.files).collect();
    let mut changes = Vec::new();
    for (_, change) in nested {
        if winning.iter().all(|other| other.path != change.path) {
            changes.push(change.clone());
        }
    }
    for change in &changes {
        state.env.files.record_change(change);
    }
    Ok(())
}

pub(super) fn apply_files_placed(env: &mut Environment, count: usize) -> ApplyResult {
    let pending = &mut env.files.pending;
    ensure(
        (1..=pending.len()).contains(&count),
        "files that were not to be placed",
    )?;
    pending.drain(..count);
    Ok(())
}

/// Returns, by path, the roles of those of these activations that changed a file that another one
/// changed as well. Several roles may create the same directory, or write a file again with the bytes
/// it has. A role that leaves something below a path conflicts with one that left no directory
/// at that path.
pub(super) fn conflicting_file_writers<'a>(
    activations: &[(ActivationKey, &'a Activation)],
) -> BTreeMap<&'a str, Vec<RoleId>> {
    let changes = || {
        activations.iter().flat_map(|(key, activation)| {
            let changes = activation.file_changes();
            changes.map(move |(_, change)| (key.role, change))
        })
    };
    let mut writers: BTreeMap<&str, (Vec<RoleId>, bool)> = BTreeMap::new();
    let mut closed: BTreeMap<&str, Vec<RoleId>> = BTreeMap::new();
    let join = |roles: &mut Vec<RoleId>, id| {
        if !roles.contains(&id) {
            roles.push(id);
        }
    };
    for (id, change) in changes() {
        let (roles, harmless) = writers.entry(&change.path).or_insert((Vec::new(), true));
        *harmless &= change.after == PathContent::Directory || change.before == change.after;
        join(roles, id);
        if change.after != PathContent::Directory {
            join(closed.entry(&change.path).or_default(), id);
        }
    }
    for (id, change) in changes().filter(|(_, change)| change.after != PathContent::Absent) {
        let others = ancestors(&change.path)
            .filter_map(|above| closed.get(above))
            .flatten()
            .filter(|other| **other != id);
        for other in others {
            if let Some((roles, harmless)) = writers.get_mut(change.path.as_str()) {
                join(roles, *other);
                *harmless = false;
            }
        }
    }
    let fights = writers.into_iter().filter(|(_, (_, harmless))| !harmless);
    let in_order = |mut roles: Vec<RoleId>| {
        roles.sort();
        roles
    };
    fights
        .map(|(path, (roles, _))| (path, in_order(roles)))
        .collect()
}

/// Commits the file changes of an activation: for each path, the content before the first
/// change and after the last one.
pub(super) fn commit_files(env: &mut Environment, id: RoleId, activation: &Activation) {
    let mut whole: BTreeMap<&str, (FileChange, Work)> = BTreeMap::new();
    for (by, change) in activation.file_changes() {
        let (sum, work) = whole
            .entry(&change.path)
            .or_insert_with(|| (change.clone(), by));
        (sum.after, *work) = (change.after.clone(), by);
    }
    for (change, work) in whole.into_values() {
        env.files.commit_change(&change, id, work, env.step);
    }
}

/// Reverts the file changes of calls that are reverted. These were made in step `since` or
/// later, so whatever was committed from that step on came after them.
pub(super) fn revert_files(env: &mut Environment, files: Vec<FileChange>, since: u64) {
    let mut first: BTreeMap<&str, &PathContent> = BTreeMap::new();
    for change in &files {
        first.entry(&change.path).or_insert(&change.before);
    }
    // In reverse order: the content of a directory comes before the directory.
    for (path, before) in first.into_iter().rev() {
        let open = env.activations();
        let left = open
            .flat_map(|(_, activation)| activation.file_changes())
            .filter(|(_, change)| change.path == path);
        let committed = env
            .files
            .committed
            .get(path)
            .filter(|file| file.step >= since)
            .map(|file| &file.content);
        let content = left
            .last()
            .map(|(_, change)| &change.after)
            .or(committed)
            .unwrap_or(before)
            .clone();
        env.files.set_intended(path, &content, &content);
    }
}

/// Returns whether a change is of this path or of one above it.
pub(super) fn concerns_path(change: &FileChange, path: &str) -> bool {
    change.path == path
        || change.after != PathContent::Directory
            && ancestors(path).any(|above| above == change.path)
}

/// Returns the paths above a path.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}
