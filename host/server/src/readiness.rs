//! Whether the server can record anything, which is found out by recording something: a disk that is full, a sync that
//! failed and a database that takes no changes are not noticed by reading.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use strata_host::clock::{now_ms, stopwatch};
use strata_host::storage::{ServerRecords, StoreError};
use tokio::sync::Mutex;

use crate::problem::Problem;

/// For how long the outcome of an attempt counts: whoever asks needs no token, and each attempt is a sync of the disk.
const INTERVAL: Duration = Duration::from_secs(1);

/// Whether the server can record anything, as far as that was tried. Its clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<Option<Attempt>>>);

/// An attempt to record something.
#[derive(Debug)]
struct Attempt {
    start: Instant,
    outcome: Result<(), Problem>,
}

impl Attempt {
    fn is_recent(&self) -> bool {
        self.start.elapsed() < INTERVAL
    }
}

impl Readiness {
    /// Fails if nothing can be recorded in one of these places. However many ask, one attempt is under way at a time.
    pub async fn check(&self, places: Vec<Arc<dyn ServerRecords>>) -> Result<(), Problem> {
        // It is held until the attempt has ended, even if nobody waits for that any more.
        let mut last = Arc::clone(&self.0).lock_owned().await;
        if let Some(attempt) = last.as_ref().filter(|attempt| attempt.is_recent()) {
            return attempt.outcome.clone();
        }
        let attempt = tokio::task::spawn_blocking(move || {
            let start = stopwatch();
            let recorded = places
                .iter()
                .try_for_each(|records| records.check_recording(now_ms()));
            let outcome = recorded.map_err(to_problem);
            *last = Some(Attempt {
                start,
                outcome: outcome.clone(),
            });
            outcome
        });
        let failed = |_| {
            Err(Problem::internal(
                "it was not found out whether the server is ready",
            ))
        };
        attempt.await.unwrap_or_else(failed)
    }
}

/// Returns why the server is not ready. Requests may have another status for the same reason.
fn to_problem(error: StoreError) -> Problem {
    let problem = Problem::from(error);
    match problem.status {
        StatusCode::SERVICE_UNAVAILABLE => problem,
        _ => Problem::unavailable("the storage failed, so nothing can be recorded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_reason_is_a_server_that_cannot_record_is_unavailable() {
        let check = |error: StoreError| {
            let problem = to_problem(error);
            assert_eq!(problem.status, StatusCode::SERVICE_UNAVAILABLE);
        };
        check(StoreError::Unreachable {
            path: "x".into(),
            what: "x".into(),
        });
        check(StoreError::Io {
            path: "x".into(),
            action: "write",
            source: std::io::Error::other("x"),
        });
        check(StoreError::Locked {
            path: "x".into(),
            pid: None,
        });
    }
}
