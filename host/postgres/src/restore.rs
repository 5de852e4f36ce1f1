//! Brings a database that went back to an earlier state up to the newest state of a run that this process
//! owns: it happens when a standby takes the place of the primary without having its last commits, or when the
//! server's machine fails before it has stored what it did not have to keep.

use std::cell::Cell;
use std::collections::BTreeMap;

use strata_base::files::durability::Durability;
use strata_records::encoded_events::EncodedEvents;
use strata_records::error::StoreError;
use strata_records::run_change::RunChange;
use tokio_postgres::types::Type;

use super::administer::read_settings;
use super::append::AppendRight;
use super::change::{RunKeys, change, write_change};
use super::connect::StatementError;
use super::connection::Connection;
use super::recent::ChangeHistory;

/// Makes the changes of a lease again that the database lost. Returns whether it has all of them now, so that what
/// was refused without them can be repeated. What was stored besides them may be lost.
///
/// Fails if the run or the database was taken from this process meanwhile. Then it may not be brought up to anything:
/// a database that was restored from a backup has another `incarnation`.
pub(super) fn restore_changes(
    connection: &Connection,
    right: &AppendRight,
    changed: RunKeys,
    incarnation: &str,
    history: &ChangeHistory,
) -> Result<bool, StoreError> {
    let right = AppendRight {
        // Which events there are is looked at here.
        before: None,
        ..right.clone()
    };
    let written: Cell<Option<&[RunChange]>> = Cell::new(None);
    change(connection, &right, Durability::Full, |connection| {
        require_same_incarnation(connection, incarnation)?;
        let stored = stored_ends(connection, right.run, history)?;
        let missing = history.missing(&stored);
        for change in missing.unwrap_or_default() {
            // No state is stored again.
            write_change(connection, changed, change, 0)?;
        }
        written.set(missing);
        Ok(())
    })?;
    let Some(written) = written.get() else {
        return Ok(false);
    };
    let events = written.iter().filter_map(RunChange::events);
    let events: usize = events.map(EncodedEvents::count).sum();
    if events > 0 {
        tracing::warn!(
            "the server of `{}` went back to an earlier state, which lacked the newest events of the run: {events} \
             were stored again",
            connection.path().display()
        );
    }
    Ok(true)
}

/// Fails if the database was restored from a backup.
fn require_same_incarnation(
    connection: &Connection,
    incarnation: &str,
) -> Result<(), StatementError> {
    if read_settings(connection)?.incarnation != incarnation {
        let path = connection.path().into();
        return Err(StoreError::Restored { path }.into());
    }
    Ok(())
}

/// Returns which of the events at the ends of changes are stored, by key, with their checksums.
fn stored_ends(
    connection: &Connection,
    run: i64,
    history: &ChangeHistory,
) -> Result<BTreeMap<i64, i64>, StatementError> {
    let keys: Vec<i64> = history.ends().iter().map(|event| event.key).collect();
    let sql = "SELECT n, sum FROM strata.event WHERE run = $1 AND n = ANY($2)";
    let arguments = [(&run as _, Type::INT8), (&keys as _, Type::INT8_ARRAY)];
    let rows = connection.query(sql, &arguments)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
