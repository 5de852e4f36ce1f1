//! The changes that wait to be written to a database, and when the thread that writes them begins.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_records::error::StoreError;
use strata_records::served::ChangedRun;
use tokio::sync::broadcast;

use super::change::{Change, writer_ended};
use super::failure::repeat;
use crate::revision::RevisionCounter;

/// How long the changes of a batch wait for others. After the number of active runs drops, the next one or
/// two batches wait this long in vain.
const MAX_WAIT: Duration = Duration::from_micros(200);
/// How many changed runs are remembered for somebody who watches and is slow. It then looks at all of them.
const MAX_CHANGES: usize = 4096;

/// The changes that wait, and who may add some.
#[derive(Debug)]
pub(super) struct Queue {
    /// The database.
    path: PathBuf,
    state: Mutex<QueueState>,
    /// Signals that there is a change, that there are as many as are waited for, or that there will be none.
    arrived: Condvar,
    /// Tells which runs have changed.
    changes: broadcast::Sender<ChangedRun>,
    /// Counts the changes of the database.
    revision: RevisionCounter,
}

#[derive(Default)]
struct QueueState {
    changes: Vec<Change>,
    /// How many changes are waited for at the moment; 0 if none are.
    awaited: usize,
    sizes: BatchSizes,
    /// The keys of the runs that this process has a lease of.
    leased: BTreeSet<i64>,
    /// Whether the database is being closed.
    is_closed: bool,
    /// Why nothing can be written any more.
    failure: Option<StoreError>,
}

impl std::fmt::Debug for QueueState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueueState({} changes)", self.changes.len())
    }
}

/// How many changes the last two batches had.
#[derive(Clone, Copy, Debug, Default)]
struct BatchSizes([usize; 2]);

impl BatchSizes {
    /// Returns how many changes the next batch waits for: as many as recent ones had, but at most one of
    /// every second run.
    fn awaited(self, runs: usize) -> usize {
        let [last, before] = self.0;
        (last.saturating_add(before) / 2).min(runs / 2)
    }

    fn note(&mut self, size: usize) {
        self.0 = [size, self.0[0]];
    }
}

/// A run that this process has a lease of, as long as this exists.
#[derive(Debug)]
pub(super) struct LeasedRun {
    queue: Arc<Queue>,
    run: i64,
}

impl Drop for LeasedRun {
    fn drop(&mut self) {
        self.queue.lock().leased.remove(&self.run);
    }
}

impl Queue {
    /// Returns the queue of a database.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            state: Mutex::default(),
            arrived: Condvar::new(),
            changes: broadcast::Sender::new(MAX_CHANGES),
            revision: RevisionCounter::default(),
        }
    }

    /// Returns what tells which runs have changed.
    pub(super) fn changes(&self) -> &broadcast::Sender<ChangedRun> {
        &self.changes
    }

    /// Returns what counts the changes of the database.
    pub(super) fn revision(&self) -> &RevisionCounter {
        &self.revision
    }

    /// Tells those who watch that a run has changed.
    pub(super) fn note_changed(&self, run: i64) {
        // Nobody may be watching.
        let _ = self.changes.send(ChangedRun::Key(run));
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this process takes a lease of a run; returns `None` if it has one.
    pub(super) fn lease(self: &Arc<Self>, run: i64) -> Option<LeasedRun> {
        let is_new = self.lock().leased.insert(run);
        is_new.then(|| LeasedRun {
            queue: Arc::clone(self),
            run,
        })
    }

    /// Returns how many runs this process has leases of.
    pub(super) fn leases(&self) -> usize {
        self.lock().leased.len()
    }

    /// Adds a change. If nothing can be written any more, it is answered at once.
    pub(super) fn push(&self, change: Change) {
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            let failure = repeat(failure, &self.path);
            drop(state);
            return change.answer(Err(failure));
        }
        state.changes.push(change);
        let count = state.changes.len();
        if count == 1 || count == state.awaited {
            self.arrived.notify_one();
        }
    }

    /// Waits for the next changes to write. Returns `None` once the database is being closed.
    pub(super) fn next_batch(&self) -> Option<Vec<Change>> {
        let is_empty = |state: &mut QueueState| state.changes.is_empty() && !state.is_closed;
        let waited = self.arrived.wait_while(self.lock(), is_empty);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.changes.is_empty() {
            return None;
        }
        state.awaited = state.sizes.awaited(state.leased.len());
        let is_short = |state: &mut QueueState| state.changes.len() < state.awaited;
        if is_short(&mut state) {
            let waited = self.arrived.wait_timeout_while(state, MAX_WAIT, is_short);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.awaited = 0;
        let batch = std::mem::take(&mut state.changes);
        state.sizes.note(batch.len());
        Some(batch)
    }

    /// Has `next_batch` return `None` once there is no change any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Notes that nothing can be written any more.
    pub(super) fn fail(&self, failure: StoreError) {
        self.lock().failure.get_or_insert(failure);
    }

    /// Returns why nothing can be written any more, if that is so.
    pub(super) fn failure(&self) -> Option<StoreError> {
        let state = self.lock();
        let failure = state.failure.as_ref()?;
        Some(repeat(failure, &self.path))
    }
}

/// Held by the thread that writes: however it ends, nobody waits for it afterwards.
pub(super) struct WriterEnd(pub Arc<Queue>);

impl Drop for WriterEnd {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        let failure = StoreError::write_failed(&self.0.path, writer_ended());
        state.failure.get_or_insert(failure);
        // Dropping them answers those who wait for them.
        let left = std::mem::take(&mut state.changes);
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_for_as_many_changes_as_recent_ones_had_and_for_half_of_the_runs_at_most() {
        let check = |sizes: &[usize], runs: usize, expected: usize| {
            let mut batches = BatchSizes::default();
            for size in sizes {
                batches.note(*size);
            }
            assert_eq!(batches.awaited(runs), expected, "{sizes:?} of {runs}");
        };
        check(&[], 32, 0);
        check(&[5], 32, 2);
        check(&[1, 9, 11], 32, 10);
        check(&[30, 30], 32, 16);
        check(&[30, 30], 1, 0);
        check(&[1, 1], 1, 0);
    }
}
