//! The thread that writes a database: all changes that are queued in one transaction, with one sync.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use strata_base::files::durability::Durability;
use strata_records::error::StoreError;
use strata_records::lineage::StoredLineage;

use super::super::error::{failed_sync, sqlite_error};
use super::super::lineage::update_lineage;
use super::super::rows::lineages_behind;
use super::super::write_connection::{TransactionError, WriteConnection};
use super::change::{Change, ChangeOutcome, ChangeVisibility};
use super::failure::repeat;
use super::queue::{Queue, WriterEnd};

/// After how many batches the writer looks whether the log is long.
const BATCHES_BETWEEN_LOOKS: u32 = 16;

/// What writes a database.
struct Writer {
    connection: WriteConnection,
    queue: Arc<Queue>,
    /// The runs whose rows of lineages may lag behind.
    changed_runs: BTreeSet<i64>,
    /// How many batches were written.
    batches: u32,
}

/// Starts the thread that writes what is queued, until the queue is closed. Then it closes the database.
pub(super) fn start_writer(
    connection: WriteConnection,
    queue: Arc<Queue>,
) -> std::io::Result<JoinHandle<()>> {
    let writer = Writer {
        connection,
        queue,
        changed_runs: BTreeSet::new(),
        batches: 0,
    };
    thread::Builder::new()
        .name("strata-runs".into())
        .spawn(move || writer.run())
}

impl Writer {
    fn run(mut self) {
        let _end = WriterEnd(Arc::clone(&self.queue));
        while let Some(batch) = self.queue.next_batch() {
            self.write(batch);
        }
        match self.queue.failure() {
            // Closing the database moves the log into it.
            None => self.write_rows(),
            // What the disk has of the log is found out by whoever opens the database next.
            Some(_) => self.connection.keep_log(),
        }
    }

    /// Writes a batch, and answers those who wait for it.
    fn write(&mut self, batch: Vec<Change>) {
        let mut outcomes = self.commit(&batch);
        let has_full = outcomes.iter().zip(&batch).any(|(outcome, change)| {
            matches!(outcome, Ok(ChangeOutcome::Made))
                && change.terms.durability == Durability::Full
        });
        if has_full && let Err(error) = self.connection.sync_log() {
            // What the disk has is not known any more, so nobody may rely on it.
            let failure = StoreError::write_failed(self.connection.path(), error);
            outcomes = self.fail_all(&batch, &failure);
            self.queue.fail(failure);
        }
        let mut changed = BTreeSet::new();
        for (change, outcome) in batch.into_iter().zip(outcomes) {
            if let (Ok(ChangeOutcome::Made), Some(right)) = (&outcome, change.terms.right) {
                changed.insert(right.run);
            }
            change.answer(outcome);
        }
        for run in changed {
            self.queue.note_changed(run);
        }
        self.batches = self.batches.wrapping_add(1);
        if self.batches.is_multiple_of(BATCHES_BETWEEN_LOOKS) {
            self.move_log_if_due();
        }
    }

    /// Writes changes in one transaction. If one of them fails, each gets a transaction of its own.
    fn commit(&mut self, batch: &[Change]) -> Vec<Result<ChangeOutcome, StoreError>> {
        let path = self.connection.path();
        let ready = match self.queue.failure() {
            Some(failure) => Err(failure),
            None => self.connection.check_directory(),
        };
        let ready = ready.and_then(|()| self.connection.ensure_log_started(None));
        if let Err(error) = ready {
            let outcomes = self.fail_all(batch, &error);
            if matches!(error, StoreError::WriteFailed { .. }) {
                self.queue.fail(error);
            }
            return outcomes;
        }
        let is_seen = |change: &Change| change.terms.visibility == ChangeVisibility::Seen;
        let changing = batch
            .iter()
            .any(is_seen)
            .then(|| self.queue.revision().begin_change());
        let result = self.connection.transact(|conn| {
            let outcomes: rusqlite::Result<Vec<ChangeOutcome>> =
                batch.iter().map(|change| change.make(conn)).collect();
            outcomes.map(Some)
        });
        drop(changing);
        match result {
            Ok(outcomes) => {
                let outcomes = outcomes.unwrap_or_default();
                self.note_written(batch, &outcomes);
                outcomes.into_iter().map(Ok).collect()
            }
            Err(TransactionError::Work(_)) if batch.len() > 1 => {
                let mut outcomes = Vec::with_capacity(batch.len());
                for change in batch.chunks(1) {
                    outcomes.append(&mut self.commit(change));
                }
                outcomes
            }
            Err(TransactionError::Begin(source) | TransactionError::Work(source)) => {
                self.fail_all(batch, &sqlite_error(path, "write", source))
            }
            Err(TransactionError::Commit(source)) => {
                let failure = StoreError::write_failed(path, sqlite_error(path, "write", source));
                let outcomes = self.fail_all(batch, &failure);
                self.queue.fail(failure);
                outcomes
            }
        }
    }

    /// Returns the same failure for all changes of a batch.
    fn fail_all(
        &self,
        batch: &[Change],
        failure: &StoreError,
    ) -> Vec<Result<ChangeOutcome, StoreError>> {
        let again = |_| Err(repeat(failure, self.connection.path()));
        batch.iter().map(again).collect()
    }

    /// Notes what was committed.
    fn note_written(&mut self, batch: &[Change], outcomes: &[ChangeOutcome]) {
        let mut counted = 0;
        for (change, outcome) in batch.iter().zip(outcomes) {
            if *outcome == ChangeOutcome::Refused {
                continue;
            }
            counted += change.terms.loss_check.changes();
            self.changed_runs
                .extend(change.terms.right.map(|right| right.run));
        }
        self.connection.progress.count_changes(counted);
        self.connection.progress.flush();
    }

    /// Moves the log into the database if it is long. The runs wait meanwhile.
    fn move_log_if_due(&mut self) {
        let is_due = self.connection.is_move_due();
        if is_due.as_ref().is_ok_and(|is_due| !is_due) {
            return;
        }
        self.write_rows();
        if let Err(error) = is_due.and_then(|_| self.connection.move_log()) {
            // Otherwise, what was committed is safe in the log.
            if let Some(failure) = failed_sync(self.connection.path(), &error) {
                self.queue.fail(failure);
            }
            tracing::warn!("the log stays as long as it is: {error}");
        }
    }

    /// Writes the rows of lineages that lag behind.
    fn write_rows(&mut self) {
        let mut behind: Vec<StoredLineage> = Vec::new();
        for run in std::mem::take(&mut self.changed_runs) {
            match lineages_behind(&self.connection.reader, run) {
                Ok(mut lines) => behind.append(&mut lines),
                // The damage of one run is of no consequence for the others.
                Err(error) => tracing::warn!("the row of a lineage stays behind: {error}"),
            }
        }
        if behind.is_empty() {
            return;
        }
        let changing = self.queue.revision().begin_change();
        let written = self.connection.transact(|conn| {
            behind
                .iter()
                .try_for_each(|line| update_lineage(conn, line))?;
            Ok(Some(()))
        });
        drop(changing);
        if let Err(error) = written {
            let error = error.into_source();
            tracing::warn!("the rows of lineages stay behind: {error}");
            self.changed_runs.extend(behind.iter().map(|line| line.run));
        }
    }
}
