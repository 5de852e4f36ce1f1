//! The right under which a run is changed, and changes that may be repeated if the connection breaks. Events
//! alone are appended by `writer`.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::connect::{Argument, StatementError};
use super::connection::Connection;
use crate::storage::Durability;
#[cfg(test)]
use crate::storage::database_url::DatabaseUrl;
use crate::storage::encoded_events::{EncodedEvents, KnownEvent};
use crate::storage::error::StoreError;

/// How long a change waits for a server that cannot be reached: a restart or a change of the primary
/// takes less. Nothing is lost if it takes longer, but the run has to be resumed.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is tried again meanwhile.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The right under which events are added.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppendRight {
    pub run: i64,
    pub epoch: i64,
    /// The event before them; `None` if they are the first of their lineage.
    pub before: Option<KnownEvent>,
}

impl EncodedEvents {
    /// Inserts them into a run.
    pub(super) fn insert(&self, connection: &Connection, run: i64) -> Result<(), StatementError> {
        let sql = "INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        for event in self.iter() {
            let sum = i64::from(event.sum);
            let mut arguments: Vec<Argument<'_>> = vec![(&run, Type::INT8)];
            for number in &event.numbers {
                arguments.push((number, Type::INT8));
            }
            arguments.extend([(&sum as _, Type::INT8), (&event.body as _, Type::BYTEA)]);
            connection.execute(sql, &arguments)?;
        }
        Ok(())
    }
}

/// Why an attempt did not succeed.
enum Outcome {
    /// There is a newer lease.
    Refused,
    Failed(StatementError),
}

impl From<StatementError> for Outcome {
    fn from(error: StatementError) -> Self {
        Self::Failed(error)
    }
}

/// Tries something again on a new connection for as long as `PATIENCE`. Returns `None` if it was
/// refused.
fn retry(
    connection: &Connection,
    mut error: StatementError,
    attempt: impl Fn(&Connection) -> Result<(), Outcome>,
) -> Result<Option<()>, StoreError> {
    let since = Instant::now();
    tracing::warn!("waiting for the database: {}", error.meaning);
    while since.elapsed() < PATIENCE {
        std::thread::sleep(RETRY_INTERVAL);
        match connection.reconnect() {
            Ok(()) => {}
            Err(StoreError::Unreachable { .. }) => continue,
            Err(other) => return Err(other),
        }
        match attempt(connection) {
            Ok(()) => return Ok(Some(())),
            Err(Outcome::Refused) => return Ok(None),
            Err(Outcome::Failed(failed)) if failed.is_disconnected => error = failed,
            Err(Outcome::Failed(failed)) if failed.is_duplicate => return Ok(None),
            Err(Outcome::Failed(failed)) => return Err(failed.meaning),
        }
    }
    Err(error.meaning)
}

/// Makes a change that may be repeated, also if the connection breaks meanwhile. `change` returns
/// whether the lease is the newest.
pub(super) fn change_repeatably(
    connection: &Connection,
    right: &AppendRight,
    change: impl Fn(&Connection) -> Result<bool, StatementError>,
) -> Result<(), StoreError> {
    let attempt = |connection: &Connection| match change(connection) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Outcome::Refused),
        Err(error) => Err(Outcome::Failed(error)),
    };
    let done = match attempt(connection) {
        Ok(()) => Some(()),
        Err(Outcome::Refused) => None,
        Err(Outcome::Failed(error)) if error.is_disconnected => retry(connection, error, attempt)?,
        Err(Outcome::Failed(error)) => return Err(error.meaning),
    };
    match done {
        Some(()) => Ok(()),
        None => Err(refusal(connection, right)?),
    }
}

/// Returns why a change was refused: there is a newer lease, or the database lost events.
pub(super) fn refusal(
    connection: &Connection,
    right: &AppendRight,
) -> Result<StoreError, StoreError> {
    let sql = "SELECT FROM strata.run WHERE id = $1 AND epoch = $2";
    let arguments = [
        (&right.run as _, Type::INT8),
        (&right.epoch as _, Type::INT8),
    ];
    let path = connection.path();
    Ok(match connection.query_optional(sql, &arguments)? {
        None => StoreError::Fenced { path: path.into() },
        Some(_) => StoreError::lost(
            path,
            "its newest events are not those that were appended last",
        ),
    })
}

/// Returns what makes a commit survive what it has to: without it, a commit survives the end of this
/// process, but not that of the server's machine.
pub(super) fn synchronous_commit(durability: Durability) -> &'static str {
    match durability {
        Durability::Full => "on",
        Durability::Process => "off",
    }
}

/// Loses the newest events of a run, as a database does that goes back to an older copy of itself.
#[cfg(test)]
pub(in crate::storage) fn lose_newest(url: &DatabaseUrl, events: i64) {
    let connection = Connection::open(url).unwrap();
    let run = super::run_name::find_run(&connection).unwrap();
    let sql = "DELETE FROM strata.event WHERE run = $1 \
               AND n > (SELECT max(n) - $2 FROM strata.event WHERE run = $1)";
    let arguments = [(&run as _, Type::INT8), (&events as _, Type::INT8)];
    connection.execute(sql, &arguments).unwrap();
}
