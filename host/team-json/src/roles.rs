//! Roles in the file: which role each entry stands for, whether they fit the team, and the state of
//! each.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use strata_core::record::id::RoleId;
use strata_core::record::shape::{DeliveryMode, HUMAN_MODE, RoleShape, Shape};
use strata_core::state::environment::{Mail, RoleState, RoleSummary};
use strata_core::state::messages::MessageRef;
use strata_core::team::{React, Role, Team};

use super::field::MessageLink;
use super::file_parts::FileParts;
use super::layout::{OpenJson, RoleContextJson, RoleJson, RoleSummaryJson};
use super::located_value::{LocatedValue, child_pointer};
use super::machine_part::MachinePartReader;
use super::messages::ImportedMessages;
use super::metagpt;
use super::metagpt::foreign_names::ForeignNames;
use super::saved_names::action_of_state;
use super::{ImportError, open, saved_names};

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
    let used_names: BTreeSet<String> = entries
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
                let free = || {
                    team.roles
                        .iter()
                        .filter(|role| !used_names.contains(&role.name))
                };
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
/// the saved shape, in case somebody has edited an entry. `foreign` are the names in a file of
/// MetaGPT.
pub(super) fn check_shape(
    team: &Team,
    saved: Option<Shape>,
    found: &BTreeMap<String, LocatedValue<'_>>,
    foreign: Option<&ForeignNames>,
) -> Result<(), ImportError> {
    let now = Shape::from_team(team);
    let mut shape = saved.unwrap_or_else(|| now.clone());
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
        match (role, foreign) {
            (Some(role), Some(names)) => {
                apply_foreign_entry(role, place, names, &mut shape.roles[at])?;
            }
            _ => apply_entry(place.decode()?, &mut shape.roles[at]),
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
fn apply_entry(entry: RoleJson<'_>, shape: &mut RoleShape) {
    let RoleContextJson {
        watch, react_mode, ..
    } = entry.rc;
    let states = entry.states.map(|states| states.0.into_owned());
    let states = states.filter(|states| !states.is_empty() || entry.actions.is_none());
    if let Some(states) = states {
        let names = states.iter().map(|state| action_of_state(state).to_owned());
        shape.actions = names.collect();
    } else if let Some(actions) = entry.actions {
        let names = actions.into_iter().map(|action| action.name.into_owned());
        shape.actions = names.collect();
    }
    if let Some(watch) = watch {
        shape.watch = sorted(watch.0.into_owned());
    }
    let mode = if shape.react == HUMAN_MODE {
        saved_names::react_mode(&React::Human).0
    } else {
        shape.react.split(' ').next().unwrap_or("")
    };
    if !react_mode.is_empty() && react_mode != mode {
        shape.react = react_mode.into_owned();
    }
}

/// Applies what the entry of a role of MetaGPT shows to the role's shape. Actions and labels are compared by the team's names for them,
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
    if !react.is_empty() && !is_any && saved_names::react_mode(&role.react).0 != react {
        shape.react = react;
    }
    Ok(())
}

fn sorted(mut watch: Vec<String>) -> Vec<String> {
    watch.sort();
    watch.dedup();
    watch
}

/// What our own part of the file says about roles.
pub(super) struct SavedRoles<'a> {
    /// The location of that part.
    pub strata: &'a LocatedValue<'a>,
    /// The open activations; `None` if the file says nothing about them.
    pub open: Option<BTreeMap<Cow<'a, str>, OpenJson<'a>>>,
    /// What reads their machine parts.
    pub machine_parts: MachinePartReader,
    /// The messages that each role has not finished with; `None` if the file does not say so.
    pub buffers: Option<BTreeMap<Cow<'a, str>, Vec<MessageLink<'a>>>>,
    pub each: BTreeMap<Cow<'a, str>, Vec<MessageLink<'a>>>,
    pub again: BTreeMap<Cow<'a, str>, Vec<MessageLink<'a>>>,
    pub summaries: BTreeMap<Cow<'a, str>, RoleSummaryJson<'a>>,
}

/// The state of a role, without the activation of a role that the file says only the action of.
pub(super) struct ImportedRole {
    pub state: RoleState,
    /// Whether its activation is to begin at the action that its entry names.
    pub is_at_start: bool,
}

/// Reads the state of a role with this entry.
pub(super) fn read(
    team: &Team,
    id: RoleId,
    entry: &LocatedValue<'_>,
    saved: &mut SavedRoles<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<ImportedRole, ImportError> {
    let role = team.role(id);
    let mut state = RoleState::default();
    if let Some(rc) = entry.get_object("rc")?
        && let Some(memory) = rc.get_object("memory")?
    {
        state.memory = messages.read_unique(&memory, "storage")?;
    }
    if let Some(latest) = entry.get("latest_observed_msg") {
        state.latest = Some(messages.resolve(&latest)?);
    }
    state.mailbox = read_mailbox(role, saved, messages)?;
    if let Some(summary) = saved.summaries.remove(&*role.name) {
        let place = saved.strata.child("summaries");
        let place = place.child(&role.name);
        let links = [summary.first_news];
        let news = messages.read_links(&links, &place.child("first_news"))?;
        state.summary = news.first().map(|first_news| RoleSummary {
            first_news: *first_news,
            text: summary.text.into_owned(),
            memory_count: summary.messages,
        });
    }
    let place = saved.strata.child("open");
    let place = place.child(&role.name);
    let entry = saved.open.as_mut().map(|open| open.remove(&*role.name));
    let mut is_at_start = entry.is_none();
    if let Some(Some(entry)) = entry {
        let source = (&mut saved.machine_parts, &mut *messages);
        let read = open::read(team, id, &entry, &place, source)?;
        is_at_start = read.is_none();
        let read = read.unwrap_or_default();
        (state.activation, state.called) = (read.activation, read.called);
    }
    // The buffer contains the messages that the role took and those that it has not looked at.
    // Somebody may have edited it.
    if let Some(activation) = &mut state.activation
        && saved.buffers.is_some()
    {
        // Each message is taken once: a message that the role works on may have arrived again.
        activation.news = take_from_mailbox(&mut state.mailbox, &activation.news);
    }
    let buffer = || child_pointer("/strata/buffers", &role.name);
    state.mailbox = messages.first_per_message(buffer, state.mailbox, |mail| mail.message);
    if let Some(activation) = &state.activation {
        let outputs: BTreeSet<MessageRef> = activation.outputs().collect();
        state.memory.retain(|id| !outputs.contains(id));
        // An activation without messages is dropped.
        if activation.news.is_empty() {
            (state.activation, state.called) = (None, BTreeMap::new());
        }
    }
    Ok(ImportedRole { state, is_at_start })
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
    saved: &SavedRoles<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Vec<Mail>, ImportError> {
    let mut mailbox = Vec::new();
    if let Some(buffer) = saved.buffers.as_ref().and_then(|all| all.get(&*role.name)) {
        let list = saved.strata.child("buffers");
        let list = list.child(&role.name);
        let received = messages.read_links(buffer, &list)?;
        let again = read_own_set(role, &saved.again, &saved.strata.child("again"), messages)?;
        let arrived = messages.first_arrivals(|| list.pointer(), received, &again);
        mailbox.extend(arrived.into_iter().map(Mail::batched));
    }
    let alone = read_own_set(role, &saved.each, &saved.strata.child("each"), messages)?;
    for mail in &mut mailbox {
        if alone.contains(&mail.message) {
            mail.deliver = DeliveryMode::Each;
        }
    }
    Ok(mailbox)
}

/// Reads the messages that a field of our own part lists for a role.
fn read_own_set(
    role: &Role,
    lists: &BTreeMap<Cow<'_, str>, Vec<MessageLink<'_>>>,
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<BTreeSet<MessageRef>, ImportError> {
    let Some(listed) = lists.get(&*role.name) else {
        return Ok(BTreeSet::new());
    };
    let listed = messages.read_unique_links(listed, &place.child(&role.name))?;
    Ok(listed.into_iter().collect())
}
