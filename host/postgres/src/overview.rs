//! The rows from which the runs of a database are listed. They change with the events of the runs, in the same
//! statement or transaction.

use strata_records::overview::{EndTime, OverviewChange};
use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;
use super::session::Argument;

/// What stands for a number that there is not.
const NONE: i64 = -1;
/// What stands for a time that stays as it is.
const UNCHANGED: i64 = -2;

/// Rows, as the columns of a statement's arguments.
#[derive(Debug, Default)]
pub(super) struct OverviewColumns {
    /// The number of the request, the run, and the columns with numbers.
    numbers: [Vec<i64>; 9],
    texts: [Vec<String>; 3],
}

/// How many arguments the columns are.
pub(super) const COLUMNS: u32 = 12;

impl OverviewColumns {
    /// Adds the row of a run.
    pub(super) fn push(&mut self, request: i64, run: i64, change: &OverviewChange) {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let ended = match change.ended {
            EndTime::None => NONE,
            EndTime::At(time_ms) => time_ms,
            EndTime::Unchanged => UNCHANGED,
        };
        let (values, texts) = match &change.overview {
            Some(one) => (
                [
                    number(one.step),
                    number(one.spent.0),
                    one.budget.map_or(NONE, |budget| number(budget.0)),
                    number(one.requests),
                    number(one.faults),
                ],
                [one.run.as_str(), one.team.as_str(), one.status.name()],
            ),
            None => ([0, 0, NONE, 0, 0], ["", "", ""]),
        };
        // Without its state, it is not known whether the list shows the run as it is after these events.
        let changed_ms = change.overview.as_ref().and(change.changed_ms);
        let ends = [changed_ms.unwrap_or(UNCHANGED), ended];
        let all = [request, run].into_iter().chain(values).chain(ends);
        for (column, value) in self.numbers.iter_mut().zip(all) {
            column.push(value);
        }
        for (column, text) in self.texts.iter_mut().zip(texts) {
            // A text of the server cannot contain this character, which a submitted team may have.
            column.push(text.replace('\0', "\u{fffd}"));
        }
    }

    /// Returns the arguments, in the order of `updating`.
    pub(super) fn arguments(&self) -> impl Iterator<Item = Argument<'_>> {
        let numbers = self
            .numbers
            .iter()
            .map(|column| (column as _, Type::INT8_ARRAY));
        let texts = self
            .texts
            .iter()
            .map(|column| (column as _, Type::TEXT_ARRAY));
        numbers.chain(texts)
    }
}

/// Returns the statement that writes rows, where `columns` are the arguments, and `accepted` the numbers of the
/// requests whose rows are written.
pub(super) fn updating(columns: &str, accepted: &str) -> String {
    format!(
        "UPDATE strata.overview
         SET code = new.code, team = coalesce(nullif(new.team, ''), overview.team),
             status = nullif(new.status, ''), step = new.step, spent = new.spent, budget = nullif(new.budget, {NONE}),
             requests = new.requests, faults = new.faults,
             changed_ms = CASE new.changed WHEN {UNCHANGED} THEN overview.changed_ms ELSE new.changed END,
             ended_ms = CASE new.ended WHEN {NONE} THEN NULL WHEN {UNCHANGED} THEN overview.ended_ms ELSE new.ended END
         FROM unnest({columns})
              AS new (request, run, step, spent, budget, requests, faults, changed, ended, code, team, status)
         WHERE overview.run = new.run AND new.request IN ({accepted})"
    )
}

/// Writes the row of a run.
pub(super) fn write(
    connection: &Connection,
    run: i64,
    change: &OverviewChange,
) -> Result<(), StatementError> {
    let mut columns = OverviewColumns::default();
    columns.push(1, run, change);
    let arguments: Vec<Argument<'_>> = columns.arguments().collect();
    let named: Vec<String> = (1..=COLUMNS).map(|number| format!("${number}")).collect();
    let sql = updating(&named.join(", "), "1");
    connection.execute(&sql, &arguments).map(drop)
}

/// Inserts the row of a new run.
pub(super) fn insert(
    connection: &Connection,
    run: i64,
    change: &OverviewChange,
) -> Result<(), StatementError> {
    let sql = "INSERT INTO strata.overview (run) VALUES ($1)";
    connection.execute(sql, &[(&run, Type::INT8)])?;
    write(connection, run, change)
}
