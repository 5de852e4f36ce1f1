//! The section with what was spent, by action and by model, and what the journal saved.

use strata_core::record::money::Usd;

use super::super::{ActionSpending, ModelSpending, Report};
use super::HtmlPage;
use super::escape::esc;
use super::time::{format_money, format_number};

/// The length of the longest bar.
const BAR_UNITS: u64 = 100;

/// Writes the spending of roles with their actions, then that of models.
pub(super) fn section(page: &mut HtmlPage, report: &Report) {
    if report.spending.is_empty() {
        return;
    }
    page.open_section("costs", "Costs", None);
    write_table_head(page, "Action");
    let mut roles: Vec<(&str, Vec<&ActionSpending>)> = Vec::new();
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
        write_row(
            page,
            "<tr class=\"sum\">",
            &esc(role).to_string(),
            &sum,
            None,
        );
        for spending in rows {
            let name = format!("<span class=\"indent\">{}</span>", esc(&spending.action));
            write_row(
                page,
                "<tr>",
                &name,
                &ModelSpending::from(spending),
                Some(most),
            );
        }
    }
    page.write(format_args!("</tbody></table></div>\n"));
    if !report.models.is_empty() {
        page.write(format_args!("<h3>By model</h3>\n"));
        write_table_head(page, "Model");
        let most = report
            .models
            .values()
            .map(|used| used.usd)
            .max()
            .unwrap_or_default();
        for (model, used) in &report.models {
            write_row(page, "<tr>", &esc(model).to_string(), used, Some(most));
        }
        page.write(format_args!("</tbody></table></div>\n"));
    }
    page.close_section();
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

fn write_table_head(page: &mut HtmlPage, what: &str) {
    page.write(format_args!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"costs\">\n<thead><tr><th>{what}<th class=\"num\">Calls<th class=\"num\">\
         Tokens<th class=\"num\">Spent<th class=\"bar\"><th class=\"num\">Served again<th class=\"num\">Saved</tr></thead>\n<tbody>\n"
    ));
}

fn write_row(
    page: &mut HtmlPage,
    begin: &str,
    name: &str,
    used: &ModelSpending,
    most: Option<Usd>,
) {
    let share = most.filter(|most| *most > Usd::ZERO).map(|most| {
        let parts = u128::from(used.usd.0) * u128::from(BAR_UNITS) / u128::from(most.0);
        format!(
            "<svg class=\"share\" viewBox=\"0 0 {BAR_UNITS} 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{parts}\" \
             height=\"8\" rx=\"2\"/></svg>"
        )
    });
    let number = |number: u64| {
        if number == 0 {
            "–".to_owned()
        } else {
            format_number(number)
        }
    };
    page.write(format_args!(
        "{begin}<td>{name}<td class=\"num\">{}<td class=\"num\">{}<td class=\"num\">{}<td class=\"bar\">{}<td class=\"num\">{}<td \
         class=\"num\">{}</tr>\n",
        number(used.calls),
        number(used.tokens),
        format_money(used.usd),
        share.unwrap_or_default(),
        number(used.served),
        format_money(used.saved)
    ));
}
