//! The commit: merges the results of a step, all at once and in a fixed order: by role, then call,
//! then message.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::files::commit_files;
use super::joins::{apply_joins, arrivals, fired_by, release_records};
use super::memory::keep_summary;
use super::memory_index::MemoryIndex;
use super::ready_index::{ReadyIndex, RoleStatus};
use super::team_state::{ApplyResult, TeamState, ensure};
use crate::record::event::{Event, RoutingResult, StepCommitted};
use crate::record::id::{CheckpointId, MessageId, RoleId};
use crate::record::message::Hop;
use crate::record::rules::Reducer;
use crate::record::scope_write::{ROLE_SCOPE, ScopeChange};
use crate::record::work::ActivationKey;
use crate::state::activation::{Activation, UncommittedMessage};
use crate::state::environment::join::{Arrival, Firing};
use crate::state::environment::routing::{RouteInput, route};
use crate::state::environment::scope::apply_changes;
use crate::state::environment::{DeadLetter, Environment, Mail, OutboxMessage};
use crate::state::kept_bytes::scope_value_bytes;
use crate::state::messages::MessageRef;
use crate::team::Team;
use crate::team::condition::WorkBudget;

/// Returns the event that commits the open step, or `None` if `goes_on` returned false before
/// everything was decided.
pub(super) fn step_committed_event(
    state: &TeamState,
    ready_index: &ReadyIndex,
    goes_on: &dyn Fn() -> bool,
) -> Option<Event> {
    let published = publications(&state.env, ready_index);
    let routed = route_all(state, &published, goes_on)?;
    let fired = fired_by(state, &arrivals(&published, &routed));
    let released = release_records(&state.env, &fired);
    Some(Event::StepCommitted(StepCommitted {
        step: state.env.step,
        checkpoint: state.env.next_checkpoint_id(),
        parent: parent_checkpoint(&state.env),
        routed,
        released,
    }))
}

/// Returns the parent of the checkpoint of the open step: the newest checkpoint. The parent of
/// the first step is the first checkpoint of the lineage, even if the run was stopped during
/// the step, because from there all of it is made again.
fn parent_checkpoint(env: &Environment) -> Option<CheckpointId> {
    match env.step {
        0 if env.checkpoint.is_some() => Some(env.lineage.first_own_checkpoint()),
        _ => env.checkpoint.clone(),
    }
}

/// Returns the messages that the open step publishes, in order.
pub(super) fn publications(
    env: &Environment,
    ready_index: &ReadyIndex,
) -> Vec<(RoleId, UncommittedMessage)> {
    let mut all = Vec::new();
    for (id, activation) in complete_activations(env, ready_index) {
        all.extend(activation.emissions().map(|outgoing| (id, outgoing)));
        all.extend(activation.output().map(|outgoing| (id, outgoing)));
    }
    all
}

/// Returns the activations that the commit ends, in the order in which they are merged: by role,
/// and that in which a role handles mail before those in which it was called.
pub(super) fn activations_to_commit<'a>(
    env: &'a Environment,
    ready_index: &ReadyIndex,
) -> Vec<(ActivationKey, &'a Activation)> {
    let mut all: Vec<_> = unordered_activations_to_commit(env, ready_index).collect();
    all.sort_by_key(|(key, _)| *key);
    all
}

/// Returns whether the commit ends several activations.
pub(super) fn commits_several(env: &Environment, ready_index: &ReadyIndex) -> bool {
    unordered_activations_to_commit(env, ready_index)
        .nth(1)
        .is_some()
}

fn unordered_activations_to_commit<'a>(
    env: &'a Environment,
    ready_index: &ReadyIndex,
) -> impl Iterator<Item = (ActivationKey, &'a Activation)> {
    complete_activations(env, ready_index).flat_map(|(id, _)| env.activations_of(id))
}

fn complete_activations<'a>(
    env: &'a Environment,
    ready_index: &ReadyIndex,
) -> impl Iterator<Item = (RoleId, &'a Activation)> {
    let complete = ready_index
        .iter()
        .filter(|(_, status)| *status == RoleStatus::Complete);
    complete.filter_map(|(id, _)| Some((id, env.role(id).activation.as_ref()?)))
}

/// Decides who receives the published messages. Returns `None` if `goes_on` returns false
/// before the end. Each sender has its own budget for the conditions of its routes, so that
/// what one publishes does not use up the budget of others.
fn route_all(
    state: &TeamState,
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
            routed.push(route_one(state, *id, *outgoing, &mut budget));
        }
    }
    Some(routed)
}

fn route_one(
    state: &TeamState,
    id: RoleId,
    outgoing: UncommittedMessage,
    budget: &mut WorkBudget,
) -> RoutingResult {
    let message = state.env.message(outgoing.message);
    let input = RouteInput {
        message,
        from: Some(id),
        addressing: outgoing.addressing,
        itinerary: itinerary(&state.env, id, outgoing),
    };
    route(&state.team, &state.address_book, input, budget)
}

/// Returns the hops that a message may follow: its own; or else, for the output of an
/// activation, those of the mail it answers.
fn itinerary(env: &Environment, id: RoleId, outgoing: UncommittedMessage) -> Vec<Hop> {
    let own = &env.message(outgoing.message).route;
    let activation = env.role(id).activation.as_ref();
    match activation {
        Some(activation) if own.is_empty() && activation.output() == Some(outgoing) => activation
            .news
            .iter()
            .flat_map(|news| env.message(*news).route.iter().cloned())
            .collect(),
        _ => own.clone(),
    }
}

/// Merges the memories and writes of the roles of the step into the state.
pub(super) fn merge_activations(
    state: &mut TeamState,
    ready_index: &ReadyIndex,
    memory_index: &mut MemoryIndex,
) {
    let complete = complete_activations(&state.env, ready_index);
    let complete: Vec<RoleId> = complete.map(|(id, _)| id).collect();
    let mut ended = Vec::with_capacity(complete.len());
    for id in complete {
        let role = &mut state.env.roles[id.index()];
        let activation = role.activation.take();
        ended.extend(activation.map(|activation| (ActivationKey::of_mail(id), activation)));
        ended.extend(core::mem::take(&mut role.called));
    }
    ended.sort_by_key(|(key, _)| *key);
    for (ActivationKey { role: id, .. }, activation) in ended {
        // A join may deliver a message again that the role has handled, and a role may receive a
        // message that it sent itself. All other messages were published in one commit and are
        // new.
        let sender = &state.team.role(id).name;
        let is_join_target = state.address_book.is_join_target(id);
        let news = activation.news.iter().copied().filter(|message| {
            let may_be_known = is_join_target || state.env.message(*message).sent_from == *sender;
            !may_be_known || !memory_index.contains(&state.env, id, *message)
        });
        let news: Vec<MessageRef> = news.collect();
        let memory = &mut state.env.roles[id.index()].memory;
        let before = memory.len();
        memory.extend(news);
        memory.extend(activation.outputs());
        state.kept.add_references(memory.len() - before);
        keep_summary(&mut state.env, id, &activation, before);
        apply_writes(state, id, &activation);
        commit_files(&mut state.env, id, &activation);
    }
}

/// Delivers the published messages, in order. A join fires at the message that completes it, so
/// that its release is in a mailbox before anything published later.
pub(super) fn deliver_all(
    state: &mut TeamState,
    published: &[(RoleId, UncommittedMessage)],
    routed: &[RoutingResult],
    mut arrivals: &[Arrival],
    mut fired: &[Firing],
) {
    for (at, ((_, outgoing), routed)) in published.iter().zip(routed).enumerate() {
        deliver(state, outgoing.message, routed);
        let arrived;
        (arrived, arrivals) =
            arrivals.split_at(arrivals.partition_point(|arrival| arrival.published_index <= at));
        let firing;
        (firing, fired) =
            fired.split_at(fired.partition_point(|firing| firing.published_index <= at));
        apply_joins(state, arrived, firing);
    }
    // Joins that were filled by an edit of the saved state fire even if nothing was published.
    apply_joins(state, arrivals, fired);
}

/// Adds a message to the history, the mailboxes, the dead letters and the outbox.
pub(super) fn deliver(state: &mut TeamState, message: MessageRef, routed: &RoutingResult) {
    state.kept.add_delivery(routed);
    let env = &mut state.env;
    if env.message(message).route != routed.remaining_route {
        env.messages.update(message.0 as usize, |stored| {
            Arc::make_mut(stored).route = routed.remaining_route.clone();
        });
    }
    env.history.push(message);
    for id in &routed.to {
        env.roles[id.index()].mailbox.push(Mail::batched(message));
    }
    let dead = routed.undeliverable.iter().map(|to| DeadLetter {
        message,
        to: to.clone(),
    });
    env.dead_letters.extend(dead);
    if !routed.external.is_empty() {
        env.outbox.push(OutboxMessage {
            message,
            to: routed.external.clone(),
            failed: None,
        });
    }
}

/// Applies the delivery of the oldest message in the outbox, or the failure of the delivery;
/// then it stays the oldest.
pub(super) fn apply_handed_over(
    state: &mut TeamState,
    id: &MessageId,
    failed: Option<&String>,
) -> ApplyResult {
    state.ensure_running()?;
    let next = state
        .env
        .outbox
        .first()
        .filter(|outbound| outbound.failed.is_none());
    let is_next = next.is_some_and(|outbound| state.env.message(outbound.message).id == *id);
    ensure(
        is_next,
        "the handing over of a message that is not the next on its way out",
    )?;
    match failed {
        None => {
            let outbound = state.env.outbox.remove(0);
            state.kept.remove_outbound(&outbound);
        }
        Some(why) => state.env.outbox[0].failed = Some(why.clone()),
    }
    Ok(())
}

pub(super) fn reducer(team: &Team, scope: &str) -> Option<Reducer> {
    team.scopes.get(scope).copied().flatten()
}

fn apply_writes(state: &mut TeamState, id: RoleId, activation: &Activation) {
    let mut changes: BTreeMap<(&str, &str), Vec<&ScopeChange>> = BTreeMap::new();
    for write in activation.writes() {
        changes
            .entry((&write.scope, &write.key))
            .or_default()
            .push(&write.change);
    }
    for ((scope, key), changes) in changes {
        let (values, reducer) = if scope == ROLE_SCOPE {
            (&mut state.env.roles[id.index()].scope, None)
        } else {
            let reducer = reducer(&state.team, scope);
            (
                state.env.shared_scopes.entry(scope.into()).or_default(),
                reducer,
            )
        };
        // The old value is removed, not copied: a list that is appended to may be long.
        let old = values.remove(key);
        let old_bytes = old.as_ref().map(|old| scope_value_bytes(key, old));
        let value = apply_changes(reducer, old, changes);
        state.kept.replace_value(key, old_bytes, value.as_ref());
        values.extend(value.map(|value| (key.into(), value)));
    }
}
