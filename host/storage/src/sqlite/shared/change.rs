//! A change that waits to be written.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use strata_base::files::durability::Durability;
use strata_records::error::StoreError;
use tokio::sync::oneshot;

use super::super::lineage::stored_epoch;
use super::super::write_change::LossCheck;

/// The right under which a run is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunRight {
    pub run: i64,
    /// The epoch of the lease.
    pub epoch: i64,
}

/// Under what conditions a change is made, and what it has to survive.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeTerms {
    /// The change is refused if there is a newer lease. `None` for one that concerns no lease.
    pub right: Option<RunRight>,
    pub durability: Durability,
    pub loss_check: LossCheck,
    pub visibility: ChangeVisibility,
}

/// Whether a change ends the revision of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeVisibility {
    /// What was read before it may be outdated.
    Seen,
    /// Nobody reads what it changes, so that everything that was read before it is what the database has.
    Unseen,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeOutcome {
    Made,
    /// There is a newer lease.
    Refused,
}

/// Writes a change within a transaction. It is called again, in another transaction, if another change in
/// the first one failed.
type WriteChange = Box<dyn Fn(&Connection) -> rusqlite::Result<()> + Send>;

/// A change that waits to be written.
pub(super) struct Change {
    pub terms: ChangeTerms,
    write: WriteChange,
    reply: oneshot::Sender<Result<ChangeOutcome, StoreError>>,
}

/// The answer to a change that is written by another thread.
pub(super) struct PendingChange<T> {
    /// The database.
    path: Arc<Path>,
    reply: oneshot::Receiver<Result<ChangeOutcome, StoreError>>,
    result: Arc<Mutex<Option<T>>>,
}

impl Default for ChangeTerms {
    /// Returns the terms of a change that concerns no lease and may be lost with the power.
    fn default() -> Self {
        Self {
            right: None,
            durability: Durability::Process,
            loss_check: LossCheck::None,
            visibility: ChangeVisibility::Seen,
        }
    }
}

impl ChangeTerms {
    /// Returns the terms of a change that concerns no lease and must not be lost.
    pub(super) fn durable() -> Self {
        Self {
            durability: Durability::Full,
            loss_check: LossCheck::Change,
            ..Self::default()
        }
    }
}

impl Change {
    /// Returns a change of the database at a path, and its answer.
    pub(super) fn new<T: Send + 'static>(
        path: Arc<Path>,
        terms: ChangeTerms,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> (Self, PendingChange<T>) {
        let (reply, answer) = oneshot::channel();
        let result = Arc::<Mutex<Option<T>>>::default();
        let pending = PendingChange {
            path,
            reply: answer,
            result: Arc::clone(&result),
        };
        let write = move |conn: &Connection| {
            let written = write(conn)?;
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(written);
            Ok(())
        };
        let change = Self {
            terms,
            write: Box::new(write),
            reply,
        };
        (change, pending)
    }

    /// Makes the change within a transaction, unless there is a newer lease.
    pub(super) fn make(&self, conn: &Connection) -> rusqlite::Result<ChangeOutcome> {
        if let Some(right) = self.terms.right
            && stored_epoch(conn, right.run)? != Some(right.epoch)
        {
            return Ok(ChangeOutcome::Refused);
        }
        (self.write)(conn)?;
        self.terms.loss_check.note(conn)?;
        Ok(ChangeOutcome::Made)
    }

    /// Says what became of it to whoever waits for it.
    pub(super) fn answer(self, outcome: Result<ChangeOutcome, StoreError>) {
        // Nobody may be waiting any more.
        let _ = self.reply.send(outcome);
    }
}

impl<T> PendingChange<T> {
    /// Waits for the change. Returns what it wrote, or `None` if it was refused.
    pub(super) async fn outcome(self) -> Result<Option<T>, StoreError> {
        let Ok(outcome) = self.reply.await else {
            return Err(StoreError::io(&self.path, "write", writer_ended()));
        };
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match outcome? {
            ChangeOutcome::Made => result.take(),
            ChangeOutcome::Refused => None,
        })
    }
}

/// Returns the error for a thread that ended before it was told to.
pub(super) fn writer_ended() -> std::io::Error {
    std::io::Error::other("the thread that writes to it has ended; resume the run")
}
