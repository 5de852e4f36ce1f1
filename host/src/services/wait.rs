//! How long to wait before a request is made again.
//!
//! The waits double without jitter, so that a run can be told from its log. A `Retry-After` date is taken relative to the
//! answer's own `Date`; only where that is missing is the clock of this machine read.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The wait before the first retry.
pub(super) const FIRST: Duration = Duration::from_millis(500);
/// The longest wait we choose ourselves.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest wait a server can ask for. An action that waits longer would run into its own timeout.
const LONGEST_ASKED: Duration = Duration::from_secs(60);
/// The wait in milliseconds, which some endpoints of models name beside `Retry-After`.
const RETRY_AFTER_MS: &str = "retry-after-ms";

/// The wait after so many retries, where `first` is the first wait.
pub(super) fn doubled(first: Duration, retries: u32) -> Duration {
    first
        .saturating_mul(2_u32.saturating_pow(retries))
        .min(LONGEST)
}

/// The wait that a server asks for, as far as it can have it.
pub(super) fn asked(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(wait) = text(RETRY_AFTER_MS).and_then(|asked| seconds(asked, 1000.0)) {
        return Some(wait);
    }
    let asked = text(RETRY_AFTER.as_str())?;
    if let Some(wait) = seconds(asked, 1.0) {
        return Some(wait);
    }
    let then = timestamp(asked)?;
    let now = text(DATE.as_str())
        .and_then(timestamp)
        .unwrap_or_else(Timestamp::now);
    // A date that has passed asks for no wait.
    Some(
        Duration::try_from(then.duration_since(now))
            .unwrap_or_default()
            .min(LONGEST_ASKED),
    )
}

/// Reads a number of units, of which a second has so many.
fn seconds(text: &str, units: f64) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok()? / units;
    (seconds >= 0.0).then(|| {
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(LONGEST_ASKED)
            .min(LONGEST_ASKED)
    })
}

/// Reads a date in the form of HTTP, or in one of the two that it had before.
fn timestamp(text: &str) -> Option<Timestamp> {
    let obsolete = |format: &str| {
        Some(
            DateTime::strptime(format, text)
                .ok()?
                .to_zoned(TimeZone::UTC)
                .ok()?
                .timestamp(),
        )
    };
    let current = DateTimeParser::new().parse_timestamp(text).ok();
    current
        .or_else(|| obsolete("%A, %d-%b-%y %H:%M:%S GMT"))
        .or_else(|| obsolete("%a %b %e %H:%M:%S %Y"))
}
