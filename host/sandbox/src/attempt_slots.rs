//! How many attempts run at once in a process. An attempt that calls tools keeps its instance while it waits for
//! them, and so does one whose calls a guard decides about, so some room is kept for those that others wait for:
//! otherwise attempts could wait for each other without end.

use tokio::sync::{Semaphore, SemaphorePermit};

/// How many levels have room of their own: an attempt, the calls of code below it, and a guard.
const LEVELS: usize = 6;
/// How many attempts of each further level always find room.
const KEPT_PER_LEVEL: usize = 2;

/// The room for attempts.
#[derive(Debug)]
pub(super) struct AttemptSlots {
    /// At each index, how many attempts of that level and of those above run at once.
    levels: Vec<Semaphore>,
}

/// The room that an attempt takes, until this is dropped.
pub(super) type AttemptSlot<'a> = [Option<SemaphorePermit<'a>>; LEVELS];

impl AttemptSlots {
    /// Creates room for this many attempts, which are at least two.
    pub(super) fn new(attempts: usize) -> Self {
        let kept = KEPT_PER_LEVEL.min(attempts / (2 * LEVELS));
        let levels = match kept {
            // An attempt, and what it waits for.
            0 => vec![attempts - 1, attempts],
            _ => (0..LEVELS)
                .map(|level| attempts - kept * (LEVELS - 1 - level))
                .collect(),
        };
        Self {
            levels: levels.into_iter().map(Semaphore::new).collect(),
        }
    }

    /// Waits for the room for an attempt. `level` is how many others wait for it.
    pub(super) async fn acquire(&self, level: usize) -> AttemptSlot<'_> {
        let mut slot = [const { None }; LEVELS];
        let first = level.min(self.levels.len() - 1);
        for (permit, level) in slot.iter_mut().zip(&self.levels[first..]) {
            // They are never closed.
            *permit = level.acquire().await.ok();
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Returns room for an attempt if there is some now.
    fn acquire_now(slots: &AttemptSlots, level: usize) -> Option<AttemptSlot<'_>> {
        match pin!(slots.acquire(level)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(slot) => Some(slot),
            Poll::Pending => None,
        }
    }

    #[test]
    fn attempts_that_others_wait_for_find_room_when_all_others_are_taken() {
        for attempts in [2, 128] {
            let slots = AttemptSlots::new(attempts);
            let mut taken = Vec::new();
            for level in 0..slots.levels.len() {
                let before = taken.len();
                while let Some(slot) = acquire_now(&slots, level) {
                    taken.push(slot);
                }
                assert!(taken.len() > before, "level {level} of {attempts}");
            }
            assert_eq!(taken.len(), attempts);
            // A level that is deeper than all others shares the room of the last.
            assert!(acquire_now(&slots, LEVELS + 1).is_none());
            taken.pop();
            assert!(acquire_now(&slots, LEVELS + 1).is_some());
        }
    }
}
