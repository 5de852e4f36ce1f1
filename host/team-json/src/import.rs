//! Reads a state from the file: what concerns the whole team. Roles are read in `roles`, and their
//! open activations in `open`. `metagpt` fills in what MetaGPT's files leave out.
//!
//! The file may have been edited, or written by another program. What can be used is used;
//! otherwise the import fails and names the location. Nothing in the file is ever executed or used
//! as a path.

use std::borrow::Cow;
use std::collections::BTreeMap;

use strata_base::files::sha256::sha256;
use strata_core::machine::stepper::derive_requests;
use strata_core::record::event::Status;
use strata_core::record::id::{CheckpointId, Digest, RunId, to_hex};
use strata_core::record::lineage::Lineage;
use strata_core::state::environment::join::JoinState;
use strata_core::state::environment::routing::OwnMessages;
use strata_core::state::environment::scope::Scope;
use strata_core::state::environment::validation::validate;
use strata_core::state::environment::{DeadLetter, Environment, OutboxMessage, RoleState};
use strata_core::state::messages::MessageRef;
use strata_core::team::Team;

use super::field::{Dollars, OrderedObject};
use super::file_parts::{FileParts, collect_unknown_fields};
use super::layout::{DeadLetterJson, OutboundJson, ScopeJson, ScopesJson, StrataJson, TeamJson};
use super::located_value::LocatedValue;
use super::machine_part::MachinePartReader;
use super::messages::ImportedMessages;
use super::metagpt;
use super::metagpt::foreign_names::ForeignNames;
use super::roles::SavedRoles;
use super::saved_names::{component_slots, saved_name};
use super::{ImportError, SCHEMA_PREFIX, VERSION, budget, files, joins, parse, questions, roles};

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

/// Reads the state of a team, and returns it with warnings about the file. Fails if it does not fit
/// the team.
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
    let mut saved: TeamJson<'_> = file.document.decode()?;
    let named = roles::match_entries(team, &file)?;
    // Files of this program use the names of the team.
    let foreign = match &file.strata {
        Some(_) => None,
        None => Some(ForeignNames::from_entries(team, &named)?),
    };
    let shape = saved.strata.as_mut().and_then(|strata| strata.shape.take());
    roles::check_shape(team, shape.map(Cow::into_owned), &named, foreign.as_ref())?;
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
    env.idea = std::mem::take(&mut saved.idea).into_owned();
    match &mut saved.strata {
        Some(strata) => read_header(team, strata, saved.investment, &mut env),
        None => read_foreign_header(&file, saved.investment, &mut env)?,
    }
    if env.run.0.is_empty() {
        env.run = derived_run_id(bytes);
    }
    let mut saved = saved.strata.unwrap_or_default();
    let list = file
        .strata
        .as_ref()
        .map(|strata| strata.get_object("messages"));
    let list = list.transpose()?.flatten();
    let mut messages = ImportedMessages::read(&mut env, list, foreign.unwrap_or_default())?;
    let parts = read_parts(team, &file, &places, &mut saved, &mut messages)?;
    let warnings = messages.finish();
    env.step = env.step.max(parts.unused_step);
    (env.roles, env.joins, env.history) = (parts.roles, parts.joins, parts.history);
    (env.dead_letters, env.outbox) = (parts.dead_letters, parts.outbox);
    let strata = file.document.child("strata");
    env.files = files::read(team, saved.files, &strata.child("files"))?;
    env.questions = questions::read(saved.questions, &strata.child("questions"))?;
    derive_requests(team, &mut env);
    read_scopes(team, saved.state, &mut env);
    collect_unknown_fields(team, &file, &places, &mut env.unknown_fields)?;
    let env = validate(env).map_err(|why| whole.invalid(format!("is no state: {why}")))?;
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
    saved: &mut StrataJson<'_>,
    investment: Option<Dollars>,
    env: &mut Environment,
) {
    let id = |id: &mut Option<Cow<'_, str>>| id.take().map(|id| CheckpointId::from(&*id));
    env.run = RunId::from(&*saved.run_id);
    env.status = saved.status.map_or(Status::Running, |status| status.0);
    env.step = saved.step;
    env.is_step_open = saved.step_open;
    env.checkpoint = id(&mut saved.checkpoint);
    env.parent = id(&mut saved.parent);
    env.checkpoint_count = saved.checkpoints;
    if !saved.lineage.is_empty() {
        let forks = saved.forks.0.iter();
        env.lineage = Lineage {
            name: saved.lineage.to_string(),
            forks: forks.map(|id| CheckpointId::from(id.as_str())).collect(),
        };
    }
    env.external_message_count = saved.sent;
    env.own_messages = saved
        .own_messages
        .map_or_else(Default::default, |word| word.0);
    env.server_revisions = std::mem::take(&mut saved.servers).into_owned();
    env.reply_uses = std::mem::take(&mut saved.reply_uses).into_owned();
    env.call_policy = saved.calls.0;
    if let Some(budget) = saved.budget.take() {
        budget::read(team, budget, investment.map(|dollars| dollars.0), env);
    }
    for slot in component_slots(team) {
        let name = saved_name(team, slot);
        if let Some(Some(digest)) = saved.components.get(&*name) {
            env.components.insert(slot, Digest::from(&**digest));
        }
    }
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
fn read_foreign_header(
    file: &FileParts<'_>,
    investment: Option<Dollars>,
    env: &mut Environment,
) -> Result<(), ImportError> {
    let investment = investment.map(|dollars| dollars.0);
    env.budget = investment.filter(|max| max.0 > 0);
    env.own_messages = OwnMessages::Withheld;
    env.spent = metagpt::read_spent(&file.document)?.unwrap_or_default();
    Ok(())
}

/// The parts of a state that refer to messages.
struct ImportedParts {
    roles: Vec<RoleState>,
    joins: Vec<JoinState>,
    history: Vec<MessageRef>,
    dead_letters: Vec<DeadLetter>,
    outbox: Vec<OutboxMessage>,
    /// A step in which no message of a file of MetaGPT was created.
    unused_step: u64,
}

/// Reads what refers to messages. `entries` are those of the roles.
fn read_parts(
    team: &Team,
    file: &FileParts<'_>,
    entries: &[&LocatedValue<'_>],
    saved: &mut StrataJson<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<ImportedParts, ImportError> {
    let strata = file.document.child("strata");
    let history = match file.env.get("history") {
        Some(history) if history.value().is_object() => {
            messages.read_unique(&history, "storage")?
        }
        _ => Vec::new(),
    };
    let letters = std::mem::take(&mut saved.dead_letters);
    let outbound = std::mem::take(&mut saved.outbox);
    let dead_letters = read_dead_letters(letters, &strata.child("dead_letters"), messages)?;
    let outbox = read_outbox(outbound, &strata.child("outbox"), messages)?;
    let mut of_roles = SavedRoles {
        strata: &strata,
        open: saved.open.take().map(OrderedObject::into_map),
        machine_parts: MachinePartReader::default(),
        buffers: saved.buffers.take().map(OrderedObject::into_map),
        each: std::mem::take(&mut saved.each).into_map(),
        again: std::mem::take(&mut saved.again).into_map(),
        summaries: std::mem::take(&mut saved.summaries).into_map(),
    };
    let (mut roles, mut at_start) = (Vec::with_capacity(entries.len()), Vec::new());
    for (id, entry) in team.role_ids().zip(entries) {
        let read = roles::read(team, id, entry, &mut of_roles, messages)?;
        roles.push(read.state);
        at_start.extend(read.is_at_start.then_some(id));
    }
    let joins = std::mem::take(&mut saved.joins);
    let joins = joins::read(team, joins, &strata.child("joins"), messages)?;
    let mut unused_step = 0;
    if !at_start.is_empty() {
        unused_step = metagpt::first_unused_step(messages.ids());
    }
    for id in at_start {
        let (role, entry) = (team.role(id), entries[id.index()]);
        let state = &mut roles[id.index()];
        metagpt::restore_activation(role, entry, unused_step, state, messages)?;
    }
    if file.strata.is_none() {
        let published = metagpt::Published {
            env: &file.env,
            history: &history,
        };
        metagpt::deliver_unread(team, published, entries, &mut roles, messages);
    }
    Ok(ImportedParts {
        roles,
        joins,
        history,
        dead_letters,
        outbox,
        unused_step,
    })
}

/// Reads the messages to names that stand for nobody.
fn read_dead_letters(
    saved: Vec<DeadLetterJson<'_>>,
    list: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Vec<DeadLetter>, ImportError> {
    let mut letters = Vec::with_capacity(saved.len());
    for (index, dead) in saved.into_iter().enumerate() {
        let place = list.item(index);
        letters.push(DeadLetter {
            message: messages.read_link(&dead.message, &place.child("message"))?,
            to: dead.to.into_owned(),
        });
    }
    let key = |dead: &DeadLetter| (dead.message, dead.to.clone());
    let name = |dead: &DeadLetter| format!("a message to `{}`", dead.to);
    let warnings = &mut messages.warnings;
    Ok(warnings.first_per_key(|| list.pointer(), letters, key, name))
}

/// Reads the messages that are about to leave the team. If a message is listed twice, it is sent
/// once, to all recipients.
fn read_outbox(
    saved: Vec<OutboundJson<'_>>,
    list: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Vec<OutboxMessage>, ImportError> {
    let mut listed = Vec::with_capacity(saved.len());
    let mut names: BTreeMap<MessageRef, Vec<String>> = BTreeMap::new();
    for (index, outbound) in saved.into_iter().enumerate() {
        let place = list.item(index);
        let message = messages.read_link(&outbound.message, &place.child("message"))?;
        let names = names.entry(message).or_default();
        for name in outbound.to.0.iter() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        listed.push(OutboxMessage {
            message,
            to: Vec::new(),
            failed: outbound.failed.map(Cow::into_owned),
        });
    }
    let mut outbox =
        messages.first_per_message(|| list.pointer(), listed, |outbound| outbound.message);
    for outbound in &mut outbox {
        outbound.to = names.remove(&outbound.message).unwrap_or_default();
    }
    Ok(outbox)
}

/// Reads the scopes of the team and of its roles.
fn read_scopes(team: &Team, saved: ScopesJson<'_>, env: &mut Environment) {
    for (name, scope) in saved.env {
        env.shared_scopes
            .insert(name.into_owned(), read_scope(scope));
    }
    let mut own = saved.role.into_map();
    for id in team.role_ids() {
        if let Some(scope) = own.remove(&*team.role(id).name) {
            env.roles[id.index()].scope = read_scope(scope);
        }
    }
}

fn read_scope(saved: ScopeJson<'_>) -> Scope {
    let values = saved.into_iter();
    values
        .map(|(key, value)| (key.into_owned(), value.into_json()))
        .collect()
}
