//! The parts that all HTTP clients of the host share: a common configuration, and the delays
//! between retries. By default, a client neither follows redirects nor retries nor sends a referer.
//! Each service determines where its client may connect and how long that may take.
//!
//! Delays double without jitter, so that they can be predicted from the log. A `Retry-After` date
//! is relative to the response's own `Date`. The clock of this machine is read only if that is
//! missing.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;
use reqwest::header::{ACCEPT_ENCODING, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, ClientBuilder, redirect};

/// The delay before the first retry.
pub(super) const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// The maximum delay that is chosen here.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// The maximum delay that a server can request. An action that waited longer would exceed its own
/// time limit.
const MAX_REQUESTED_DELAY: Duration = Duration::from_secs(60);
/// The longest delay that a server is believed to mean. A longer one is ignored.
const LONGEST_MEANT: Duration = Duration::from_secs(24 * 60 * 60);
/// The header for the delay in milliseconds, which some endpoints of models send in addition to
/// `Retry-After`.
const RETRY_AFTER_MS: &str = "retry-after-ms";

/// Returns a builder with the common configuration.
pub fn builder() -> ClientBuilder {
    // This fails if the process has a default TLS provider already, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("strata-host/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
}

/// Returns a builder of a client whose responses the host reads. It does not decompress them, and a
/// server may compress what it sends unless the request says otherwise.
pub(super) fn reading_builder() -> ClientBuilder {
    let identity = HeaderValue::from_static("identity");
    builder().default_headers(HeaderMap::from_iter([(ACCEPT_ENCODING, identity)]))
}

/// Returns the delay after a number of retries, where `first` is the first delay.
pub(super) fn backoff_delay(first: Duration, retries: u32) -> Duration {
    first
        .saturating_mul(2_u32.saturating_pow(retries))
        .min(MAX_DELAY)
}

/// Returns the delay that a server requests, limited to the maximum. What is no time, or none that
/// can be meant, is ignored.
pub(super) fn requested_delay(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(wait) = text(RETRY_AFTER_MS).and_then(|delay| parse_duration(delay, 1000.0)) {
        return Some(wait);
    }
    let delay = text(RETRY_AFTER.as_str())?;
    if let Some(wait) = parse_duration(delay, 1.0) {
        return Some(wait);
    }
    let then = parse_http_date(delay)?;
    let now = text(DATE.as_str())
        .and_then(parse_http_date)
        .unwrap_or_else(Timestamp::now);
    // A date in the past means no delay.
    believable(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}

/// Parses a number of units, `units` of which are a second.
fn parse_duration(text: &str, units: f64) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok()? / units;
    // Fails for negative numbers and for those that are not finite.
    believable(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Returns a delay that a server requests, limited to the maximum, or `None` if it cannot be meant.
pub(super) fn believable(wait: Duration) -> Option<Duration> {
    (wait <= LONGEST_MEANT).then(|| wait.min(MAX_REQUESTED_DELAY))
}

/// Parses an HTTP date, in the current or one of the two obsolete formats.
fn parse_http_date(text: &str) -> Option<Timestamp> {
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
