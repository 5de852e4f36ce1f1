//! The rate limit of requests to a provider. It applies to retries, too.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior};

const MINUTE: Duration = Duration::from_secs(60);

/// Limits the rate of all requests to a provider.
#[derive(Debug, Default)]
pub(super) struct RateLimiter {
    per_minute: Option<NonZeroU32>,
    /// `None` before the first request. The interval has to be created within the runtime.
    interval: Mutex<Option<Interval>>,
}

impl RateLimiter {
    /// Returns a limit of so many requests per minute, or none.
    pub(super) fn per_minute(per_minute: Option<NonZeroU32>) -> Self {
        Self {
            per_minute,
            interval: Mutex::default(),
        }
    }

    /// Waits until a request may be made.
    pub(super) async fn wait(&self) {
        if let Some(requests) = self.per_minute {
            let mut interval = self.interval.lock().await;
            interval
                .get_or_insert_with(|| interval_of(MINUTE / requests.get()))
                .tick()
                .await;
        }
    }
}

/// Returns an interval with at least this pause between two ticks, even if the previous tick was
/// late.
fn interval_of(pause: Duration) -> Interval {
    let mut interval = tokio::time::interval(pause);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
