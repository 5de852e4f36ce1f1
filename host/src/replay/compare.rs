//! Compares what was recorded of an attempt with what it does now.

use strata_core::environment::scope::Write;
use strata_core::event::{Event, Finished, HostCall};
use strata_core::file::{Content, FileChange};
use strata_core::message::Draft;

use super::Place;
use crate::driver::{Again, Recorded};

/// The number of characters that are displayed of each text around their first difference.
const SHOWN_CHARS: usize = 160;
/// The number of these characters before the difference.
const BEFORE_CHARS: usize = 40;

/// A difference between an attempt and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The attempt.
    pub place: Place,
    /// What differs.
    pub what: String,
    /// What is recorded.
    pub recorded: String,
    /// What was found now.
    pub found: String,
}

/// What differs, the recorded value, and the present one.
type Parted = (String, String, String);

/// Compares the recorded end of an attempt with its present end. `rest` contains the recorded calls
/// that it did not make.
pub(super) fn compare(recorded: &Event, again: &Again, rest: &Recorded) -> Option<Parted> {
    let unmade = &rest.calls;
    // If it diverged or asked a person, its end follows from its calls.
    let ended = match (recorded, again) {
        (Event::CallSuspended { .. }, Again::Strayed { .. }) => None,
        (Event::RequestOpened { request, .. }, Again::Asked { call, question }) => {
            let same = request.call == *call;
            (!same).then(|| part("the question to a person", &request.question, question))
        }
        (_, Again::Strayed { kind, request }) => {
            let found = format!("a call of `{}` with the request `{request}`", kind.name());
            let expected = unmade
                .first()
                .map_or_else(|| "no further call".into(), call);
            return Some(("a host call".into(), expected, found));
        }
        (Event::CallFinished { result: one, .. }, Again::Ended(event, files)) => {
            match event.as_ref() {
                Event::CallFinished { result: other, .. } => {
                    finished(one, other).or_else(|| changed(&rest.files, files))
                }
                _ => Some(ends(recorded, again)),
            }
        }
        (Event::CallFailed { fault: one, .. }, Again::Ended(event, _)) => match event.as_ref() {
            Event::CallFailed { fault: other, .. } if one.kind != other.kind => {
                Some(ends(recorded, again))
            }
            Event::CallFailed { fault: other, .. } if one.cause != other.cause => Some(part(
                "the fault's cause",
                one.cause.name(),
                other.cause.name(),
            )),
            Event::CallFailed { fault: other, .. } => (one.message != other.message)
                .then(|| part("the fault's message", &one.message, &other.message)),
            _ => Some(ends(recorded, again)),
        },
        _ => Some(ends(recorded, again)),
    };
    let call = || {
        unmade
            .first()
            .map(|unmade| ("a host call".into(), call(unmade), "not made".into()))
    };
    ended.or_else(call)
}

fn call(call: &HostCall) -> String {
    format!(
        "a call of `{}` with the request `{}`",
        call.kind.name(),
        call.request
    )
}

/// Returns the difference between two attempts that ended in different ways.
fn ends(recorded: &Event, again: &Again) -> Parted {
    let now = match again {
        Again::Ended(event, _) => end(event),
        Again::Asked { question, .. } => format!("asks a person: {question}"),
        Again::Strayed { .. } | Again::FileGone | Again::Lost => "no end".into(),
    };
    part("the end", &end(recorded), &now)
}

fn end(event: &Event) -> String {
    match event {
        Event::CallFinished { .. } => "success".into(),
        Event::CallFailed { fault, .. } => format!("{}: {}", fault.kind.name(), fault.message),
        Event::RequestOpened { request, .. } => format!("asks a person: {}", request.question),
        Event::CallSuspended { .. } => "suspended: no budget was left for a call".into(),
        _ => "no end".into(),
    }
}

fn finished(one: &Finished, other: &Finished) -> Option<Parted> {
    match (one, other) {
        (Finished::Chosen(a), Finished::Chosen(b)) => {
            (a != b).then(|| part("the choice", &shown(a), &shown(b)))
        }
        (
            Finished::Planned {
                tasks,
                emissions,
                writes,
            },
            Finished::Planned {
                tasks: tasks_now,
                emissions: emissions_now,
                writes: writes_now,
            },
        ) => (tasks != tasks_now)
            .then(|| part("the plan", &shown(tasks), &shown(tasks_now)))
            .or_else(|| listed("emission", emissions, emissions_now))
            .or_else(|| written(writes, writes_now)),
        (
            Finished::Returned {
                output,
                emissions,
                writes,
            },
            Finished::Returned {
                output: output_now,
                emissions: emissions_now,
                writes: writes_now,
            },
        ) => (output != output_now)
            .then(|| drafts("the output", output, output_now))
            .or_else(|| listed("emission", emissions, emissions_now))
            .or_else(|| written(writes, writes_now)),
        (one, other) => Some(part("what is returned", &shown(one), &shown(other))),
    }
}

/// Compares the contents of two messages or, if they are equal, the whole messages.
fn drafts(what: &str, one: &Draft, other: &Draft) -> Parted {
    match one.content == other.content {
        false => part(what, &one.content, &other.content),
        true => part(what, &shown(one), &shown(other)),
    }
}

fn listed(what: &str, one: &[Draft], other: &[Draft]) -> Option<Parted> {
    let at = first_difference(one, other)?;
    let what = format!("{what} {}", at + 1);
    Some(match (one.get(at), other.get(at)) {
        (Some(one), Some(other)) => drafts(&what, one, other),
        (one, other) => part(&what, &or_none(one), &or_none(other)),
    })
}

fn written(one: &[Write], other: &[Write]) -> Option<Parted> {
    let at = first_difference(one, other)?;
    let key = one
        .get(at)
        .or(other.get(at))
        .map(|write| format!("{}/{}", write.scope, write.key));
    let what = format!("state write {} (`{}`)", at + 1, key.unwrap_or_default());
    Some(part(&what, &or_none(one.get(at)), &or_none(other.get(at))))
}

/// Compares the contents that two attempts left at paths. What they found there does not count.
fn changed(one: &[FileChange], other: &[FileChange]) -> Option<Parted> {
    let left = |changes: &[FileChange]| -> Vec<(String, Content)> {
        changes
            .iter()
            .map(|change| (change.path.clone(), change.after.clone()))
            .collect()
    };
    let (one, other) = (left(one), left(other));
    let at = first_difference(&one, &other)?;
    let path = one.get(at).or(other.get(at)).map(|(path, _)| path.as_str());
    let what = format!("file change {} (`{}`)", at + 1, path.unwrap_or_default());
    Some(part(&what, &or_none(one.get(at)), &or_none(other.get(at))))
}

fn first_difference<T: PartialEq>(one: &[T], other: &[T]) -> Option<usize> {
    (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at))
}

fn or_none<T: std::fmt::Debug>(it: Option<&T>) -> String {
    it.map_or_else(|| "none".into(), shown)
}

fn shown<T: std::fmt::Debug + ?Sized>(it: &T) -> String {
    format!("{it:?}")
}

/// Returns a difference with the parts of two texts around their first difference.
fn part(what: &str, one: &str, other: &str) -> Parted {
    let same = one
        .chars()
        .zip(other.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let cut = |text: &str| {
        let skip = same.saturating_sub(BEFORE_CHARS);
        let rest: String = text.chars().skip(skip).take(SHOWN_CHARS).collect();
        let (before, after) = (skip > 0, text.chars().count() > skip + SHOWN_CHARS);
        format!(
            "{}{rest}{}",
            if before { "…" } else { "" },
            if after { "…" } else { "" }
        )
    };
    (what.into(), cut(one), cut(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shown_where_they_part() {
        let (a, b) = ("x".repeat(1000) + "a", "x".repeat(1000) + "b");
        let (_, one, other) = part("it", &a, &b);
        assert_eq!(
            (one, other),
            (
                format!("…{}a", "x".repeat(40)),
                format!("…{}b", "x".repeat(40))
            )
        );
        let (_, one, other) = part("it", "short", "sho");
        assert_eq!((one.as_str(), other.as_str()), ("short", "sho"));
    }
}
