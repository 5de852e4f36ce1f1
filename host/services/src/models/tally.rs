//! Counts what goes wrong between this process and the providers of models. Nothing depends on it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts by provider, shared by the runs of a process.
#[derive(Debug, Default)]
pub struct ModelTally(Mutex<BTreeMap<&'static str, ProviderCounts>>);

/// What went wrong with a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderCounts {
    /// Requests that a model did not answer, retries included.
    pub errors: u64,
    /// Requests that were sent again after a temporary failure.
    pub retries: u64,
}

impl ModelTally {
    /// Returns the counts of each provider that was asked, by its name in team files.
    pub fn counts(&self) -> BTreeMap<&'static str, ProviderCounts> {
        self.lock().clone()
    }

    /// Adds a request that was answered or not, after so many retries.
    pub(super) fn add(&self, provider: &'static str, is_answered: bool, retries: u64) {
        let mut counts = self.lock();
        let counts = counts.entry(provider).or_default();
        counts.errors += u64::from(!is_answered);
        counts.retries += retries;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, ProviderCounts>> {
        // Numbers have no invariant that a panic could have broken.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
