//! Joins in a commit and between steps: the arrivals and releases that events record. Which messages
//! enter a join is decided in `environment::routing`, and which joins fire in `environment::join`.

use alloc::vec::Vec;

use super::ready_index::ReadyIndex;
use super::team_state::TeamState;
use crate::record::event::{Event, JoinRelease, JoinReleased, RoutingResult};
use crate::record::id::RoleId;
use crate::state::activation::UncommittedMessage;
use crate::state::environment::Environment;
use crate::state::environment::join::{Arrival, Firing, TeamActivity, compute_firings};

/// Returns the entries of these messages into joins.
pub(super) fn arrivals(
    published: &[(RoleId, UncommittedMessage)],
    routed: &[RoutingResult],
) -> Vec<Arrival> {
    let all = published.iter().zip(routed).enumerate();
    let arrivals = all.flat_map(|(published_index, ((from, outgoing), routed))| {
        let arrival = move |join| Arrival {
            join,
            from: *from,
            message: outgoing.message,
            published_index,
        };
        routed.joins.iter().copied().map(arrival)
    });
    arrivals.collect()
}

/// Returns the joins that fire when these messages enter.
pub(super) fn fired_by(state: &TeamState, arrivals: &[Arrival]) -> Vec<Firing> {
    compute_firings(
        &state.team,
        &state.address_book,
        &state.env.joins,
        arrivals,
        TeamActivity::Busy,
    )
}

/// Returns whether no role has mail or open work and the outbox is empty, without examining every role.
fn is_quiet(env: &Environment, ready_index: &ReadyIndex) -> bool {
    env.outbox.is_empty() && ready_index.iter().next().is_none()
}

/// Returns the joins that fire between steps. While there is other work these are only joins
/// that were filled by an edit of the saved state.
pub(super) fn fired_between_steps(state: &TeamState, ready_index: &ReadyIndex) -> Vec<Firing> {
    let activity = if is_quiet(&state.env, ready_index) {
        TeamActivity::Quiet
    } else {
        TeamActivity::Busy
    };
    compute_firings(
        &state.team,
        &state.address_book,
        &state.env.joins,
        &[],
        activity,
    )
}

/// Returns the event that makes joins fire between steps, if any can.
pub(super) fn join_released_event(state: &TeamState, ready_index: &ReadyIndex) -> Option<Event> {
    let firings = fired_between_steps(state, ready_index);
    let released = release_records(&state.env, &firings);
    (!released.is_empty()).then_some(Event::JoinReleased(JoinReleased { released }))
}

/// Returns the record of what these joins release.
pub(super) fn release_records(env: &Environment, firings: &[Firing]) -> Vec<JoinRelease> {
    let released = |firing: &Firing| JoinRelease {
        join: firing.join,
        messages: firing
            .messages
            .iter()
            .map(|(from, message)| (*from, env.message(*message).id.clone()))
            .collect(),
        to: firing.to.clone(),
        into: firing.into,
    };
    firings.iter().map(released).collect()
}

/// Moves messages into joins, then out of those that fire.
pub(super) fn apply_joins(state: &mut TeamState, arrivals: &[Arrival], firings: &[Firing]) {
    let TeamState {
        team,
        env,
        address_book,
        kept,
    } = state;
    for Arrival {
        join,
        from,
        message,
        ..
    } in arrivals
    {
        if let Some(source) = address_book.source_index(*join, *from) {
            kept.add_references(env.joins[join.index()].enqueue(source, *message));
        }
    }
    for Firing {
        join: id,
        messages,
        to,
        into,
        ..
    } in firings
    {
        let join = team.join(*id);
        for (from, message) in messages {
            if let Some(source) = address_book.source_index(*id, *from) {
                kept.remove_references(env.joins[id.index()].dequeue(source));
            }
            let next = into.and_then(|next| Some((next, address_book.source_index(next, *from)?)));
            if let Some((next, source)) = next {
                kept.add_references(env.joins[next.index()].enqueue_once(source, *message));
            }
        }
        let released = messages.iter().map(|(_, message)| *message);
        for role in to {
            let role = &mut env.roles[role.index()];
            kept.add_references(role.deliver_once(released.clone(), join.deliver));
        }
    }
}
