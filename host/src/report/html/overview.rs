//! The beginning and the end of the page: the summary of the run, the team's graph, and notes about
//! what the page leaves out.

use strata_core::money::Usd;

use super::super::Report;
use super::escape::{Seen, esc};
use super::time::{counted, duration, grouped, money, span};
use super::{Page, style_of};

/// Writes the header, with links to the sections that exist.
pub(super) fn head(page: &mut Page, report: &Report) {
    let facts = &report.facts;
    page.put(format_args!(
        "<header>\n<div class=\"title\"><h1>{}</h1><span class=\"status {}\">{}</span></div>\n<nav aria-label=\"Sections\">\n",
        esc(&facts.team),
        facts.status,
        facts.status
    ));
    let sections = [
        (
            "result",
            if facts.status == "done" {
                "Result"
            } else {
                "Newest output"
            },
            report.result.is_some(),
        ),
        ("faults", "Faults", report.faults.all() > 0),
        ("timeline", "Timeline", report.attempts.all() > 0),
        ("activity", "Activity", report.attempts.all() > 0),
        ("team", "Team", true),
        ("messages", "Messages", report.messages.all() > 0),
        ("calls", "Host calls", report.calls.all() > 0),
        ("questions", "Questions", report.questions.all() > 0),
        ("costs", "Costs", !report.spending.is_empty()),
        ("states", "States", true),
        ("lineages", "Lineages", true),
    ];
    for (id, name, _) in sections.iter().filter(|(_, _, there)| *there) {
        page.put(format_args!("<a href=\"#{id}\">{name}</a>\n"));
    }
    page.put(format_args!("</nav>\n</header>\n"));
}

/// Writes the summary of the run.
pub(super) fn summary(page: &mut Page, report: &Report) {
    let facts = &report.facts;
    page.put(format_args!(
        "<section id=\"summary\" aria-label=\"Summary\">\n<p class=\"idea\">{}</p>\n",
        esc(&facts.idea.shown)
    ));
    if !facts.troubles.is_empty() {
        page.put(format_args!(
            "<div class=\"trouble\"><h2>Why it stopped</h2>\n<ul>\n"
        ));
        for trouble in &facts.troubles {
            page.put(format_args!("<li>"));
            page.text(trouble);
            page.put(format_args!("</li>\n"));
        }
        page.put(format_args!("</ul></div>\n"));
    }
    figures(page, report);
    let span = facts.span_ms.map(|(first, last)| {
        let (from, to) = span(first, last);
        format!(
            " From {from} to {to} UTC, {} in all.",
            duration(last - first)
        )
    });
    page.put(format_args!(
        "<p class=\"note\">Run <code>{}</code>, lineage <code>{}</code>, checkpoint <code>{}</code>, saved in <code>{}</code>.{}</p>\n",
        esc(&facts.run),
        esc(&facts.lineage),
        esc(facts.checkpoint.as_deref().unwrap_or("none")),
        esc(&report.beside.path),
        span.unwrap_or_default()
    ));
    page.close();
}

/// Writes the figures of the summary: money, tokens, steps, attempts, messages.
fn figures(page: &mut Page, report: &Report) {
    let facts = &report.facts;
    page.put(format_args!("<dl class=\"facts\">\n"));
    let budget = facts
        .budget
        .map_or_else(|| "no limit".into(), |budget| format!("of {budget}"));
    let saved = report
        .spending
        .iter()
        .fold(Usd::ZERO, |sum, row| sum + row.used.saved);
    let served: u64 = report.spending.iter().map(|row| row.used.served).sum();
    let tokens: u64 = report.spending.iter().map(|row| row.used.tokens).sum();
    let steps = report.steps.all();
    fact(page, "Spent", &facts.spent.to_string(), &budget);
    fact(
        page,
        "Saved by the journal",
        &money(saved),
        &counted(served as usize, "call served again", "calls served again"),
    );
    fact(page, "Tokens", &grouped(tokens), "of language models");
    fact(
        page,
        "Steps",
        &grouped(steps),
        &format!(
            "{} is {}",
            if facts.status == "done" {
                "next"
            } else {
                "now"
            },
            facts.step
        ),
    );
    let failed = format!(
        "{} finished, {} failed",
        grouped(report.outcomes.finished),
        grouped(report.outcomes.failed)
    );
    fact(page, "Attempts", &grouped(report.attempts.all()), &failed);
    fact(
        page,
        "Messages",
        &grouped(report.messages.all()),
        &counted(report.roles.len(), "role", "roles"),
    );
    page.put(format_args!("</dl>\n"));
}

fn fact(page: &mut Page, name: &str, value: &str, note: &str) {
    page.put(format_args!(
        "<div><dt>{name}</dt><dd>{value}</dd><dd class=\"note\">{note}</dd></div>\n"
    ));
}

/// Writes the team's graph.
pub(super) fn picture(page: &mut Page, report: &Report) {
    page.open("team", "Team", None);
    match &report.picture {
        Ok(svg) => {
            // `graph::svg` draws it and escapes all names.
            debug_assert!(style_of(svg).is_some());
            page.put(format_args!(
                "<div class=\"scroll picture\" tabindex=\"0\">{}</div>\n",
                Seen(svg)
            ));
        }
        Err(why) => page.put(format_args!("<p class=\"cut\">{}</p>\n", esc(why))),
    }
    page.close();
}

/// Writes what the page leaves out.
pub(super) fn limits(page: &mut Page, report: &Report) {
    page.put(format_args!("<footer>\n"));
    if !report.beside.events {
        page.put(format_args!(
            "<p class=\"cut\">Only a <code>team.json</code> was there: it holds the state, and nothing of how it came about.</p>\n"
        ));
    }
    if report.beside.pruned > 0 {
        let pruned = grouped(report.beside.pruned);
        page.put(format_args!(
            "<p class=\"cut\">The first {pruned} events were pruned from the storage and are not told.</p>\n"
        ));
    }
    if report.shortened > 0 {
        let texts = counted(report.shortened, "text was", "texts were");
        page.put(format_args!(
            "<p class=\"cut\">{texts} shortened to keep the page small. <code>strata-host events</code> has all of it.</p>\n"
        ));
    }
    page.put(format_args!(
        "<p class=\"note\">Written by strata-host {}. Times are UTC. Secrets are not recorded and so not here; everything \
         that roles said and were told is.</p>\n</footer>\n",
        env!("CARGO_PKG_VERSION")
    ));
}
