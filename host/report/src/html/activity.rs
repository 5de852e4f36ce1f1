//! The section with everything that happened, step by step: attempts with what they published and
//! their host calls, replies of models with the tool calls that they led to, other messages,
//! questions to people, and what happened to the run. Each of them occurs once.
//!
//! The check boxes above the list work without a script: the style sheet hides what is not checked.

mod entry;
mod stream;
mod turn;

use std::collections::BTreeSet;

use maud::{Markup, html};

use self::stream::{Entry, EntryKind, StreamStep};
use super::super::Report;
use super::states::state_link;
use super::text::{gap_row, omitted_rows};
use super::time::{format_duration, format_number, format_time, pluralize};

/// How many of the newest steps are unfolded at first.
const OPEN_STEPS: usize = 12;
/// How many of the newest steps are listed directly; earlier ones are grouped.
const NEWEST_STEPS: usize = 40;

/// Returns the section, if anything happened.
pub(super) fn section(report: &Report) -> Markup {
    let steps = stream::steps(report);
    if steps.iter().all(|step| step.entries.is_empty()) {
        return Markup::default();
    }
    let states = report.states.iter();
    let shown_states: BTreeSet<&str> = states
        .filter_map(|state| state.checkpoint.as_deref())
        .collect();
    let older = steps.len().saturating_sub(NEWEST_STEPS);
    let open = steps.len().saturating_sub(OPEN_STEPS);
    let details = |step: &StreamStep<'_>, place: usize| {
        let is_open = place >= open || step.entries.iter().any(Entry::failed);
        step_details(report, step, is_open, &shown_states)
    };
    html! {
        section #activity aria-labelledby="activity-title" {
            h2 #activity-title { "Activity" }
            (omitted_rows(&report.attempts, "attempts"))
            (omitted_rows(&report.messages, "messages"))
            (omitted_rows(&report.calls, "host calls"))
            (omitted_rows(&report.conversations, "conversations"))
            (filters(&steps))
            @if older > 0 {
                details.older {
                    summary { (pluralize(older, "earlier step", "earlier steps")) }
                    div.steps { @for (place, step) in steps[..older].iter().enumerate() { (details(step, place)) } }
                }
            }
            div.steps { @for (place, step) in steps.iter().enumerate().skip(older) { (details(step, place)) } }
        }
    }
}

/// Returns a check box for each kind of entry that occurs, with the number of its entries.
fn filters(steps: &[StreamStep<'_>]) -> Markup {
    let entries = || steps.iter().flat_map(|step| &step.entries);
    let count = |kind: EntryKind| entries().filter(|entry| entry.kind() == kind).count();
    let kinds = EntryKind::ALL.map(|kind| (kind, count(kind)));
    let failed = entries().filter(|entry| entry.failed()).count();
    html! {
        div.filters role="group" aria-label="What is shown" {
            @for (kind, count) in kinds.iter().filter(|(_, count)| *count > 0) {
                label.chip {
                    input type="checkbox" id={ "show-" (kind.class()) } checked;
                    " " (kind.title()) " " span.count { (format_number(*count)) }
                }
                " "
            }
            @if failed > 0 {
                label.chip.bad {
                    input type="checkbox" id="show-failed-only";
                    " only failed " span.count { (format_number(failed)) }
                }
                " "
            }
            span.search hidden {
                label { span.sr { "Search" } input type="search" placeholder="Search" data-filter="activity"; }
                " " output {}
            }
        }
    }
}

fn step_details(
    report: &Report,
    step: &StreamStep<'_>,
    is_open: bool,
    shown_states: &BTreeSet<&str>,
) -> Markup {
    let gap = |place: usize| step.gaps.iter().filter(move |(at, _)| *at == place);
    html! {
        details.step open[is_open] {
            summary { (step_summary(step, shown_states)) }
            ol.stream {
                @for (place, entry) in step.entries.iter().enumerate() {
                    @for (_, count) in gap(place) { (gap_row(*count, "message is", "messages are")) }
                    (entry_row(report, entry)) "\n"
                }
            }
        }
    }
}

fn step_summary(step: &StreamStep<'_>, shown_states: &BTreeSet<&str>) -> Markup {
    html! {
        @match step.step {
            None => b { "Before the first step" },
            Some(step) => {
                b { "Step " (step.number) } " "
                span.note {
                    @match &step.committed {
                        None => "not committed",
                        Some((committed_ms, checkpoint)) => {
                            (format_duration(committed_ms - step.started_ms)) ", "
                            (pluralize(step.sent_messages, "message", "messages")) " sent, then "
                            (state_link(checkpoint, shown_states))
                        }
                    }
                    ", began " (format_time(step.started_ms))
                }
            }
        }
    }
}

fn entry_row(report: &Report, entry: &Entry<'_>) -> Markup {
    match entry {
        Entry::Attempt(attempt) => entry::attempt_row(report, attempt),
        Entry::Turn(turn) => turn::turn_row(report, turn),
        Entry::Message(message) => entry::message_row(message),
        Entry::Question(question) => entry::question_row(question),
        Entry::Marker(marker) => entry::marker_row(marker),
    }
}
