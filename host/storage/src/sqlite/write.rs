//! Writes rows, each with its checksum. Snapshots are written in `snapshot`. Transactions are up to
//! the callers.

use rusqlite::{Connection, params};
use strata_records::codec;
use strata_records::encoded_events::EncodedEvents;
use strata_records::lineage::{StoredLineage, StoredRun, event_key, key_range};
use strata_records::reader::definition_checksum_input;
use strata_records::snapshot::EncodedSnapshot;

use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;

use super::lineage::SqliteRow;
use super::snapshot::insert_snapshot;
use super::wal_checkpoint::{SYNCHRONOUS, mark_log_started};
use crate::{SavedDefinition, blob, schema};

/// A run that is to be inserted into a database.
pub(super) struct NewRun<'a> {
    /// Its key and its name.
    pub(super) run: (i64, &'a str),
    /// The key of its first lineage.
    pub(super) lineage: i64,
    /// The state that it starts from.
    pub(super) base: &'a Environment,
    pub(super) definition: &'a SavedDefinition,
    pub(super) blobs: &'a Blobs,
}

impl NewRun<'_> {
    /// Inserts it.
    pub(super) fn insert(&self, conn: &Connection) -> rusqlite::Result<()> {
        let (run, name) = self.run;
        StoredLineage {
            id: self.lineage,
            run,
            spent: i64::try_from(self.base.spent.0).unwrap_or(i64::MAX),
            ..StoredLineage::first(&self.base.lineage.name)
        }
        .write(conn)?;
        StoredRun {
            id: run,
            name: name.into(),
            epoch: 0,
            lineage: self.lineage,
            next_line: crate::FIRST_LINE as i64,
        }
        .write(conn)?;
        let (bundle_keys, first) = (key_range(self.lineage), event_key(self.lineage, 0));
        let state = EncodedSnapshot::encode(self.base);
        insert_snapshot(conn, &state, bundle_keys, first, Vec::new())?;
        write_definition(conn, run, self.definition)?;
        blob::insert_blobs(conn, run, self.blobs)
    }
}

/// Fills a new database with its first run, if it has one.
pub(super) fn fill_new_database(
    conn: &Connection,
    run: Option<&NewRun<'_>>,
) -> rusqlite::Result<()> {
    let tx = conn.unchecked_transaction()?;
    schema::create(conn)?;
    if let Some(run) = run {
        run.insert(conn)?;
    }
    conn.execute("UPDATE log SET expected = 1", [])?;
    tx.commit()
}

/// Writes the first frame to the log of a database that was just filled, so that the log exists.
/// Otherwise SQLite would sync the header of the log and the directory before the first durable
/// frame, to make sure that older frames behind it do not count. A log that did not exist has no
/// such frames. Afterwards, SQLite syncs as usual.
pub(super) fn begin_log(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "synchronous", "off")?;
    mark_log_started(conn)?;
    conn.pragma_update(None, "synchronous", SYNCHRONOUS)
}

/// Inserts events.
pub(super) fn insert_events(conn: &Connection, events: &EncodedEvents) -> rusqlite::Result<()> {
    // It is prepared once for all of them: finding it among the statements that were prepared before takes a third of the
    // time of an insertion.
    let mut statement =
        conn.prepare_cached("INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for event in events.iter() {
        let [n, line, lines, time_ms, marks] = event.numbers;
        statement.execute(params![
            n, line, lines, time_ms, marks, event.sum, event.body
        ])?;
    }
    Ok(())
}

pub(super) fn write_definition(
    conn: &Connection,
    run: i64,
    definition: &SavedDefinition,
) -> rusqlite::Result<()> {
    // Paths that are not valid UTF-8 are rare. A team file that is not found again can be given on
    // the command line.
    let (name, base, text) = (
        &definition.name,
        definition.base.to_string_lossy(),
        &definition.text,
    );
    let components = serde_json::json!(definition.components).to_string();
    let sum = codec::checksum(
        &[],
        definition_checksum_input([name, &base, text, &components]).as_bytes(),
    );
    let sql = "INSERT OR REPLACE INTO definition VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    conn.execute(sql, params![run, name, base, text, components, sum])
        .map(drop)
}

pub(super) fn write_note(
    conn: &Connection,
    run: i64,
    name: &str,
    text: &str,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO note VALUES (?1, ?2, ?3)";
    conn.execute(sql, params![run, name, text]).map(drop)
}

/// Records that the events from the key `n` to the position `last` were dropped, and the next step
/// after them.
pub(super) fn insert_gap(conn: &Connection, n: i64, last: i64, step: i64) -> rusqlite::Result<()> {
    let sum = codec::checksum(&[n, last, step], &[]);
    conn.execute(
        "INSERT INTO gap VALUES (?1, ?2, ?3, ?4)",
        params![n, last, step, sum],
    )
    .map(drop)
}
