//! Faults: those that are open, with what can be done about them, and those of earlier attempts.

use maud::{Markup, html};

use super::super::AttemptOutcome;
use super::super::{Excerpt, FaultEntry};
use super::status::Appearance;
use super::text::{labelled, lines, omitted_characters, with_code};
use strata_view::wording::{ResumeTrigger, describe_advice};
use strata_view::{FaultView, HostCallView};

/// The maximum number of characters of a message, and of a line of a stack or a log.
const MESSAGE_CHARS: usize = 6_000;
const LINE_CHARS: usize = 1_000;
/// The maximum number of lines shown of a stack or a log.
const MAX_LINES: usize = 40;

/// Returns an open fault. `place` is its position among the open faults.
pub(super) fn open_fault(fault: &FaultView, place: usize) -> Markup {
    let shorten = |lines: &[String]| -> Vec<Excerpt> {
        let first_lines = lines.iter().take(MAX_LINES);
        first_lines
            .map(|line| Excerpt::from_text(line, LINE_CHARS))
            .collect()
    };
    let advice = describe_advice(&fault.advice, ResumeTrigger::ByCommand);
    html! {
        article.card id={ "fault-" (place) } {
            p.who {
                (Appearance::of_attempt(AttemptOutcome::Failed).tag()) " "
                b { (fault.role) "." (fault.action) } " "
                span.note {
                    @if fault.attempt > 1 { "attempt " (fault.attempt) ", " }
                    (fault.kind.name()) ", cause " (fault.cause.name())
                }
            }
            (message(&Excerpt::from_text(&fault.message, MESSAGE_CHARS)))
            @if let Some(advice) = advice {
                p.advice { b { "How to fix it" } " " (with_code(&advice)) }
            }
            @if let Some(call) = &fault.tool_call {
                (labelled("the model asked for it with", &Excerpt::from_text(&call.arguments, MESSAGE_CHARS)))
            }
            (stack_and_log(&fault.message, &shorten(fault.guest_frames()), &shorten(&fault.log)))
            @if !fault.last_calls.is_empty() {
                h4 { "Its last host calls" }
                @for call in &fault.last_calls { (host_call(call)) }
            }
        }
    }
}

fn host_call(call: &HostCallView) -> Markup {
    labelled(
        call.kind.name(),
        &Excerpt::from_text(&call.response, LINE_CHARS),
    )
}

/// Returns the fault of an attempt that is not the last one of its action.
pub(super) fn earlier_fault(fault: &FaultEntry) -> Markup {
    html! {
        (message(&fault.message))
        (stack_and_log(&fault.message.shown, &fault.backtrace, &fault.log))
        p.note {
            (fault.kind) ", cause " code { (fault.cause) }
            @if let Some(digest) = &fault.digest { ", component " code { (digest) } }
            "."
            @if let Some(by) = fault.fixed_by { " Attempt " (by) " succeeded." }
        }
    }
}

/// Returns the message of a fault: the summary, then what follows it.
fn message(message: &Excerpt) -> Markup {
    let (summary, rest) = message
        .shown
        .split_once('\n')
        .unwrap_or((&message.shown, ""));
    let rest = rest.trim_end();
    html! {
        p.summary { (summary) }
        @if !rest.is_empty() { pre.trace { (rest) } }
        (omitted_characters(message))
    }
}

/// Returns the stack and the log, without lines that are in the message: scripts report a fault with
/// their traceback, and may print it as well.
fn stack_and_log(message: &str, stack: &[Excerpt], log: &[Excerpt]) -> Markup {
    let is_new = |line: &&Excerpt| {
        let mut parts = line.shown.lines().filter(|part| !part.trim().is_empty());
        parts.any(|part| !message.lines().any(|known| known.trim() == part.trim()))
    };
    let only_new = |lines: &[Excerpt]| lines.iter().filter(is_new).cloned().collect::<Vec<_>>();
    html! {
        (lines("Stack of the guest, innermost first", &only_new(stack)))
        (lines("What it logged and wrote to its standard streams, at the end", &only_new(log)))
    }
}
