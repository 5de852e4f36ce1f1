//! Roles in the file: which role each entry stands for, whether they fit the team, and the state of
//! each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use strata_core::record::id::RoleId;
use strata_core::record::shape::{DeliveryMode, HUMAN_MODE, RoleShape, Shape};
use strata_core::state::environment::{Mail, RoleState};
use strata_core::state::messages::MessageRef;
use strata_core::team::{React, Role, Team};

use super::import::{FileParts, ForeignValues, collect_unknown, saved_shape};
use super::located_value::{LocatedValue, child_pointer};
use super::messages::ImportedMessages;
use super::metagpt::{self, ForeignNames};
use super::saved_names::react_mode;
use super::{ImportError, activation, called};

/// The fields that are understood. Others are preserved.
const ROLE_FIELDS: &[&str] = &[
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
const CONTEXT_FIELDS: &[&str] = &[
    "memory",
    "state",
    "watch",
    "react_mode",
    "max_react_loop",
    "news",
    "msg_buffer",
];
const ROLE_MEMORY_FIELDS: &[&str] = &["storage", "index", "ignore_id"];
const ACTION_FIELDS: &[&str] = &["name"];

/// Determines which role each entry stands for: by its name, or else by its key. If the entry has
/// no name, or another program wrote it, its other names are tried, too. A named entry of ours
/// never stands for a role of another name; otherwise the file of another team could seem to fit.
pub(super) fn match_entries<'a>(
    team: &Team,
    file: &'a FileParts<'a>,
) -> Result<BTreeMap<String, LocatedValue<'a>>, ImportError> {
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
                    metagpt::role_names(&place)?
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
    file: &FileParts<'_>,
    found: &BTreeMap<String, LocatedValue<'_>>,
    names: &ForeignNames,
) -> Result<(), ImportError> {
    let now = Shape::from_team(team);
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
                    tools: vec![],
                };
                shape.roles.push(empty);
                shape.roles.len() - 1
            });
        let role = team.roles.iter().find(|role| role.name == *name);
        match role.filter(|_| file.strata.is_none()) {
            Some(role) => apply_foreign_entry(role, place, names, &mut shape.roles[at])?,
            None => apply_entry(place, &mut shape.roles[at])?,
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
fn apply_entry(place: &LocatedValue<'_>, shape: &mut RoleShape) -> Result<(), ImportError> {
    let usual = |names: Vec<String>| names.into_iter().next().unwrap_or_default();
    if let Some(actions) = metagpt::action_names(place)? {
        shape.actions = actions.into_iter().map(usual).collect();
    }
    let Some(rc) = place.get_object("rc")? else {
        return Ok(());
    };
    if let Some(watch) = rc.get_texts("watch")? {
        shape.watch = sorted(watch);
    }
    let react = rc.get_text("react_mode")?;
    let mode = if shape.react == HUMAN_MODE {
        react_mode(&React::Human).0
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
fn apply_foreign_entry(
    role: &Role,
    place: &LocatedValue<'_>,
    names: &ForeignNames,
    shape: &mut RoleShape,
) -> Result<(), ImportError> {
    let actions = metagpt::action_names(place)?
        .filter(|actions| !actions.is_empty())
        .unwrap_or_default();
    let is_human = role.react == React::Human
        && place
            .get("is_human")
            .is_some_and(|is| is.value() == &Value::Bool(true));
    let before = metagpt::planner_offset(role, actions.len());
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
    if let Some(watch) = rc.get_texts("watch")?.filter(|watch| !watch.is_empty()) {
        shape.watch = sorted(
            watch
                .iter()
                .map(|label| names.translate_label(label))
                .collect(),
        );
    }
    let react = rc.get_text("react_mode")?;
    let modes = ["by_order", "react", "plan_and_act"];
    let is_any = is_human || (actions.len() == 1 && modes.contains(&react.as_str()));
    if !react.is_empty() && !is_any && react_mode(&role.react).0 != react {
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
    team: &Team,
    id: RoleId,
    place: &LocatedValue<'_>,
    strata: Option<&LocatedValue<'_>>,
    messages: &mut ImportedMessages<'_>,
) -> Result<RoleState, ImportError> {
    let role = team.role(id);
    let mut state = RoleState::default();
    if let Some(rc) = place.get_object("rc")?
        && let Some(memory) = rc.get_object("memory")?
    {
        state.memory = messages.read_unique(&memory, "storage")?;
    }
    state.latest = place
        .get("latest_observed_msg")
        .map(|latest| messages.resolve(&latest))
        .transpose()?;
    let Some(strata) = strata else {
        return Ok(state);
    };
    state.mailbox = read_mailbox(role, strata, messages)?;
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
        activation.news = take_from_mailbox(&mut state.mailbox, &activation.news);
    }
    let buffer = || child_pointer("/strata/buffers", &role.name);
    state.mailbox = messages.first_per_message(buffer, state.mailbox, |mail| mail.message);
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
    if let Some(open) = open.filter(|_| !activation.news.is_empty()) {
        state.called = called::read(team, &open, messages)?;
        state.activation = Some(activation);
        if !state.has_valid_role_calls(id) {
            return Err(open.invalid("has work of a role that no other role called"));
        }
    }
    Ok(state)
}

/// Removes messages from a mailbox, each as often as it is in both. Returns those that were
/// removed.
fn take_from_mailbox(mailbox: &mut Vec<Mail>, wanted: &[MessageRef]) -> Vec<MessageRef> {
    let mut there = count_messages(mailbox.iter().map(|mail| mail.message));
    let found: Vec<_> = wanted
        .iter()
        .copied()
        .filter(|message| take_one(&mut there, *message))
        .collect();
    let mut left = count_messages(found.iter().copied());
    mailbox.retain(|mail| !take_one(&mut left, mail.message));
    found
}

/// Returns how often each message occurs.
fn count_messages(messages: impl Iterator<Item = MessageRef>) -> BTreeMap<MessageRef, usize> {
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
fn read_mailbox(
    role: &Role,
    strata: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Vec<Mail>, ImportError> {
    let lists = |name| strata.get_object(name);
    let buffer = lists("buffers")?.map_or(Ok(Vec::new()), |lists| {
        messages.read_list(&lists, &role.name)
    })?;
    let alone = lists("each")?.map_or(Ok(Vec::new()), |lists| {
        messages.read_unique(&lists, &role.name)
    })?;
    let alone: BTreeSet<_> = alone.into_iter().collect();
    let deliver = |id| {
        if alone.contains(&id) {
            DeliveryMode::Each
        } else {
            DeliveryMode::Batch
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
pub(super) fn collect_unknown_fields(
    role: &Role,
    place: &LocatedValue<'_>,
    at: &str,
    foreign: &mut ForeignValues,
) -> Result<(), ImportError> {
    collect_unknown(place, at, ROLE_FIELDS, foreign)?;
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
            collect_unknown(
                &action,
                &format!("{at}/actions/{i}"),
                ACTION_FIELDS,
                foreign,
            )?;
        }
    }
    if let Some(rc) = place.get("rc") {
        collect_unknown(&rc, &format!("{at}/rc"), CONTEXT_FIELDS, foreign)?;
        if let Some(memory) = rc.get("memory") {
            collect_unknown(
                &memory,
                &format!("{at}/rc/memory"),
                ROLE_MEMORY_FIELDS,
                foreign,
            )?;
        }
    }
    Ok(())
}
