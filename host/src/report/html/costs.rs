//! The section with what was spent, by action and by model, and what the journal saved.

use strata_core::money::Usd;

use super::super::{ModelSpending, Report, Spending};
use super::Page;
use super::escape::esc;
use super::time::{grouped, money};

/// The length of the longest bar.
const BAR: u64 = 100;

/// Writes the spending of roles with their actions, then that of models.
pub(super) fn section(page: &mut Page, report: &Report) {
    if report.spending.is_empty() {
        return;
    }
    page.open("costs", "Costs", None);
    head(page, "Action");
    let mut roles: Vec<(&str, Vec<&Spending>)> = Vec::new();
    for row in &report.spending {
        match roles.last_mut().filter(|(role, _)| *role == row.role) {
            Some((_, rows)) => rows.push(row),
            None => roles.push((&row.role, vec![row])),
        }
    }
    let most = report
        .spending
        .iter()
        .map(|row| row.used.usd)
        .max()
        .unwrap_or_default();
    for (role, rows) in roles {
        let mut sum = ModelSpending::default();
        for spending in &rows {
            sum.add(&ModelSpending::from(*spending));
        }
        row(
            page,
            "<tr class=\"sum\">",
            &esc(role).to_string(),
            &sum,
            None,
        );
        for spending in rows {
            let name = format!("<span class=\"indent\">{}</span>", esc(&spending.action));
            row(
                page,
                "<tr>",
                &name,
                &ModelSpending::from(spending),
                Some(most),
            );
        }
    }
    page.put(format_args!("</tbody></table></div>\n"));
    if !report.models.is_empty() {
        page.put(format_args!("<h3>By model</h3>\n"));
        head(page, "Model");
        let most = report
            .models
            .values()
            .map(|used| used.usd)
            .max()
            .unwrap_or_default();
        for (model, used) in &report.models {
            row(page, "<tr>", &esc(model).to_string(), used, Some(most));
        }
        page.put(format_args!("</tbody></table></div>\n"));
    }
    page.close();
}

impl ModelSpending {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.usd += other.usd;
        self.served += other.served;
        self.saved += other.saved;
    }
}

impl From<&Spending> for ModelSpending {
    fn from(row: &Spending) -> Self {
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

fn head(page: &mut Page, what: &str) {
    page.put(format_args!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"costs\">\n<thead><tr><th>{what}<th class=\"num\">Calls<th class=\"num\">\
         Tokens<th class=\"num\">Spent<th class=\"bar\"><th class=\"num\">Served again<th class=\"num\">Saved</tr></thead>\n<tbody>\n"
    ));
}

fn row(page: &mut Page, begin: &str, name: &str, used: &ModelSpending, most: Option<Usd>) {
    let share = most.filter(|most| *most > Usd::ZERO).map(|most| {
        let parts = u128::from(used.usd.0) * u128::from(BAR) / u128::from(most.0);
        format!(
            "<svg class=\"share\" viewBox=\"0 0 {BAR} 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{parts}\" \
             height=\"8\" rx=\"2\"/></svg>"
        )
    });
    let number = |number: u64| {
        if number == 0 {
            "–".to_owned()
        } else {
            grouped(number)
        }
    };
    page.put(format_args!(
        "{begin}<td>{name}<td class=\"num\">{}<td class=\"num\">{}<td class=\"num\">{}<td class=\"bar\">{}<td class=\"num\">{}<td \
         class=\"num\">{}</tr>\n",
        number(used.calls),
        number(used.tokens),
        money(used.usd),
        share.unwrap_or_default(),
        number(used.served),
        money(used.saved)
    ));
}
