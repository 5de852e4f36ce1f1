//! The wall clock. The run reads it only here: for the times of records, for guests that ask for
//! the time, for the name of a new run, and to measure how long commits take. The sandbox enforces
//! time limits.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the current instant, to measure a duration from.
pub(crate) fn stopwatch() -> Instant {
    Instant::now()
}
