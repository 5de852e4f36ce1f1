//! Adds events with one statement, which checks in passing that the lease is the newest and that the
//! event before is the one that this process knows. It takes a shared lock on the run, which only a
//! take-over waits for.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::connection::{Connection, StatementError};
use crate::storage::Durability;
use crate::storage::codec;
#[cfg(test)]
use crate::storage::database_url::DatabaseUrl;
use crate::storage::error::StoreError;
use crate::storage::lineage::{StoredLineage, event_key};
use crate::storage::{Record, concerns_checkpoint};

/// How long a change waits for a server that cannot be reached: a restart or a change of the primary
/// takes less. Nothing is lost if it takes longer, but the run has to be resumed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is tried again meanwhile.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Inserts events unless there is a newer lease, or another event before them.
const APPEND: &str = "
    WITH durability AS MATERIALIZED (SELECT set_config('synchronous_commit', $5, true)),
         lease AS MATERIALIZED (SELECT FROM strata.run WHERE id = $1 AND epoch = $2 FOR SHARE),
         before AS MATERIALIZED (
             SELECT WHERE $3::bigint < 0
             UNION ALL SELECT FROM strata.event WHERE run = $1 AND n = $3 AND sum = $4
         )
    INSERT INTO strata.event
    SELECT $1, new.n, new.line, new.lines, new.time_ms, new.marks, new.sum, new.body
    FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[])
             AS new (n, line, lines, time_ms, marks, sum, body),
         durability, lease, before";

/// Encoded events, as columns.
#[derive(Debug, Default)]
pub(super) struct EncodedEvents {
    keys: Vec<i64>,
    lines: Vec<i64>,
    line_counts: Vec<i64>,
    times_ms: Vec<i64>,
    marks: Vec<i64>,
    sums: Vec<i64>,
    bodies: Vec<Vec<u8>>,
}

/// An event whose checksum is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownEvent {
    pub key: i64,
    pub sum: u32,
}

/// An event that was encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EncodedEvent {
    sum: u32,
    bytes: usize,
}

/// The right under which events are added.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppendRight {
    pub run: i64,
    pub epoch: i64,
    /// The event before them; `None` if they are the first of their lineage.
    pub before: Option<KnownEvent>,
}

impl EncodedEvents {
    /// Encodes records that follow the events of a lineage, and counts them there.
    pub(super) fn following(line: &mut StoredLineage, records: &[Record]) -> Self {
        let mut events = Self::default();
        for record in records {
            let event = events.add(event_key(line.id, line.events + 1), record);
            line.count_event(&record.event, event.bytes, event.sum);
        }
        events
    }

    /// Returns the size of their bodies in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bodies.iter().map(|body| body.len() as u64).sum()
    }

    /// Adds an event with a key.
    fn add(&mut self, n: i64, record: &Record) -> EncodedEvent {
        let body = codec::encode_event(&record.event, Vec::new());
        let (line, lines) = (record.line as i64, i64::from(record.lines));
        let marks = i64::from(concerns_checkpoint(&record.event));
        let sum = codec::checksum(&[n, line, lines, record.time_ms, marks], &body);
        self.keys.push(n);
        self.lines.push(line);
        self.line_counts.push(lines);
        self.times_ms.push(record.time_ms);
        self.marks.push(marks);
        self.sums.push(sum.into());
        let bytes = body.len();
        self.bodies.push(body);
        EncodedEvent { sum, bytes }
    }

    /// Returns the last one.
    fn last(&self) -> Option<KnownEvent> {
        let (key, sum) = (self.keys.last()?, self.sums.last()?);
        Some(KnownEvent {
            key: *key,
            sum: u32::try_from(*sum).ok()?,
        })
    }

    /// Inserts them. Returns whether the lease is the newest and the event before them is there: if
    /// not, nothing was inserted.
    pub(super) fn insert(
        &self,
        connection: &Connection,
        right: &AppendRight,
        durability: Durability,
    ) -> Result<bool, StatementError> {
        let (before, sum) = match right.before {
            Some(event) => (event.key, i64::from(event.sum)),
            None => (-1, 0),
        };
        let durability = synchronous_commit(durability);
        let arguments = [
            (&right.run as _, Type::INT8),
            (&right.epoch as _, Type::INT8),
            (&before as _, Type::INT8),
            (&sum as _, Type::INT8),
            (&durability as _, Type::TEXT),
            (&self.keys as _, Type::INT8_ARRAY),
            (&self.lines as _, Type::INT8_ARRAY),
            (&self.line_counts as _, Type::INT8_ARRAY),
            (&self.times_ms as _, Type::INT8_ARRAY),
            (&self.marks as _, Type::INT8_ARRAY),
            (&self.sums as _, Type::INT8_ARRAY),
            (&self.bodies as _, Type::BYTEA_ARRAY),
        ];
        Ok(connection.execute_prepared(APPEND, &arguments)? > 0)
    }

    /// Inserts them, also if the connection breaks meanwhile: then it is looked up whether they
    /// arrived.
    pub(super) fn append(
        &self,
        connection: &Connection,
        right: &AppendRight,
        durability: Durability,
    ) -> Result<(), StoreError> {
        match self.insert(connection, right, durability) {
            Ok(true) => Ok(()),
            Ok(false) => Err(refusal(connection, right)?),
            Err(error) if error.is_disconnected => retry(connection, error, |connection| {
                match self.are_stored(connection, right)? {
                    // A standby may lack what was looked up, until something after it is committed.
                    true => confirm(connection),
                    false => match self.insert(connection, right, durability)? {
                        true => Ok(()),
                        false => Err(Outcome::Refused),
                    },
                }
            })?
            .map_or_else(|| Err(refusal(connection, right)?), Ok),
            Err(error) if error.is_duplicate => Err(refusal(connection, right)?),
            Err(error) => Err(error.meaning),
        }
    }

    /// Whether they are stored, under this lease.
    fn are_stored(
        &self,
        connection: &Connection,
        right: &AppendRight,
    ) -> Result<bool, StatementError> {
        let Some(last) = self.last() else {
            return Ok(true);
        };
        let sql = "SELECT FROM strata.event e JOIN strata.run r ON r.id = e.run \
                   WHERE e.run = $1 AND e.n = $2 AND e.sum = $3 AND r.epoch = $4";
        let sum = i64::from(last.sum);
        let arguments = [
            (&right.run as _, Type::INT8),
            (&last.key as _, Type::INT8),
            (&sum as _, Type::INT8),
            (&right.epoch as _, Type::INT8),
        ];
        Ok(connection.query_optional(sql, &arguments)?.is_some())
    }
}

/// Why an attempt did not succeed.
enum Outcome {
    /// The events were not accepted.
    Refused,
    Failed(StatementError),
}

impl From<StatementError> for Outcome {
    fn from(error: StatementError) -> Self {
        Self::Failed(error)
    }
}

/// Commits something, and waits until it is safe.
fn confirm(connection: &Connection) -> Result<(), Outcome> {
    let sql = "UPDATE strata.meta SET version = version";
    connection.execute(sql, &[])?;
    Ok(())
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
    let run = super::runs::find_run(&connection).unwrap();
    let sql = "DELETE FROM strata.event WHERE run = $1 \
               AND n > (SELECT max(n) - $2 FROM strata.event WHERE run = $1)";
    let arguments = [(&run as _, Type::INT8), (&events as _, Type::INT8)];
    connection.execute(sql, &arguments).unwrap();
}
