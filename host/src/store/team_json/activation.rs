//! Open activations in the file: `strata.open` and the faults that belong to them. Everything is
//! checked against the role, so that the import never refers to an action that does not exist.

use strata_core::activation::{Activation, Addressed, Current, Done, Outgoing, Phase, Undone};
use strata_core::budget::{Amount, Reserved};
use strata_core::environment::scope::{Change, Write};
use strata_core::event::{HostCall, HostCallKind, Outcome, Work};
use strata_core::fault::{Fault, FaultCause, FaultKind, Hope};
use strata_core::host_call::{Again, Begun, Finish, Intent, Known};
use strata_core::id::ActionId;
use strata_core::json::Json;
use strata_core::team::{React, Role, Task};

use super::files;
use super::messages::Messages;
use super::names::work_name;
use super::place::{Place, Read, child};
use super::requests;

/// Reads the open activation of a role.
pub(super) fn read(
    role: &Role,
    place: &Place<'_>,
    strata: &Place<'_>,
    messages: &mut Messages<'_>,
) -> Read<Activation> {
    place.object()?;
    let last = role.actions.len() as i64 - 1;
    let skipped = place.small("skipped")?;
    let skipped = u16::try_from(skipped)
        .map_err(|_| place.invalid("skips more actions than a role can have"))?;
    let tasks = place.each("tasks", task)?;
    let done = place.each("done", |item| read_done(role, tasks.len(), &item, messages))?;
    let done = messages.keep_first(
        || child(&place.pointer(), "done"),
        done,
        |done| done.output.message,
    );
    let undone = place.each("undone", |item| undone(role, &item))?;
    let call =
        |undone: &Undone| format!("`{}` after {} calls", work_name(undone.work), undone.place);
    let of_undone = || child(&place.pointer(), "undone");
    let undone = messages.repeats.keep_first(
        of_undone,
        undone,
        |undone| (undone.work, undone.place),
        call,
    );
    let choices = place.each("choices", |choice| Ok(choice.whole(-1, last)? as i32))?;
    if choices.len() > done.len() + 1 {
        return Err(place.invalid("has more choices than work done by them"));
    }
    let messages_made: usize = done.iter().map(|done| 1 + done.emissions.len()).sum();
    let mut activation = Activation {
        opened: place.count("step")?,
        news: messages.unique(place, "news")?,
        skipped,
        choices,
        tasks,
        made: place.small("made")?.max(messages_made as u32),
        done,
        current: tried(place)?,
        undone,
        phase: Phase::Ready,
    };
    let (fault, request) = (
        fault(role, strata, messages)?,
        requests::read(role, strata, messages)?,
    );
    let phase = |word: &str| match (word, fault.clone()) {
        ("ready", Some(fault)) => Some(Phase::Again(fault)),
        ("ready" | "failed", None) => Some(Phase::Ready),
        ("running", _) => Some(Phase::Running),
        ("resting", _) => Some(Phase::Resting),
        ("failed", Some(fault)) => Some(Phase::Failed(fault)),
        ("complete", _) => Some(Phase::Complete),
        ("waiting", _) => Some(request.clone().map_or(Phase::Ready, Phase::Waiting)),
        _ => None,
    };
    let phase = place.word("phase", phase)?.unwrap_or(Phase::Ready);
    activation.phase = match (activation.work(role), phase) {
        (None, _) => Phase::Complete,
        (Some(_), Phase::Complete) => Phase::Ready,
        (Some(_), phase) => phase,
    };
    Ok(activation)
}

/// Reads the open fault of a role.
fn fault(role: &Role, strata: &Place<'_>, messages: &mut Messages<'_>) -> Read<Option<Fault>> {
    let read = |place: Place<'_>| {
        place.object()?;
        if place.get_text("role")? != role.name {
            return Ok(None);
        }
        let kind = place.word("kind", FaultKind::from_name)?;
        Ok(Some(Fault {
            // The most general kind.
            kind: kind.unwrap_or(FaultKind::Error),
            hope: if place.flag("retryable")? {
                Hope::Retryable
            } else {
                Hope::Final
            },
            // If the file does not say the cause, it is unknown.
            cause: place
                .word("cause", FaultCause::from_name)?
                .unwrap_or_default(),
            message: place.get_text("message")?,
            backtrace: place.texts("backtrace")?.unwrap_or_default(),
            log: place.texts("log")?.unwrap_or_default(),
        }))
    };
    let found = strata.each("faults", read)?.into_iter().flatten().collect();
    let name = |_: &Fault| format!("a fault of role `{}`", role.name);
    Ok(messages
        .repeats
        .keep_first(|| "/strata/faults".into(), found, |_| (), name)
        .pop())
}

fn task(place: Place<'_>) -> Read<Task> {
    place.object()?;
    Ok(Task {
        text: place.get_text("text")?,
        action: place
            .get("action")
            .map(|action| action.text().map(String::from))
            .transpose()?,
    })
}

fn read_done(
    role: &Role,
    tasks: usize,
    place: &Place<'_>,
    messages: &mut Messages<'_>,
) -> Read<Done> {
    place.object()?;
    let made =
        |name: &str| work(role, tasks, name).filter(|work| !matches!(work, Work::Think { .. }));
    let work = place.word("work", made)?;
    let output = place
        .get("output")
        .ok_or_else(|| place.invalid("has no `output`"))?;
    let emissions = place.each("emissions", |emission| outgoing(&emission, messages))?;
    Ok(Done {
        work: work.ok_or_else(|| place.invalid("does not say what `work` it was"))?,
        output: outgoing(&output, messages)?,
        emissions: messages.keep_first(
            || child(&place.pointer(), "emissions"),
            emissions,
            |made| made.message,
        ),
        writes: place.each("writes", write)?,
        tried: tried(place)?,
    })
}

/// Parses the name of a call. Returns `None` if the role has no such call.
pub(super) fn work(role: &Role, tasks: usize, name: &str) -> Option<Work> {
    let mut parts = name.split('/');
    let work = match parts.next()? {
        "plan" => Work::Plan,
        "think" if matches!(role.react, React::Choose { .. }) => Work::Think {
            round: parts.next()?.parse().ok()?,
        },
        "answer" if role.react == React::Human => Work::Answer,
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

fn outgoing(place: &Place<'_>, messages: &mut Messages<'_>) -> Read<Outgoing> {
    place.object()?;
    let message = place
        .get("message")
        .ok_or_else(|| place.invalid("names no `message`"))?;
    let addressed = if place.flag("addressed")? {
        Addressed::Named
    } else {
        Addressed::Open
    };
    Ok(Outgoing {
        message: messages.at(&message)?,
        addressed,
    })
}

fn undone(role: &Role, place: &Place<'_>) -> Read<Undone> {
    place.object()?;
    // Its task may belong to a plan that was undone as well.
    let work = place.word("work", |name| work(role, usize::MAX, name))?;
    let work = work.ok_or_else(|| place.invalid("does not say what `work` it was"))?;
    Ok(Undone {
        work,
        place: place.small("place")?,
        tried: tried(place)?,
    })
}

/// Reads the attempts of the call in the field `tried`.
fn tried(place: &Place<'_>) -> Read<Current> {
    let Some(tried) = place.get_object("tried")? else {
        return Ok(Current::default());
    };
    Ok(Current {
        attempts: tried.small("attempts")?,
        failures: tried.small("failures")?,
        journal: tried.each("journal", host_call)?,
        keep: tried.flag("keep")?,
        answered: tried.flag("answered")?,
        begun: tried.each("begun", begun)?,
        reserved: tried.each("reserved", reserved)?,
        files: files::read_changes(&tried)?,
    })
}

fn reserved(place: Place<'_>) -> Read<Reserved> {
    place.object()?;
    let usd = place.dollars("usd")?.unwrap_or_default();
    Ok(Reserved {
        request: place.get_text("request")?,
        amount: Amount {
            usd,
            tokens: place.count("tokens")?,
        },
    })
}

fn write(place: Place<'_>) -> Read<Write> {
    place.object()?;
    // The value may be `null`, although that usually means that a field is missing.
    let change = match (place.flag("delete")?, place.get("set")) {
        (true, _) => Change::Delete,
        (false, Some(value)) => Change::Set(value.json()?),
        (false, None) => Change::Set(Json::null()),
    };
    Ok(Write {
        scope: place.get_text("scope")?,
        key: place.get_text("key")?,
        change,
    })
}

fn host_call(place: Place<'_>) -> Read<HostCall> {
    place.object()?;
    let outcome = |name: &str| {
        Outcome::ALL
            .into_iter()
            .find(|outcome| outcome.name() == name)
    };
    Ok(HostCall {
        kind: kind(&place)?,
        request: place.get_text("request")?,
        response: place
            .get("response")
            .map_or(Ok(Json::null()), |response| response.wrapped())?,
        cost: place.dollars("cost")?.unwrap_or_default(),
        tokens: place.count("tokens")?,
        outcome: place.word("outcome", outcome)?.unwrap_or_default(),
        finish: place.word("finish", |word| {
            Finish::ALL.into_iter().find(|finish| finish.name() == word)
        })?,
    })
}

fn begun(place: Place<'_>) -> Read<Begun> {
    place.object()?;
    let again = place.word("again", |name| {
        Again::ALL.into_iter().find(|again| again.name() == name)
    })?;
    let intent = Intent {
        kind: kind(&place)?,
        request: place.get_text("request")?,
        what: place.get_text("what")?,
        // If nothing is said, a person has to decide.
        again: again.unwrap_or(Again::Ask),
    };
    Ok(Begun {
        intent,
        result: if place.flag("known")? {
            Known::Recorded
        } else {
            Known::No
        },
    })
}

fn kind(place: &Place<'_>) -> Read<HostCallKind> {
    let kind = place.word("kind", |name| {
        HostCallKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
    })?;
    kind.ok_or_else(|| place.invalid("says no `kind`"))
}
