//! The beginning and the end of the page: the summary of the run, the team's graph, and notes about
//! what the page leaves out.

use strata_core::record::money::Usd;

use super::super::Report;
use super::escape::{VisibleMarkup, esc};
use super::time::{format_duration, format_money, format_number, format_span, pluralize};
use super::{HtmlPage, embedded_style};

/// Writes the header, with links to the sections that exist.
pub(super) fn head(page: &mut HtmlPage, report: &Report) {
    let facts = &report.overview;
    page.write(format_args!(
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
        ("faults", "Faults", report.faults.total() > 0),
        ("timeline", "Timeline", report.attempts.total() > 0),
        (
            "conversations",
            "Conversations",
            report.conversations.total() > 0,
        ),
        ("activity", "Activity", report.attempts.total() > 0),
        ("team", "Team", true),
        ("messages", "Messages", report.messages.total() > 0),
        ("calls", "Host calls", report.calls.total() > 0),
        ("questions", "Questions", report.human_requests.total() > 0),
        ("costs", "Costs", !report.spending.is_empty()),
        ("states", "States", true),
        ("lineages", "Lineages", true),
    ];
    for (id, name, _) in sections.iter().filter(|(_, _, there)| *there) {
        page.write(format_args!("<a href=\"#{id}\">{name}</a>\n"));
    }
    page.write(format_args!("</nav>\n</header>\n"));
}

/// Writes the summary of the run.
pub(super) fn summary(page: &mut HtmlPage, report: &Report) {
    let facts = &report.overview;
    page.write(format_args!(
        "<section id=\"summary\" aria-label=\"Summary\">\n<p class=\"idea\">{}</p>\n",
        esc(&facts.idea.shown)
    ));
    if !facts.stop_reasons.is_empty() {
        page.write(format_args!(
            "<div class=\"trouble\"><h2>Why it stopped</h2>\n<ul>\n"
        ));
        for trouble in &facts.stop_reasons {
            page.write(format_args!("<li>"));
            page.write_text(trouble);
            page.write(format_args!("</li>\n"));
        }
        page.write(format_args!("</ul></div>\n"));
    }
    write_figures(page, report);
    let span = facts.span_ms.map(|(first, last)| {
        let (from, to) = format_span(first, last);
        format!(
            " From {from} to {to} UTC, {} in all.",
            format_duration(last - first)
        )
    });
    page.write(format_args!(
        "<p class=\"note\">Run <code>{}</code>, lineage <code>{}</code>, checkpoint <code>{}</code>, saved in <code>{}</code>.{}</p>\n",
        esc(&facts.run),
        esc(&facts.lineage),
        esc(facts.checkpoint.as_deref().unwrap_or("none")),
        esc(&report.storage.path),
        span.unwrap_or_default()
    ));
    page.close_section();
}

/// Writes the figures of the summary: money, tokens, steps, attempts, messages.
fn write_figures(page: &mut HtmlPage, report: &Report) {
    let facts = &report.overview;
    page.write(format_args!("<dl class=\"facts\">\n"));
    let budget = facts
        .budget
        .map_or_else(|| "no limit".into(), |budget| format!("of {budget}"));
    let saved = report
        .spending
        .iter()
        .fold(Usd::ZERO, |sum, row| sum + row.used.saved);
    let served: u64 = report.spending.iter().map(|row| row.used.served).sum();
    let tokens: u64 = report.spending.iter().map(|row| row.used.tokens).sum();
    let steps = report.steps.total();
    write_fact(page, "Spent", &facts.spent.to_string(), &budget);
    write_fact(
        page,
        "Saved by the journal",
        &format_money(saved),
        &pluralize(served as usize, "call served again", "calls served again"),
    );
    write_fact(page, "Tokens", &format_number(tokens), "of language models");
    write_fact(
        page,
        "Steps",
        &format_number(steps),
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
        format_number(report.outcomes.finished),
        format_number(report.outcomes.failed)
    );
    write_fact(
        page,
        "Attempts",
        &format_number(report.attempts.total()),
        &failed,
    );
    write_fact(
        page,
        "Messages",
        &format_number(report.messages.total()),
        &pluralize(report.roles.len(), "role", "roles"),
    );
    page.write(format_args!("</dl>\n"));
}

fn write_fact(page: &mut HtmlPage, name: &str, value: &str, note: &str) {
    page.write(format_args!(
        "<div><dt>{name}</dt><dd>{value}</dd><dd class=\"note\">{note}</dd></div>\n"
    ));
}

/// Writes the team's graph.
pub(super) fn picture(page: &mut HtmlPage, report: &Report) {
    page.open_section("team", "Team", None);
    match &report.picture {
        Ok(svg) => {
            // `graph::svg` draws it and escapes all names.
            debug_assert!(embedded_style(svg).is_some());
            page.write(format_args!(
                "<div class=\"scroll picture\" tabindex=\"0\">{}</div>\n",
                VisibleMarkup(svg)
            ));
        }
        Err(why) => page.write(format_args!("<p class=\"cut\">{}</p>\n", esc(why))),
    }
    page.close_section();
}

/// Writes what the page leaves out.
pub(super) fn omissions(page: &mut HtmlPage, report: &Report) {
    page.write(format_args!("<footer>\n"));
    if !report.storage.has_events {
        page.write(format_args!(
            "<p class=\"cut\">Only a <code>team.json</code> was there: it holds the state, and nothing of how it came about.</p>\n"
        ));
    }
    if report.storage.pruned_events > 0 {
        let pruned = format_number(report.storage.pruned_events);
        page.write(format_args!(
            "<p class=\"cut\">The first {pruned} events were pruned from the storage and are not told.</p>\n"
        ));
    }
    if report.shortened > 0 {
        let texts = pluralize(report.shortened, "text was", "texts were");
        page.write(format_args!(
            "<p class=\"cut\">{texts} shortened to keep the page small. <code>strata-host events</code> has all of it.</p>\n"
        ));
    }
    page.write(format_args!(
        "<p class=\"note\">Written by strata-host {}. Times are UTC. Secrets are not recorded and so not here; everything \
         that roles said and were told is.</p>\n</footer>\n",
        env!("CARGO_PKG_VERSION")
    ));
}
