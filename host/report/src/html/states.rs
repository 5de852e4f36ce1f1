//! The sections with the states at checkpoints and with the lineages.

use std::collections::BTreeSet;

use maud::{Markup, html};
use strata_storage::{CheckpointRow, LineageRow};

use super::super::{Report, RoleStateEntry, StateEntry};
use super::text::{omitted_rows, text};
use super::time::{format_money, format_number, format_time, pluralize};

/// The maximum number of checkpoints listed; the newest are.
const MAX_CHECKPOINTS: usize = 500;

/// Returns the states.
pub(super) fn section(report: &Report) -> Markup {
    let which = if report.states.gap().is_some() {
        "the checkpoints that are left"
    } else {
        "each checkpoint"
    };
    let count = report.states.iter().count();
    html! {
        section #states aria-labelledby="states-title" {
            h2 #states-title { "States" }
            (omitted_rows(&report.states, "states"))
            p.note { "What every role had in its mailbox and its state, at " (which) "." }
            p.search hidden {
                button type="button" data-move="-1" aria-label="the one before" { "←" } " "
                label { "Checkpoint " select {} } " "
                button type="button" data-move="1" aria-label="the next" { "→" }
            }
            div.states {
                @for (place, state) in report.states.iter().enumerate() {
                    (state_details(state, place + 1 == count))
                }
            }
        }
    }
}

fn state_details(state: &StateEntry, is_open: bool) -> Markup {
    let name = state.checkpoint.as_deref().unwrap_or("now");
    html! {
        details.state id={ "s-" (name) } open[is_open] {
            summary {
                b { (name) } " "
                span.note {
                    "step " (state.step) ", " (state.status) ", "
                    (pluralize(state.messages, "message", "messages")) ", " (format_money(state.spent)) " spent"
                    @if let Some(time_ms) = state.time_ms { ", " (format_time(time_ms)) }
                }
            }
            div.inner {
                div.roles { @for role in &state.roles { (role_card(role)) } }
                @if state.hidden_roles > 0 {
                    p.note {
                        (pluralize(state.hidden_roles, "more role", "more roles"))
                        @if state.hidden_roles_are_empty { " with nothing to show" }
                    }
                }
                @for join in &state.joins {
                    p {
                        "Join " b { (join.id) } " holds "
                        @for (place, source) in join.sources.iter().enumerate() {
                            @if place > 0 { ", " }
                            (source.held) " from " (source.role)
                        }
                    }
                }
                @if !state.shared_scopes.is_empty() {
                    h3 { "Shared" }
                    dl.values {
                        @for (scope, key, value) in &state.shared_scopes {
                            dt { (scope) "/" (key) } dd { (text(value)) }
                        }
                    }
                }
            }
        }
    }
}

fn role_card(role: &RoleStateEntry) -> Markup {
    html! {
        div.role {
            h3 { (role.name) }
            p.note { (role.activity) ", remembers " (pluralize(role.memory, "message", "messages")) }
            @if !role.mail.is_empty() {
                ul.mail {
                    @for (from, label, content) in &role.mail {
                        li {
                            b { @if from.is_empty() { "outside" } @else { (from) } } " "
                            span.label { (label) } " " (text(content))
                        }
                    }
                    @if role.hidden_mail > 0 {
                        li.omitted { "and " (format_number(role.hidden_mail)) " more" }
                    }
                }
            }
            @if !role.scope.is_empty() {
                dl.values {
                    @for (key, value) in &role.scope { dt { (key) } dd { (text(value)) } }
                }
            }
        }
    }
}

/// Returns the lineages and their checkpoints.
pub(super) fn lineages(report: &Report) -> Markup {
    let rows = &report.storage.checkpoints;
    let hidden = rows.len().saturating_sub(MAX_CHECKPOINTS);
    let shown_states = report.states.iter();
    let state_ids: BTreeSet<&str> = shown_states
        .filter_map(|state| state.checkpoint.as_deref())
        .collect();
    html! {
        section #lineages aria-labelledby="lineages-title" {
            h2 #lineages-title {
                "Lineages " span.count { (format_number(report.storage.lineages.len().max(1))) }
            }
            @for lineage in &report.storage.lineages { (lineage_line(lineage, rows, &state_ids)) }
            @if hidden > 0 {
                p.omitted { "The first " (format_number(hidden)) " checkpoints are left out." }
            }
            details {
                summary { (pluralize(rows.len(), "checkpoint", "checkpoints")) }
                div.scroll tabindex="0" {
                    table {
                        thead {
                            tr {
                                th { "Checkpoint" } th { "Lineage" } th { "Parent" } th.num { "Step" }
                                th { "Made by" } th { "Status" } th { "When" }
                            }
                        }
                        tbody { @for row in &rows[hidden..] { (checkpoint_row(row, &state_ids)) } }
                    }
                }
            }
        }
    }
}

fn lineage_line(
    lineage: &LineageRow,
    rows: &[CheckpointRow],
    shown_states: &BTreeSet<&str>,
) -> Markup {
    let own: Vec<&CheckpointRow> = rows
        .iter()
        .filter(|row| row.lineage == lineage.name)
        .collect();
    let origin = own
        .first()
        .and_then(|row| row.parent.as_ref())
        .filter(|parent| rows.iter().any(|row| row.id == **parent));
    html! {
        p {
            b { (lineage.name) } " "
            @if lineage.current { span.tag { "current" } " " }
            span.note {
                (pluralize(own.len(), "checkpoint", "checkpoints")) ", "
                (pluralize(lineage.events as usize, "event", "events"))
                @if let Some(origin) = origin { ", left at " (state_link(&origin.0, shown_states)) }
            }
        }
    }
}

fn checkpoint_row(row: &CheckpointRow, shown_states: &BTreeSet<&str>) -> Markup {
    html! {
        tr {
            td { (state_link(&row.id.0, shown_states)) }
            td { (row.lineage) }
            td { (row.parent.as_ref().map_or("–", |id| id.0.as_str())) }
            td.num { (row.step) }
            td { (row.source.name()) }
            td { (row.status.name()) }
            td.when { @if let Some(time_ms) = row.time_ms { (format_time(time_ms)) } }
        }
    }
}

/// Returns the name of a checkpoint, with a link to its state if that is on the page.
pub(super) fn state_link(id: &str, shown_states: &BTreeSet<&str>) -> Markup {
    html! {
        @if shown_states.contains(id) { a href={ "#s-" (id) } { (id) } } @else { (id) }
    }
}
