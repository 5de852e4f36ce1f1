//! Tells streams which runs have changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_host::storage::{ChangedRun, RunChanges};
use tokio::sync::{broadcast, watch};

/// How many changes are remembered for a stream that is slow.
const MAX_CHANGES: usize = 4096;

/// Tells which runs have changed. Its clones are the same one.
#[derive(Clone, Debug)]
pub struct ChangeHub {
    runs: Arc<Mutex<BTreeMap<i64, watch::Sender<u64>>>>,
    all: broadcast::Sender<ChangedRun>,
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
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, watch::Sender<u64>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what changes whenever the run with a key does.
    pub fn subscribe(&self, run: i64) -> watch::Receiver<u64> {
        let mut runs = self.lock();
        // Nobody waits any more for the others.
        runs.retain(|key, sender| *key == run || sender.receiver_count() > 0);
        runs.entry(run)
            .or_insert_with(|| watch::Sender::new(0))
            .subscribe()
    }

    /// Returns what tells of every change.
    pub fn subscribe_to_all(&self) -> broadcast::Receiver<ChangedRun> {
        self.all.subscribe()
    }

    fn note(&self, changed: ChangedRun) {
        let runs = self.lock();
        match changed {
            ChangedRun::Key(key) => {
                if let Some(sender) = runs.get(&key) {
                    sender.send_modify(|version| *version += 1);
                }
            }
            ChangedRun::Unknown => {
                for sender in runs.values() {
                    sender.send_modify(|version| *version += 1);
                }
            }
        }
        drop(runs);
        // Nobody may be listening.
        let _ = self.all.send(changed);
    }

    /// Passes changes on until there are no more.
    pub async fn pass_on(self, mut changes: RunChanges) {
        while let Some(changed) = changes.next().await {
            self.note(changed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_a_run_hears_of_its_changes() {
        let hub = ChangeHub::default();
        let (mut one, mut two) = (hub.subscribe(1), hub.subscribe(2));
        let mut all = hub.subscribe_to_all();
        hub.note(ChangedRun::Key(1));
        assert!(one.has_changed().unwrap() && !two.has_changed().unwrap());
        one.borrow_and_update();
        hub.note(ChangedRun::Unknown);
        assert!(one.has_changed().unwrap() && two.has_changed().unwrap());
        two.borrow_and_update();
        assert_eq!(all.try_recv().unwrap(), ChangedRun::Key(1));
        assert_eq!(all.try_recv().unwrap(), ChangedRun::Unknown);
    }
}
