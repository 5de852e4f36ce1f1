//! Changes of a run that are made in a transaction of their own, under the right of its newest lease. They may be
//! made again if the connection breaks, and if the database went back to an earlier state (`restore`).

use std::time::{Duration, Instant};

use strata_records::Durability;
use strata_records::error::StoreError;
use strata_records::lineage::{KeyRange, StoredLineage};
use strata_records::mailbox::MailReply;
use strata_records::overview::OverviewChange;
use strata_records::run_change::{NewEvents, NewLineage, RunChange, WrittenChange};
use tokio_postgres::types::Type;

use super::append::{AppendRight, RETRY_INTERVAL, insert_events, key_and_sum, synchronous_commit};
use super::connect::StatementError;
use super::connection::Connection;
use super::mail_text::encode_reply;
use super::{overview, schedule, write};

/// The keys of a run that is changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunKeys {
    /// Its key.
    pub run: i64,
    /// The range in which the keys of its bundles are.
    pub bundle_keys: KeyRange,
}

/// Carries a change out, in a transaction that is open. `stored_bytes` is about how many bytes are stored of the run, if
/// a state is saved.
pub(super) fn write_change(
    connection: &Connection,
    changed: RunKeys,
    change: &RunChange,
    stored_bytes: u64,
) -> Result<WrittenChange, StatementError> {
    let RunKeys { run, bundle_keys } = changed;
    let mut written = WrittenChange::default();
    match change {
        RunChange::Events(new) => append(connection, run, new)?,
        RunChange::Branch(new) => insert_branch(connection, run, new)?,
        RunChange::Snapshot(new) => {
            write::delete_old_snapshots(connection, run, new.rows.n, stored_bytes)?;
            write::update_lineage(connection, run, &new.line)?;
            write::insert_snapshot(connection, run, &new.rows)?;
        }
        RunChange::EarlierState(rows) => write::insert_snapshot(connection, run, rows)?,
        RunChange::Row(line) => write::update_lineage(connection, run, line)?,
        RunChange::Prune(plan) => {
            written.dropped = write::carry_out(connection, run, bundle_keys, plan)?;
        }
        RunChange::Blobs(blobs) => write::insert_blobs(connection, run, blobs)?,
        RunChange::Definition(definition) => {
            write::write_definition(connection, run, definition)?;
        }
        RunChange::Note { name, text } => write::write_note(connection, run, name, text)?,
        RunChange::Switch(switch) => {
            update_if_behind(connection, run, switch.behind.as_ref())?;
            write::update_run(connection, run, switch.lineage, switch.next_line)?;
            overview::write(connection, run, &OverviewChange::unknown())?;
        }
        RunChange::Schedule(schedule) => schedule::write_schedule(connection, run, *schedule)?,
    }
    Ok(written)
}

fn append(connection: &Connection, run: i64, new: &NewEvents) -> Result<(), StatementError> {
    insert_events(connection, run, &new.events)?;
    write_shown(connection, run, new.shown.as_ref())?;
    for reply in &new.replies {
        write_reply(connection, run, reply)?;
    }
    update_if_behind(connection, run, new.writes_row.then_some(&new.line))
}

fn insert_branch(
    connection: &Connection,
    run: i64,
    new: &NewLineage,
) -> Result<(), StatementError> {
    update_if_behind(connection, run, new.behind.as_ref())?;
    write::insert_lineage(connection, run, &new.line)?;
    write::update_run(connection, run, new.current(new.line.id), new.next_line)?;
    write_shown(connection, run, new.shown.as_ref())?;
    insert_events(connection, run, &new.events)
}

fn update_if_behind(
    connection: &Connection,
    run: i64,
    row: Option<&StoredLineage>,
) -> Result<(), StatementError> {
    match row {
        Some(row) => write::update_lineage(connection, run, row),
        None => Ok(()),
    }
}

fn write_shown(
    connection: &Connection,
    run: i64,
    change: Option<&OverviewChange>,
) -> Result<(), StatementError> {
    match change {
        Some(change) => overview::write(connection, run, change),
        None => Ok(()),
    }
}

/// Stores the reply to a request, unless another request has its number since the database went back.
fn write_reply(connection: &Connection, run: i64, reply: &MailReply) -> Result<(), StatementError> {
    let sql = "UPDATE strata.mail SET reply = $4 WHERE id = $2 AND run = $1 \
               AND (extract(epoch FROM sent_at) * 1000000)::bigint = $3";
    let text = encode_reply(&reply.reply);
    let text = text.as_bytes();
    let arguments = [
        (&run as _, Type::INT8),
        (&reply.id.number as _, Type::INT8),
        (&reply.id.sent_us as _, Type::INT8),
        (&text as _, Type::BYTEA),
    ];
    connection.execute(sql, &arguments).map(drop)
}

/// Tries something again on a new connection for as long as `patience`.
fn retry<T>(
    connection: &Connection,
    patience: Duration,
    mut error: StatementError,
    attempt: impl Fn() -> Result<T, StatementError>,
) -> Result<T, StoreError> {
    let since = Instant::now();
    tracing::warn!("waiting for the database: {}", error.meaning);
    while since.elapsed() < patience {
        std::thread::sleep(RETRY_INTERVAL);
        match connection.reconnect() {
            Ok(()) => {}
            Err(StoreError::Unreachable { .. }) => continue,
            Err(other) => return Err(other),
        }
        match attempt() {
            Err(failed) if failed.is_disconnected => error = failed,
            done => return Ok(done?),
        }
    }
    Err(error.meaning)
}

/// Returns why a change was refused: there is a newer lease, or the database lost events.
fn refusal(connection: &Connection, right: &AppendRight) -> Result<StoreError, StoreError> {
    let sql = "SELECT FROM strata.run WHERE id = $1 AND epoch = $2 AND owner = $3";
    let owner: &str = &right.owner;
    let arguments = [
        (&right.run as _, Type::INT8),
        (&right.epoch as _, Type::INT8),
        (&owner as _, Type::TEXT),
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

/// Runs `work` in a transaction, if there is no newer lease and the database has the newest event that `right` names.
/// It may be run again if the connection breaks.
pub(super) fn change<T>(
    connection: &Connection,
    right: &AppendRight,
    durability: Durability,
    work: impl Fn(&Connection) -> Result<T, StatementError>,
) -> Result<T, StoreError> {
    let attempt = || match transact(connection, right, durability, &work) {
        Err(error) if error.is_duplicate => Ok(None),
        done => done,
    };
    let outcome = match attempt() {
        Err(error) if error.is_disconnected => retry(connection, right.patience, error, attempt)?,
        done => done?,
    };
    match outcome {
        Some(value) => Ok(value),
        None => Err(refusal(connection, right)?),
    }
}

/// Runs `work` once in a transaction, on the conditions of `change`. What is not repeated may add rows.
pub(super) fn change_once<T>(
    connection: &Connection,
    right: &AppendRight,
    durability: Durability,
    work: impl Fn(&Connection) -> Result<T, StatementError>,
) -> Result<T, StoreError> {
    match transact(connection, right, durability, &work)? {
        Some(value) => Ok(value),
        None => Err(refusal(connection, right)?),
    }
}

/// Runs `work` in a transaction, if the run is as `right` says. Returns `None` if it is not.
fn transact<T>(
    connection: &Connection,
    right: &AppendRight,
    durability: Durability,
    work: &dyn Fn(&Connection) -> Result<T, StatementError>,
) -> Result<Option<T>, StatementError> {
    let settings = format!(
        "SET LOCAL synchronous_commit TO {}",
        synchronous_commit(durability)
    );
    connection.transact(&settings, || {
        // What is derived from events is not stored without them.
        let sql = "SELECT FROM strata.run WHERE id = $1 AND epoch = $2 AND owner = $5 \
                   AND ($3 < 0 OR EXISTS (SELECT FROM strata.event WHERE run = $1 AND n = $3 AND sum = $4)) \
                   FOR NO KEY UPDATE";
        let [key, sum] = key_and_sum(right.before);
        let owner: &str = &right.owner;
        let arguments = [
            (&right.run as _, Type::INT8),
            (&right.epoch as _, Type::INT8),
            (&key as _, Type::INT8),
            (&sum as _, Type::INT8),
            (&owner as _, Type::TEXT),
        ];
        if connection.query_optional(sql, &arguments)?.is_none() {
            return Ok(None);
        }
        work(connection).map(Some)
    })
}
