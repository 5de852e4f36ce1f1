//! Roles in the file: which is which, whether they are those of the team, and what each of them holds.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::environment::{Mail, MessageRef, RoleState};
use strata_core::shape::{HUMAN, RoleShape, Shape};
use strata_core::team::{Deliver, React, Role, Team};

use super::activation;
use super::import::{File, Foreign, keep, saved_shape};
use super::messages::Messages;
use super::names::mode;
use super::place::Place;
use super::{ImportError, metagpt};

/// The fields that are understood; others are kept as they are.
const ROLE: &[&str] = &[
    "name",
    "profile",
    "goal",
    "constraints",
    "desc",
    "states",
    "actions",
    "rc",
    "addresses",
    "recovered",
    "latest_observed_msg",
];
const CONTEXT: &[&str] = &["memory", "state", "watch", "react_mode", "max_react_loop", "news", "msg_buffer"];
const MEMORY: &[&str] = &["storage", "index", "ignore_id"];
const ACTION: &[&str] = &["name"];

/// Finds out which role each entry stands for. Entries are keyed by name, or by profile. What has a name of its own stands
/// for no role of another name in a file of ours, or a team with other roles would seem to fit.
pub(super) fn find<'a>(team: &Team, file: &'a File<'a>) -> Result<BTreeMap<String, Place<'a>>, ImportError> {
    let mut found = BTreeMap::new();
    for (key, place) in file.roles.fields()? {
        place.object()?;
        let (name, profile) = (place.get_text("name")?, place.get_text("profile")?);
        let called = |name: &str| team.roles.iter().find(|role| role.name == name);
        let job = |role: &&Role| !role.profile.is_empty() && [key, &profile].contains(&role.profile.as_str());
        let by_job = || team.roles.iter().find(job).filter(|_| file.strata.is_none() || name.is_empty());
        let role = called(key).or_else(|| called(&name)).or_else(by_job);
        let name = role.map_or(if name.is_empty() { key } else { &name }, |role| &role.name).to_owned();
        if found.insert(name.clone(), place).is_some() {
            return Err(place.invalid(format!("stands for role `{name}`, as another entry does")));
        }
    }
    Ok(found)
}

/// Compares the team with the one in the file. What can be seen of the roles counts more than the saved shape, where
/// somebody edited one of them.
pub(super) fn check_shape(
    team: &Team,
    file: &File<'_>,
    found: &BTreeMap<String, Place<'_>>,
) -> Result<(), ImportError> {
    let now = Shape::of(team);
    let saved = saved_shape(file)?;
    let mut shape = saved.clone().unwrap_or_else(|| now.clone());
    shape.roles.retain(|role| found.contains_key(&role.name));
    for (name, place) in found {
        let at = shape.roles.iter().position(|role| role.name == *name).unwrap_or_else(|| {
            let empty = RoleShape { name: name.clone(), actions: vec![], watch: vec![], react: String::new() };
            shape.roles.push(empty);
            shape.roles.len() - 1
        });
        see(place, &mut shape.roles[at], file.strata.is_some())?;
    }
    let differences = shape.differences(&now);
    if differences.is_empty() { Ok(()) } else { Err(ImportError::Misfit(differences)) }
}

/// Takes over what can be seen of a role's shape. Empty lists of other programs say nothing.
fn see(place: &Place<'_>, shape: &mut RoleShape, ours: bool) -> Result<(), ImportError> {
    let actions = actions(place)?.filter(|actions| ours || !actions.is_empty());
    shape.actions = actions.unwrap_or(std::mem::take(&mut shape.actions));
    let Some(rc) = place.get_object("rc")? else { return Ok(()) };
    let watch = rc.texts("watch")?;
    if let Some(mut watch) = watch.filter(|watch| ours || !watch.is_empty()) {
        // Labels of other programs are compared by what a team would call them.
        if !ours {
            watch = watch.iter().map(|label| metagpt::short(label, &shape.watch)).collect();
        }
        watch.sort();
        watch.dedup();
        shape.watch = watch;
    }
    let react = rc.get_text("react_mode")?;
    let mode = if shape.react == HUMAN { mode(React::Human).0 } else { shape.react.split(' ').next().unwrap_or("") };
    let same = mode == react;
    if !react.is_empty() && !same {
        shape.react = react;
    }
    Ok(())
}

/// The names of a role's actions, in order; none where nothing is said of them.
fn actions(place: &Place<'_>) -> Result<Option<Vec<String>>, ImportError> {
    let states = place.texts("states")?;
    if states.as_ref().is_none_or(Vec::is_empty) {
        let actions = place.each("actions", |action| {
            action.object()?;
            action.get_text("name")
        })?;
        return Ok(Some(actions).filter(|_| states.is_some() || place.get("actions").is_some()));
    }
    // A state is the number of an action and its name.
    let name = |state: &String| state.split_once(". ").map_or(state.as_str(), |(_, name)| name).into();
    Ok(states.map(|states| states.iter().map(name).collect()))
}

/// Reads what a role holds.
pub(super) fn read(
    role: &Role,
    place: &Place<'_>,
    strata: Option<&Place<'_>>,
    messages: &mut Messages<'_>,
) -> Result<RoleState, ImportError> {
    let mut state = RoleState::default();
    if let Some(rc) = place.get_object("rc")?
        && let Some(memory) = rc.get_object("memory")?
    {
        state.memory = messages.each(&memory, "storage")?;
    }
    state.latest = place.get("latest_observed_msg").map(|latest| messages.at(&latest)).transpose()?;
    let Some(strata) = strata else { return Ok(state) };
    state.mailbox = mailbox(role, strata, messages)?;
    let open = strata.get_object("open")?;
    let Some(open) = open.as_ref().and_then(|open| open.get(&role.name)) else { return Ok(state) };
    let mut activation = activation::read(role, &open, strata, messages)?;
    // The buffer holds the mail that the role took and the mail it has not looked at; somebody may have edited it.
    if strata.get("buffers").is_some() {
        // Once each: what a role is at may come to it again, out of a join.
        activation.news = taken(&mut state.mailbox, &activation.news);
    }
    let done: BTreeSet<_> = activation.done.iter().map(|done| done.output.message).collect();
    state.memory.retain(|id| !done.contains(id));
    // Without the mail it was about there is no work.
    state.activation = Some(activation).filter(|activation| !activation.news.is_empty());
    Ok(state)
}

/// Takes messages out of a mailbox, as often as both have them. Those that were there.
fn taken(mailbox: &mut Vec<Mail>, wanted: &[MessageRef]) -> Vec<MessageRef> {
    let mut there = counted(mailbox.iter().map(|mail| mail.message));
    let found: Vec<_> = wanted.iter().copied().filter(|message| take_one(&mut there, *message)).collect();
    let mut left = counted(found.iter().copied());
    mailbox.retain(|mail| !take_one(&mut left, mail.message));
    found
}

/// How often each of them occurs.
fn counted(messages: impl Iterator<Item = MessageRef>) -> BTreeMap<MessageRef, usize> {
    let mut counts = BTreeMap::new();
    messages.for_each(|message| *counts.entry(message).or_default() += 1);
    counts
}

/// Takes one off the count of a message, if there is one left.
fn take_one(counts: &mut BTreeMap<MessageRef, usize>, message: MessageRef) -> bool {
    let left = counts.get_mut(&message).filter(|left| **left > 0);
    left.map(|left| *left -= 1).is_some()
}

/// The mail of a role: that it took, then that it has not looked at.
fn mailbox(role: &Role, strata: &Place<'_>, messages: &mut Messages<'_>) -> Result<Vec<Mail>, ImportError> {
    let mut list = |name| match strata.get_object(name)? {
        Some(lists) => messages.each(&lists, &role.name),
        None => Ok(Vec::new()),
    };
    let (buffer, alone) = (list("buffers")?, list("each")?);
    let alone: BTreeSet<_> = alone.into_iter().collect();
    let deliver = |id| if alone.contains(&id) { Deliver::Each } else { Deliver::Batch };
    Ok(buffer.into_iter().map(|message| Mail { message, deliver: deliver(message) }).collect())
}

/// Keeps what is not understood.
pub(super) fn unknown(role: &Role, place: &Place<'_>, at: &str, foreign: &mut Foreign) -> Result<(), ImportError> {
    keep(place, at, ROLE, foreign)?;
    // What we write there ourselves when nobody says otherwise.
    let human = if role.react == React::Human { "true" } else { "false" };
    let ours = [("is_human", human), ("role_id", "\"\"")];
    for (name, value) in ours {
        let at = format!("{at}/{name}");
        if foreign.get(&at).is_some_and(|found| [value, "null"].contains(&found.as_str())) {
            foreign.remove(&at);
        }
    }
    if let Some(list) = place.get("actions") {
        for (i, action) in list.items()?.enumerate() {
            keep(&action, &format!("{at}/actions/{i}"), ACTION, foreign)?;
        }
    }
    if let Some(rc) = place.get("rc") {
        keep(&rc, &format!("{at}/rc"), CONTEXT, foreign)?;
        if let Some(memory) = rc.get("memory") {
            keep(&memory, &format!("{at}/rc/memory"), MEMORY, foreign)?;
        }
    }
    Ok(())
}
