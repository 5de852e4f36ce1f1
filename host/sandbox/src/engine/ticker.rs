//! The thread that interrupts running guests, so that their limits are checked. It sleeps while
//! nothing runs: an idle process causes no wake-ups.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use wasmtime::{Engine, EngineWeak};

use crate::limits::TICK_INTERVAL;

/// After how many ticks without a running guest the thread goes to sleep. Waking it costs a system
/// call, which the short pauses between the attempts of a busy team should not cause.
const IDLE_TICKS: u32 = 200;

/// The thread that interrupts running guests. It ends some time after this value is dropped.
pub(crate) struct Ticker {
    shared: Arc<TickerShared>,
    thread: Thread,
}

/// What the thread and its users share.
struct TickerShared {
    engines: Mutex<Vec<EngineWeak>>,
    /// How many guests may be running.
    running: AtomicUsize,
    /// Whether the thread sleeps until it is woken.
    is_asleep: AtomicBool,
    /// Whether the ticker was dropped.
    is_dropped: AtomicBool,
}

/// While a value of this type exists, running guests are interrupted at each tick.
pub(crate) struct TickGuard(Arc<Ticker>);

impl Ticker {
    /// Starts the thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(TickerShared {
            engines: Mutex::default(),
            running: AtomicUsize::new(0),
            is_asleep: AtomicBool::new(false),
            is_dropped: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("guest ticker".into())
            .spawn(move || for_thread.tick())?;
        Ok(Self {
            shared,
            thread: thread.thread().clone(),
        })
    }

    /// Also interrupts the guests of this engine.
    pub(super) fn add(&self, engine: &Engine) {
        self.shared.lock_engines().push(engine.weak());
    }

    /// Returns a guard that keeps the thread ticking.
    pub(crate) fn guard(self: &Arc<Self>) -> TickGuard {
        self.shared.running.fetch_add(1, SeqCst);
        // The thread reads `running` after it has set `is_asleep`, so one of the two sees the other.
        if self.shared.is_asleep.load(SeqCst) {
            self.thread.unpark();
        }
        TickGuard(Arc::clone(self))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.is_dropped.store(true, SeqCst);
        self.thread.unpark();
    }
}

impl Drop for TickGuard {
    fn drop(&mut self) {
        self.0.shared.running.fetch_sub(1, SeqCst);
    }
}

impl TickerShared {
    fn lock_engines(&self) -> MutexGuard<'_, Vec<EngineWeak>> {
        self.engines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the epoch of all engines until the ticker is dropped and they are gone.
    fn tick(&self) {
        let mut idle = 0;
        loop {
            thread::sleep(TICK_INTERVAL);
            let mut engines = self.lock_engines();
            engines.retain(|weak| {
                let engine = weak.upgrade();
                engine.inspect(Engine::increment_epoch).is_some()
            });
            let is_dropped = self.is_dropped.load(SeqCst);
            if is_dropped && engines.is_empty() {
                return;
            }
            drop(engines);
            if self.running.load(SeqCst) > 0 || is_dropped {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle == IDLE_TICKS {
                idle = 0;
                self.sleep();
            }
        }
    }

    /// Sleeps until a guest may be running.
    fn sleep(&self) {
        self.is_asleep.store(true, SeqCst);
        while self.running.load(SeqCst) == 0 && !self.is_dropped.load(SeqCst) {
            thread::park();
        }
        self.is_asleep.store(false, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Waits until a condition holds. Fails if it does not within a time that no machine needs.
    fn wait_until(what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            thread::sleep(TICK_INTERVAL);
        }
    }

    #[test]
    fn the_thread_sleeps_while_nothing_runs_and_ticks_while_something_does() {
        let ticker = Arc::new(Ticker::start().unwrap());
        let shared = Arc::clone(&ticker.shared);
        let is_asleep = || shared.is_asleep.load(SeqCst);
        for _ in 0..3 {
            wait_until("the thread does not go to sleep", is_asleep);
            let guard = ticker.guard();
            wait_until("the thread does not wake up", || !is_asleep());
            drop(guard);
        }
        wait_until("the thread does not go to sleep", is_asleep);
        drop(ticker);
        wait_until("the thread does not end", || {
            Arc::strong_count(&shared) == 1
        });
    }
}
