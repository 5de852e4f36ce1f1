//! Requests that change the same run, which are carried out one after another.
//!
//! Whoever changes a run that rests owns it for a moment. Without an order, of many requests about one run some would
//! find it owned by another one each time that they look.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::problem::Problem;

/// How long a request waits for those before it.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The runs that requests are about to change.
#[derive(Default)]
pub struct RunTurns {
    by_run: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl RunTurns {
    /// Waits until the requests that came before have changed the run. It is the turn of others when what is returned is
    /// dropped. Fails if that takes too long.
    pub async fn take(&self, run: &str) -> Result<OwnedMutexGuard<()>, Problem> {
        let turn = self.turn_of(run).lock_owned();
        tokio::time::timeout(MAX_WAIT, turn).await.map_err(|_| {
            Problem::unavailable("many requests change the run at the same time; repeat this one")
        })
    }

    fn turn_of(&self, run: &str) -> Arc<AsyncMutex<()>> {
        let mut by_run = self.by_run.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = by_run.get(run).and_then(Weak::upgrade) {
            return turn;
        }
        by_run.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        by_run.insert(run.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_is_changed_by_one_request_at_a_time_and_others_at_once() {
        let turns = RunTurns::default();
        let first = turns.take("one").await.unwrap();
        let _other = turns.take("two").await.unwrap();
        let (one, two) = (turns.turn_of("one"), turns.turn_of("two"));
        assert!(one.try_lock().is_err() && two.try_lock().is_err());
        drop(first);
        assert!(one.try_lock().is_ok());
        drop((one, two));
        turns.take("three").await.unwrap();
        let left = turns.by_run.lock().unwrap();
        let mut names: Vec<&str> = left.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["three", "two"]);
    }
}
