//! For how long the heartbeat of another process has stood still.

use std::time::{Duration, Instant};

use strata_records::LEASE_TIME;

/// How much of the time between two looks counts at most. If it was longer, this process was suspended, or the
/// server did not answer it, and perhaps nobody else either: then no heartbeat could rise.
const MAX_COUNTED: Duration = Duration::from_secs(3);

/// For how long a heartbeat was seen to stand still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    total: Duration,
    last_look: Instant,
}

impl Silence {
    /// Begins when a heartbeat is seen for the first time, or to have risen.
    pub(super) fn begin(now: Instant) -> Self {
        Self {
            total: Duration::ZERO,
            last_look: now,
        }
    }

    /// Notes that the heartbeat still stands where it stood at the last look.
    pub(super) fn note_still(&mut self, now: Instant) {
        self.total += now.duration_since(self.last_look).min(MAX_COUNTED);
        self.last_look = now;
    }

    /// Whether the process counts as dead.
    pub(super) fn is_death(self) -> bool {
        self.total >= LEASE_TIME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a process counts as dead whose heartbeat stood still at looks after these pauses, in seconds.
    fn is_death_after(pauses: &[u64]) -> bool {
        let mut now = Instant::now();
        let mut silence = Silence::begin(now);
        for pause in pauses {
            now += Duration::from_secs(*pause);
            silence.note_still(now);
        }
        silence.is_death()
    }

    #[test]
    fn a_process_counts_as_dead_whose_heartbeat_stood_still_for_the_time_of_a_lease() {
        assert!(is_death_after(&[2; 5]));
        assert!(!is_death_after(&[2; 4]));
    }

    #[test]
    fn nobody_counts_as_dead_because_the_server_did_not_answer() {
        assert!(!is_death_after(&[1, 1, 600]));
        // It answers again, and the heartbeat still does not rise.
        assert!(is_death_after(&[1, 1, 600, 2, 2, 2]));
    }
}
