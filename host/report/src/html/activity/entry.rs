//! Attempts, messages, questions and what happened to the run, as rows of the activity.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use strata_core::record::money::Usd;
use strata_services::models::describe_named_media;

use super::super::super::{
    AttemptEntry, AttemptOutcome, HostCallEntry, HumanRequestEntry, MessageEntry, MessagePart,
    Report, RunMarker, RunMarkerKind,
};
use super::super::faults::earlier_fault;
use super::super::status::Appearance;
use super::super::text::{data_beside, labelled, text};
use super::super::time::{format_clock, format_duration, format_money, format_number, pluralize};
use super::stream::AttemptRun;
use strata_view::wording::describe_denied_lookup;

/// How many characters of a digest are shown: enough to tell requests apart.
const DIGEST_CHARS: usize = 12;

/// Returns an attempt with what it published and its host calls.
pub(super) fn attempt_row(report: &Report, run: &AttemptRun<'_>) -> Markup {
    let attempt = run.attempt;
    let look = Appearance::of_attempt(attempt.outcome);
    html! {
        li.entry.attempt.(look.class) id={ "a" (attempt.id) } {
            div.head {
                (look.mark()) " " b { (attempt.role_name) "." (attempt.action) } " "
                @if attempt.number > 1 { span.again { "attempt " (attempt.number) } " " }
                @if let Some(message) = run.message { (recipients(message)) }
                (attempt_figures(attempt))
            }
            (outcome(report, run))
            (notes(attempt))
            (host_calls(&run.calls))
        }
    }
}

/// Returns what an attempt logged, and what it looked for and may not see.
pub(super) fn notes(attempt: &AttemptEntry) -> Markup {
    let label = match attempt.log_left_out {
        0 => "logged".into(),
        more => {
            let more = usize::try_from(more).unwrap_or(usize::MAX);
            format!(
                "logged, after {}",
                pluralize(more, "other line", "other lines")
            )
        }
    };
    html! {
        @if !attempt.loaded_skill.is_empty() { p.note { "The skill " (attempt.loaded_skill) " was loaded." } }
        @for path in &attempt.denied_lookups { p.note { (describe_denied_lookup(path)) "." } }
        @if !attempt.log.shown.is_empty() { (labelled(&label, &attempt.log)) }
    }
}

/// Returns what an attempt led to: the message, the fault or the result.
pub(super) fn outcome(report: &Report, run: &AttemptRun<'_>) -> Markup {
    let attempt = run.attempt;
    let open_fault = report
        .standing
        .as_ref()
        .and_then(|standing| standing.fault_of(attempt));
    html! {
        @if let Some(place) = open_fault {
            p.summary {
                (attempt.text.shown.lines().next().unwrap_or_default()) " "
                a href={ "#fault-" (place) } { "how to fix it" }
            }
        } @else if let Some(fault) = run.fault {
            (earlier_fault(fault))
        } @else if let Some(message) = run.message {
            (message_body(message))
        } @else if attempt.outcome != AttemptOutcome::AskedHuman && !attempt.text.shown.is_empty() {
            (text(&attempt.text))
        }
    }
}

/// Returns the cost and the duration of an attempt.
pub(super) fn attempt_figures(attempt: &AttemptEntry) -> Markup {
    let (from, to) = attempt.span_ms;
    html! {
        span.figures {
            @if attempt.cost > Usd::ZERO { span.cost { (format_money(attempt.cost)) } " " }
            @if attempt.outcome != AttemptOutcome::Running { span.took { (format_duration(to - from)) } " " }
            (format_clock(from))
        }
    }
}

/// Returns the host calls of an attempt, folded.
pub(super) fn host_calls(calls: &[&HostCallEntry]) -> Markup {
    html! {
        @if !calls.is_empty() {
            details.calls {
                summary.note { (pluralize(calls.len(), "host call", "host calls")) }
                ol { @for call in calls { (host_call(call)) } }
            }
        }
    }
}

fn host_call(call: &HostCallEntry) -> Markup {
    let digest: String = call.request_digest.chars().take(DIGEST_CHARS).collect();
    let is_saving = call.recorded && call.cost > Usd::ZERO;
    html! {
        li {
            div.head {
                b { (call.kind) } " "
                @if call.outcome != "answered" { span.tag.bad { (call.outcome) } " " }
                @if call.recorded { span.tag { "served from the journal" } " " }
                span.figures {
                    @if call.tokens > 0 { span { (format_number(call.tokens)) " tokens" } " " }
                    @if call.cost > Usd::ZERO {
                        span.saved[is_saving] { (format_money(call.cost)) @if is_saving { " saved" } } " "
                    }
                    span.id { (digest) } " " (format_clock(call.time_ms))
                }
            }
            @if !call.request_summary.shown.is_empty() { (labelled("asked", &call.request_summary)) }
            (labelled("got", &call.response))
        }
    }
}

/// Returns a message that is not the result of an attempt on the page.
pub(super) fn message_row(message: &MessageEntry) -> Markup {
    let is_lost = !message.undelivered.is_empty();
    html! {
        li.entry.message.bad[is_lost] {
            div.head {
                span.mark { "✉" } " "
                b { @if message.from.is_empty() { "outside" } @else { (message.from) } } " "
                (recipients(message))
                span.figures { span.id { (message.id) } }
            }
            (message_body(message))
        }
    }
}

/// Returns the label of a message, and who received it.
pub(super) fn recipients(message: &MessageEntry) -> Markup {
    html! {
        span.way {
            "→ "
            @match &message.to {
                None => span.none { "not sent; kept in its memory" },
                Some(to) if to.is_empty() => span.none { "nobody" },
                Some(to) => (to.join(", ")),
            }
        }
        " " span.label { (message.cause) } " "
        @for lost in &message.undelivered { span.tag.bad { (lost) } " " }
    }
}

/// Returns what a message says.
pub(super) fn message_body(message: &MessageEntry) -> Markup {
    html! {
        (text(&message.text))
        (data_beside(&message.text, message.data.as_ref()))
        @for part in &message.parts { (message_part(part)) }
    }
}

/// Returns a part of a message. The name of an image is no attribute: others chose it.
fn message_part(part: &MessagePart) -> Markup {
    let (media, image) = match part {
        MessagePart::Text(content) => return text(content),
        MessagePart::Media { media, image } => (media, image),
    };
    html! {
        figure.media {
            @if let Some(image) = image {
                img alt="" loading="lazy"
                    src={ "data:" (image.media_type) ";base64," (STANDARD.encode(&image.bytes)) };
            }
            figcaption.note { (describe_named_media(media)) }
        }
    }
}

/// Returns a question to a person, with its answer.
pub(super) fn question_row(question: &HumanRequestEntry) -> Markup {
    let class = if question.answer.is_some() {
        "ok"
    } else {
        "held"
    };
    html! {
        li.entry.question.(class) id={ "q-" (question.event) } {
            div.head {
                @match &question.answer {
                    Some(_) => span.mark.ok { "?" },
                    None => span.tag.held { "? not answered" },
                }
                " " b { (question.role) } " asks "
                span.figures {
                    @if let Some(answer) = &question.answer {
                        span.took { "answered after " (format_duration(answer.time_ms - question.time_ms)) } " "
                    }
                    span.id { (question.id) } " " (format_clock(question.time_ms))
                }
            }
            (text(&question.text))
            @if let Some(answer) = &question.answer {
                div.labelled { b { (answer.by) } " answered " (text(&answer.text)) }
            }
        }
    }
}

/// Returns something that happened to the run.
pub(super) fn marker_row(marker: &RunMarker) -> Markup {
    let (class, glyph) = match marker.kind {
        RunMarkerKind::Started => ("live", "▶"),
        RunMarkerKind::Stopped => ("cut", "■"),
        RunMarkerKind::Failed => ("bad", "✕"),
        RunMarkerKind::Changed => ("cut", "↻"),
    };
    html! {
        li.entry.marker.(class) {
            div.head {
                span.mark.(class) { (glyph) } " " (marker.text) " "
                span.figures { (format_clock(marker.time_ms)) }
            }
        }
    }
}
