//! Conflicts of a step: several roles wrote the same key of a scope without a reducer, or the same
//! file. Such a step is not committed; its writers work again.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::commit::{activations_to_commit, commits_several, reducer};
use super::files::{FILES_SCOPE, concerns_path, conflicting_file_writers, revert_files};
use super::ready_index::ReadyIndex;
use super::team_state::TeamState;
use super::turns::reopen_role_calls;
use crate::record::event::{ConflictingWriter, StepConflicted};
use crate::record::fault::{Fault, FaultKind};
use crate::record::id::RoleId;
use crate::record::scope_write::{ROLE_SCOPE, Write};
use crate::record::work::{ActivationKey, CallKey};
use crate::state::activation::{Activation, CallProgress, FinishedCall, ToolOutcome, TurnCall};

/// Returns why the open step cannot be committed, if there is a conflict.
pub(super) fn step_conflict(state: &TeamState, ready_index: &ReadyIndex) -> Option<StepConflicted> {
    if !commits_several(&state.env, ready_index) {
        return None;
    }
    let mut writers: BTreeMap<(&str, &str), Vec<RoleId>> = BTreeMap::new();
    let activations = activations_to_commit(&state.env, ready_index);
    for (key, activation) in &activations {
        for write in activation.writes() {
            if write.scope != ROLE_SCOPE && reducer(&state.team, &write.scope).is_none() {
                let roles = writers.entry((&write.scope, &write.key)).or_default();
                if !roles.contains(&key.role) {
                    roles.push(key.role);
                }
            }
        }
    }
    let files = conflicting_file_writers(&activations)
        .into_iter()
        .map(|(path, roles)| ((FILES_SCOPE, path), roles));
    let ((scope, key), roles) = writers
        .into_iter()
        .chain(files)
        .find(|(_, roles)| roles.len() > 1)?;
    let written = WrittenKey { scope, key };
    let writers = activations
        .into_iter()
        .filter(|(key, _)| roles.contains(&key.role))
        .filter_map(|(key, activation)| conflicting_writer(state, key, activation, written))
        .collect();
    let (scope, key) = (String::from(scope), String::from(key));
    Some(StepConflicted {
        step: state.env.step,
        scope,
        key,
        writers,
    })
}

/// Returns the first call of an activation that wrote a key.
fn conflicting_writer(
    state: &TeamState,
    key: ActivationKey,
    activation: &Activation,
    written: WrittenKey<'_>,
) -> Option<ConflictingWriter> {
    let first = activation.done.iter().find(|done| written.is_by(done));
    let first = first.map(|done| (done.work, &done.progress)).or_else(|| {
        let mut calls = activation.tool_calls();
        let (work, call) = calls.find(|(_, call)| written.is_by_tool_call(call))?;
        Some((work, &call.progress))
    });
    let (work, progress) = first?;
    Some(ConflictingWriter {
        call: CallKey::in_activation(key, work),
        attempt: progress.attempts,
        digest: state.component(key.role, work).cloned(),
    })
}

/// Reverts conflicting writes: every writer goes back to before the first call that wrote the
/// key.
pub(super) fn revert_conflict(state: &mut TeamState, conflict: &StepConflicted) {
    let StepConflicted {
        scope,
        key,
        writers,
        ..
    } = conflict;
    let names: Vec<&str> = writers
        .iter()
        .map(|writer| state.team.role(writer.call.role).name.as_str())
        .collect();
    let message = conflict_message(scope, key, &names);
    let (mut files, mut since) = (Vec::new(), state.env.step);
    for writer in writers {
        let reverted = writer.call.activation();
        let Some(activation) = state.env.activation_mut(reverted) else {
            continue;
        };
        let fault = Fault::new(FaultKind::StateConflict, message.clone());
        let written = WrittenKey { scope, key };
        if let Some(first) = activation.done.iter().position(|done| written.is_by(done)) {
            files.extend(
                activation.done[first..]
                    .iter()
                    .flat_map(|done| done.progress.files.iter().cloned()),
            );
            activation.revert_to(first, fault);
        } else {
            let is_reverted = |call: &TurnCall| written.is_by_tool_call(call);
            files.extend(activation.revert_tool_calls(is_reverted, &fault));
        }
        since = since.min(activation.opened_in_step);
        reopen_role_calls(&mut state.env, reverted);
    }
    revert_files(&mut state.env, files, since);
}

/// Returns the message about several roles that wrote one key in one step. Every one of them gets
/// it, so not all roles are named if there are many.
pub fn conflict_message(scope: &str, key: &str, roles: &[&str]) -> String {
    const NAMED: usize = 8;
    // A role may have written it in several activations.
    let mut roles = Vec::from(roles);
    roles.dedup();
    let names = match roles.split_at_checked(NAMED) {
        Some((named, others)) if others.len() > 1 => {
            format!("{} and {} others", named.join(", "), others.len())
        }
        _ => roles.join(" and "),
    };
    match scope {
        FILES_SCOPE => {
            format!(
                "the file `{key}` was written by {names} in one step; let one role write it, or one after the other"
            )
        }
        _ => format!(
            "`{key}` in scope `{scope}` was written by {names} in one step, and the scope has no reducer; \
             set `[env.scope.{scope}] reducer` or let one role write it"
        ),
    }
}

/// A key of a scope, or a path of a file, that was written.
#[derive(Clone, Copy)]
struct WrittenKey<'a> {
    scope: &'a str,
    key: &'a str,
}

impl WrittenKey<'_> {
    /// Returns whether a finished call wrote it.
    fn is_by(self, done: &FinishedCall) -> bool {
        self.is_among(&done.writes, &done.progress)
    }

    /// Returns whether a tool call that returned wrote it.
    fn is_by_tool_call(self, call: &TurnCall) -> bool {
        match &call.outcome {
            Some(ToolOutcome::Returned(returned)) => {
                self.is_among(&returned.writes, &call.progress) || self.is_in_nested_file(call)
            }
            _ => false,
        }
    }

    /// Returns whether a call within a tool call wrote the file.
    fn is_in_nested_file(self, call: &TurnCall) -> bool {
        let nested = call.with_nested();
        let mut files = nested.iter().flat_map(|(_, call)| &call.progress.files);
        self.scope == FILES_SCOPE && files.any(|change| concerns_path(change, self.key))
    }

    fn is_among(self, writes: &[Write], progress: &CallProgress) -> bool {
        match self.scope {
            FILES_SCOPE => progress
                .files
                .iter()
                .any(|change| concerns_path(change, self.key)),
            _ => writes
                .iter()
                .any(|write| write.scope == self.scope && write.key == self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    use super::conflict_message;

    #[test]
    fn of_many_writers_some_are_named() {
        let named = |roles: &[&str]| {
            conflict_message("s", "k", roles)
                .split(" in one step")
                .next()
                .map(String::from)
        };
        assert_eq!(
            named(&["A", "B", "C"]).as_deref(),
            Some("`k` in scope `s` was written by A and B and C")
        );
        let names: Vec<String> = (0..2000).map(|number| format!("R{number}")).collect();
        let many: Vec<&str> = names.iter().map(String::as_str).collect();
        let message =
            "`k` in scope `s` was written by R0, R1, R2, R3, R4, R5, R6, R7 and 1992 others";
        assert_eq!(named(&many).as_deref(), Some(message));
        // A role that wrote the key in several activations is named once.
        assert_eq!(
            named(&["A", "A", "B"]).as_deref(),
            Some("`k` in scope `s` was written by A and B")
        );
    }
}
