//! Files of MetaGPT: they say which action a role was at and on which message. The rest has to be
//! inferred.

pub(super) mod foreign_names;
mod plan;
mod unread;

use std::collections::BTreeSet;

use serde_json::Value;

use strata_core::record::id::ActionId;
use strata_core::record::money::Usd;
use strata_core::record::work::Work;
use strata_core::state::activation::{Activation, Addressing, FinishedCall, UncommittedMessage};
use strata_core::state::environment::{Mail, RoleState};
use strata_core::state::messages::MessageRef;
use strata_core::team::{React, Role};

use super::field::Dollars;
use super::located_value::LocatedValue;
use super::messages::ImportedMessages;
use super::{ImportError, parse};

pub(super) use foreign_names::{action_names, planner_offset, role_names};
pub(super) use unread::{Published, deliver_unread};

/// Returns a step in which no message of the file was created, since the ids of new messages start
/// with their step.
pub(super) fn first_unused_step<'a>(ids: impl Iterator<Item = &'a str>) -> u64 {
    let step = |id: &str| {
        let mut parts = id.splitn(3, '-');
        let numbers = [
            parts.next()?.parse::<u32>().ok()?,
            parts.next()?.parse().ok()?,
            parts.next()?.parse().ok()?,
        ];
        Some(u64::from(numbers[0]) + 1)
    };
    ids.filter_map(step).max().unwrap_or(0)
}

/// Reads what the team has spent. MetaGPT saves its accounts as a JSON document in a string.
pub(super) fn read_spent(file: &LocatedValue<'_>) -> Result<Option<Usd>, ImportError> {
    let context = file.get_object("context")?;
    let Some(accounts) = context
        .as_ref()
        .and_then(|context| context.get("cost_manager"))
    else {
        return Ok(None);
    };
    match accounts.value() {
        Value::String(text) => {
            let invalid = |error| accounts.invalid(format!("holds no costs: {error}"));
            let document = parse::parse(text.as_bytes()).map_err(invalid)?;
            total_cost(&LocatedValue::root(&document)).map_err(invalid)
        }
        _ => total_cost(&accounts),
    }
}

fn total_cost(accounts: &LocatedValue<'_>) -> Result<Option<Usd>, ImportError> {
    let Some(cost) = accounts.get("total_cost") else {
        return Ok(None);
    };
    Ok(Some(cost.decode::<Dollars>()?.0))
}

/// Whether a role remembers the messages it has read.
fn has_memory(entry: &LocatedValue<'_>) -> bool {
    entry
        .get("enable_memory")
        .is_none_or(|enabled| enabled.value() != &Value::Bool(false))
}

/// Restores the unread messages of a role, and the activation that it was at.
pub(super) fn restore_activation(
    role: &Role,
    place: &LocatedValue<'_>,
    step: u64,
    state: &mut RoleState,
    messages: &mut ImportedMessages<'_>,
) -> Result<(), ImportError> {
    let Some(rc) = place.get("rc") else {
        return Ok(());
    };
    if let Some(buffer) = rc.get("msg_buffer") {
        let listed = read_queue(&buffer, messages)?;
        let unread = messages.first_per_message(|| buffer.pointer(), listed, |message| *message);
        state.mailbox.extend(unread.into_iter().map(Mail::batched));
    }
    let saved = action_names(place)?.map_or(0, |actions| actions.len());
    let at = match rc.get("state") {
        Some(at) => at.integer(-1, role.actions.len().max(saved) as i64 - 1)?,
        None => -1,
    };
    let mut news = messages.read_unique(&rc, "news")?;
    if news.is_empty() {
        news.extend(state.latest);
    }
    if at < 0 {
        // A role that failed before it chose an action: the messages it worked on are not in its
        // memory.
        let memory: BTreeSet<MessageRef> = state.memory.iter().copied().collect();
        news.retain(|message| !memory.contains(message));
        if !news.is_empty() && !has_memory(place) {
            messages.warnings.push(format!(
                "`{}` remembers nothing, so whether it has handled message `{}` is not known: it is not handled again",
                role.name,
                messages.get(news[0]).id
            ));
            return Ok(());
        }
    }
    if news.is_empty() {
        if at >= 0 {
            let name = &role.name;
            messages.warnings.push(format!(
                "`{name}` stood at action {at}, but not on which message: it does not go on"
            ));
        }
        return Ok(());
    }
    // The messages of an activation are neither unread nor in the memory.
    let is_new: BTreeSet<MessageRef> = news.iter().copied().collect();
    state.mailbox.retain(|mail| !is_new.contains(&mail.message));
    state.memory.retain(|id| !is_new.contains(id));
    state.latest = news.last().copied();
    let mut activation = Activation::new(step, news, role);
    let at = u16::try_from(at)
        .ok()
        .filter(|at| usize::from(*at) < role.actions.len());
    match (&role.react, at) {
        (React::ByOrder, Some(at)) => {
            activation.done = take_outputs(role, at, &mut state.memory, messages);
            activation.skipped_actions = at - activation.done.len() as u16;
        }
        (React::Choose { .. }, Some(at)) => activation.choices = vec![i32::from(at)],
        (React::PlanAndAct, _) => plan::restore_tasks(role, place, &mut activation, messages)?,
        (React::ByOrder | React::Choose { .. } | React::Human | React::Tools(_), _) => {}
    }
    activation.message_count = activation.done.len() as u32;
    activation.proceed(role);
    state.activation = Some(activation);
    Ok(())
}

/// Takes the outputs of the actions before `at` from the end of a role's memory, as far as they are
/// there.
fn take_outputs(
    role: &Role,
    at: u16,
    memory: &mut Vec<MessageRef>,
    messages: &ImportedMessages<'_>,
) -> Vec<FinishedCall> {
    let is_output = |id: MessageRef, action: u16| {
        let message = messages.get(id);
        let own = message.sent_from.is_empty()
            || messages.names().is_role(&role.name, &message.sent_from);
        own && message.cause_by == role.action(ActionId(action)).name
    };
    let earlier = (0..at).rev();
    let count = memory
        .iter()
        .rev()
        .zip(earlier)
        .take_while(|(id, action)| is_output(**id, *action))
        .count();
    let found = memory.split_off(memory.len() - count);
    let first = at - count as u16;
    let mut done = Vec::with_capacity(count);
    for (action, message) in (first..at).zip(found) {
        done.push(FinishedCall {
            work: Work::Act {
                action: ActionId(action),
                task: None,
            },
            output: UncommittedMessage {
                message,
                addressing: Addressing::ByEnvironment,
            },
            emissions: Vec::new(),
            writes: Vec::new(),
            progress: Default::default(),
        });
    }
    done
}

/// Reads the messages of a queue: a list, or a string with a list, whose items may be strings
/// again.
fn read_queue(
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Vec<MessageRef>, ImportError> {
    let Value::String(text) = place.value() else {
        return match place.value() {
            // Some versions wrap the list in an object.
            Value::Object(_) => messages.read_list(place, "storage"),
            _ => place.items()?.map(|item| messages.resolve(&item)).collect(),
        };
    };
    let unfold = |text: &str| {
        parse::parse(text.as_bytes()).map_err(|e| place.invalid(format!("is no queue: {e}")))
    };
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let Value::Array(items) = unfold(text)? else {
        return Err(place.invalid("is no queue: it is not a list"));
    };
    let mut found = Vec::new();
    for item in items {
        let item = match item {
            Value::String(text) => unfold(&text)?,
            other => other,
        };
        let message = LocatedValue::root(&item);
        found.push(
            messages
                .resolve(&message)
                .map_err(|e| place.invalid(format!("is no queue: {e}")))?,
        );
    }
    Ok(found)
}
