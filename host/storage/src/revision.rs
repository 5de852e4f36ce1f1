//! Tells whether a database has changed. What was read of it at a revision is what it has, for as long as that revision is
//! the current one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The count that a database has after it was closed. It is no revision.
const CLOSED: u64 = u64::MAX;

/// Counts the beginnings and the ends of changes, one of which is made at a time. Its clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct RevisionCounter(Arc<AtomicU64>);

impl RevisionCounter {
    /// Notes that the database changes until what is returned is dropped.
    pub(crate) fn begin_change(&self) -> OngoingChange {
        self.0.fetch_add(1, Ordering::SeqCst);
        OngoingChange(self.clone())
    }

    /// Notes that whatever changes the database from now on is not counted here.
    pub(crate) fn close(&self) {
        self.0.store(CLOSED, Ordering::SeqCst);
    }
}

/// A change that is being made.
#[derive(Debug)]
pub(crate) struct OngoingChange(RevisionCounter);

impl Drop for OngoingChange {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The revisions of a database that only this process changes.
#[derive(Clone, Debug)]
pub struct DatabaseRevisions(RevisionCounter);

impl DatabaseRevisions {
    /// Returns those that are counted here.
    pub(crate) fn new(counter: RevisionCounter) -> Self {
        Self(counter)
    }

    /// Returns the revision of the database, which was never that of another content. Returns `None` while the database
    /// changes, since others may or may not have read what it becomes, and after it was closed.
    pub fn current(&self) -> Option<u64> {
        let count = self.0.0.load(Ordering::SeqCst);
        count.is_multiple_of(2).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_does_not_come_back_and_there_is_none_during_a_change() {
        let counter = RevisionCounter::default();
        let revisions = DatabaseRevisions::new(counter.clone());
        let first = revisions.current();
        assert!(first.is_some());
        let change = counter.begin_change();
        assert_eq!(revisions.current(), None);
        drop(change);
        let second = revisions.current();
        assert!(second > first, "{first:?} {second:?}");
        counter.close();
        assert_eq!(revisions.current(), None);
    }
}
