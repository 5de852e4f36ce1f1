//! What the runs of a database are doing, in numbers. The queries read indexes and the narrow table from which runs are
//! listed, never their records.

use strata_records::error::StoreError;
use strata_records::statistics::{MAX_LABELS, ReadyRuns, RunStatistics, UNKNOWN_STATUS};
use tokio_postgres::Row;

use super::database::Database;
use super::schema::has_current_tables;

/// Returns what the runs of a database are doing.
pub fn read_statistics(database: &Database) -> Result<RunStatistics, StoreError> {
    let connection = database.connect()?;
    let mut statistics = RunStatistics::default();
    if !has_current_tables(&connection)? {
        return Ok(statistics);
    }
    let query = |sql: &str| connection.repeat_if_broken(|connection| connection.query(sql, &[]));
    let ready = format!(
        "SELECT labels, count(*), (extract(epoch FROM clock_timestamp() - min(scheduled_at)) * 1000)::bigint \
         FROM strata.run WHERE schedule = 1 AND owner IS NULL GROUP BY labels ORDER BY 2 DESC LIMIT {MAX_LABELS}"
    );
    for row in query(&ready)? {
        statistics.ready.push(ReadyRuns {
            labels: row.get(0),
            runs: count(&row, 1),
            oldest_ms: row.get::<_, i64>(2).max(0),
        });
    }
    let states = format!(
        "SELECT CASE WHEN code = '' AND status = 'running' THEN 'queued' ELSE coalesce(status, '{UNKNOWN_STATUS}') END, \
                count(*), sum(requests)::bigint, \
                (extract(epoch FROM clock_timestamp()) * 1000)::bigint - min(changed_ms) FILTER (WHERE requests > 0) \
         FROM strata.overview GROUP BY 1"
    );
    for row in query(&states)? {
        statistics.by_status.insert(row.get(0), count(&row, 1));
        statistics.open_requests += count(&row, 2);
        let age = row.get::<_, Option<i64>>(3).map(|age| age.max(0));
        statistics.oldest_request_ms = statistics.oldest_request_ms.max(age);
    }
    let refused = "SELECT count(*) FROM strata.run WHERE problem IS NOT NULL AND owner IS NULL";
    statistics.refused = query(refused)?.first().map_or(0, |row| count(row, 0));
    Ok(statistics)
}

fn count(row: &Row, column: usize) -> u64 {
    row.get::<_, i64>(column).unsigned_abs()
}
