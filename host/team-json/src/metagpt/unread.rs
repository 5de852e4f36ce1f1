//! Messages that no role has read. MetaGPT saves no mailboxes: a message that was published, and is
//! not in the memory of a role that receives it, is still unread by that role.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::record::message::TO_ALL;
use strata_core::state::environment::{Mail, RoleState};
use strata_core::state::messages::MessageRef;
use strata_core::team::{Role, Team};

use super::super::located_value::LocatedValue;
use super::super::messages::ImportedMessages;

/// The limit for how many bytes of a history that is a string are searched, for all messages
/// together.
const MAX_SEARCHED_BYTES: usize = 1 << 28;

/// What a file says about published messages.
#[derive(Clone, Copy)]
pub(in super::super) struct Published<'a> {
    /// The part of the file that may contain the history as a string, as MetaGPT wrote it before version 1.0.
    pub env: &'a LocatedValue<'a>,
    /// The history, if the file lists it.
    pub history: &'a [MessageRef],
}

/// Puts messages into the mailboxes of the roles that receive them and have not read them. `entries` are the entries of
/// the roles.
pub(in super::super) fn deliver_unread(
    team: &Team,
    file: Published<'_>,
    entries: &[&LocatedValue<'_>],
    states: &mut [RoleState],
    messages: &ImportedMessages<'_>,
) {
    let from_text;
    let published = match file
        .env
        .get("history")
        .and_then(|history| history.value().as_str().map(String::from))
    {
        Some(text) => {
            from_text = find_published(&text, team, states, messages);
            &from_text
        }
        None => file.history,
    };
    for ((role, entry), state) in team.roles.iter().zip(entries).zip(states) {
        let unread = unread_messages(role, entry, published, state, messages);
        state.mailbox.extend(unread.into_iter().map(Mail::batched));
    }
}

/// Returns the published messages that a role receives and has not read, in order.
fn unread_messages(
    role: &Role,
    entry: &LocatedValue<'_>,
    published: &[MessageRef],
    state: &RoleState,
    messages: &ImportedMessages<'_>,
) -> Vec<MessageRef> {
    let activation = state.activation.iter();
    let at_work = activation.flat_map(|a| {
        a.news
            .iter()
            .copied()
            .chain(a.done.iter().map(|done| done.output.message))
    });
    let waiting = state.mailbox.iter().map(|mail| mail.message);
    let known: BTreeSet<MessageRef> = state
        .memory
        .iter()
        .copied()
        .chain(at_work)
        .chain(waiting)
        .collect();
    // A role without memory has read everything up to the newest message it took.
    let read = state.latest.filter(|_| !super::has_memory(entry));
    let read = read
        .and_then(|latest| published.iter().position(|message| *message == latest))
        .map_or(0, |at| at + 1);
    let receives = |id: &MessageRef| {
        let message = messages.get(*id);
        let names = || {
            message
                .send_to
                .iter()
                .any(|name| messages.names().is_role(&role.name, name))
        };
        let to_all = message.send_to.iter().any(|name| name == TO_ALL)
            && role.watch.contains(&message.cause_by);
        (to_all || names()) && message.sent_from != role.name
    };
    published[read..]
        .iter()
        .copied()
        .filter(|id| !known.contains(id) && receives(id))
        .collect()
}

/// Returns those messages in the memories of roles that a history in the form of a string contains,
/// in its order. It has a line `SPEAKER: CONTENT` for each. Messages with structured content are
/// not searched for, since they are written in Python's notation. The last message of an idle role
/// was published in any case, since that ends an activation.
fn find_published(
    text: &str,
    team: &Team,
    states: &[RoleState],
    messages: &ImportedMessages<'_>,
) -> Vec<MessageRef> {
    let mut found: BTreeMap<MessageRef, usize> = BTreeMap::new();
    let mut searches = MAX_SEARCHED_BYTES / (text.len() + 1);
    for (role, state) in team.roles.iter().zip(states) {
        let own = |id: &&MessageRef| messages.get(**id).sent_from == role.name;
        if let Some(last) = state
            .memory
            .iter()
            .rfind(own)
            .filter(|_| state.activation.is_none())
        {
            found.entry(*last).or_insert(usize::MAX);
        }
        let at_work = state
            .activation
            .iter()
            .flat_map(|activation| &activation.news);
        for id in state.memory.iter().chain(at_work) {
            let message = messages.get(*id);
            if found.get(id).is_some_and(|at| *at < usize::MAX)
                || message.instruct.is_some()
                || searches == 0
            {
                continue;
            }
            searches -= 1;
            if let Some(at) = text.find(&format!("\n{}: {}", message.role, message.content)) {
                found.insert(*id, at);
            }
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(id, at)| (*at, *id));
    found.into_iter().map(|(id, _)| id).collect()
}
