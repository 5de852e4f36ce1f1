//! The rows from which the runs of a database are listed. They change with the events of the runs, in the same
//! statement or transaction.

use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;
use super::session::Argument;
use crate::Append;
use crate::overview::{EndTime, RunOverview, has_ended};

/// What stands for a number that there is not.
const NONE: i64 = -1;
/// What stands for a time that stays as it is.
const UNCHANGED: i64 = -2;

/// What becomes of the row of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OverviewRow {
    /// `None` if it is not known any more.
    pub(super) overview: Option<RunOverview>,
    ended: EndTime,
    /// The time of the newest event, in milliseconds since 1970.
    changed_ms: i64,
}

impl OverviewRow {
    /// Returns the row of a run in which it is not known what its state is.
    pub(super) fn unknown() -> Self {
        Self {
            overview: None,
            ended: EndTime::Unchanged,
            changed_ms: UNCHANGED,
        }
    }

    /// Returns the row of a run after events that are appended to its current lineage.
    pub(super) fn after(append: Append<'_>) -> Self {
        let Some(state) = append.state else {
            return Self::unknown();
        };
        Self {
            overview: Some(RunOverview::of(state)),
            ended: EndTime::after(append.records, state.env.status),
            changed_ms: append.records.last().map_or(0, |record| record.time_ms),
        }
    }

    /// Returns the row of a new run of a team with this name.
    pub(super) fn of_new(overview: RunOverview) -> Self {
        Self {
            overview: Some(overview),
            ended: EndTime::None,
            changed_ms: UNCHANGED,
        }
    }

    /// Returns the row of a run that is copied from elsewhere, where it changed last at this time.
    pub(super) fn of_copy(overview: RunOverview, changed_ms: Option<i64>) -> Self {
        let changed = changed_ms.unwrap_or_default();
        Self {
            ended: match has_ended(overview.status) {
                true => EndTime::At(changed),
                false => EndTime::None,
            },
            overview: Some(overview),
            changed_ms: changed_ms.unwrap_or(UNCHANGED),
        }
    }

    /// Whether it shows nothing else than the row before.
    pub(super) fn is_like(&self, before: &Self) -> bool {
        self.overview == before.overview && !matches!(self.ended, EndTime::At(_))
    }
}

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
    pub(super) fn push(&mut self, request: i64, run: i64, row: &OverviewRow) {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let ended = match row.ended {
            EndTime::None => NONE,
            EndTime::At(time_ms) => time_ms,
            EndTime::Unchanged => UNCHANGED,
        };
        let (values, texts) = match &row.overview {
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
        let ends = [row.changed_ms, ended];
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
    row: &OverviewRow,
) -> Result<(), StatementError> {
    let mut columns = OverviewColumns::default();
    columns.push(1, run, row);
    let arguments: Vec<Argument<'_>> = columns.arguments().collect();
    let named: Vec<String> = (1..=COLUMNS).map(|number| format!("${number}")).collect();
    let sql = updating(&named.join(", "), "1");
    connection.execute(&sql, &arguments).map(drop)
}

/// Inserts the row of a new run.
pub(super) fn insert(
    connection: &Connection,
    run: i64,
    row: &OverviewRow,
) -> Result<(), StatementError> {
    let sql = "INSERT INTO strata.overview (run) VALUES ($1)";
    connection.execute(sql, &[(&run, Type::INT8)])?;
    write(connection, run, row)
}
