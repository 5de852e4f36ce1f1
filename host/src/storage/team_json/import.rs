//! Reads a state from the file: what concerns the whole team. Roles are read in `roles`, and their
//! open activations in `activation`. `metagpt` fills in what MetaGPT's files leave out.
//!
//! The file may have been edited, or written by another program. What can be used is used;
//! otherwise the import fails and names the location. Nothing in the file is ever executed or used
//! as a path.

use std::collections::BTreeMap;

use serde_json::Value;

use strata_core::record::event::Status;
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::{CheckpointId, Digest, RunId, Slot, to_hex};
use strata_core::record::json::Json;
use strata_core::record::lineage::Lineage;
use strata_core::record::shape::Shape;
use strata_core::state::environment::routing::OwnMessages;
use strata_core::state::environment::scope::Scope;
use strata_core::state::environment::{DeadLetter, Environment, OutboxMessage, RoleState};
use strata_core::state::messages::MessageRef;
use strata_core::team::Team;

use super::located_value::{LocatedValue, child_pointer};
use super::messages::ImportedMessages;
use super::metagpt::ForeignNames;
use super::saved_names::{policy_name, saved_name};
use super::{
    ImportError, SCHEMA_PREFIX, VERSION, WITHHELD, budget, files, joins, metagpt, parse, roles,
};
use crate::sha256::sha256;

/// The fields that are understood. Others are preserved.
const FILE_FIELDS: &[&str] = &["env", "investment", "idea", "strata"];
const ENV_FIELDS: &[&str] = &["desc", "roles", "history"];
const MEMORY_FIELDS: &[&str] = &["storage", "index", "ignore_id"];
const STRATA_FIELDS: &[&str] = &[
    "schema",
    "run_id",
    "checkpoint",
    "parent",
    "lineage",
    "forks",
    "status",
    "step",
    "step_open",
    "checkpoints",
    "sent",
    "calls",
    "faults",
    "open",
    "buffers",
    "each",
    "joins",
    "requests",
    "state",
    "components",
    "budget",
    "dead_letters",
    "outbox",
    "files",
    "own_messages",
    "reply_uses",
    "shape",
    "definition",
    "messages",
];

/// The main parts of the file.
#[derive(Clone, Copy)]
pub(super) struct FileParts<'a> {
    /// The complete document.
    pub document: LocatedValue<'a>,
    /// `/env`: the part in MetaGPT's format.
    pub env: LocatedValue<'a>,
    /// `/env/roles`.
    pub roles: LocatedValue<'a>,
    /// `/strata`: our own part, which files of other programs do not have.
    pub strata: Option<LocatedValue<'a>>,
}

/// The values of other programs' fields, by the JSON pointer where they are written back.
pub(super) type ForeignValues = BTreeMap<String, Json>;

/// A state that was read from a file.
#[derive(Debug)]
pub struct ImportedState {
    /// The state.
    pub env: Environment,
    /// Warnings about the file, one sentence each.
    pub warnings: Vec<String>,
}

/// Reads the state of a team. Fails if it does not fit the team.
pub fn import(team: &Team, bytes: &[u8]) -> Result<Environment, ImportError> {
    import_with_warnings(team, bytes).map(|imported| imported.env)
}

/// The same, but also returns warnings about the file.
pub fn import_with_warnings(team: &Team, bytes: &[u8]) -> Result<ImportedState, ImportError> {
    let document = parse::parse_saved(bytes)?;
    let whole = LocatedValue::root(&document);
    let strata = whole.get_object("strata")?;
    check_version(strata.as_ref())?;
    let env = whole
        .get_object("env")?
        .ok_or(ImportError::NoTeam("`/env` is missing"))?;
    let roles = env
        .get_object("roles")?
        .ok_or(ImportError::NoTeam("`/env/roles` is missing"))?;
    let file = FileParts {
        document: whole,
        env,
        roles,
        strata,
    };
    let named = roles::match_entries(team, &file)?;
    // Files of this program use the names of the team.
    let names = if file.strata.is_some() {
        ForeignNames::default()
    } else {
        ForeignNames::from_entries(team, &named)?
    };
    roles::check_shape(team, &file, &named, &names)?;
    let places: Vec<&LocatedValue<'_>> = team
        .roles
        .iter()
        .filter_map(|role| named.get(role.name.as_str()))
        .collect();
    assert_eq!(
        places.len(),
        team.roles.len(),
        "a file that fits the team has all of its roles"
    );

    let mut env = Environment::new(team);
    match &file.strata {
        Some(strata) => read_header(team, &file.document, strata, &mut env)?,
        None => read_foreign_header(&file, &mut env)?,
    }
    if env.run.0.is_empty() {
        env.run = derived_run_id(bytes);
    }
    let warnings = read_contents(team, &file, &places, names, &mut env)?;
    collect_unknown_fields(team, &file, &places, &mut env.unknown_fields)?;
    Ok(ImportedState { env, warnings })
}

fn check_version(strata: Option<&LocatedValue<'_>>) -> Result<(), ImportError> {
    let Some(schema) = strata.and_then(|strata| strata.get("schema")) else {
        return Ok(());
    };
    let version = schema
        .text()?
        .strip_prefix(SCHEMA_PREFIX)
        .and_then(|version| version.parse().ok());
    match version {
        Some(found) if found > VERSION => Err(ImportError::Newer { found }),
        Some(1..) => Ok(()),
        _ => Err(schema.invalid(format!(
            "is not the name of a schema, e.g. `{SCHEMA_PREFIX}{VERSION}`"
        ))),
    }
}

/// Reads what our own part says about the run.
fn read_header(
    team: &Team,
    whole: &LocatedValue<'_>,
    strata: &LocatedValue<'_>,
    env: &mut Environment,
) -> Result<(), ImportError> {
    let id = |name: &str| -> Result<_, ImportError> {
        Ok(strata
            .get(name)
            .map(|place| place.text())
            .transpose()?
            .map(CheckpointId::from))
    };
    env.run = strata.get_text("run_id")?.as_str().into();
    env.idea = whole.get_text("idea")?;
    env.status = strata
        .keyword("status", Status::from_name)?
        .unwrap_or(Status::Running);
    env.step = strata.count("step")?;
    env.is_step_open = strata.flag("step_open")?;
    env.checkpoint = id("checkpoint")?;
    env.parent = id("parent")?;
    env.checkpoint_count = strata.count("checkpoints")?;
    if let Some(name) = strata
        .get("lineage")
        .map(|place| place.text())
        .transpose()?
        .filter(|name| !name.is_empty())
    {
        let forks = strata.get_texts("forks")?.unwrap_or_default();
        let forks = forks
            .iter()
            .map(|id| CheckpointId::from(id.as_str()))
            .collect();
        env.lineage = Lineage {
            name: name.into(),
            forks,
        };
    }
    env.external_message_count = strata.count("sent")?;
    let withheld = |word: &str| (word == WITHHELD).then_some(OwnMessages::Withheld);
    env.own_messages = strata
        .keyword("own_messages", withheld)?
        .unwrap_or_default();
    if let Some(uses) = strata.get_object("reply_uses")? {
        for (id, _) in uses.fields()? {
            env.reply_uses.insert(id.to_owned(), uses.count(id)?);
        }
    }
    let policies = [CallPolicy::Auto, CallPolicy::Reuse, CallPolicy::Fresh];
    let policy = |name: &str| {
        policies
            .into_iter()
            .find(|policy| policy_name(*policy) == name)
    };
    env.call_policy = strata.keyword("calls", policy)?.unwrap_or_default();
    if let Some(budget) = strata.get_object("budget")? {
        budget::read(team, whole, &budget, env)?;
    }
    if let Some(components) = strata.get_object("components")? {
        for slot in component_slots(team) {
            let name = saved_name(team, slot);
            if let Some(digest) = components.get(&name) {
                env.components.insert(slot, Digest::from(digest.text()?));
            }
        }
    }
    Ok(())
}

/// Returns an id for a run that has none. It is the same each time the file is read.
fn derived_run_id(bytes: &[u8]) -> RunId {
    /// The number of digits of a hash that suffices to distinguish the runs of one operator.
    const DIGITS: usize = 16;
    format!("imported-{}", &to_hex(&sha256(bytes))[..DIGITS])
        .as_str()
        .into()
}

/// Reads what a file of another program says about the run.
fn read_foreign_header(file: &FileParts<'_>, env: &mut Environment) -> Result<(), ImportError> {
    env.idea = file.document.get_text("idea")?;
    env.budget = file.document.dollars("investment")?.filter(|max| max.0 > 0);
    env.own_messages = OwnMessages::Withheld;
    env.spent = metagpt::read_spent(&file.document)?.unwrap_or_default();
    Ok(())
}

/// Returns all slots of a team that can hold components.
pub(super) fn component_slots(team: &Team) -> impl Iterator<Item = Slot> {
    use strata_core::record::id::{ActionId, SlotKind};
    team.role_ids().flat_map(|role| {
        let actions =
            (0..team.role(role).actions.len()).map(|i| SlotKind::Action(ActionId(i as u16)));
        actions
            .chain([SlotKind::Think])
            .map(move |part| Slot { role, kind: part })
    })
}

/// Reads the messages, the scopes and the state of each role. Returns warnings about the file.
fn read_contents(
    team: &Team,
    file: &FileParts<'_>,
    places: &[&LocatedValue<'_>],
    names: ForeignNames,
    env: &mut Environment,
) -> Result<Vec<String>, ImportError> {
    let strata = file.strata.as_ref();
    let list = strata
        .map(|strata| strata.get_object("messages"))
        .transpose()?
        .flatten();
    let mut messages = ImportedMessages::read(env, list, names)?;
    let history = match file.env.get("history") {
        Some(history) if history.value().is_object() => {
            messages.read_unique(&history, "storage")?
        }
        _ => Vec::new(),
    };
    let (dead_letters, outbox) = match strata {
        Some(strata) => (
            read_dead_letters(strata, &mut messages)?,
            read_outbox(strata, &mut messages)?,
        ),
        None => Default::default(),
    };
    let mut states: Vec<RoleState> = Vec::with_capacity(places.len());
    for (id, place) in team.role_ids().zip(places) {
        states.push(roles::read(team, id, place, strata, &mut messages)?);
    }
    let joins = joins::read(team, strata, &mut messages)?;
    let mut step = 0;
    if strata.is_none_or(|strata| strata.get("open").is_none()) {
        step = metagpt::first_unused_step(messages.ids());
        for ((id, place), state) in team.role_ids().zip(places).zip(&mut states) {
            metagpt::restore_activation(team.role(id), place, step, state, &mut messages)?;
        }
    }
    if strata.is_none() {
        metagpt::deliver_unread(
            team,
            metagpt::Published {
                env: &file.env,
                history: &history,
            },
            places,
            &mut states,
            &messages,
        );
    }
    let warnings = messages.finish();
    env.step = env.step.max(step);
    (env.roles, env.joins, env.history) = (states, joins, history);
    (env.dead_letters, env.outbox) = (dead_letters, outbox);
    env.files = strata
        .map(|strata| files::read(team, strata))
        .transpose()?
        .unwrap_or_default();
    if let Some(strata) = strata {
        read_scopes(team, strata, env)?;
    }
    Ok(warnings)
}

/// Reads the messages to names that stand for nobody.
fn read_dead_letters(
    strata: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Vec<DeadLetter>, ImportError> {
    let listed = strata.read_items("dead_letters", |dead| {
        let message = dead
            .get("message")
            .ok_or_else(|| dead.invalid("names no `message`"))?;
        Ok(DeadLetter {
            message: messages.resolve(&message)?,
            to: dead.get_text("to")?,
        })
    })?;
    let key = |dead: &DeadLetter| (dead.message, dead.to.clone());
    let name = |dead: &DeadLetter| format!("a message to `{}`", dead.to);
    Ok(messages
        .warnings
        .first_per_key(|| "/strata/dead_letters".into(), listed, key, name))
}

/// Reads the messages that are about to leave the team. If a message is listed twice, it is sent
/// once, to all recipients.
fn read_outbox(
    strata: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Vec<OutboxMessage>, ImportError> {
    let listed = strata.read_items("outbox", |outbound| {
        let message = outbound
            .get("message")
            .ok_or_else(|| outbound.invalid("names no `message`"))?;
        let failed = outbound
            .get("failed")
            .map(|why| why.text().map(String::from))
            .transpose()?;
        let to = outbound.get_texts("to")?.unwrap_or_default();
        Ok(OutboxMessage {
            message: messages.resolve(&message)?,
            to,
            failed,
        })
    })?;
    let mut names: BTreeMap<MessageRef, Vec<String>> = BTreeMap::new();
    for OutboxMessage { message, to, .. } in &listed {
        let names = names.entry(*message).or_default();
        let new: Vec<String> = to
            .iter()
            .filter(|name| !names.contains(name))
            .cloned()
            .collect();
        names.extend(new);
    }
    let mut outbox = messages.first_per_message(
        || "/strata/outbox".into(),
        listed,
        |outbound| outbound.message,
    );
    for outbound in &mut outbox {
        outbound.to = names.remove(&outbound.message).unwrap_or_default();
    }
    Ok(outbox)
}

/// Reads the scopes of the team and of its roles.
fn read_scopes(
    team: &Team,
    strata: &LocatedValue<'_>,
    env: &mut Environment,
) -> Result<(), ImportError> {
    let Some(state) = strata.get_object("state")? else {
        return Ok(());
    };
    if let Some(shared) = state.get_object("env")? {
        for (name, place) in shared.fields()? {
            env.shared_scopes.insert(name.into(), read_scope(&place)?);
        }
    }
    if let Some(own) = state.get_object("role")? {
        for id in team.role_ids() {
            if let Some(place) = own.get(&team.role(id).name) {
                env.roles[id.index()].scope = read_scope(&place)?;
            }
        }
    }
    Ok(())
}

fn read_scope(place: &LocatedValue<'_>) -> Result<Scope, ImportError> {
    place
        .fields()?
        .map(|(key, value)| Ok((key.into(), value.wrapped_json()?)))
        .collect()
}

/// Collects the fields that are not understood.
fn collect_unknown_fields(
    team: &Team,
    file: &FileParts<'_>,
    places: &[&LocatedValue<'_>],
    foreign: &mut ForeignValues,
) -> Result<(), ImportError> {
    collect_unknown(&file.document, "", FILE_FIELDS, foreign)?;
    collect_unknown(&file.env, "/env", ENV_FIELDS, foreign)?;
    if let Some(strata) = &file.strata {
        collect_unknown(strata, "/strata", STRATA_FIELDS, foreign)?;
    }
    match file.env.get("history") {
        Some(history) if history.value().is_object() => {
            collect_unknown(&history, "/env/history", MEMORY_FIELDS, foreign)?
        }
        // Older files have the history as a string.
        Some(history)
            if history
                .value()
                .as_str()
                .is_some_and(|text| !text.is_empty()) =>
        {
            foreign.insert("/env/history/text".into(), history.json()?);
        }
        _ => {}
    }
    for (role, place) in team.roles.iter().zip(places) {
        let at = child_pointer("/env/roles", &role.name);
        roles::collect_unknown_fields(role, place, &at, foreign)?;
    }
    Ok(())
}

/// Collects the fields of an object that are not known.
pub(super) fn collect_unknown(
    place: &LocatedValue<'_>,
    pointer: &str,
    known: &[&str],
    foreign: &mut ForeignValues,
) -> Result<(), ImportError> {
    for (name, field) in place.fields()?.filter(|(name, _)| !known.contains(name)) {
        foreign.insert(child_pointer(pointer, name), field.json()?);
    }
    Ok(())
}

/// Returns the shape of the team that our own part contains.
pub(super) fn saved_shape(file: &FileParts<'_>) -> Result<Option<Shape>, ImportError> {
    let Some(shape) = file
        .strata
        .as_ref()
        .and_then(|strata| strata.get("shape").map(|shape| shape.value().clone()))
    else {
        return Ok(None);
    };
    let read = serde_json::from_value::<Shape>(Value::clone(&shape));
    read.map(Some).map_err(|e| ImportError::Invalid {
        pointer: "/strata/shape".into(),
        what: format!("is not the shape of a team: {e}"),
    })
}
