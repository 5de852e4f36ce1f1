//! Joins in the file: `strata.joins`, the messages that wait in each join, by their sources.
//! Somebody may have edited it, for example to add a message that a join would wait for in vain.

use strata_core::record::id::RoleId;
use strata_core::state::environment::Environment;
use strata_core::state::environment::join::JoinState;
use strata_core::team::Team;

use super::decode::field_names;
use super::field::{MessageLink, OrderedObject};
use super::layout::JoinJson;
use super::located_value::{ImportResult, LocatedValue};
use super::messages::ImportedMessages;

/// Returns the messages that wait in the joins.
pub(super) fn write<'a>(team: &'a Team, env: &'a Environment) -> OrderedObject<'a, JoinJson<'a>> {
    let mut joins = OrderedObject::default();
    for (join, state) in team.joins.iter().zip(&env.joins) {
        let sources = source_names(team, &join.from);
        let mut queue = OrderedObject::default();
        for (source, waiting) in sources.iter().zip(&state.queues) {
            let waiting = waiting.iter();
            let links = waiting.map(|id| MessageLink::to(&env.message(*id).id.0));
            queue.push(source, links.collect());
        }
        let sources = Some(sources.into_iter().collect());
        joins.push(&join.id, JoinJson { sources, queue });
    }
    joins
}

/// Returns the names of the sources of a join.
fn source_names<'a>(team: &'a Team, sources: &[RoleId]) -> Vec<&'a str> {
    let sources = sources.iter();
    sources.map(|id| team.role(*id).name.as_str()).collect()
}

/// Reads the messages that wait in the joins of a team.
pub(super) fn read(
    team: &Team,
    saved: OrderedObject<'_, JoinJson<'_>>,
    joins: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Vec<JoinState>> {
    let mut states: Vec<JoinState> = team.joins.iter().map(JoinState::new).collect();
    for (id, saved) in saved.0 {
        let place = joins.child(&id);
        let join = team.joins.iter().zip(&mut states);
        let Some((join, state)) = join.into_iter().find(|(join, _)| join.id == id) else {
            return Err(place.invalid("is no join of the team"));
        };
        let sources = source_names(team, &join.from);
        read_join(&sources, saved, &place, state, messages)?;
    }
    Ok(states)
}

fn read_join(
    sources: &[&str],
    saved: JoinJson<'_>,
    place: &LocatedValue<'_>,
    state: &mut JoinState,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<()> {
    // Other fields are refused, since a misspelled field would lose messages.
    let known = field_names::<JoinJson<'_>>();
    if let Some((_, unknown)) = place.fields()?.find(|(name, _)| !known.contains(name)) {
        return Err(unknown.invalid("is nothing that a join has: it has `sources` and `queue`"));
    }
    if saved.sources.is_some_and(|saved| *saved.0 != *sources) {
        return Err(place.invalid(format!(
            "has other sources than the team's, which are {}",
            sources.join(", ")
        )));
    }
    let queue = place.child("queue");
    for (name, links) in saved.queue.0 {
        let waiting = queue.child(&name);
        let source = sources.iter().position(|source| *source == name);
        let Some(source) = source else {
            return Err(waiting.invalid("is no source of the join"));
        };
        state.queues[source].extend(messages.read_unique_links(&links, &waiting)?);
    }
    Ok(())
}
