//! The beginning and the end of the page: the team with its idea and its status, the figures of the
//! run, the team's graph, and notes about what the page leaves out.

use maud::{Markup, PreEscaped, html};
use strata_core::record::event::Status;
use strata_core::record::money::Usd;

use super::super::Report;
use super::costs::share_bar;
use super::result::result_title;
use super::status::Appearance;
use super::text::{whole_text, with_code};
use super::time::{format_duration, format_money, format_number, format_span, pluralize};

/// Longer ideas are folded.
const IDEA_CHARS: usize = 600;

/// Returns the header: the team, its idea, its status, and links to the sections that exist.
pub(super) fn header(report: &Report) -> Markup {
    let facts = &report.overview;
    html! {
        header {
            div.title {
                h1 { (facts.team) } " "
                (Appearance::of_run(report).tag()) " "
                span.note {
                    "step " (facts.step)
                    @if facts.spent > Usd::ZERO { ", " (facts.spent.to_string()) " spent" }
                }
            }
            (idea(report))
        }
        nav aria-label="Sections" {
            @for (id, name, _) in sections(report).iter().filter(|(_, _, is_there)| *is_there) {
                a href={ "#" (id) } { (name) } " "
            }
        }
    }
}

fn idea(report: &Report) -> Markup {
    let idea = &report.overview.idea;
    html! {
        @if idea.hidden_chars == 0 && idea.shown.chars().count() <= IDEA_CHARS {
            p.idea { (idea.shown.trim()) }
        } @else {
            details.idea {
                summary { (strata_base::text::excerpt::excerpt(&idea.shown, IDEA_CHARS / 2)) }
                (whole_text(idea))
            }
        }
    }
}

/// Returns the sections with their names, and whether the page has them.
fn sections(report: &Report) -> [(&'static str, &'static str, bool); 9] {
    let has_attempts = report.attempts.total() > 0;
    let has_entries = has_attempts || report.messages.total() > 0;
    [
        ("attention", "Status", super::attention::is_shown(report)),
        ("result", result_title(report), report.result.is_some()),
        ("summary", "Figures", true),
        ("timeline", "Timeline", has_attempts),
        ("team", "Team", true),
        ("activity", "Activity", has_entries),
        ("costs", "Costs", !report.spending.is_empty()),
        ("states", "States", true),
        ("lineages", "Lineages", true),
    ]
}

/// Returns the figures of the run.
pub(super) fn figures(report: &Report) -> Markup {
    let facts = &report.overview;
    html! {
        section #summary aria-label="Figures" {
            dl.facts {
                (money_figures(report))
                (work_figures(report))
            }
            p.note {
                "Run " code { (facts.run) } ", lineage " code { (facts.lineage) } ", checkpoint "
                code { (facts.checkpoint.as_deref().unwrap_or("none")) }
                ", saved in " code { (report.storage.path) } "."
                @if let Some((first, last)) = facts.span_ms {
                    @let (from, to) = format_span(first, last);
                    " From " (from) " to " (to) " UTC."
                }
            }
        }
    }
}

fn money_figures(report: &Report) -> Markup {
    let facts = &report.overview;
    let sum_of = |part: fn(&strata_core::record::spending::Spending) -> u64| -> u64 {
        report.spending.iter().map(|row| part(&row.used)).sum()
    };
    let saved = report
        .spending
        .iter()
        .map(|row| row.used.saved)
        .sum::<Usd>();
    let (served, tokens) = (sum_of(|used| used.served), sum_of(|used| used.tokens));
    html! {
        div {
            dt { "Spent" }
            dd { (facts.spent.to_string()) }
            @match facts.budget {
                None => dd.note { "no limit" },
                Some(budget) => {
                    dd.note {
                        "of " (budget.to_string()) " "
                        (share_bar(facts.spent, budget))
                    }
                }
            }
        }
        @if report.lost() > Usd::ZERO {
            (figure(
                "Lost",
                &format_money(report.lost()),
                "of what was spent, estimated for calls whose answers were lost",
            ))
        }
        @if saved > Usd::ZERO {
            (figure(
                "Saved by the journal",
                &format_money(saved),
                &pluralize(served as usize, "call served again", "calls served again"),
            ))
        }
        @if tokens > 0 {
            (figure("Tokens", &format_number(tokens), "of language models"))
        }
    }
}

fn work_figures(report: &Report) -> Markup {
    let facts = &report.overview;
    let step = match facts.status {
        Status::Done => format!("the next one is {}", facts.step),
        _ => format!("now at step {}", facts.step),
    };
    let outcomes = format!(
        "{} finished, {} failed",
        format_number(report.outcomes.finished),
        format_number(report.outcomes.failed)
    );
    html! {
        @if let Some((first, last)) = facts.span_ms {
            (figure("Duration", &format_duration(last - first), "from the first to the last event"))
        }
        (figure("Steps", &format_number(report.steps.total()), &step))
        (figure("Attempts", &format_number(report.attempts.total()), &outcomes))
        (figure(
            "Messages",
            &format_number(report.messages.total()),
            &pluralize(report.roles.len(), "role", "roles"),
        ))
    }
}

fn figure(name: &str, value: &str, note: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } dd.note { (note) } } }
}

/// Returns the team's graph.
pub(super) fn picture(report: &Report) -> Markup {
    html! {
        section #team aria-labelledby="team-title" {
            h2 #team-title { "Team" }
            @match &report.picture {
                // `graph::svg` draws it and escapes all names.
                Ok(svg) => div.scroll.picture tabindex="0" { (PreEscaped(svg)) },
                Err(reason) => p.omitted { (reason) },
            }
        }
    }
}

/// Returns the end of the page: what it leaves out.
pub(super) fn footer(report: &Report) -> Markup {
    let storage = &report.storage;
    html! {
        footer {
            @if !storage.has_events {
                p.omitted {
                    (with_code("Only a `team.json` was there: it holds the state, and nothing of how it came about."))
                }
            }
            @if storage.pruned_events > 0 {
                p.omitted {
                    "The first " (format_number(storage.pruned_events))
                    " events were pruned from the storage and are not told."
                }
            }
            @if report.shortened > 0 {
                p.omitted {
                    (pluralize(report.shortened, "text was", "texts were"))
                    " shortened to keep the page small. " code { "strata-host events" } " has all of it."
                }
            }
            p.note {
                "Written by strata-host " (env!("CARGO_PKG_VERSION")) ". Times are UTC. Secrets are not recorded and \
                 so not here; everything that roles said and were told is."
            }
        }
    }
}
