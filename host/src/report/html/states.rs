//! The sections with the states at checkpoints and with the lineages.

use std::collections::BTreeSet;

use super::super::{Report, RoleStateEntry, StateEntry};
use super::HtmlPage;
use super::escape::esc;
use super::time::{format_money, format_number, format_time, pluralize};
use crate::storage::CheckpointRow;

/// The maximum number of checkpoints listed; the newest are.
const MAX_CHECKPOINTS: usize = 500;

/// Writes the states.
pub(super) fn section(page: &mut HtmlPage, report: &Report) {
    page.open_section("states", "States", None);
    page.note_omitted_rows(&report.states, "states");
    page.write(format_args!(
        "<p class=\"note\">What every role had in its mailbox and its state, at {}.</p>\n<p class=\"search\" hidden>\
         <button type=\"button\" data-move=\"-1\" aria-label=\"the one before\">←</button> <label>Checkpoint <select></select></label> \
         <button type=\"button\" data-move=\"1\" aria-label=\"the next\">→</button></p>\n<div class=\"states\">\n",
        if report.states.gap().is_some() { "the checkpoints that are left" } else { "each checkpoint" }
    ));
    let count = report.states.iter().count();
    for (place, state) in report.states.iter().enumerate() {
        write_state(page, state, if place + 1 == count { " open" } else { "" });
    }
    page.write(format_args!("</div>\n"));
    page.close_section();
}

fn write_state(page: &mut HtmlPage, state: &StateEntry, open: &str) {
    let name = state.checkpoint.as_deref().unwrap_or("now");
    let time = state.time_ms.map(|time| format!(", {}", format_time(time)));
    page.write(format_args!(
        "<details id=\"s-{}\" class=\"state\"{open}><summary><b>{}</b> <span class=\"note\">step {}, {}, {}, {} spent{}</span></summary>\n\
         <div class=\"inner\">\n",
        esc(name),
        esc(name),
        state.step,
        state.status,
        pluralize(state.messages, "message", "messages"),
        format_money(state.spent),
        time.unwrap_or_default()
    ));
    page.write(format_args!("<div class=\"roles\">\n"));
    for shown in &state.roles {
        write_role(page, shown);
    }
    page.write(format_args!("</div>\n"));
    if state.hidden_roles > 0 {
        let others = pluralize(state.hidden_roles, "more role", "more roles");
        page.write(format_args!(
            "<p class=\"note\">{others}{}</p>\n",
            if state.hidden_roles_are_empty {
                " with nothing to show"
            } else {
                ""
            }
        ));
    }
    for join in &state.joins {
        let held: Vec<String> = join
            .sources
            .iter()
            .map(|source| format!("{} from {}", source.held, source.role))
            .collect();
        page.write(format_args!(
            "<p>Join <b>{}</b> holds {}</p>\n",
            esc(&join.id),
            esc(&held.join(", "))
        ));
    }
    if !state.shared_scopes.is_empty() {
        page.write(format_args!("<h3>Shared</h3>\n<dl class=\"values\">\n"));
        for (scope, key, value) in &state.shared_scopes {
            page.write(format_args!("<dt>{}/{}</dt><dd>", esc(scope), esc(key)));
            page.write_text(value);
            page.write(format_args!("</dd>\n"));
        }
        page.write(format_args!("</dl>\n"));
    }
    page.write(format_args!("</div></details>\n"));
}

fn write_role(page: &mut HtmlPage, role: &RoleStateEntry) {
    page.write(format_args!(
        "<div class=\"role\"><h3>{}</h3>\n<p class=\"note\">{}, remembers {}</p>\n",
        esc(&role.name),
        esc(&role.activity),
        pluralize(role.memory, "message", "messages")
    ));
    if !role.mail.is_empty() {
        page.write(format_args!("<ul class=\"mail\">\n"));
        for (from, label, text) in &role.mail {
            let from = if from.is_empty() { "outside" } else { from };
            page.write(format_args!(
                "<li><b>{}</b> <span class=\"label\">{}</span> ",
                esc(from),
                esc(label)
            ));
            page.write_text(text);
            page.write(format_args!("</li>\n"));
        }
        if role.hidden_mail > 0 {
            page.write(format_args!(
                "<li class=\"cut\">and {} more</li>\n",
                format_number(role.hidden_mail)
            ));
        }
        page.write(format_args!("</ul>\n"));
    }
    if !role.scope.is_empty() {
        page.write(format_args!("<dl class=\"values\">\n"));
        for (key, value) in &role.scope {
            page.write(format_args!("<dt>{}</dt><dd>", esc(key)));
            page.write_text(value);
            page.write(format_args!("</dd>\n"));
        }
        page.write(format_args!("</dl>\n"));
    }
    page.write(format_args!("</div>\n"));
}

/// Writes the lineages and their checkpoints.
pub(super) fn lineages(page: &mut HtmlPage, report: &Report) {
    let rows = &report.storage.checkpoints;
    let shown: BTreeSet<&str> = report
        .states
        .iter()
        .filter_map(|state| state.checkpoint.as_deref())
        .collect();
    // Only states that are on the page are linked.
    let link = |id: &str| match shown.contains(id) {
        true => format!("<a href=\"#s-{}\">{}</a>", esc(id), esc(id)),
        false => esc(id).to_string(),
    };
    page.open_section(
        "lineages",
        "Lineages",
        Some(report.storage.lineages.len().max(1)),
    );
    for lineage in &report.storage.lineages {
        let own: Vec<&CheckpointRow> = rows
            .iter()
            .filter(|row| row.lineage == lineage.name)
            .collect();
        let from = own
            .first()
            .and_then(|row| row.parent.as_ref())
            .filter(|parent| rows.iter().any(|row| row.id == **parent));
        let left = from.map(|from| format!(", left at {}", link(&from.0)));
        let current = if lineage.current {
            " <span class=\"tag\">current</span>"
        } else {
            ""
        };
        page.write(format_args!(
            "<p><b>{}</b>{current} <span class=\"note\">{}, {}{}</span></p>\n",
            esc(&lineage.name),
            pluralize(own.len(), "checkpoint", "checkpoints"),
            pluralize(lineage.events as usize, "event", "events"),
            left.unwrap_or_default()
        ));
    }
    let newest = rows.len().saturating_sub(MAX_CHECKPOINTS);
    if newest > 0 {
        page.write(format_args!(
            "<p class=\"cut\">The first {} checkpoints are left out.</p>\n",
            format_number(newest)
        ));
    }
    page.write(format_args!(
        "<details><summary>{}</summary>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th>Checkpoint<th>Lineage<th>Parent\
         <th class=\"num\">Step<th>Made by<th>Status<th>When</tr></thead>\n<tbody>\n",
        pluralize(rows.len(), "checkpoint", "checkpoints")
    ));
    for row in &rows[newest..] {
        let id = link(&row.id.0);
        let parent = row.parent.as_ref().map_or("–", |id| id.0.as_str());
        page.write(format_args!(
            "<tr><td>{id}<td>{}<td>{}<td class=\"num\">{}<td>{}<td>{}<td class=\"when\">{}</tr>\n",
            esc(&row.lineage),
            esc(parent),
            row.step,
            row.source.name(),
            row.status.name(),
            row.time_ms.map(format_time).unwrap_or_default()
        ));
    }
    page.write(format_args!("</tbody></table></div></details>\n"));
    page.close_section();
}
