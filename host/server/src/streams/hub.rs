//! Tells streams which runs have changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_host::storage::{ChangedRun, RunChanges};
use tokio::sync::{broadcast, watch};

use crate::databases::RunKey;

/// How many changes are remembered for a stream that is slow.
const MAX_CHANGES: usize = 4096;

/// What is known of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotedChange {
    /// This run has changed.
    Of(RunKey),
    /// More has changed than is known.
    Unknown,
}

/// Tells which runs have changed. Its clones are the same one.
#[derive(Clone, Debug)]
pub struct ChangeHub {
    runs: Arc<Mutex<BTreeMap<RunKey, watch::Sender<u64>>>>,
    all: broadcast::Sender<NotedChange>,
}

impl Default for ChangeHub {
    fn default() -> Self {
        Self {
            runs: Arc::default(),
            all: broadcast::Sender::new(MAX_CHANGES),
        }
    }
}

impl ChangeHub {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunKey, watch::Sender<u64>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what changes whenever the run with a key does.
    pub fn subscribe(&self, run: RunKey) -> watch::Receiver<u64> {
        let mut runs = self.lock();
        // Nobody waits any more for the others.
        runs.retain(|key, sender| *key == run || sender.receiver_count() > 0);
        runs.entry(run)
            .or_insert_with(|| watch::Sender::new(0))
            .subscribe()
    }

    /// Returns what tells of every change.
    pub fn subscribe_to_all(&self) -> broadcast::Receiver<NotedChange> {
        self.all.subscribe()
    }

    fn note(&self, changed: NotedChange) {
        let runs = self.lock();
        match changed {
            NotedChange::Of(key) => {
                if let Some(sender) = runs.get(&key) {
                    sender.send_modify(|version| *version += 1);
                }
            }
            NotedChange::Unknown => {
                for sender in runs.values() {
                    sender.send_modify(|version| *version += 1);
                }
            }
        }
        drop(runs);
        // Nobody may be listening.
        let _ = self.all.send(changed);
    }

    /// Passes the changes of a database on, given its place among all of them, until there are no more.
    pub async fn pass_on(self, database: usize, mut changes: RunChanges) {
        while let Some(changed) = changes.next().await {
            self.note(match changed {
                ChangedRun::Key(key) => NotedChange::Of(RunKey { database, key }),
                ChangedRun::Unknown => NotedChange::Unknown,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_a_run_hears_of_its_changes() {
        let hub = ChangeHub::default();
        // A key is one of its database.
        let [first, second] = [0, 1].map(|database| RunKey { database, key: 1 });
        let (mut one, mut two) = (hub.subscribe(first), hub.subscribe(second));
        let mut all = hub.subscribe_to_all();
        hub.note(NotedChange::Of(first));
        assert!(one.has_changed().unwrap() && !two.has_changed().unwrap());
        one.borrow_and_update();
        hub.note(NotedChange::Unknown);
        assert!(one.has_changed().unwrap() && two.has_changed().unwrap());
        two.borrow_and_update();
        assert_eq!(all.try_recv().unwrap(), NotedChange::Of(first));
        assert_eq!(all.try_recv().unwrap(), NotedChange::Unknown);
    }
}
