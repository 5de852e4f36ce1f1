//! The workers of a database, for operators.

use strata_records::error::StoreError;
use strata_records::work::{ListedWorker, WorkerProfile};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;
use super::database::Database;
use super::notifications::notify_workers;
use super::schema::has_current_tables;

/// Returns the workers that are registered.
pub fn list_workers(database: &Database) -> Result<Vec<ListedWorker>, StoreError> {
    let connection = database.connect()?;
    if has_current_tables(&connection)? {
        Ok(registered_workers(&connection)?)
    } else {
        Ok(Vec::new())
    }
}

/// Returns the workers that are registered in a database that has the tables.
pub(super) fn registered_workers(
    connection: &Connection,
) -> Result<Vec<ListedWorker>, StatementError> {
    let sql = "SELECT w.id, w.host, w.labels, w.secrets, w.room, w.version, w.is_draining, \
                      (extract(epoch FROM clock_timestamp() - w.beat_at) * 1000)::bigint, \
                      (SELECT count(*) FROM strata.run r WHERE r.owner = w.id) \
               FROM strata.worker w WHERE w.claims ORDER BY w.host, w.id";
    let rows = connection.query(sql, &[])?;
    let worker = |row: &Row| ListedWorker {
        id: row.get(0),
        profile: WorkerProfile {
            host: row.get(1),
            labels: row.get(2),
            secrets: row.get(3),
            room: usize::try_from(row.get::<_, i64>(4)).unwrap_or(0),
        },
        version: row.get(5),
        is_draining: row.get(6),
        beat_age_ms: row.get(7),
        runs: row.get::<_, i64>(8).unsigned_abs(),
    };
    Ok(rows.iter().map(worker).collect())
}

/// Tells a worker to take no more runs and to end. Returns whether there is one with this id.
pub fn drain_worker(database: &Database, id: &str) -> Result<bool, StoreError> {
    let connection = database.connect()?;
    let sql = "UPDATE strata.worker SET is_draining = true WHERE id = $1 AND claims";
    let told = connection.execute(sql, &[(&id, Type::TEXT)])? > 0;
    notify_workers(&connection)?;
    Ok(told)
}
