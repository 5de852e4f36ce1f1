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

/// Formats a time in milliseconds since 1970 as RFC 3339, in UTC.
pub fn rfc3339(time_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(time_ms)
        .map_or_else(|_| time_ms.to_string(), |time| format!("{time:.3}"))
}

/// Returns the time that a text in RFC 3339 names, in milliseconds since 1970.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_millisecond())
}

/// Returns the current instant, to measure a duration from.
pub fn stopwatch() -> Instant {
    Instant::now()
}
