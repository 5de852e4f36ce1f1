//! The section with the attempts of each step.

use std::collections::BTreeMap;

use strata_core::money::Usd;

use super::super::{Attempt, End, Report};
use super::Page;
use super::escape::esc;
use super::time::{counted, duration, grouped, span};
use crate::excerpt::excerpt;

/// How many of the newest steps are unfolded at first.
const OPEN_STEPS: usize = 8;
/// How many of the newest steps are listed directly; earlier ones are grouped.
const NEWEST_STEPS: usize = 40;
/// The maximum number of characters of a result in the line of its attempt.
const LINE_CHARS: usize = 110;

/// Writes the steps, oldest first, each with its attempts.
pub(super) fn section(page: &mut Page, report: &Report) {
    if report.attempts.all() == 0 {
        return;
    }
    page.open("activity", "Activity", Some(report.attempts.all()));
    page.gap(&report.attempts, "attempts");
    let mut steps: BTreeMap<u64, Vec<&Attempt>> = BTreeMap::new();
    for attempt in report.attempts.iter() {
        steps.entry(attempt.step).or_default().push(attempt);
    }
    let older = steps.len().saturating_sub(NEWEST_STEPS);
    if older > 0 {
        let count = counted(older, "earlier step", "earlier steps");
        page.put(format_args!(
            "<details class=\"older\"><summary>{count}</summary>\n"
        ));
    }
    let open = steps.len().saturating_sub(OPEN_STEPS);
    for (place, (number, attempts)) in steps.iter_mut().enumerate() {
        attempts.sort_by_key(|attempt| attempt.events);
        step(page, report, *number, attempts, place >= open);
        if place + 1 == older {
            page.put(format_args!("</details>\n"));
        }
    }
    page.close();
}

fn step(page: &mut Page, report: &Report, number: u64, attempts: &[&Attempt], newest: bool) {
    // A step that the run went back to occurs several times; the newest occurrence is valid.
    let step = report.steps.iter().rev().find(|step| step.number == number);
    let failed = attempts.iter().any(|attempt| attempt.end == End::Failed);
    let open = if newest || failed { " open" } else { "" };
    page.put(format_args!(
        "<details class=\"step\"{open}><summary><b>Step {number}</b> <span class=\"note\">{}",
        counted(attempts.len(), "attempt", "attempts")
    ));
    match step.map(|step| (step.began_ms, step.sent, &step.committed)) {
        Some((began, sent, Some((committed, checkpoint)))) => {
            let shown = report
                .states
                .iter()
                .any(|state| state.checkpoint.as_ref() == Some(checkpoint));
            let took = duration(committed - began);
            let sent = counted(sent, "message", "messages");
            let id = esc(checkpoint);
            match shown {
                true => page.put(format_args!(
                    ", {took}, {sent} sent, then <a href=\"#s-{id}\">{id}</a>"
                )),
                false => page.put(format_args!(", {took}, {sent} sent, then {id}")),
            }
        }
        Some((_, _, None)) => page.put(format_args!(", not committed")),
        None => {}
    }
    page.put(format_args!("</span></summary>\n<ol class=\"attempts\">\n"));
    for attempt in attempts {
        one(page, attempt);
    }
    page.put(format_args!("</ol></details>\n"));
}

fn one(page: &mut Page, attempt: &Attempt) {
    let (class, name, mark) = look(attempt.end);
    let again = if attempt.number > 1 {
        format!(" <span class=\"again\">attempt {}</span>", attempt.number)
    } else {
        String::new()
    };
    page.put(format_args!(
        "<li id=\"a{}\" class=\"{class}\"><details><summary><span class=\"mark\" title=\"{name}\">{mark}</span> \
         <b>{}.{}</b>{again} <span class=\"note\">{}</span> <span class=\"said\">{}</span></summary>\n<div class=\"inner\">\n",
        attempt.id,
        esc(&attempt.who),
        esc(&attempt.action),
        duration(attempt.span_ms.1 - attempt.span_ms.0),
        esc(&excerpt(&attempt.said.shown, LINE_CHARS)),
    ));
    let index = attempt.index.map(|index| format!("action {index}, "));
    let (from, to) = span(attempt.span_ms.0, attempt.span_ms.1);
    page.put(format_args!(
        "<p class=\"note\">{}attempt {}, {name}. {from} – {to}.{}",
        index.unwrap_or_default(),
        attempt.number,
        used(attempt),
    ));
    if let Some(digest) = &attempt.digest {
        page.put(format_args!(" Component <code>{}</code>.", esc(digest)));
    }
    page.put(format_args!("</p>\n"));
    if !attempt.said.shown.is_empty() {
        page.whole(&attempt.said);
    }
    page.put(format_args!("</div></details></li>\n"));
}

/// Returns a sentence about the host calls of an attempt and their cost. Zeros are left out.
fn used(attempt: &Attempt) -> String {
    let (made, served) = attempt.calls;
    let calls = |count: u32| counted(count as usize, "host call", "host calls");
    let calls = match (made, served) {
        (0, 0) => None,
        (made, 0) => Some(calls(made)),
        (0, served) => Some(format!("{} from the journal", calls(served))),
        (made, served) => Some(format!(
            "{} and {} from the journal",
            calls(made),
            grouped(served)
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
pub(super) fn look(end: End) -> (&'static str, &'static str, &'static str) {
    match end {
        End::Finished => ("ok", "finished", "✓"),
        End::Failed => ("bad", "failed", "✕"),
        End::Interrupted => ("cut", "interrupted", "◼"),
        End::Killed => ("cut", "the host was killed", "◼"),
        End::Suspended => ("held", "suspended: out of budget", "$"),
        End::Asked => ("held", "asked a person", "?"),
        End::Open => ("open", "under way", "…"),
    }
}
