//! Writes the changes of one run in a database that holds many: another thread writes those of all runs. What is read of
//! the run is read by a connection of the lease's own.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use strata_records::caps::RunCaps;
use strata_records::codec::DecodeError;
use strata_records::error::StoreError;
use strata_records::lineage::{KeyRange, StoredLineage, StoredRun, key_range};
use strata_records::rows::RunRows;
use strata_records::run_change::RunChange;
use strata_records::run_writer::{RunWriter, ShownState, Writing};
use strata_records::stored_lease::StoredLease;
use strata_records::work::ClaimedRun;

use super::super::lineage::SqliteRow;
use super::super::rows::{SqliteReader, SqliteRows};
use super::super::write_change::{LossCheck, RunUnderLease, write_change};
use super::cap_accounts::{caps_of, scope_of_run};
use super::change::{ChangeTerms, RunRight};
use super::database::DatabaseHandle;
use super::owner_note::{insert_owner_note, remove_owner_note};
use super::queue::LeasedRun;
use crate::schema::has_queue_tables;
use crate::{Durability, Epoch};

/// A lease of a run in a database that holds many.
pub(crate) type SharedLease = StoredLease<QueuedWriter>;

/// Writes the changes of a run in a database that holds many.
#[derive(Debug)]
pub(crate) struct QueuedWriter {
    reader: SqliteReader,
    changed: Arc<RunUnderLease>,
    /// The URL of the run, for messages.
    path: Arc<Path>,
    /// About how many bytes are stored of the run. They are counted when that is first needed.
    stored_bytes: Cell<Option<u64>>,
    /// The caps above the run.
    caps: RunCaps,
    _leased: LeasedRun,
    /// Dropped last: the database is closed with the last one.
    database: DatabaseHandle,
}

impl QueuedWriter {
    /// Takes a lease of the run with this key, which costs no more than its caps allow. `path` is its URL.
    pub(super) fn take(
        database: DatabaseHandle,
        run: i64,
        path: &Path,
    ) -> Result<SharedLease, StoreError> {
        let mut writer = Self::claim(database, run, path)?;
        let rows = &writer.reader.rows;
        let scope = scope_of_run(&rows.conn, run).map_err(|e| rows.error("read", e))?;
        writer.caps = caps_of(&writer.database).join(scope);
        SharedLease::new(writer)
    }

    /// Takes a lease of a run that the worker of this process took.
    pub(super) fn take_claimed(
        database: DatabaseHandle,
        run: &ClaimedRun,
        path: &Path,
    ) -> Result<SharedLease, StoreError> {
        let mut writer = Self::claim(database, run.key, path)?;
        writer.caps = run.caps.join(run.scope.clone());
        SharedLease::new(writer)
    }

    /// Claims the run with this key.
    fn claim(database: DatabaseHandle, run: i64, path: &Path) -> Result<Self, StoreError> {
        let Some(leased) = database.lease_run(run) else {
            return Err(StoreError::Locked {
                path: path.into(),
                pid: Some(std::process::id()),
            });
        };
        let claimed = database.change(ChangeTerms::default(), move |conn| claim(conn, run))?;
        let rows = SqliteRows::open_beside_writer(database.path().to_path_buf(), run)?;
        let reader = SqliteReader::from_rows(rows);
        let run = match claimed {
            Some(Ok(run)) => run,
            Some(Err(damage)) => return Err(reader.rows.decode_error("a run", damage)),
            None => return Err(StoreError::Fenced { path: path.into() }),
        };
        let is_submitted = is_submitted(&reader.rows.conn, run.id);
        let shown = if is_submitted.map_err(|e| reader.rows.error("read", e))? {
            ShownState::Always
        } else {
            ShownState::AtEnd
        };
        Ok(Self {
            changed: Arc::new(RunUnderLease {
                run,
                bundle_keys: key_range(reader.rows.first_lineage()?),
                shown,
            }),
            reader,
            path: path.into(),
            stored_bytes: Cell::new(None),
            caps: RunCaps::default(),
            _leased: leased,
            database,
        })
    }

    /// Gives the run another name. Nothing else may be changed afterwards.
    pub(super) fn rename(&self, name: &str) -> Result<(), StoreError> {
        let renamed = StoredRun {
            name: name.into(),
            ..self.changed.run.clone()
        };
        let terms = ChangeTerms {
            right: Some(self.right()),
            ..ChangeTerms::durable()
        };
        let changed = self
            .database
            .change(terms, move |conn| renamed.write(conn))?;
        changed.ok_or_else(|| StoreError::Fenced {
            path: self.path.to_path_buf(),
        })
    }

    fn right(&self) -> RunRight {
        RunRight {
            run: self.changed.run.id,
            epoch: self.changed.run.epoch,
        }
    }

    /// Returns about how many bytes are stored of the run before a change, if that matters, and counts what the change
    /// adds.
    fn count_bytes(&self, change: &RunChange) -> Result<u64, StoreError> {
        let before = match (self.stored_bytes.get(), change) {
            (None, RunChange::Snapshot(_)) => Some(self.reader.rows.stored_bytes()?),
            (counted, _) => counted,
        };
        self.stored_bytes.set(match change {
            RunChange::Prune(_) => None,
            change => before.map(|bytes| bytes + change.added_bytes()),
        });
        Ok(before.unwrap_or_default())
    }
}

impl RunWriter for QueuedWriter {
    type Rows = SqliteRows;

    fn reader(&self) -> &SqliteReader {
        &self.reader
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.changed.run.epoch as u64)
    }

    fn bundle_keys(&self) -> KeyRange {
        self.changed.bundle_keys
    }

    fn begin(
        &self,
        _: &StoredLineage,
        change: RunChange,
        durability: Durability,
    ) -> Result<Writing, StoreError> {
        let stored_bytes = self.count_bytes(&change)?;
        let terms = ChangeTerms {
            right: Some(self.right()),
            durability,
            loss_check: LossCheck::of(&change),
            ..ChangeTerms::default()
        };
        let changed = Arc::clone(&self.changed);
        let pending = self.database.begin(terms, move |conn| {
            write_change(conn, &changed, &change, &|_| Ok(stored_bytes))
        });
        let path = Arc::clone(&self.path);
        Ok(Writing::Pending(Box::pin(async move {
            let written = pending.outcome().await?;
            written.ok_or_else(|| StoreError::Fenced {
                path: path.to_path_buf(),
            })
        })))
    }

    fn shown(&self) -> ShownState {
        self.changed.shown
    }

    fn caps(&self) -> RunCaps {
        self.caps.clone()
    }

    /// The file stays as large as it is: what was freed is used for what all runs store next.
    fn measure(&self) -> Result<u64, StoreError> {
        self.reader.rows.stored_bytes()
    }
}

impl Drop for QueuedWriter {
    fn drop(&mut self) {
        self.caps.leave();
        let run = self.changed.run.id;
        let terms = ChangeTerms {
            right: Some(self.right()),
            ..ChangeTerms::default()
        };
        let given_up = self
            .database
            .change(terms, move |conn| remove_owner_note(conn, run));
        if let Err(error) = given_up {
            tracing::debug!("the note of who owns the run stays: {error}");
        }
    }
}

/// Whether a run was submitted.
fn is_submitted(conn: &Connection, run: i64) -> rusqlite::Result<bool> {
    if !has_queue_tables(conn)? {
        return Ok(false);
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM submission WHERE run = ?1)";
    conn.query_row(sql, [run], |row| row.get(0))
}

/// Raises the epoch of a run, and returns the run.
fn claim(conn: &Connection, run: i64) -> rusqlite::Result<Result<StoredRun, DecodeError>> {
    let sql = "SELECT * FROM run WHERE id = ?1";
    let stored = conn.query_row(sql, [run], StoredRun::from_row)?;
    let mut claimed = match stored {
        Ok(claimed) => claimed,
        Err(damage) => return Ok(Err(damage)),
    };
    claimed.epoch += 1;
    claimed.write(conn)?;
    insert_owner_note(conn, run, "")?;
    Ok(Ok(claimed))
}
