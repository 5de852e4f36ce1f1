//! Roles in the file: which role each entry stands for, whether they fit the team, and the state of
//! each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use strata_core::environment::{Mail, MessageRef, RoleState};
use strata_core::shape::{HUMAN, RoleShape, Shape};
use strata_core::team::{Deliver, React, Role, Team};

use super::ImportError;
use super::activation;
use super::import::{File, Foreign, keep, saved_shape};
use super::messages::Messages;
use super::metagpt::{self, Names};
use super::names::mode;
use super::place::{Place, child};

/// The fields that are understood. Others are preserved.
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
const CONTEXT: &[&str] = &[
    "memory",
    "state",
    "watch",
    "react_mode",
    "max_react_loop",
    "news",
    "msg_buffer",
];
const MEMORY: &[&str] = &["storage", "index", "ignore_id"];
const ACTION: &[&str] = &["name"];

/// Determines which role each entry stands for: by its name, or else by its key. If the entry has
/// no name, or another program wrote it, its other names are tried, too. A named entry of ours
/// never stands for a role of another name; otherwise the file of another team could seem to fit.
pub(super) fn find<'a>(
    team: &Team,
    file: &'a File<'a>,
) -> Result<BTreeMap<String, Place<'a>>, ImportError> {
    let mut entries = Vec::new();
    for (key, place) in file.roles.fields()? {
        place.object()?;
        let name = place.get_text("name")?;
        let role = team.roles.iter().find(|role| role.name == name);
        entries.push((key, place, role.map(|role| role.name.clone())));
    }
    let taken: BTreeSet<String> = entries
        .iter()
        .filter_map(|(_, _, name)| name.clone())
        .collect();
    let mut found = BTreeMap::new();
    for (key, place, by_name) in entries {
        let own = place.get_text("name")?;
        let name = match by_name {
            Some(name) => name,
            None => {
                let foreign = file.strata.is_none() || own.is_empty();
                let others = if foreign {
                    metagpt::names_of_entry(&place)?
                } else {
                    BTreeSet::new()
                };
                let free = || team.roles.iter().filter(|role| !taken.contains(&role.name));
                let by_key = free().find(|role| role.name == key);
                let is_called = |role: &&Role| {
                    let is =
                        |name: &String| !name.is_empty() && (others.contains(name) || name == key);
                    is(&role.name) || is(&role.profile) || role.addresses.iter().any(is)
                };
                let role = by_key.or_else(|| free().find(is_called).filter(|_| foreign));
                role.map_or(if own.is_empty() { key } else { &own }, |role| &role.name)
                    .to_owned()
            }
        };
        if found.insert(name.clone(), place).is_some() {
            return Err(place.invalid(format!("stands for role `{name}`, as another entry does")));
        }
    }
    Ok(found)
}

/// Compares the team with the one in the file. What the entries of the roles show counts more than
/// the saved shape, in case somebody has edited an entry.
pub(super) fn check_shape(
    team: &Team,
    file: &File<'_>,
    found: &BTreeMap<String, Place<'_>>,
    names: &Names,
) -> Result<(), ImportError> {
    let now = Shape::of(team);
    let saved = saved_shape(file)?;
    let mut shape = saved.clone().unwrap_or_else(|| now.clone());
    shape.roles.retain(|role| found.contains_key(&role.name));
    for (name, place) in found {
        let at = shape
            .roles
            .iter()
            .position(|role| role.name == *name)
            .unwrap_or_else(|| {
                let empty = RoleShape {
                    name: name.clone(),
                    actions: vec![],
                    watch: vec![],
                    react: String::new(),
                };
                shape.roles.push(empty);
                shape.roles.len() - 1
            });
        let role = team.roles.iter().find(|role| role.name == *name);
        match role.filter(|_| file.strata.is_none()) {
            Some(role) => see_foreign(role, place, names, &mut shape.roles[at])?,
            None => see(place, &mut shape.roles[at])?,
        }
    }
    let differences = shape.differences(&now);
    if differences.is_empty() {
        Ok(())
    } else {
        Err(ImportError::Misfit(differences))
    }
}

/// Applies what the entry of a role shows to its shape.
fn see(place: &Place<'_>, shape: &mut RoleShape) -> Result<(), ImportError> {
    let usual = |names: Vec<String>| names.into_iter().next().unwrap_or_default();
    if let Some(actions) = metagpt::actions_of_entry(place)? {
        shape.actions = actions.into_iter().map(usual).collect();
    }
    let Some(rc) = place.get_object("rc")? else {
        return Ok(());
    };
    if let Some(watch) = rc.texts("watch")? {
        shape.watch = sorted(watch);
    }
    let react = rc.get_text("react_mode")?;
    let mode = if shape.react == HUMAN {
        mode(React::Human).0
    } else {
        shape.react.split(' ').next().unwrap_or("")
    };
    if !react.is_empty() && mode != react {
        shape.react = react;
    }
    Ok(())
}

/// The same for a role of MetaGPT. Actions and labels are compared by the team's names for them,
/// and empty lists are ignored. With a single action, MetaGPT never asks which is next, so the mode
/// is ignored. For a role that a person plays, MetaGPT saves actions and a mode as for any other.
fn see_foreign(
    role: &Role,
    place: &Place<'_>,
    names: &Names,
    shape: &mut RoleShape,
) -> Result<(), ImportError> {
    let actions = metagpt::actions_of_entry(place)?
        .filter(|actions| !actions.is_empty())
        .unwrap_or_default();
    let is_human = role.react == React::Human
        && place
            .get("is_human")
            .is_some_and(|is| is.value() == &Value::Bool(true));
    let before = metagpt::offset(role, actions.len());
    if !is_human && !actions.is_empty() {
        let planner = role
            .actions
            .iter()
            .take(before)
            .map(|action| action.name.clone());
        let called = |i: usize, known_as: &[String]| {
            let own = role
                .actions
                .get(before + i)
                .filter(|action| known_as.contains(&action.name));
            own.map_or_else(
                || known_as.first().cloned().unwrap_or_default(),
                |action| action.name.clone(),
            )
        };
        let saved = actions
            .iter()
            .enumerate()
            .map(|(i, known_as)| called(i, known_as));
        shape.actions = planner.chain(saved).collect();
    }
    let Some(rc) = place.get_object("rc")? else {
        return Ok(());
    };
    if let Some(watch) = rc.texts("watch")?.filter(|watch| !watch.is_empty()) {
        shape.watch = sorted(watch.iter().map(|label| names.label(label)).collect());
    }
    let react = rc.get_text("react_mode")?;
    let modes = ["by_order", "react", "plan_and_act"];
    let is_any = is_human || (actions.len() == 1 && modes.contains(&react.as_str()));
    if !react.is_empty() && !is_any && mode(role.react).0 != react {
        shape.react = react;
    }
    Ok(())
}

fn sorted(mut watch: Vec<String>) -> Vec<String> {
    watch.sort();
    watch.dedup();
    watch
}

/// Reads the state of a role.
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
        state.memory = messages.unique(&memory, "storage")?;
    }
    state.latest = place
        .get("latest_observed_msg")
        .map(|latest| messages.at(&latest))
        .transpose()?;
    let Some(strata) = strata else {
        return Ok(state);
    };
    state.mailbox = mailbox(role, strata, messages)?;
    let open = strata.get_object("open")?;
    let open = open.as_ref().and_then(|open| open.get(&role.name));
    let mut activation = open
        .map(|open| activation::read(role, &open, strata, messages))
        .transpose()?;
    // The buffer contains the messages that the role took and those that it has not looked at.
    // Somebody may have edited it.
    if let Some(activation) = activation
        .as_mut()
        .filter(|_| strata.get("buffers").is_some())
    {
        // Each message is taken once: a message that the role works on may arrive again, from a
        // join.
        activation.news = taken(&mut state.mailbox, &activation.news);
    }
    let buffer = || child("/strata/buffers", &role.name);
    state.mailbox = messages.keep_first(buffer, state.mailbox, |mail| mail.message);
    let Some(activation) = activation else {
        return Ok(state);
    };
    let done: BTreeSet<_> = activation
        .done
        .iter()
        .map(|done| done.output.message)
        .collect();
    state.memory.retain(|id| !done.contains(id));
    // An activation without messages is dropped.
    state.activation = Some(activation).filter(|activation| !activation.news.is_empty());
    Ok(state)
}

/// Removes messages from a mailbox, each as often as it is in both. Returns those that were
/// removed.
fn taken(mailbox: &mut Vec<Mail>, wanted: &[MessageRef]) -> Vec<MessageRef> {
    let mut there = counted(mailbox.iter().map(|mail| mail.message));
    let found: Vec<_> = wanted
        .iter()
        .copied()
        .filter(|message| take_one(&mut there, *message))
        .collect();
    let mut left = counted(found.iter().copied());
    mailbox.retain(|mail| !take_one(&mut left, mail.message));
    found
}

/// Returns how often each message occurs.
fn counted(messages: impl Iterator<Item = MessageRef>) -> BTreeMap<MessageRef, usize> {
    let mut counts = BTreeMap::new();
    for message in messages {
        *counts.entry(message).or_default() += 1;
    }
    counts
}

/// Decrements the count of a message. Returns whether it was positive.
fn take_one(counts: &mut BTreeMap<MessageRef, usize>, message: MessageRef) -> bool {
    match counts.get_mut(&message) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    }
}

/// Reads the mailbox of a role: first the messages that it took, then those that it has not looked
/// at.
fn mailbox(
    role: &Role,
    strata: &Place<'_>,
    messages: &mut Messages<'_>,
) -> Result<Vec<Mail>, ImportError> {
    let lists = |name| strata.get_object(name);
    let buffer =
        lists("buffers")?.map_or(Ok(Vec::new()), |lists| messages.each(&lists, &role.name))?;
    let alone =
        lists("each")?.map_or(Ok(Vec::new()), |lists| messages.unique(&lists, &role.name))?;
    let alone: BTreeSet<_> = alone.into_iter().collect();
    let deliver = |id| {
        if alone.contains(&id) {
            Deliver::Each
        } else {
            Deliver::Batch
        }
    };
    Ok(buffer
        .into_iter()
        .map(|message| Mail {
            message,
            deliver: deliver(message),
        })
        .collect())
}

/// Collects the fields that are not understood.
pub(super) fn unknown(
    role: &Role,
    place: &Place<'_>,
    at: &str,
    foreign: &mut Foreign,
) -> Result<(), ImportError> {
    keep(place, at, ROLE, foreign)?;
    // Values that this program itself writes by default are not foreign.
    let human = if role.react == React::Human {
        "true"
    } else {
        "false"
    };
    let ours = [("is_human", human), ("role_id", "\"\"")];
    for (name, value) in ours {
        let at = format!("{at}/{name}");
        if foreign
            .get(&at)
            .is_some_and(|found| [value, "null"].contains(&found.as_str()))
        {
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
