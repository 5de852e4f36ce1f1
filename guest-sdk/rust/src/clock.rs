//! Time from the host. Readings are recorded: a repeated attempt gets the recorded ones.

use crate::host;
use std::time::Duration;

/// Returns the current time in milliseconds since 1970-01-01T00:00:00Z.
pub fn unix_time_ms() -> f64 {
    host::clock::unix_time_ms()
}

/// Waits for a duration. It counts towards the action's wall time, not its CPU time. Durations
/// above 49 days are truncated.
pub fn sleep(duration: Duration) {
    host::clock::sleep(u32::try_from(duration.as_millis()).unwrap_or(u32::MAX));
}
