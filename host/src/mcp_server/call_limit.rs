//! How many tool calls are carried out at once: of one client, and of all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Principal;

/// How many tool calls of one client, and of all, are carried out at the same time. Each of them has a thread; further
/// ones are refused with a result that says so.
pub(super) const MAX_CALLS: usize = 64;
const MAX_ALL_CALLS: usize = 256;

/// Counts the calls that are carried out. Its clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct CallLimit(Arc<Mutex<BTreeMap<String, usize>>>);

/// Counts as one call until it is dropped.
#[derive(Debug)]
pub(super) struct CallPermit {
    limit: CallLimit,
    client: String,
}

impl CallLimit {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call of a client. Returns `None` if too many are carried out.
    pub(super) fn begin(&self, client: &Principal) -> Option<CallPermit> {
        let mut counts = self.lock();
        let own = counts.get(&client.0).copied().unwrap_or(0);
        if own >= MAX_CALLS || counts.values().sum::<usize>() >= MAX_ALL_CALLS {
            return None;
        }
        counts.insert(client.0.clone(), own + 1);
        Some(CallPermit {
            limit: self.clone(),
            client: client.0.clone(),
        })
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut counts = self.limit.lock();
        let Some(count) = counts.get_mut(&self.client) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_use_up_the_calls_of_others() {
        let limit = CallLimit::default();
        let client = |n: usize| Principal::of_token(&n.to_string());
        let begin = |n: usize| limit.begin(&client(n));
        let mut calls: Vec<_> = (0..MAX_CALLS).map(|_| begin(0).expect("a call")).collect();
        assert!(begin(0).is_none());
        assert!(begin(1).is_some());
        calls.pop();
        assert!(begin(0).is_some());
        for n in 1..4 {
            calls.extend((0..MAX_CALLS).filter_map(|_| begin(n)));
        }
        calls.extend(begin(0));
        assert!(begin(5).is_none(), "all are used");
        drop(calls);
        assert!(begin(5).is_some());
        assert!(limit.lock().is_empty());
    }
}
