//! Compares what was recorded of an attempt with what it does now.

use strata_base::text::excerpt::around_difference;
use strata_core::record::event::{AttemptEvent, CallFailed, CallFinished, Event, RequestOpened};
use strata_core::record::fault::FaultCause;
use strata_core::record::file::{FileChange, PathContent};
use strata_core::record::host_call::{HostCall, HostCallKind};
use strata_core::record::message::Draft;
use strata_core::record::scope_write::Write;
use strata_core::record::turn::ReplyMessage;
use strata_core::record::work::CallResult;

use super::AttemptLocation;
use super::replayer::{RecordedAttempt, ReplayOutcome};

/// The number of characters that are displayed of each text around their first difference.
const MAX_DISPLAYED_CHARS: usize = 160;

/// A difference between an attempt and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptDifference {
    /// The attempt.
    pub attempt: AttemptLocation,
    /// What differs.
    pub what: String,
    /// What is recorded.
    pub recorded: String,
    /// What was found now.
    pub found: String,
}

/// What differs, the recorded value, and the present one.
type DifferenceParts = (String, String, String);

/// Compares the recorded end of an attempt with its present end. `rest` contains the recorded calls
/// that it did not make.
pub(super) fn compare_attempt(
    recorded: &Event,
    again: &ReplayOutcome,
    rest: &RecordedAttempt,
) -> Option<DifferenceParts> {
    let unmade = &rest.calls;
    // If it diverged or asked a person, its end follows from its calls.
    let ended = match (recorded, again) {
        (Event::Attempt(_, AttemptEvent::CallSuspended(_)), ReplayOutcome::Diverged { .. }) => None,
        // A call of a tool failed, and that is a fault of the run.
        (
            Event::Attempt(_, AttemptEvent::CallFailed(CallFailed { fault, .. })),
            ReplayOutcome::Diverged {
                kind: HostCallKind::Tool,
                ..
            },
        ) if fault.cause == FaultCause::NestedCall => None,
        (
            Event::Attempt(_, AttemptEvent::RequestOpened(RequestOpened { request })),
            ReplayOutcome::AskedHuman { call, question },
        ) => {
            let same = request.call_digest() == *call;
            (!same)
                .then(|| text_difference("the question to a person", &request.question, question))
        }
        (_, ReplayOutcome::Diverged { kind, request }) => {
            let found = format!("a call of `{}` with the request `{request}`", kind.name());
            let expected = unmade
                .first()
                .map_or_else(|| "no further call".into(), describe_call);
            return Some(("a host call".into(), expected, found));
        }
        (
            Event::Attempt(_, AttemptEvent::CallFinished(CallFinished { result: one, .. })),
            ReplayOutcome::Ended(event, files),
        ) => match event.as_ref() {
            Event::Attempt(_, AttemptEvent::CallFinished(CallFinished { result: other, .. })) => {
                compare_results(one, other).or_else(|| compare_files(&rest.files, files))
            }
            _ => Some(end_difference(recorded, again)),
        },
        (
            Event::Attempt(_, AttemptEvent::CallFailed(CallFailed { fault: one, .. })),
            ReplayOutcome::Ended(event, _),
        ) => match event.as_ref() {
            Event::Attempt(_, AttemptEvent::CallFailed(CallFailed { fault: other, .. }))
                if one.kind != other.kind =>
            {
                Some(end_difference(recorded, again))
            }
            Event::Attempt(_, AttemptEvent::CallFailed(CallFailed { fault: other, .. }))
                if one.cause != other.cause =>
            {
                Some(text_difference(
                    "the fault's cause",
                    one.cause.name(),
                    other.cause.name(),
                ))
            }
            Event::Attempt(_, AttemptEvent::CallFailed(CallFailed { fault: other, .. })) => {
                (one.message != other.message)
                    .then(|| text_difference("the fault's message", &one.message, &other.message))
            }
            _ => Some(end_difference(recorded, again)),
        },
        _ => Some(end_difference(recorded, again)),
    };
    ended.or_else(|| unmade.first().map(missing_call))
}

/// Returns the difference that a recorded call was not made again.
fn missing_call(call: &HostCall) -> DifferenceParts {
    ("a host call".into(), describe_call(call), "not made".into())
}

fn describe_call(call: &HostCall) -> String {
    format!(
        "a call of `{}` with the request `{}`",
        call.kind.name(),
        call.request
    )
}

/// Returns the difference between two attempts that ended in different ways.
fn end_difference(recorded: &Event, again: &ReplayOutcome) -> DifferenceParts {
    let now = match again {
        ReplayOutcome::Ended(event, _) => describe_end(event),
        ReplayOutcome::AskedHuman { question, .. } => format!("asks a person: {question}"),
        ReplayOutcome::Diverged { .. }
        | ReplayOutcome::FileMissing
        | ReplayOutcome::StateMismatch => "no end".into(),
    };
    text_difference("the end", &describe_end(recorded), &now)
}

fn describe_end(event: &Event) -> String {
    match event {
        Event::Attempt(_, AttemptEvent::CallFinished(_)) => "success".into(),
        Event::Attempt(_, AttemptEvent::CallFailed(CallFailed { fault, .. })) => {
            format!("{}: {}", fault.kind.name(), fault.message)
        }
        Event::Attempt(_, AttemptEvent::RequestOpened(RequestOpened { request })) => {
            format!("asks a person: {}", request.question)
        }
        Event::Attempt(_, AttemptEvent::CallSuspended(_)) => {
            "suspended: no budget was left for a call".into()
        }
        _ => "no end".into(),
    }
}

fn compare_results(one: &CallResult, other: &CallResult) -> Option<DifferenceParts> {
    match (one, other) {
        (CallResult::Chosen(a), CallResult::Chosen(b)) => {
            (a != b).then(|| text_difference("the choice", &debug_text(a), &debug_text(b)))
        }
        (
            CallResult::Planned {
                tasks,
                emissions,
                writes,
            },
            CallResult::Planned {
                tasks: tasks_now,
                emissions: emissions_now,
                writes: writes_now,
            },
        ) => (tasks != tasks_now)
            .then(|| text_difference("the plan", &debug_text(tasks), &debug_text(tasks_now)))
            .or_else(|| compare_drafts("emission", emissions, emissions_now))
            .or_else(|| compare_writes(writes, writes_now)),
        (CallResult::Reported { output }, CallResult::Reported { output: output_now }) => {
            (output != output_now).then(|| draft_difference("the output", output, output_now))
        }
        (
            CallResult::Returned {
                output,
                emissions,
                writes,
            },
            CallResult::Returned {
                output: output_now,
                emissions: emissions_now,
                writes: writes_now,
            },
        ) => (output != output_now)
            .then(|| draft_difference("the output", output, output_now))
            .or_else(|| compare_drafts("emission", emissions, emissions_now))
            .or_else(|| compare_writes(writes, writes_now)),
        // A reply that was not stored again is that of the host call, which is served.
        (CallResult::Replied(one), CallResult::Replied(other)) => (one.message != other.message
            && one.message != ReplyMessage::OfLastCall)
            .then(|| {
                text_difference(
                    "the reply of the model",
                    &debug_text(&one.message),
                    &debug_text(&other.message),
                )
            })
            .or_else(|| {
                (one.outcome != other.outcome).then(|| {
                    text_difference(
                        "what becomes of the reply",
                        &debug_text(&one.outcome),
                        &debug_text(&other.outcome),
                    )
                })
            }),
        (CallResult::SummaryDue(one), CallResult::SummaryDue(other)) => (one != other)
            .then(|| text_difference("what is summarised", &debug_text(one), &debug_text(other))),
        (CallResult::Replaced(one), CallResult::Replaced(other)) => (one != other)
            .then(|| text_difference("what is replaced", &debug_text(one), &debug_text(other))),
        (one, other) => Some(text_difference(
            "what is returned",
            &debug_text(one),
            &debug_text(other),
        )),
    }
}

/// Compares the contents of two messages or, if they are equal, the whole messages.
fn draft_difference(what: &str, one: &Draft, other: &Draft) -> DifferenceParts {
    if one.content == other.content {
        text_difference(what, &debug_text(one), &debug_text(other))
    } else {
        text_difference(what, &one.content, &other.content)
    }
}

fn compare_drafts(what: &str, one: &[Draft], other: &[Draft]) -> Option<DifferenceParts> {
    let at = first_difference(one, other)?;
    let what = format!("{what} {}", at + 1);
    Some(match (one.get(at), other.get(at)) {
        (Some(one), Some(other)) => draft_difference(&what, one, other),
        (one, other) => text_difference(&what, &or_none(one), &or_none(other)),
    })
}

fn compare_writes(one: &[Write], other: &[Write]) -> Option<DifferenceParts> {
    let at = first_difference(one, other)?;
    let key = one
        .get(at)
        .or(other.get(at))
        .map(|write| format!("{}/{}", write.scope, write.key));
    let what = format!("state write {} (`{}`)", at + 1, key.unwrap_or_default());
    Some(text_difference(
        &what,
        &or_none(one.get(at)),
        &or_none(other.get(at)),
    ))
}

/// Compares the contents that two attempts left at paths. What they found there does not count.
fn compare_files(one: &[FileChange], other: &[FileChange]) -> Option<DifferenceParts> {
    let left = |changes: &[FileChange]| -> Vec<(String, PathContent)> {
        changes
            .iter()
            .map(|change| (change.path.clone(), change.after.clone()))
            .collect()
    };
    let (one, other) = (left(one), left(other));
    let at = first_difference(&one, &other)?;
    let path = one.get(at).or(other.get(at)).map(|(path, _)| path.as_str());
    let what = format!("file change {} (`{}`)", at + 1, path.unwrap_or_default());
    Some(text_difference(
        &what,
        &or_none(one.get(at)),
        &or_none(other.get(at)),
    ))
}

fn first_difference<T: PartialEq>(one: &[T], other: &[T]) -> Option<usize> {
    (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at))
}

fn or_none<T: std::fmt::Debug>(it: Option<&T>) -> String {
    it.map_or_else(|| "none".into(), debug_text)
}

fn debug_text<T: std::fmt::Debug + ?Sized>(it: &T) -> String {
    format!("{it:?}")
}

/// Returns a difference with the parts of two texts around their first difference.
fn text_difference(what: &str, one: &str, other: &str) -> DifferenceParts {
    let [one, other] = around_difference(one, other, MAX_DISPLAYED_CHARS);
    (what.into(), one, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shown_where_they_part() {
        let (a, b) = ("x".repeat(1000) + "a", "x".repeat(1000) + "b");
        let (_, one, other) = text_difference("it", &a, &b);
        assert_eq!(
            (one, other),
            (
                format!("…{}a", "x".repeat(40)),
                format!("…{}b", "x".repeat(40))
            )
        );
        let (_, one, other) = text_difference("it", "short", "sho");
        assert_eq!((one.as_str(), other.as_str()), ("short", "sho"));
    }
}
