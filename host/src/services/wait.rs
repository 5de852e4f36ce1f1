//! How long to wait before a request is made again.
//!
//! The waits double without jitter, so that a run can be told from its log. No clock is read: a `Retry-After` date is
//! taken relative to the answer's own `Date`.

use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The wait before the first retry.
pub(super) const FIRST: Duration = Duration::from_millis(500);
/// The longest wait we choose ourselves.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest wait a server can ask for. An action that waits longer would run into its own timeout.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// The wait after so many retries, where `first` is the first wait.
pub(super) fn doubled(first: Duration, retries: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(retries)).min(LONGEST)
}

/// The wait that a server asks for, as far as it can have it.
pub(super) fn asked(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok();
    let asked = text(RETRY_AFTER)?.trim();
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds).min(LONGEST_ASKED));
    }
    let parser = DateTimeParser::new();
    let then = parser.parse_timestamp(asked).ok()?;
    let now = parser.parse_timestamp(text(DATE)?).ok()?;
    // A date that has passed asks for no wait.
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default().min(LONGEST_ASKED))
}
