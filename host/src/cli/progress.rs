//! Shows what takes long before a run, such as the first build of a language, with the elapsed
//! time. At a terminal this is a line that is removed afterwards; elsewhere a line is written now
//! and then.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::live::clock;
use super::{note, tell, terminal};
use crate::driver::clock::now_ms;
use crate::launch::Notice;

/// The interval at which the elapsed time is updated at a terminal.
const TICK: Duration = Duration::from_millis(250);
/// The interval at which it is written elsewhere.
const SELDOM: Duration = Duration::from_secs(30);

/// Shows the current activity until it is dropped.
pub(super) struct Progress {
    current: Arc<Mutex<Option<Current>>>,
    quiet: bool,
    /// Stops the thread that updates the elapsed time when it is dropped.
    _clock: Sender<()>,
}

/// The current activity.
struct Current {
    what: String,
    began_ms: i64,
}

impl Progress {
    /// Starts without an activity.
    pub(super) fn begin() -> Self {
        let current = Arc::default();
        let (clock, stopped) = mpsc::channel();
        let (shared, live) = (Arc::clone(&current), terminal::is_live());
        let tick = if live { TICK } else { SELDOM };
        // If the thread cannot be started, the elapsed time is not shown.
        let _ = thread::Builder::new()
            .name("progress".into())
            .spawn(move || {
                while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                    if let Some(current) = lock(&shared).as_ref() {
                        current.show(live);
                    }
                }
            });
        Self {
            current,
            quiet: false,
            _clock: clock,
        }
    }

    /// Sets whether only warnings are shown.
    pub(super) fn only_warnings(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    /// Shows a notice.
    pub(super) fn tell(&mut self, notice: Notice<'_>) {
        if self.quiet && !matches!(notice, Notice::Warning(_)) {
            return;
        }
        if let Notice::Busy(what) = notice {
            *lock(&self.current) = Some(Current {
                what: what.to_owned(),
                began_ms: now_ms(),
            });
        }
        tell(notice);
    }

    /// Shows a new current activity.
    pub(super) fn note(&mut self, what: &str) {
        self.tell(Notice::Busy(what));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if lock(&self.current).take().is_some() && terminal::is_live() {
            terminal::show(Vec::new());
        }
    }
}

impl Current {
    fn show(&self, live: bool) {
        let (since, what) = (clock(now_ms() - self.began_ms), &self.what);
        match live {
            true => terminal::show(vec![format!(
                "{since:>8}  {}",
                super::plain::one_line(what)
            )]),
            false => note(format_args!("still {what} ({since})")),
        }
    }
}

fn lock(current: &Mutex<Option<Current>>) -> MutexGuard<'_, Option<Current>> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}
