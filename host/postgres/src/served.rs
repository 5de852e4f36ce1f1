//! The runs of a database as the clients of its servers know them, from the view `strata.runs` and the rows of runs.

use strata_records::error::StoreError;
use strata_records::listing::RunListing;
use strata_records::served::{ServedFilter, ServedKey, ServedRun};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::database::Database;
use super::list::{COLUMN_COUNT, COLUMNS, TABLES, listing};
use super::session::Argument;

/// The columns of a run of a server besides those of `listing`.
const OWN_COLUMNS: &str = "
    r.id, r.code, r.tenant, r.submitter, r.created_ms,
    CASE WHEN r.schedule = 2 THEN (extract(epoch FROM r.wake_at) * 1000)::bigint END";

/// Which runs a filter accepts, the newest first: what `ServedFilter::accepts` says.
const SELECTED: &str = "
    WHERE ($1::text IS NULL OR r.tenant = $1)
      AND ($2::bigint IS NULL OR (r.created_ms, r.code) < ($2, $3::text))
      AND ($4::text IS NULL OR r.submitter = $4)
      AND (cardinality($5::text[]) = 0 OR r.submitter = ANY($5))
      AND (cardinality($6::text[]) = 0 OR o.status IS NOT NULL AND l.team = ANY($6))
      AND (cardinality($7::text[]) = 0
           OR CASE WHEN l.state IN ('queued', 'refused') AND o.code = '' AND o.status IS NOT NULL THEN 'queued'
                   ELSE o.status END = ANY($7))
      AND (cardinality($8::text[]) = 0 OR l.state = ANY($8))
      AND (cardinality($9::text[]) = 0
           OR EXISTS (SELECT FROM unnest($9) AS wanted (prefix)
                      WHERE starts_with(CASE r.tenant WHEN 'default' THEN r.name
                                                      ELSE substr(r.name, length(r.tenant) + 2) END, wanted.prefix)))
      AND NOT EXISTS (
          SELECT FROM unnest($10::text[]) AS wanted (key)
          WHERE NOT EXISTS (SELECT FROM unnest($10, $11::text[]) AS tag (key, value)
                            WHERE tag.key = wanted.key AND r.tags ->> tag.key = tag.value))
      AND ($12::bigint IS NULL OR (extract(epoch FROM l.changed) * 1000)::bigint >= $12)
      AND ($13::bigint IS NULL OR (extract(epoch FROM l.changed) * 1000)::bigint <= $13)
      AND (NOT $14::boolean OR o.status IS NULL OR o.requests > 0)
    ORDER BY r.created_ms DESC, r.code DESC LIMIT $15";

fn served_run(database: &Database, row: &Row) -> ServedRun<Database> {
    let created_ms = row.get(COLUMN_COUNT + 4);
    ServedRun {
        key: row.get(COLUMN_COUNT),
        id: row.get(COLUMN_COUNT + 1),
        tenant: row.get(COLUMN_COUNT + 2),
        submitter: row.get(COLUMN_COUNT + 3),
        listing: RunListing {
            created_ms: Some(created_ms),
            ..listing(database, row)
        },
        due_ms: row.get(COLUMN_COUNT + 5),
    }
}

fn query(
    database: &Database,
    selected: &str,
    arguments: &[Argument<'_>],
) -> Result<Vec<ServedRun<Database>>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, {OWN_COLUMNS} FROM {TABLES} {selected}");
    let connection = database.connect()?;
    let rows = connection.repeat_if_broken(|connection| connection.query(&sql, arguments))?;
    Ok(rows.iter().map(|row| served_run(database, row)).collect())
}

/// Lists at most `limit` runs that a filter accepts, the newest first.
pub fn list_served(
    database: &Database,
    filter: &ServedFilter,
    limit: usize,
) -> Result<Vec<ServedRun<Database>>, StoreError> {
    let texts = |all: &[String]| all.iter().map(|text| storable(text)).collect::<Vec<_>>();
    let states: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
    let (submitters, teams) = (texts(&filter.submitters), texts(&filter.teams));
    let prefixes = texts(&filter.prefixes);
    let (keys, values): (Vec<String>, Vec<String>) = filter
        .tags
        .iter()
        .map(|(key, value)| (storable(key), storable(value)))
        .unzip();
    let after_ms = filter.after.as_ref().map(|after| after.created_ms);
    let after_id = filter.after.as_ref().map(|after| storable(&after.id));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let arguments = [
        (&filter.tenant as _, Type::TEXT),
        (&after_ms as _, Type::INT8),
        (&after_id as _, Type::TEXT),
        (&filter.owner as _, Type::TEXT),
        (&submitters as _, Type::TEXT_ARRAY),
        (&teams as _, Type::TEXT_ARRAY),
        (&filter.statuses as _, Type::TEXT_ARRAY),
        (&states as _, Type::TEXT_ARRAY),
        (&prefixes as _, Type::TEXT_ARRAY),
        (&keys as _, Type::TEXT_ARRAY),
        (&values as _, Type::TEXT_ARRAY),
        (&filter.since_ms as _, Type::INT8),
        (&filter.until_ms as _, Type::INT8),
        (&filter.is_asking as _, Type::BOOL),
        (&limit as _, Type::INT8),
    ];
    query(database, SELECTED, &arguments)
}

/// Returns a text as it is stored: one of the server cannot contain the character that is replaced.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Returns a run of a server, if there is one.
pub fn find_served(
    database: &Database,
    wanted: ServedKey<'_>,
) -> Result<Option<ServedRun<Database>>, StoreError> {
    let found = match wanted {
        ServedKey::Id(id) => {
            let id = storable(id);
            query(database, "WHERE r.code = $1", &[(&id, Type::TEXT)])
        }
        ServedKey::Name(name) => {
            let name = storable(name);
            query(database, "WHERE r.name = $1", &[(&name, Type::TEXT)])
        }
        ServedKey::Key(key) => query(database, "WHERE r.id = $1", &[(&key, Type::INT8)]),
    };
    Ok(found?.into_iter().next())
}
