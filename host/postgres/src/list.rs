//! Lists the runs of a database, with one query of the view `strata.runs`.

use std::collections::BTreeMap;

use strata_records::error::StoreError;
use strata_records::listing::{ListedOwner, QueuedRun, RunFilter, RunListing};
use strata_records::overview::{LifecycleState, RunOverview};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use strata_core::record::event::Status;
use strata_core::record::money::Usd;

use super::database::Database;
use super::run_name::find_run;
use super::schema::has_current_tables;

/// The columns that `listing` reads, and the tables that they are from.
pub(super) const COLUMNS: &str = "
    l.name, l.id, l.team, l.state, o.status, o.step, o.spent, o.budget, o.requests, o.faults,
    l.owner_worker, l.owner_host, (extract(epoch FROM l.owner_since) * 1000)::bigint,
    l.scope, l.labels::text, l.needs, l.problem,
    (extract(epoch FROM l.created) * 1000)::bigint, (extract(epoch FROM l.changed) * 1000)::bigint,
    o.ended_ms";
/// How many these are.
pub(super) const COLUMN_COUNT: usize = 20;
pub(super) const TABLES: &str =
    "strata.runs l JOIN strata.run r ON r.name = l.name JOIN strata.overview o ON o.run = r.id";

/// Which runs a filter accepts, those that changed last first. A run without a status has to be read, so nothing
/// that depends on that excludes it.
const SELECTED: &str = "
    WHERE ($1::text IS NULL OR l.name = $1)
      AND (cardinality($2::text[]) = 0 OR l.status IS NULL OR l.status = ANY($2))
      AND (cardinality($3::text[]) = 0 OR l.status IS NULL OR l.state = ANY($3))
      AND ($4::text IS NULL OR l.status IS NULL OR l.team = $4)
      AND ($5::text IS NULL OR l.scope = $5)
      AND l.labels @> $6::text::jsonb
      AND ($7::text IS NULL OR l.name LIKE $7)
      AND ($8::bigint IS NULL OR l.changed >= to_timestamp($8 / 1000.0))
      AND ($9::bigint IS NULL OR l.changed <= to_timestamp($9 / 1000.0))
    ORDER BY l.changed DESC, r.id DESC LIMIT $10";

/// Lists the run that a URL names, or all that a filter accepts.
pub fn list_overviews(
    database: &Database,
    filter: &RunFilter,
) -> Result<Vec<RunListing<Database>>, StoreError> {
    let connection = database.connect()?;
    if database.run().is_some() {
        find_run(&connection)?;
    } else if !has_current_tables(&connection)? {
        return Ok(Vec::new());
    }
    let states: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
    let tags: BTreeMap<&str, &str> = filter
        .tags
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let tags = serde_json::json!(tags).to_string();
    let name = filter.name.as_deref().map(like_pattern);
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let arguments = [
        (&database.run() as _, Type::TEXT),
        (&filter.statuses as _, Type::TEXT_ARRAY),
        (&states as _, Type::TEXT_ARRAY),
        (&filter.team as _, Type::TEXT),
        (&filter.scope as _, Type::TEXT),
        (&tags as _, Type::TEXT),
        (&name as _, Type::TEXT),
        (&filter.since_ms as _, Type::INT8),
        (&filter.until_ms as _, Type::INT8),
        (&limit as _, Type::INT8),
    ];
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} {SELECTED}");
    let rows = connection.repeat_if_broken(|connection| connection.query(&sql, &arguments))?;
    Ok(rows.iter().map(|row| listing(database, row)).collect())
}

/// Returns the pattern of the server for one in which `*` stands for any characters and `?` for any one.
fn like_pattern(pattern: &str) -> String {
    let mut like = String::new();
    for c in pattern.chars() {
        match c {
            '*' => like.push('%'),
            '?' => like.push('_'),
            '%' | '_' | '\\' => like.extend(['\\', c]),
            other => like.push(other),
        }
    }
    like
}

pub(super) fn listing(database: &Database, row: &Row) -> RunListing<Database> {
    let name: String = row.get(0);
    let number = |column: usize| row.get::<_, i64>(column).unsigned_abs();
    let status = row.get::<_, Option<&str>>(4).and_then(Status::from_name);
    let overview = status.map(|status| RunOverview {
        run: row.get(1),
        team: row.get(2),
        status,
        step: number(5),
        spent: Usd(number(6)),
        budget: row
            .get::<_, Option<i64>>(7)
            .map(|budget| Usd(budget.unsigned_abs())),
        requests: number(8),
        faults: number(9),
    });
    let worker: Option<String> = row.get(10);
    RunListing {
        location: database.with_run(&name),
        state: LifecycleState::from_name(row.get(3)).unwrap_or(LifecycleState::Resting),
        overview,
        owner: worker.map(|worker| ListedOwner {
            worker,
            host: row.get::<_, Option<String>>(11).unwrap_or_default(),
            since_ms: row.get(12),
        }),
        queued: Some(QueuedRun {
            scope: row.get(13),
            tags: serde_json::from_str(row.get(14)).unwrap_or_default(),
            needs: row.get(15),
            problem: row.get(16),
        }),
        created_ms: row.get(17),
        changed_ms: row.get(18),
        ended_ms: row.get(19),
        name,
    }
}
