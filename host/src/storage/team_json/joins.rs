//! Joins in the file: `strata.joins`, the messages that wait in each join, by their sources.
//! Somebody may have edited it, for example to add a message that a join would wait for in vain.

use std::collections::VecDeque;

use strata_core::state::environment::Environment;
use strata_core::state::environment::join::JoinState;
use strata_core::state::messages::MessageRef;
use strata_core::team::Team;

use super::ImportError;
use super::layout::{self, OrderedObject};
use super::located_value::LocatedValue;
use super::messages::ImportedMessages;

/// The fields that are understood. Others are refused, since a misspelled field would lose
/// messages.
const JOIN_FIELDS: &[&str] = &["sources", "queue"];

/// Returns the messages that wait in the joins.
pub(super) fn write<'a>(
    team: &'a Team,
    env: &'a Environment,
) -> OrderedObject<'a, layout::JoinJson<'a>> {
    let mut joins = Vec::with_capacity(team.joins.len());
    for (join, state) in team.joins.iter().zip(&env.joins) {
        let sources: Vec<&str> = join
            .from
            .iter()
            .map(|id| team.role(*id).name.as_str())
            .collect();
        let ids = |queue: &'a VecDeque<MessageRef>| {
            queue
                .iter()
                .map(|id| env.message(*id).id.0.as_str())
                .collect()
        };
        let queue = OrderedObject(
            sources
                .iter()
                .copied()
                .zip(state.queues.iter().map(ids))
                .collect(),
        );
        joins.push((join.id.as_str(), layout::JoinJson { sources, queue }));
    }
    OrderedObject(joins)
}

/// Reads the messages that wait in the joins of a team.
pub(super) fn read(
    team: &Team,
    strata: Option<&LocatedValue<'_>>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Vec<JoinState>, ImportError> {
    let mut states: Vec<JoinState> = team.joins.iter().map(JoinState::new).collect();
    let Some(joins) = strata
        .map(|strata| strata.get_object("joins"))
        .transpose()?
        .flatten()
    else {
        return Ok(states);
    };
    for (id, place) in joins.fields()? {
        let at = team.joins.iter().position(|join| join.id == id);
        let Some(at) = at else {
            return Err(place.invalid("is no join of the team"));
        };
        read_join(team, at, &place, &mut states[at], messages)?;
    }
    Ok(states)
}

fn read_join(
    team: &Team,
    at: usize,
    place: &LocatedValue<'_>,
    state: &mut JoinState,
    messages: &mut ImportedMessages<'_>,
) -> Result<(), ImportError> {
    if let Some((_, unknown)) = place
        .fields()?
        .find(|(name, _)| !JOIN_FIELDS.contains(name))
    {
        return Err(unknown.invalid("is nothing that a join has: it has `sources` and `queue`"));
    }
    let sources: Vec<&str> = team.joins[at]
        .from
        .iter()
        .map(|id| team.role(*id).name.as_str())
        .collect();
    if place
        .get_texts("sources")?
        .is_some_and(|saved| saved != sources)
    {
        return Err(place.invalid(format!(
            "has other sources than the team's, which are {}",
            sources.join(", ")
        )));
    }
    let Some(queue) = place.get_object("queue")? else {
        return Ok(());
    };
    for (name, waiting) in queue.fields()? {
        let source = sources.iter().position(|source| *source == name);
        let Some(source) = source else {
            return Err(waiting.invalid("is no source of the join"));
        };
        let listed = waiting
            .items()?
            .map(|item| messages.resolve(&item))
            .collect::<Result<Vec<_>, _>>()?;
        state.queues[source].extend(messages.first_per_message(
            || waiting.pointer(),
            listed,
            |message| *message,
        ));
    }
    Ok(())
}
