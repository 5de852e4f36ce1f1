//! What takes long before a run, such as the first build of a language: with the time it has taken so far. At a terminal
//! that is a line which goes away; elsewhere a further line now and then.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::live::clock;
use super::{note, tell, terminal};
use crate::driver::clock::now_ms;
use crate::launch::Notice;

/// How often the time at a terminal moves.
const TICK: Duration = Duration::from_millis(250);
/// How often it is written elsewhere.
const SELDOM: Duration = Duration::from_secs(30);

/// Shows what is under way until it is dropped.
pub(super) struct Progress {
    current: Arc<Mutex<Option<Current>>>,
    quiet: bool,
    /// Dropped when the time need not move any more.
    _clock: Sender<()>,
}

/// What is under way.
struct Current {
    what: String,
    began_ms: i64,
}

impl Progress {
    /// Begins with nothing under way.
    pub(super) fn begin() -> Self {
        let current = Arc::default();
        let (clock, stopped) = mpsc::channel();
        let (shared, live) = (Arc::clone(&current), terminal::is_live());
        let tick = if live { TICK } else { SELDOM };
        // Without it, nothing moves.
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

    /// Chooses whether nothing but warnings is shown.
    pub(super) fn only_warnings(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    /// Tells the operator what comes up.
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

    /// Tells the operator what is under way from now on.
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
