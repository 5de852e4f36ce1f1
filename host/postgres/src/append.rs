//! The right under which events are added, and how they are. Events alone are added by `writer`, those that
//! other changes go with by `change`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use strata_base::files::durability::Durability;
use strata_core::record::id::Digest;
use strata_records::encoded_events::{EncodedEvents, KnownEvent};
use strata_records::run_change::NewEvents;
use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;
use super::session::Argument;

/// How often it is tried again meanwhile.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The right under which events are added.
#[derive(Clone, Debug)]
pub(super) struct AppendRight {
    pub run: i64,
    pub epoch: i64,
    /// The name of the owner. A database that went back to an earlier state gives the same epoch to another one.
    pub owner: Arc<str>,
    /// The event before them; `None` if they are the first of their lineage.
    pub before: Option<KnownEvent>,
    /// How long a change waits for a server that cannot be reached.
    pub patience: Duration,
}

/// Events that are to be appended to a run.
#[derive(Clone, Debug)]
pub(super) struct AppendRequest {
    /// Where the run is kept, for messages.
    pub path: PathBuf,
    pub right: AppendRight,
    pub new: Arc<NewEvents>,
    /// Whether a list shows the same after them, so that its row stays as it is.
    pub is_shown: bool,
    /// The files that were stored since the event before them.
    pub files: Vec<Digest>,
    /// The last event that was appended with full durability under this lease.
    pub kept: Option<KnownEvent>,
    pub durability: Durability,
}

/// Inserts events into a run.
pub(super) fn insert_events(
    connection: &Connection,
    run: i64,
    events: &EncodedEvents,
) -> Result<(), StatementError> {
    let sql = "INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) \
               SELECT $1, new.* FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], \
                                            $6::bigint[], $7::bigint[], $8::bytea[]) new";
    let mut columns: [Vec<i64>; 6] = Default::default();
    let mut bodies: Vec<&[u8]> = Vec::new();
    for event in events.iter() {
        let [n, line, lines, time_ms, marks] = event.numbers;
        let sum = event.sum.into();
        push_row(&mut columns, [n, line, lines, time_ms, marks, sum]);
        bodies.push(&event.body);
    }
    let mut arguments: Vec<Argument<'_>> = vec![(&run, Type::INT8)];
    arguments.extend(columns.iter().map(|column| (column as _, Type::INT8_ARRAY)));
    arguments.push((&bodies, Type::BYTEA_ARRAY));
    connection.execute(sql, &arguments).map(drop)
}

/// Returns the key and the checksum of an event. The key of none is −1.
pub(super) fn key_and_sum(event: Option<KnownEvent>) -> [i64; 2] {
    event.map_or([-1, 0], |event| [event.key, event.sum.into()])
}

/// Adds a value to each column.
pub(super) fn push_row<const COLUMNS: usize>(
    columns: &mut [Vec<i64>; COLUMNS],
    row: [i64; COLUMNS],
) {
    for (column, value) in columns.iter_mut().zip(row) {
        column.push(value);
    }
}

/// Returns what makes a commit survive what it has to: without it, a commit survives the end of this
/// process, but not that of the server's machine.
pub(super) fn synchronous_commit(durability: Durability) -> &'static str {
    match durability {
        Durability::Full => "on",
        Durability::Process => "off",
    }
}
