//! How often a provider is asked: each request waits for its turn, those that are made again as well.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior};

const MINUTE: Duration = Duration::from_secs(60);

/// The turns of all requests to a provider.
#[derive(Debug, Default)]
pub(super) struct Pace {
    per_minute: Option<NonZeroU32>,
    /// None before the first turn: its clock is the runtime's.
    turns: Mutex<Option<Interval>>,
}

impl Pace {
    /// So many a minute at most; none for no limit.
    pub(super) fn of(per_minute: Option<NonZeroU32>) -> Self {
        Self {
            per_minute,
            turns: Mutex::default(),
        }
    }

    /// Waits until a request may be made.
    pub(super) async fn turn(&self) {
        if let Some(requests) = self.per_minute {
            let mut turns = self.turns.lock().await;
            turns
                .get_or_insert_with(|| every(MINUTE / requests.get()))
                .tick()
                .await;
        }
    }
}

/// Ticks with at least this pause between two, however late the one before was.
fn every(pause: Duration) -> Interval {
    let mut interval = tokio::time::interval(pause);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
