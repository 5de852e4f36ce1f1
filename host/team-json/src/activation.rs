//! Open activations in the file: `strata.open` and the faults that belong to them. Everything is
//! checked against the role, so that the import never refers to an action that does not exist.

use std::borrow::Cow;

use strata_core::record::fault::Fault;
use strata_core::record::scope_write::Write;
use strata_core::record::server_tool::ToolList;
use strata_core::record::turn::ToolRef;
use strata_core::record::work::{Task, Work};
use strata_core::state::activation::{
    Activation, ConversationMemory, FinishedCall, Phase, RevertedCall,
};
use strata_core::state::environment::Environment;
use strata_core::team::{Role, SUMMARY, TURN};

use super::field::{Keyword, MessageLink};
use super::layout::{
    ActivationJson, CompletedCallJson, FaultJson, PhaseName, ScopeWriteJson, UndoneCallJson,
};
use super::located_value::{ImportResult, LocatedValue};
use super::messages::ImportedMessages;
use super::outgoing::{read_emissions, read_outgoing, write_emissions, write_outgoing};
use super::saved_names::{parse_work, work_name};
use super::{saved_names, turns};

/// Returns an activation, without what only that of a called role has.
pub(super) fn write<'a>(env: &'a Environment, activation: &'a Activation) -> ActivationJson<'a> {
    let finished = |done: &'a FinishedCall| CompletedCallJson {
        work: Some(Cow::Owned(work_name(done.work))),
        output: write_outgoing(env, &done.output),
        emissions: write_emissions(env, &done.emissions),
        writes: done.writes.iter().map(ScopeWriteJson::from).collect(),
        tried: (&done.progress).into(),
    };
    let undone = |undone: &'a RevertedCall| UndoneCallJson {
        work: Some(Cow::Owned(work_name(undone.work))),
        place: undone.position,
        tried: (&undone.progress).into(),
    };
    let news = activation.news.iter();
    ActivationJson {
        step: activation.opened_in_step,
        phase: Keyword(PhaseName::from(&activation.phase)),
        news: news
            .map(|id| MessageLink::to(&env.message(*id).id.0))
            .collect(),
        skipped: activation.skipped_actions,
        choices: Cow::Borrowed(&activation.choices),
        tasks: activation.tasks.iter().map(Into::into).collect(),
        done: activation.done.iter().map(finished).collect(),
        made: activation.message_count,
        tried: (&activation.current_call).into(),
        undone: activation.reverted.iter().map(undone).collect(),
        turns: turns::write(env, activation),
        memory: (activation.memory != ConversationMemory::default())
            .then_some(Cow::Borrowed(&activation.memory)),
        server_tools: activation
            .server_tools
            .as_ref()
            .map(|lists| lists.iter().map(Into::into).collect()),
        ..ActivationJson::default()
    }
}

/// Reads an activation, except for those that it led to.
pub(super) fn read(
    role: &Role,
    saved: ActivationJson<'_>,
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Activation> {
    let request = match saved.request {
        Some(request) => Some(request.into_request(&place.child("request"))?),
        None => None,
    };
    // What a server asked is asked again: the call is made again.
    let request = request.filter(|request| request.asked_by.is_none());
    let phase = saved.phase.0.with(saved.fault.map(Fault::from), request);
    let tasks: Vec<Task> = saved.tasks.into_iter().map(Task::from).collect();
    let done = read_finished_calls(role, tasks.len(), saved.done, place, messages)?;
    let last = role.actions.len() as i64 - 1;
    for index in 0..saved.choices.len() {
        place.child("choices").item(index).integer(-1, last)?;
    }
    if saved.choices.len() > done.len() + 1 {
        return Err(place.invalid("has more choices than work done by them"));
    }
    let messages_made: usize = done.iter().map(|done| 1 + done.emissions.len()).sum();
    let mut activation = Activation {
        opened_in_step: saved.step,
        news: messages.read_unique_links(&saved.news, &place.child("news"))?,
        skipped_actions: saved.skipped,
        choices: saved.choices.into_owned(),
        tasks,
        message_count: saved.made.max(messages_made as u32),
        done,
        current_call: saved.tried.into(),
        reverted: read_undone_calls(role, saved.undone, &place.child("undone"), messages)?,
        turns: turns::read(role, saved.turns, &place.child("turns"), messages)?.into(),
        memory: saved.memory.map(Cow::into_owned).unwrap_or_default(),
        phase: Phase::Ready,
        server_tools: saved
            .server_tools
            .map(|lists| lists.into_iter().map(ToolList::from).collect()),
    };
    let called = activation.tool_calls().map(|(work, _)| work);
    if called
        .collect::<Vec<_>>()
        .into_iter()
        .any(|work| is_unlisted(&activation, work))
    {
        return Err(place.invalid("has a call of a tool that is in none of its lists"));
    }
    restore_phase(&mut activation, role, phase);
    Ok(activation)
}

/// Returns whether a call is one of a tool of a server that the activation does not know.
fn is_unlisted(activation: &Activation, work: Work) -> bool {
    match work {
        Work::ToolCall {
            tool: tool @ ToolRef::Server { .. },
            ..
        } => activation.server_tool(tool).is_none(),
        _ => false,
    }
}

/// Gives an activation the phase that it has in the file, unless that does not fit its calls.
fn restore_phase(activation: &mut Activation, role: &Role, phase: Phase) {
    activation.phase = match (activation.current_work(role), phase) {
        (None, _) if activation.has_open_tool_calls() => Phase::CallingTools,
        (None, _) => Phase::Complete,
        (Some(_), Phase::Complete | Phase::CallingTools | Phase::CallingRole) => Phase::Ready,
        (Some(_), phase) => phase,
    };
}

/// Takes the open fault of a role from the list of all faults.
pub(super) fn take_fault<'a>(
    role: &Role,
    faults: &mut Vec<FaultJson<'a>>,
    messages: &mut ImportedMessages<'_>,
) -> Option<FaultJson<'a>> {
    let is_of_role = |fault: &FaultJson<'_>| {
        // Those of tool calls are with the calls, and those of called roles with their activations.
        let is_of_host = matches!(fault.action.as_deref(), Some(TURN | SUMMARY));
        let is_of_tool_call = role.tool_loop().is_some() && !is_of_host;
        fault.role.as_deref() == Some(&*role.name) && !is_of_tool_call && fault.via.is_empty()
    };
    let found: Vec<FaultJson<'a>> = faults.extract_if(.., |fault| is_of_role(fault)).collect();
    let name = |_: &FaultJson<'_>| format!("a fault of role `{}`", role.name);
    let mut found =
        messages
            .warnings
            .first_per_key(|| "/strata/faults".into(), found, |_| (), name);
    found.pop()
}

/// Reads the calls that an activation has finished.
fn read_finished_calls(
    role: &Role,
    tasks: usize,
    saved: Vec<CompletedCallJson<'_>>,
    activation: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Vec<FinishedCall>> {
    let list = activation.child("done");
    let mut done = Vec::with_capacity(saved.len());
    for (index, call) in saved.into_iter().enumerate() {
        let place = list.item(index);
        let work_of = |name: &str| {
            parse_work(role, tasks, name).filter(|work| !matches!(work, Work::Think { .. }))
        };
        let emissions = place.child("emissions");
        let made = read_emissions(call.emissions, &emissions, messages)?;
        done.push(FinishedCall {
            work: read_work(call.work, &place, work_of)?,
            output: read_outgoing(&call.output, &place.child("output"), messages)?,
            emissions: messages.first_per_message(|| emissions.pointer(), made, |of| of.message),
            writes: call.writes.into_iter().map(Write::from).collect(),
            progress: call.tried.into(),
        });
    }
    Ok(messages.first_per_message(|| list.pointer(), done, |done| done.output.message))
}

fn read_undone_calls(
    role: &Role,
    saved: Vec<UndoneCallJson<'_>>,
    list: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Vec<RevertedCall>> {
    let mut undone = Vec::with_capacity(saved.len());
    for (index, call) in saved.into_iter().enumerate() {
        let place = list.item(index);
        // Its task may belong to a plan that was undone as well.
        let work_of = |name: &str| parse_work(role, usize::MAX, name);
        undone.push(RevertedCall {
            work: read_work(call.work, &place, work_of)?,
            position: call.place,
            progress: call.tried.into(),
        });
    }
    let name = |undone: &RevertedCall| {
        let work = work_name(undone.work);
        format!("`{work}` after {} calls", undone.position)
    };
    let key = |undone: &RevertedCall| (undone.work, undone.position);
    let warnings = &mut messages.warnings;
    Ok(warnings.first_per_key(|| list.pointer(), undone, key, name))
}

/// Reads the name of a call. `place` is the record that contains it.
fn read_work(
    name: Option<Cow<'_, str>>,
    place: &LocatedValue<'_>,
    parse: impl Fn(&str) -> Option<Work>,
) -> ImportResult<Work> {
    let name = name.ok_or_else(|| place.invalid("does not say what `work` it was"))?;
    parse(&name).ok_or_else(|| saved_names::unknown_work(place))
}
