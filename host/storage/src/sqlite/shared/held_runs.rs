//! Runs that this process, which has a database open, keeps for another process: nobody changes them while that copies them
//! elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use strata_base::clock::now_ms;
use strata_records::error::StoreError;

use super::change::ChangeTerms;
use super::database::{DatabaseHandle, MissingDatabase, SharedDatabase};
use super::delete::delete_leased;
use super::queued_writer::{QueuedWriter, SharedLease};
use super::runs::open_named;
use crate::Lease;
use crate::sqlite_url::SqliteUrl;

/// For how long a run is kept for a process that may have ended.
const HOLD_TIME: Duration = Duration::from_secs(600);

/// The runs that are kept for others, by their keys.
#[derive(Default)]
pub(super) struct HeldRuns(Mutex<BTreeMap<i64, HeldRun>>);

/// A run that is kept for another process. Dropping it gives the run up.
struct HeldRun {
    run: i64,
    lease: SharedLease,
    database: DatabaseHandle,
}

impl Drop for HeldRun {
    fn drop(&mut self) {
        let run = self.run;
        let released = self.database.change(ChangeTerms::default(), move |conn| {
            let sql = "UPDATE submission SET is_taken = 0 WHERE run = ?1";
            conn.execute(sql, [run]).map(drop)
        });
        if let Err(error) = released {
            tracing::debug!("a run that was kept for another process is not given up: {error}");
        }
        self.database.notify_workers();
    }
}

impl HeldRuns {
    /// Keeps the run of a URL, and returns the epoch of its lease. Fails with `StoreError::Locked` if somebody works on it.
    /// Must be called within a tokio runtime.
    pub(super) fn hold(self: &Arc<Self>, url: &SqliteUrl) -> Result<u64, StoreError> {
        let run = open_named(url)?.rows.run;
        let database = SharedDatabase::open(&url.file, MissingDatabase::Fail)?;
        let lease = QueuedWriter::take(database.clone(), run, &url.to_path())?;
        let epoch = lease.epoch().0;
        // A worker that took it is about to take a lease.
        let is_free = database.change(ChangeTerms::durable(), move |conn| take(conn, run))?;
        if is_free != Some(true) {
            return Err(StoreError::Locked {
                path: url.to_path(),
                pid: Some(std::process::id()),
            });
        }
        let kept = HeldRun {
            run,
            lease,
            database,
        };
        self.lock().insert(run, kept);
        let held = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(HOLD_TIME).await;
            drop(held.remove(run, epoch));
        });
        Ok(epoch)
    }

    /// Gives up the run of a URL that is kept under a lease with this epoch.
    pub(super) fn release(&self, url: &SqliteUrl, epoch: u64) -> Result<(), StoreError> {
        let run = open_named(url)?.rows.run;
        drop(self.remove(run, epoch));
        Ok(())
    }

    /// Deletes the run of a URL that is kept under a lease with this epoch. Fails if it is not kept any more.
    pub(super) fn delete(
        &self,
        url: &SqliteUrl,
        epoch: u64,
        by: Option<&str>,
    ) -> Result<(), StoreError> {
        let run = open_named(url)?.rows.run;
        match self.remove(run, epoch) {
            Some(held) => delete_leased(&held.database, url, run, by),
            None => Err(StoreError::Fenced {
                path: url.to_path(),
            }),
        }
    }

    fn remove(&self, run: i64, epoch: u64) -> Option<HeldRun> {
        let mut held = self.lock();
        let is_meant = held.get(&run)?.lease.epoch().0 == epoch;
        is_meant.then(|| held.remove(&run)).flatten()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, HeldRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that a run is taken, so that no worker takes it. Returns whether nobody had taken it.
fn take(conn: &Connection, run: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT is_taken FROM submission WHERE run = ?1";
    let is_taken = conn.query_row(sql, [run], |row| row.get(0)).optional()?;
    let sql = "UPDATE submission SET is_taken = 1, taken_ms = ?2 WHERE run = ?1";
    conn.execute(sql, params![run, now_ms()])?;
    Ok(!is_taken.unwrap_or(false))
}
