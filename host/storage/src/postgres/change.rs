//! Changes of a run that are made in a transaction of their own, under the right of its newest lease. They may be
//! made again if the connection breaks, and if the database went back to an earlier state (`restore`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_base::files::blob::Blobs;
use tokio_postgres::types::Type;

use super::append::{AppendRight, RETRY_INTERVAL, key_and_sum, synchronous_commit};
use super::connect::StatementError;
use super::connection::Connection;
use super::mail_text::encode_reply;
use super::overview::OverviewRow;
use super::{overview, schedule, write};
use crate::current_lineage::NewBranch;
use crate::encoded_events::EncodedEvents;
use crate::error::StoreError;
use crate::lineage::StoredLineage;
use crate::mailbox::MailReply;
use crate::work::RunSchedule;
use crate::{Append, Durability, SavedDefinition};

/// About how much memory an event or another change takes besides its texts.
const ROW_BYTES: u64 = 128;

/// A change of a run that cannot be derived from others.
#[derive(Clone, Debug)]
pub(super) enum RunChange {
    /// Events were added to a lineage, and requests that became these events were answered.
    Events {
        events: Arc<EncodedEvents>,
        replies: Vec<MailReply>,
        /// What became of the row from which the run is listed, if it changed.
        overview: Option<OverviewRow>,
    },
    /// A lineage was added, which begins with events.
    Branch(Arc<NewLineage>),
    /// The bytes of files were added.
    Blobs(Arc<Blobs>),
    Definition(Arc<SavedDefinition>),
    Note {
        name: String,
        text: String,
    },
    /// The run continues with another lineage.
    Lineage {
        id: i64,
        /// The first public line that none of its lineages uses.
        next_line: i64,
    },
    Schedule(RunSchedule),
}

/// A lineage that begins with events.
#[derive(Debug)]
pub(super) struct NewLineage {
    /// The lineage, with these events.
    pub line: StoredLineage,
    pub events: EncodedEvents,
    /// The lineage that the run continues with.
    pub current: i64,
    /// The first public line after the events.
    pub next_line: i64,
    /// What becomes of the row from which the run is listed, if it continues with the lineage.
    pub overview: Option<OverviewRow>,
}

impl NewLineage {
    /// Returns a lineage that branches off and begins with records, in a run that continues with `current` if not
    /// with the new one.
    pub(super) fn beginning_with(append: Append<'_>, branch: &NewBranch, current: i64) -> Self {
        let mut line = branch.line.clone();
        let events = EncodedEvents::following(&mut line, append.records);
        Self {
            overview: branch.becomes_current.then(|| OverviewRow::after(append)),
            events,
            current: match branch.becomes_current {
                true => line.id,
                false => current,
            },
            next_line: branch.next_line as i64,
            line,
        }
    }
}

impl RunChange {
    /// Makes it, in a transaction that is open.
    pub(super) fn write(&self, connection: &Connection, run: i64) -> Result<(), StatementError> {
        match self {
            Self::Events {
                events,
                replies,
                overview,
            } => {
                events.insert(connection, run)?;
                write_overview(connection, run, overview.as_ref())?;
                for reply in replies {
                    write_reply(connection, run, reply)?;
                }
                Ok(())
            }
            Self::Branch(new) => {
                write::insert_lineage(connection, run, &new.line)?;
                write::update_run(connection, run, new.current, new.next_line)?;
                write_overview(connection, run, new.overview.as_ref())?;
                new.events.insert(connection, run)
            }
            Self::Blobs(blobs) => write::insert_blobs(connection, run, blobs),
            Self::Definition(definition) => write::write_definition(connection, run, definition),
            Self::Note { name, text } => write::write_note(connection, run, name, text),
            Self::Lineage { id, next_line } => {
                write::update_run(connection, run, *id, *next_line)?;
                overview::write(connection, run, &OverviewRow::unknown())
            }
            Self::Schedule(schedule) => schedule::write_schedule(connection, run, *schedule),
        }
    }

    /// Returns the events that it adds, if it adds any.
    pub(super) fn events(&self) -> Option<&EncodedEvents> {
        match self {
            Self::Events { events, .. } => Some(events),
            Self::Branch(new) => Some(&new.events),
            Self::Blobs(_)
            | Self::Definition(_)
            | Self::Note { .. }
            | Self::Lineage { .. }
            | Self::Schedule(_) => None,
        }
    }

    /// Returns the replies that are stored with it.
    pub(super) fn replies(&self) -> &[MailReply] {
        match self {
            Self::Events { replies, .. } => replies,
            _ => &[],
        }
    }

    /// Returns about how much memory it takes.
    pub(super) fn bytes(&self) -> u64 {
        let events = self.events().map_or(0, |events| {
            events.bytes() + ROW_BYTES * events.count() as u64
        });
        let other: usize = match self {
            Self::Blobs(blobs) => blobs.values().map(|body| body.len()).sum(),
            Self::Definition(definition) => definition.text.len(),
            Self::Note { name, text } => name.len() + text.len(),
            Self::Events { replies, .. } => replies.iter().map(|one| one.reply.body.len()).sum(),
            Self::Branch(_) | Self::Lineage { .. } | Self::Schedule(_) => 0,
        };
        events + other as u64 + ROW_BYTES
    }
}

fn write_overview(
    connection: &Connection,
    run: i64,
    row: Option<&OverviewRow>,
) -> Result<(), StatementError> {
    match row {
        Some(row) => overview::write(connection, run, row),
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
fn retry(
    connection: &Connection,
    patience: Duration,
    mut error: StatementError,
    attempt: impl Fn() -> Result<bool, StatementError>,
) -> Result<bool, StoreError> {
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
pub(super) fn change(
    connection: &Connection,
    right: &AppendRight,
    durability: Durability,
    work: impl Fn(&Connection) -> Result<(), StatementError>,
) -> Result<(), StoreError> {
    let attempt = || match transact(connection, right, durability, &work) {
        Err(error) if error.is_duplicate => Ok(false),
        done => done,
    };
    let is_made = match attempt() {
        Err(error) if error.is_disconnected => retry(connection, right.patience, error, attempt)?,
        done => done?,
    };
    match is_made {
        true => Ok(()),
        false => Err(refusal(connection, right)?),
    }
}

/// Runs `work` once in a transaction, on the conditions of `change`. What is not repeated may add rows.
pub(super) fn change_once(
    connection: &Connection,
    right: &AppendRight,
    durability: Durability,
    work: impl Fn(&Connection) -> Result<(), StatementError>,
) -> Result<(), StoreError> {
    match transact(connection, right, durability, &work)? {
        true => Ok(()),
        false => Err(refusal(connection, right)?),
    }
}

/// Runs `work` in a transaction, if the run is as `right` says. Returns whether it is.
fn transact(
    connection: &Connection,
    right: &AppendRight,
    durability: Durability,
    work: &dyn Fn(&Connection) -> Result<(), StatementError>,
) -> Result<bool, StatementError> {
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
            return Ok(false);
        }
        work(connection)?;
        Ok(true)
    })
}
