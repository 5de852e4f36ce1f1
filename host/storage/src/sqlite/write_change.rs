//! Carries the changes of a run out in SQLite. Transactions, and the check that the lease is the newest, are up to the
//! callers.

use rusqlite::Connection;
use strata_records::lineage::{KeyRange, MAX_LINEAGES, StoredLineage, StoredRun};
use strata_records::overview::OverviewChange;
use strata_records::run_change::{LineageSwitch, NewEvents, NewLineage, RunChange, WrittenChange};
use strata_records::run_writer::ShownState;

use super::blob::insert_blobs;
use super::lineage::SqliteRow;
use super::lineage::next_lineage_id;
use super::lineage::update_lineage;
use super::prune::carry_out;
use super::shared::end_note::write_end_note;
use super::shared::submission_row::{write_schedule, write_shown};
use super::snapshot::{delete_old_snapshots, insert_snapshot_rows};
use super::write::{insert_events, write_definition, write_note};

/// A run that is changed under a lease.
#[derive(Debug)]
pub(super) struct RunUnderLease {
    /// The run, as it was when the lease was taken, with the epoch of the lease.
    pub run: StoredRun,
    /// The range in which the keys of its bundles are.
    pub bundle_keys: KeyRange,
    /// For whom it is kept what a list shows of it.
    pub shown: ShownState,
}

/// How a change is counted, so that its loss is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossCheck {
    /// It may be lost with the power.
    None,
    /// It appends so many events.
    Events(usize),
    /// It is no event, and must not be lost.
    Change,
}

impl LossCheck {
    /// Returns how a change of a run is counted.
    pub(super) fn of(change: &RunChange) -> Self {
        match change {
            RunChange::Events(new) => Self::Events(new.events.count()),
            RunChange::Branch(new) => Self::Events(new.events.count()),
            RunChange::Definition(_) | RunChange::Switch(_) | RunChange::Schedule(_) => {
                Self::Change
            }
            RunChange::Snapshot(_)
            | RunChange::EarlierState(_)
            | RunChange::Row(_)
            | RunChange::Prune(_)
            | RunChange::Blobs(_)
            | RunChange::Note { .. } => Self::None,
        }
    }

    /// Returns as how many changes it counts.
    pub(super) fn changes(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Events(events) => events as u64,
            Self::Change => 1,
        }
    }

    /// Counts it in the database, in the transaction that makes the change. Events count by themselves.
    pub(super) fn note(self, conn: &Connection) -> rusqlite::Result<()> {
        if self == Self::Change {
            conn.execute("UPDATE log SET changes = changes + 1", [])?;
        }
        Ok(())
    }
}

/// Returns about how many bytes are stored of a run.
pub(super) type CountBytes<'a> = dyn Fn(&Connection) -> rusqlite::Result<u64> + 'a;

/// Carries a change out, in a transaction that is open.
pub(super) fn write_change(
    conn: &Connection,
    changed: &RunUnderLease,
    change: &RunChange,
    stored_bytes: &CountBytes<'_>,
) -> rusqlite::Result<WrittenChange> {
    let run = changed.run.id;
    let mut written = WrittenChange::default();
    match change {
        RunChange::Events(new) => append(conn, changed, new)?,
        RunChange::Branch(new) => written.lineage = Some(insert_branch(conn, changed, new)?),
        RunChange::Snapshot(new) => {
            // They make room for the new one.
            delete_old_snapshots(conn, new.rows.n, stored_bytes(conn)?)?;
            update_lineage(conn, &new.line)?;
            insert_snapshot_rows(conn, &new.rows)?;
        }
        RunChange::EarlierState(rows) => insert_snapshot_rows(conn, rows)?,
        RunChange::Row(line) => update_lineage(conn, line)?,
        RunChange::Prune(plan) => {
            written.dropped = carry_out(conn, run, changed.bundle_keys, plan)?;
        }
        RunChange::Blobs(blobs) => insert_blobs(conn, run, blobs)?,
        RunChange::Definition(definition) => write_definition(conn, run, definition)?,
        RunChange::Note { name, text } => write_note(conn, run, name, text)?,
        RunChange::Switch(switch) => switch_lineage(conn, changed, switch)?,
        RunChange::Schedule(schedule) => write_schedule(conn, run, *schedule)?,
    }
    Ok(written)
}

fn append(conn: &Connection, changed: &RunUnderLease, new: &NewEvents) -> rusqlite::Result<()> {
    insert_events(conn, &new.events)?;
    changed.write_shown(conn, new.shown.as_ref(), new.line.last_key())?;
    if new.writes_row {
        update_lineage(conn, &new.line)?;
    }
    Ok(())
}

/// Inserts a lineage with the events with which it begins, and returns its key.
fn insert_branch(
    conn: &Connection,
    changed: &RunUnderLease,
    new: &NewLineage,
) -> rusqlite::Result<i64> {
    update_if_behind(conn, new.behind.as_ref())?;
    let id = new_lineage_id(conn)?;
    let line = if id == new.line.id {
        insert_events(conn, &new.events)?;
        new.line.clone()
    } else {
        // Another run has begun a lineage since the key was chosen.
        let events = new.events.moved_to(id);
        insert_events(conn, &events)?;
        StoredLineage {
            id,
            last_checksum: events.last().map_or(0, |last| last.sum),
            ..new.line.clone()
        }
    };
    line.write(conn)?;
    changed.write_shown(conn, new.shown.as_ref(), line.last_key())?;
    changed.continue_with(conn, new.current(id), new.next_line)?;
    Ok(id)
}

fn switch_lineage(
    conn: &Connection,
    changed: &RunUnderLease,
    switch: &LineageSwitch,
) -> rusqlite::Result<()> {
    update_if_behind(conn, switch.behind.as_ref())?;
    if changed.shown == ShownState::Always {
        // What is listed of the run is that of the lineage before.
        write_shown(conn, changed.run.id, &OverviewChange::unknown())?;
    }
    changed.continue_with(conn, switch.lineage, switch.next_line)
}

fn update_if_behind(conn: &Connection, row: Option<&StoredLineage>) -> rusqlite::Result<()> {
    match row {
        Some(row) => update_lineage(conn, row),
        None => Ok(()),
    }
}

/// Returns the key of a new lineage.
pub(super) fn new_lineage_id(conn: &Connection) -> rusqlite::Result<i64> {
    let id = next_lineage_id(conn)?;
    if id < MAX_LINEAGES {
        Ok(id)
    } else {
        Err(rusqlite::Error::IntegralValueOutOfRange(0, id))
    }
}

impl RunUnderLease {
    /// Writes what a list shows of the run after the event with the key `last`, if that changes.
    fn write_shown(
        &self,
        conn: &Connection,
        change: Option<&OverviewChange>,
        last: i64,
    ) -> rusqlite::Result<()> {
        match (change, self.shown) {
            (None, _) | (_, ShownState::Never) => Ok(()),
            (Some(change), ShownState::AtEnd) => write_end_note(conn, self.run.id, change, last),
            (Some(change), ShownState::Always) => write_shown(conn, self.run.id, change),
        }
    }

    /// Notes which lineage the run continues with, and its first unused public line.
    fn continue_with(
        &self,
        conn: &Connection,
        lineage: i64,
        next_line: i64,
    ) -> rusqlite::Result<()> {
        StoredRun {
            lineage,
            next_line,
            ..self.run.clone()
        }
        .write(conn)
    }
}
