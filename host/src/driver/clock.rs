//! The wall clock, and the only place where the run looks at it: for the times of records, for guests that ask, and
//! for the name of a new run, and for how long commits take. Limits on time are the sandbox's.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// From where on something is timed.
pub(super) fn stopwatch() -> Instant {
    Instant::now()
}
