//! Open activations in the file: `strata.open` and the faults that belong to them. Everything is
//! checked against the role, so that the import never refers to an action that does not exist.

use strata_core::record::fault::{Fault, FaultCause, FaultKind, Retryability};
use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::json::Json;
use strata_core::record::request::HumanRequest;
use strata_core::record::scope_write::{ScopeChange, Write};
use strata_core::record::turn::ToolRef;
use strata_core::record::work::{Task, Work};
use strata_core::state::activation::{
    Activation, Addressing, FinishedCall, Phase, RevertedCall, UncommittedMessage,
};
use strata_core::team::{React, Role, TURN};

use super::attempts::read_attempts;
use super::located_value::{ImportResult, LocatedValue, child_pointer};
use super::messages::ImportedMessages;
use super::requests;
use super::saved_names::work_name;
use super::turns;

/// Reads the activation in which a role handles mail.
pub(super) fn read(
    role: &Role,
    place: &LocatedValue<'_>,
    strata: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Activation> {
    let mut activation = read_progress(role, place, messages)?;
    let (fault, request) = (
        read_fault(role, strata, messages)?,
        requests::read(role, strata, messages)?,
    );
    restore_phase(&mut activation, role, read_phase(place, fault, request)?);
    Ok(activation)
}

/// Gives an activation the phase that it has in the file, unless that does not fit its calls.
pub(super) fn restore_phase(activation: &mut Activation, role: &Role, phase: Phase) {
    activation.phase = match (activation.current_work(role), phase) {
        (None, _) if activation.has_open_tool_calls() => Phase::CallingTools,
        (None, _) => Phase::Complete,
        (Some(_), Phase::Complete | Phase::CallingTools | Phase::CallingRole) => Phase::Ready,
        (Some(_), phase) => phase,
    };
}

/// Reads an open activation without its phase.
pub(super) fn read_progress(
    role: &Role,
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Activation> {
    place.object()?;
    let last = role.actions.len() as i64 - 1;
    let skipped = place.small_count("skipped")?;
    let skipped = u16::try_from(skipped)
        .map_err(|_| place.invalid("skips more actions than a role can have"))?;
    let tasks = place.read_items("tasks", read_task)?;
    let done = place.read_items("done", |item| {
        read_completed_call(role, tasks.len(), &item, messages)
    })?;
    let done = messages.first_per_message(
        || child_pointer(&place.pointer(), "done"),
        done,
        |done| done.output.message,
    );
    let undone = place.read_items("undone", |item| read_undone_call(role, &item))?;
    let name = |undone: &RevertedCall| {
        format!(
            "`{}` after {} calls",
            work_name(undone.work),
            undone.position
        )
    };
    let of_undone = || child_pointer(&place.pointer(), "undone");
    let undone = messages.warnings.first_per_key(
        of_undone,
        undone,
        |undone| (undone.work, undone.position),
        name,
    );
    let choices = place.read_items("choices", |choice| Ok(choice.integer(-1, last)? as i32))?;
    if choices.len() > done.len() + 1 {
        return Err(place.invalid("has more choices than work done by them"));
    }
    let messages_made: usize = done.iter().map(|done| 1 + done.emissions.len()).sum();
    Ok(Activation {
        opened_in_step: place.count("step")?,
        news: messages.read_unique(place, "news")?,
        skipped_actions: skipped,
        choices,
        tasks,
        message_count: place.small_count("made")?.max(messages_made as u32),
        done,
        current_call: read_attempts(place)?,
        reverted: undone,
        turns: turns::read(role, place, messages)?.into(),
        phase: Phase::Ready,
    })
}

/// Reads the phase of a call that has this fault or request.
pub(super) fn read_phase(
    place: &LocatedValue<'_>,
    fault: Option<Fault>,
    request: Option<HumanRequest>,
) -> ImportResult<Phase> {
    let phase = |word: &str| match (word, fault.clone()) {
        ("ready", Some(fault)) => Some(Phase::ReadyAfterFault(fault)),
        ("ready" | "failed", None) => Some(Phase::Ready),
        ("running", _) => Some(Phase::Running),
        ("resting", _) => Some(Phase::BackingOff),
        ("failed", Some(fault)) => Some(Phase::Failed(fault)),
        ("complete", _) => Some(Phase::Complete),
        ("calling-tools", _) => Some(Phase::CallingTools),
        ("calling-role", _) => Some(Phase::CallingRole),
        ("waiting", _) => Some(request.clone().map_or(Phase::Ready, Phase::WaitingForHuman)),
        _ => None,
    };
    Ok(place.keyword("phase", phase)?.unwrap_or(Phase::Ready))
}

/// Reads the open fault of a role.
fn read_fault(
    role: &Role,
    strata: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Option<Fault>> {
    let read = |place: LocatedValue<'_>| {
        place.object()?;
        // Those of tool calls are with the calls.
        let is_of_tool_call = role.tool_loop().is_some() && place.get_text("action")? != TURN;
        // And those of called roles are with their activations.
        let is_of_called_role = place.get("via").is_some();
        if place.get_text("role")? != role.name || is_of_tool_call || is_of_called_role {
            return Ok(None);
        }
        read_fault_fields(&place).map(Some)
    };
    let found = strata
        .read_items("faults", read)?
        .into_iter()
        .flatten()
        .collect();
    let name = |_: &Fault| format!("a fault of role `{}`", role.name);
    Ok(messages
        .warnings
        .first_per_key(|| "/strata/faults".into(), found, |_| (), name)
        .pop())
}

/// Reads the fields of a fault that describe the fault itself.
pub(super) fn read_fault_fields(place: &LocatedValue<'_>) -> ImportResult<Fault> {
    let kind = place.keyword("kind", FaultKind::from_name)?;
    Ok(Fault {
        // The most general kind.
        kind: kind.unwrap_or(FaultKind::Error),
        retryability: if place.flag("retryable")? {
            Retryability::Retryable
        } else {
            Retryability::Final
        },
        // If the file does not say the cause, it is unknown.
        cause: place
            .keyword("cause", FaultCause::from_name)?
            .unwrap_or_default(),
        message: place.get_text("message")?,
        backtrace: place.get_texts("backtrace")?.unwrap_or_default(),
        log: place.get_texts("log")?.unwrap_or_default(),
    })
}

fn read_task(place: LocatedValue<'_>) -> ImportResult<Task> {
    place.object()?;
    Ok(Task {
        text: place.get_text("text")?,
        action: place
            .get("action")
            .map(|action| action.text().map(String::from))
            .transpose()?,
    })
}

fn read_completed_call(
    role: &Role,
    tasks: usize,
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<FinishedCall> {
    place.object()?;
    let work_of = |name: &str| {
        parse_work(role, tasks, name).filter(|work| !matches!(work, Work::Think { .. }))
    };
    let work = place.keyword("work", work_of)?;
    let output = place
        .get("output")
        .ok_or_else(|| place.invalid("has no `output`"))?;
    let emissions = place.read_items("emissions", |emission| read_outgoing(&emission, messages))?;
    Ok(FinishedCall {
        work: work.ok_or_else(|| place.invalid("does not say what `work` it was"))?,
        output: read_outgoing(&output, messages)?,
        emissions: messages.first_per_message(
            || child_pointer(&place.pointer(), "emissions"),
            emissions,
            |made| made.message,
        ),
        writes: place.read_items("writes", read_scope_write)?,
        progress: read_attempts(place)?,
    })
}

/// Parses the name of a call. Returns `None` if the role has no such call.
pub(super) fn parse_work(role: &Role, tasks: usize, name: &str) -> Option<Work> {
    let mut parts = name.split('/');
    let work = match parts.next()? {
        "plan" => Work::Plan,
        "think" if matches!(role.react, React::Choose { .. }) => Work::Think {
            round: parts.next()?.parse().ok()?,
        },
        "answer" if role.react == React::Human => Work::Answer,
        "turn" if role.tool_loop().is_some() => Work::Turn {
            turn: parts.next()?.parse().ok()?,
        },
        "tool" => {
            let (turn, call) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let tool = parse_tool(role, parts.next()?)?;
            Work::ToolCall { turn, call, tool }
        }
        "act" => {
            let action = parts.next()?.parse().ok().map(ActionId)?;
            let task = parts
                .next()
                .map(|task| task.parse().ok())
                .map_or(Some(None), |task: Option<u32>| task.map(Some))?;
            let known = action.index() < role.actions.len()
                && task.is_none_or(|task| (task as usize) < tasks);
            known.then_some(Work::Act { action, task })?
        }
        _ => return None,
    };
    parts.next().is_none().then_some(work)
}

/// Parses the name of a tool: the index of an action, or `>` or `@` and the index of a role. Returns
/// `None` if the role has no such tool.
fn parse_tool(role: &Role, name: &str) -> Option<ToolRef> {
    let tool = match (name.strip_prefix('>'), name.strip_prefix('@')) {
        (Some(to), _) => ToolRef::Handoff(RoleId(to.parse().ok()?)),
        (None, Some(to)) => ToolRef::Role(RoleId(to.parse().ok()?)),
        (None, None) => ToolRef::Action(ActionId(name.parse().ok()?)),
    };
    role.tool_loop()?.tool(tool).map(|_| tool)
}

pub(super) fn read_outgoing(
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<UncommittedMessage> {
    place.object()?;
    let message = place
        .get("message")
        .ok_or_else(|| place.invalid("names no `message`"))?;
    let addressed = if place.flag("addressed")? {
        Addressing::Explicit
    } else {
        Addressing::ByEnvironment
    };
    Ok(UncommittedMessage {
        message: messages.resolve(&message)?,
        addressing: addressed,
    })
}

fn read_undone_call(role: &Role, place: &LocatedValue<'_>) -> ImportResult<RevertedCall> {
    place.object()?;
    // Its task may belong to a plan that was undone as well.
    let work = place.keyword("work", |name| parse_work(role, usize::MAX, name))?;
    let work = work.ok_or_else(|| place.invalid("does not say what `work` it was"))?;
    Ok(RevertedCall {
        work,
        position: place.small_count("place")?,
        progress: read_attempts(place)?,
    })
}

pub(super) fn read_scope_write(place: LocatedValue<'_>) -> ImportResult<Write> {
    place.object()?;
    // The value may be `null`, although that usually means that a field is missing.
    let change = match (place.flag("delete")?, place.get("set")) {
        (true, _) => ScopeChange::Delete,
        (false, Some(value)) => ScopeChange::Set(value.json()?),
        (false, None) => ScopeChange::Set(Json::null()),
    };
    Ok(Write {
        scope: place.get_text("scope")?,
        key: place.get_text("key")?,
        change,
    })
}
