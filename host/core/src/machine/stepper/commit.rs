//! The commit: merges the results of a step, all at once and in a fixed order: by role, then call,
//! then message.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Stepper;
use super::checks::{ApplyResult, ensure};
use super::files::{FILES_SCOPE, concerns_path};
use super::ready_index::RoleStatus;
use crate::record::event::{
    ConflictingWriter, Event, RoutingResult, StepCommitted, StepConflicted,
};
use crate::record::fault::{Fault, FaultKind};
use crate::record::id::{CheckpointId, MessageId, RoleId};
use crate::record::message::Hop;
use crate::record::rules::Reducer;
use crate::record::scope_write::{ROLE_SCOPE, ScopeChange, Write};
use crate::record::work::{ActivationKey, CallKey};
use crate::state::activation::{
    Activation, CallProgress, FinishedCall, ToolOutcome, TurnCall, UncommittedMessage,
};
use crate::state::environment::join::{Arrival, Firing};
use crate::state::environment::routing::{RouteInput, route};
use crate::state::environment::scope::apply_changes;
use crate::state::environment::{DeadLetter, Mail, OutboxMessage};
use crate::state::messages::MessageRef;
use crate::team::condition::WorkBudget;

impl Stepper {
    /// Returns the event that commits the open step, or `None` if `goes_on` returned false before
    /// everything was decided.
    pub(super) fn step_committed_event(&self, goes_on: &dyn Fn() -> bool) -> Option<Event> {
        let published = self.publications();
        let routed = self.route_all(&published, goes_on)?;
        let released = self.release_records(&self.fired_by(&self.arrivals(&published, &routed)));
        Some(Event::StepCommitted(StepCommitted {
            step: self.env.step,
            checkpoint: self.env.next_checkpoint_id(),
            parent: self.parent_checkpoint(),
            routed,
            released,
        }))
    }

    /// Returns the parent of the checkpoint of the open step: the newest checkpoint. The parent of
    /// the first step is the first checkpoint of the lineage, even if the run was stopped during
    /// the step, because from there all of it is made again.
    fn parent_checkpoint(&self) -> Option<CheckpointId> {
        match self.env.step {
            0 if self.env.checkpoint.is_some() => Some(self.env.lineage.first_own_checkpoint()),
            _ => self.env.checkpoint.clone(),
        }
    }

    /// Returns why the open step cannot be committed, if there is a conflict.
    pub(super) fn step_conflict(&self) -> Option<StepConflicted> {
        let mut writers: BTreeMap<(&str, &str), Vec<RoleId>> = BTreeMap::new();
        for (key, activation) in self.activations_to_commit() {
            for write in activation.writes() {
                if write.scope != ROLE_SCOPE && self.reducer(&write.scope).is_none() {
                    let roles = writers.entry((&write.scope, &write.key)).or_default();
                    if !roles.contains(&key.role) {
                        roles.push(key.role);
                    }
                }
            }
        }
        let files = self
            .conflicting_file_writers()
            .into_iter()
            .map(|(path, roles)| ((FILES_SCOPE, path), roles));
        let ((scope, key), roles) = writers
            .into_iter()
            .chain(files)
            .find(|(_, roles)| roles.len() > 1)?;
        let written = WrittenKey { scope, key };
        let writers = self
            .activations_to_commit()
            .filter(|(key, _)| roles.contains(&key.role))
            .filter_map(|(key, activation)| self.conflicting_writer(key, activation, written))
            .collect();
        let (scope, key) = (String::from(scope), String::from(key));
        Some(StepConflicted {
            step: self.env.step,
            scope,
            key,
            writers,
        })
    }

    /// Returns the first call of an activation that wrote a key.
    fn conflicting_writer(
        &self,
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
            digest: self.component(key.role, work).cloned(),
        })
    }

    /// Returns the messages that the open step publishes, in order.
    pub(super) fn publications(&self) -> Vec<(RoleId, UncommittedMessage)> {
        let mut all = Vec::new();
        for (id, activation) in self.complete_activations() {
            all.extend(activation.emissions().map(|outgoing| (id, outgoing)));
            all.extend(activation.output().map(|outgoing| (id, outgoing)));
        }
        all
    }

    /// Returns the activations that the commit ends, in the order in which they are merged: by role,
    /// and that in which a role handles mail before those in which it was called.
    pub(super) fn activations_to_commit(
        &self,
    ) -> impl Iterator<Item = (ActivationKey, &Activation)> {
        let complete = self.complete_activations();
        let mut all: Vec<_> = complete
            .flat_map(|(id, _)| self.env.activations_of(id))
            .collect();
        all.sort_by_key(|(key, _)| *key);
        all.into_iter()
    }

    fn complete_activations(&self) -> impl Iterator<Item = (RoleId, &Activation)> {
        let complete = self
            .ready_index
            .iter()
            .filter(|(_, stand)| *stand == RoleStatus::Complete);
        complete.filter_map(|(id, _)| Some((id, self.env.role(id).activation.as_ref()?)))
    }

    /// Decides who receives the published messages. Returns `None` if `goes_on` returns false
    /// before the end. Each sender has its own budget for the conditions of its routes, so that
    /// what one publishes does not use up the budget of others.
    fn route_all(
        &self,
        published: &[(RoleId, UncommittedMessage)],
        goes_on: &dyn Fn() -> bool,
    ) -> Option<Vec<RoutingResult>> {
        let mut routed = Vec::with_capacity(published.len());
        for of_sender in published.chunk_by(|one, next| one.0 == next.0) {
            let mut budget = WorkBudget::default();
            for (id, outgoing) in of_sender {
                if !goes_on() {
                    return None;
                }
                routed.push(self.route_one(*id, *outgoing, &mut budget));
            }
        }
        Some(routed)
    }

    fn route_one(
        &self,
        id: RoleId,
        outgoing: UncommittedMessage,
        budget: &mut WorkBudget,
    ) -> RoutingResult {
        let message = self.env.message(outgoing.message);
        let input = RouteInput {
            message,
            from: Some(id),
            addressing: outgoing.addressing,
            itinerary: self.itinerary(id, outgoing),
        };
        route(&self.team, &self.address_book, input, budget)
    }

    /// Returns the hops that a message may follow: its own; or else, for the output of an
    /// activation, those of the mail it answers.
    fn itinerary(&self, id: RoleId, outgoing: UncommittedMessage) -> Vec<Hop> {
        let own = &self.env.message(outgoing.message).route;
        let activation = self.env.role(id).activation.as_ref();
        match activation {
            Some(activation) if own.is_empty() && activation.output() == Some(outgoing) => {
                activation
                    .news
                    .iter()
                    .flat_map(|news| self.env.message(*news).route.iter().cloned())
                    .collect()
            }
            _ => own.clone(),
        }
    }

    /// Merges the memories and writes of the roles of the step into the state.
    pub(super) fn merge_activations(&mut self) {
        let complete: Vec<RoleId> = self.complete_activations().map(|(id, _)| id).collect();
        let mut ended = BTreeMap::new();
        for id in complete {
            let state = &mut self.env.roles[id.index()];
            ended.append(&mut state.called);
            let activation = state.activation.take();
            ended.extend(activation.map(|activation| (ActivationKey::of_mail(id), activation)));
        }
        for (ActivationKey { role: id, .. }, activation) in ended {
            let news = self.not_in_memory(id, &activation.news);
            let memory = &mut self.env.roles[id.index()].memory;
            memory.extend(news);
            memory.extend(activation.outputs());
            self.apply_writes(id, &activation);
            self.commit_files(id, &activation);
        }
    }

    /// Delivers the published messages, in order. A join fires at the message that completes it, so
    /// that its release is in a mailbox before anything published later.
    pub(super) fn deliver_all(
        &mut self,
        published: &[(RoleId, UncommittedMessage)],
        routed: &[RoutingResult],
        mut arrivals: &[Arrival],
        mut fired: &[Firing],
    ) {
        for (at, ((_, outgoing), routed)) in published.iter().zip(routed).enumerate() {
            self.deliver(outgoing.message, routed);
            let arrived;
            (arrived, arrivals) = arrivals
                .split_at(arrivals.partition_point(|arrival| arrival.published_index <= at));
            let firing;
            (firing, fired) =
                fired.split_at(fired.partition_point(|firing| firing.published_index <= at));
            self.apply_joins(arrived, firing);
        }
        // Joins that were filled by an edit of the saved state fire even if nothing was published.
        self.apply_joins(arrivals, fired);
    }

    /// Adds a message to the history, the mailboxes, the dead letters and the outbox.
    pub(super) fn deliver(&mut self, message: MessageRef, routed: &RoutingResult) {
        let stored = self.env.messages.get_mut(message.0 as usize);
        if stored.route != routed.remaining_route {
            Arc::make_mut(stored).route = routed.remaining_route.clone();
        }
        self.env.history.push(message);
        for id in &routed.to {
            self.env.roles[id.index()]
                .mailbox
                .push(Mail::batched(message));
        }
        let dead = routed.undeliverable.iter().map(|to| DeadLetter {
            message,
            to: to.clone(),
        });
        self.env.dead_letters.extend(dead);
        if !routed.external.is_empty() {
            self.env.outbox.push(OutboxMessage {
                message,
                to: routed.external.clone(),
                failed: None,
            });
        }
    }

    /// Applies the delivery of the oldest message in the outbox, or the failure of the delivery;
    /// then it stays the oldest.
    pub(super) fn apply_handed_over(
        &mut self,
        id: &MessageId,
        failed: Option<&String>,
    ) -> ApplyResult {
        self.ensure_running()?;
        let next = self
            .env
            .outbox
            .first()
            .filter(|outbound| outbound.failed.is_none());
        let is_next = next.is_some_and(|outbound| self.env.message(outbound.message).id == *id);
        ensure(
            is_next,
            "the handing over of a message that is not the next on its way out",
        )?;
        match failed {
            None => {
                self.env.outbox.remove(0);
            }
            Some(why) => self.env.outbox[0].failed = Some(why.clone()),
        }
        Ok(())
    }

    fn reducer(&self, scope: &str) -> Option<Reducer> {
        self.team.scopes.get(scope).copied().flatten()
    }

    fn apply_writes(&mut self, id: RoleId, activation: &Activation) {
        let mut changes: BTreeMap<(&str, &str), Vec<&ScopeChange>> = BTreeMap::new();
        for write in activation.writes() {
            changes
                .entry((&write.scope, &write.key))
                .or_default()
                .push(&write.change);
        }
        for ((scope, key), changes) in changes {
            let (values, reducer) = if scope == ROLE_SCOPE {
                (&mut self.env.roles[id.index()].scope, None)
            } else {
                let reducer = self.reducer(scope);
                (
                    self.env.shared_scopes.entry(scope.into()).or_default(),
                    reducer,
                )
            };
            // The old value is removed, not copied: a list that is appended to may be long.
            let value = apply_changes(reducer, values.remove(key), changes);
            values.extend(value.map(|value| (key.into(), value)));
        }
    }

    /// Reverts conflicting writes: every writer goes back to before the first call that wrote the
    /// key.
    pub(super) fn revert_conflict(&mut self, conflict: &StepConflicted) {
        let StepConflicted {
            scope,
            key,
            writers,
            ..
        } = conflict;
        let names: Vec<&str> = writers
            .iter()
            .map(|writer| self.team.role(writer.call.role).name.as_str())
            .collect();
        let message = conflict_message(scope, key, &names);
        let (mut files, mut since) = (Vec::new(), self.env.step);
        for writer in writers {
            let reverted = writer.call.activation();
            let Some(activation) = self.env.activation_mut(reverted) else {
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
            self.reopen_role_calls(reverted);
        }
        self.revert_files(files, since);
    }
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
                self.is_among(&returned.writes, &call.progress)
            }
            _ => false,
        }
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
