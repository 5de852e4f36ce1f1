//! The section with what was spent, by action and by model, and what the journal saved.

use maud::{Markup, html};
use strata_core::record::money::Usd;

use super::super::{ActionSpending, ModelSpending, Report};
use super::time::{format_money, format_number};

/// Returns the spending of roles with their actions, then that of models.
pub(super) fn section(report: &Report) -> Markup {
    html! {
        @if !report.spending.is_empty() {
            section #costs aria-labelledby="costs-title" {
                h2 #costs-title { "Costs" }
                (table("Action", action_rows(report)))
                @if !report.models.is_empty() || report.lost() > Usd::ZERO {
                    h3 { "By model" }
                    (table("Model", model_rows(report)))
                }
            }
        }
    }
}

fn table(what: &str, rows: Markup) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table.costs {
                thead {
                    tr {
                        th { (what) }
                        th.num { "Calls" } th.num { "Tokens" } th.num { "Spent" } th { "Share" }
                        th.num { "Served again" } th.num { "Saved" }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}

fn action_rows(report: &Report) -> Markup {
    let mut roles: Vec<(&str, Vec<&ActionSpending>)> = Vec::new();
    for row in &report.spending {
        match roles.last_mut().filter(|(role, _)| *role == row.role) {
            Some((_, rows)) => rows.push(row),
            None => roles.push((&row.role, vec![row])),
        }
    }
    let most = report.spending.iter().map(|row| row.used.usd).max();
    html! {
        @for (role, actions) in roles {
            tr.sum { td { (role) } (cells(&sum_of(&actions), None)) }
            @for action in actions {
                tr { td.indent { (action.action) } (cells(&ModelSpending::from(action), most)) }
            }
        }
    }
}

fn model_rows(report: &Report) -> Markup {
    let most = report.models.values().map(|used| used.usd).max();
    html! {
        @for (model, used) in &report.models {
            tr { td { (model) } (cells(used, most)) }
        }
        // They belong to no model. With them, the rows add up to what was spent.
        @let lost = ModelSpending { usd: report.lost(), ..ModelSpending::default() };
        @if lost.usd > Usd::ZERO {
            tr { td { "Answers lost, as estimated" } (cells(&lost, None)) }
        }
    }
}

/// Returns the cells after the name. `most` is the largest amount, of which a bar shows a share.
fn cells(used: &ModelSpending, most: Option<Usd>) -> Markup {
    let number = |number: u64| match number {
        0 => "–".to_owned(),
        number => format_number(number),
    };
    html! {
        td.num { (number(used.calls)) }
        td.num { (number(used.tokens)) }
        td.num { (format_money(used.usd)) }
        td { @if let Some(most) = most.filter(|_| used.usd > Usd::ZERO) { (share_bar(used.usd, most)) } }
        td.num { (number(used.served)) }
        td.num { (format_money(used.saved)) }
    }
}

/// Returns a bar that shows how much of an amount another one is.
pub(super) fn share_bar(part: Usd, whole: Usd) -> Markup {
    const UNITS: u128 = 100;
    let share = (u128::from(part.0) * UNITS).checked_div(u128::from(whole.0));
    html! {
        svg.share viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
            rect.whole width="100" height="8" rx="2" {}
            rect width=(share.unwrap_or(UNITS).min(UNITS)) height="8" rx="2" {}
        }
    }
}

fn sum_of(actions: &[&ActionSpending]) -> ModelSpending {
    let mut sum = ModelSpending::default();
    for action in actions {
        let used = ModelSpending::from(*action);
        sum.calls += used.calls;
        sum.tokens = sum.tokens.saturating_add(used.tokens);
        sum.usd += used.usd;
        sum.served += used.served;
        sum.saved += used.saved;
    }
    sum
}

impl From<&ActionSpending> for ModelSpending {
    fn from(row: &ActionSpending) -> Self {
        let used = &row.used;
        Self {
            calls: used.calls,
            tokens: used.tokens,
            usd: used.usd,
            served: used.served,
            saved: used.saved,
        }
    }
}
