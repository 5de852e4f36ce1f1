//! The section with the attempts of each step.

use std::collections::BTreeMap;

use strata_core::record::money::Usd;

use super::super::{AttemptEntry, AttemptOutcome, Report};
use super::HtmlPage;
use super::escape::esc;
use super::time::{format_duration, format_number, format_span, pluralize};
use crate::excerpt::excerpt;

/// How many of the newest steps are unfolded at first.
const OPEN_STEPS: usize = 8;
/// How many of the newest steps are listed directly; earlier ones are grouped.
const NEWEST_STEPS: usize = 40;
/// The maximum number of characters of a result in the line of its attempt.
const LINE_CHARS: usize = 110;

/// Writes the steps, oldest first, each with its attempts.
pub(super) fn section(page: &mut HtmlPage, report: &Report) {
    if report.attempts.total() == 0 {
        return;
    }
    page.open_section("activity", "Activity", Some(report.attempts.total()));
    page.note_omitted_rows(&report.attempts, "attempts");
    let mut steps: BTreeMap<u64, Vec<&AttemptEntry>> = BTreeMap::new();
    for attempt in report.attempts.iter() {
        steps.entry(attempt.step).or_default().push(attempt);
    }
    let older = steps.len().saturating_sub(NEWEST_STEPS);
    if older > 0 {
        let count = pluralize(older, "earlier step", "earlier steps");
        page.write(format_args!(
            "<details class=\"older\"><summary>{count}</summary>\n"
        ));
    }
    let open = steps.len().saturating_sub(OPEN_STEPS);
    for (place, (number, attempts)) in steps.iter_mut().enumerate() {
        attempts.sort_by_key(|attempt| attempt.events);
        write_step(page, report, *number, attempts, place >= open);
        if place + 1 == older {
            page.write(format_args!("</details>\n"));
        }
    }
    page.close_section();
}

fn write_step(
    page: &mut HtmlPage,
    report: &Report,
    number: u64,
    attempts: &[&AttemptEntry],
    newest: bool,
) {
    // A step that the run went back to occurs several times; the newest occurrence is valid.
    let step = report.steps.iter().rev().find(|step| step.number == number);
    let failed = attempts
        .iter()
        .any(|attempt| attempt.outcome == AttemptOutcome::Failed);
    let open = if newest || failed { " open" } else { "" };
    page.write(format_args!(
        "<details class=\"step\"{open}><summary><b>Step {number}</b> <span class=\"note\">{}",
        pluralize(attempts.len(), "attempt", "attempts")
    ));
    match step.map(|step| (step.started_ms, step.sent_messages, &step.committed)) {
        Some((began, sent, Some((committed, checkpoint)))) => {
            let shown = report
                .states
                .iter()
                .any(|state| state.checkpoint.as_ref() == Some(checkpoint));
            let took = format_duration(committed - began);
            let sent = pluralize(sent, "message", "messages");
            let id = esc(checkpoint);
            match shown {
                true => page.write(format_args!(
                    ", {took}, {sent} sent, then <a href=\"#s-{id}\">{id}</a>"
                )),
                false => page.write(format_args!(", {took}, {sent} sent, then {id}")),
            }
        }
        Some((_, _, None)) => page.write(format_args!(", not committed")),
        None => {}
    }
    page.write(format_args!("</span></summary>\n<ol class=\"attempts\">\n"));
    for attempt in attempts {
        write_attempt(page, attempt);
    }
    page.write(format_args!("</ol></details>\n"));
}

fn write_attempt(page: &mut HtmlPage, attempt: &AttemptEntry) {
    let (class, name, mark) = outcome_style(attempt.outcome);
    let again = if attempt.number > 1 {
        format!(" <span class=\"again\">attempt {}</span>", attempt.number)
    } else {
        String::new()
    };
    page.write(format_args!(
        "<li id=\"a{}\" class=\"{class}\"><details><summary><span class=\"mark\" title=\"{name}\">{mark}</span> \
         <b>{}.{}</b>{again} <span class=\"note\">{}</span> <span class=\"said\">{}</span></summary>\n<div class=\"inner\">\n",
        attempt.id,
        esc(&attempt.role_name),
        esc(&attempt.action),
        format_duration(attempt.span_ms.1 - attempt.span_ms.0),
        esc(&excerpt(&attempt.text.shown, LINE_CHARS)),
    ));
    let index = attempt.index.map(|index| format!("action {index}, "));
    let (from, to) = format_span(attempt.span_ms.0, attempt.span_ms.1);
    page.write(format_args!(
        "<p class=\"note\">{}attempt {}, {name}. {from} – {to}.{}",
        index.unwrap_or_default(),
        attempt.number,
        describe_usage(attempt),
    ));
    if let Some(digest) = &attempt.digest {
        page.write(format_args!(" Component <code>{}</code>.", esc(digest)));
    }
    page.write(format_args!("</p>\n"));
    if !attempt.text.shown.is_empty() {
        page.write_whole_text(&attempt.text);
    }
    page.write(format_args!("</div></details></li>\n"));
}

/// Returns a sentence about the host calls of an attempt and their cost. Zeros are left out.
fn describe_usage(attempt: &AttemptEntry) -> String {
    let (made, served) = attempt.calls;
    let calls = |count: u32| pluralize(count as usize, "host call", "host calls");
    let calls = match (made, served) {
        (0, 0) => None,
        (made, 0) => Some(calls(made)),
        (0, served) => Some(format!("{} from the journal", calls(served))),
        (made, served) => Some(format!(
            "{} and {} from the journal",
            calls(made),
            format_number(served)
        )),
    };
    let cost = (attempt.cost != Usd::ZERO).then(|| attempt.cost.to_string());
    let parts: Vec<String> = calls.into_iter().chain(cost).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!(" {}.", parts.join(", "))
    }
}

/// Returns the CSS class of an outcome, its name, and the symbol that stands for it.
pub(super) fn outcome_style(end: AttemptOutcome) -> (&'static str, &'static str, &'static str) {
    match end {
        AttemptOutcome::Finished => ("ok", "finished", "✓"),
        AttemptOutcome::Failed => ("bad", "failed", "✕"),
        AttemptOutcome::Interrupted => ("cut", "interrupted", "◼"),
        AttemptOutcome::Killed => ("cut", "the host was killed", "◼"),
        AttemptOutcome::Suspended => ("held", "suspended: out of budget", "$"),
        AttemptOutcome::AskedHuman => ("held", "asked a person", "?"),
        AttemptOutcome::Running => ("open", "under way", "…"),
    }
}
