//! Shows what takes long before a run, such as the first build of a language, with the elapsed
//! time. At a terminal this is a line that is removed afterwards; elsewhere a line is written now
//! and then.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use strata_host::clock::now_ms;
use strata_host::launch::Notice;

use super::live_view::format_duration;
use super::printer::Printer;

/// The interval at which the elapsed time is updated at a terminal.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);
/// The interval at which it is written elsewhere.
const NOTE_INTERVAL: Duration = Duration::from_secs(30);

/// Shows the current activity until it is dropped.
pub(super) struct ProgressDisplay {
    activity: Arc<Mutex<Option<CurrentActivity>>>,
    printer: Printer,
    /// Stops the thread that updates the elapsed time when it is dropped.
    _updater: Sender<()>,
}

/// The current activity.
struct CurrentActivity {
    what: String,
    started_ms: i64,
}

impl ProgressDisplay {
    /// Starts without an activity.
    pub(super) fn start(printer: &Printer) -> Self {
        let activity = Arc::default();
        let (clock, stopped) = mpsc::channel();
        let (shared, live) = (Arc::clone(&activity), printer.can_show_live_view());
        let output = printer.clone();
        let tick = if live { UPDATE_INTERVAL } else { NOTE_INTERVAL };
        // If the thread cannot be started, the elapsed time is not shown.
        let _ = thread::Builder::new()
            .name("progress".into())
            .spawn(move || {
                while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                    if let Some(current) = lock(&shared).as_ref() {
                        current.show(live, &output);
                    }
                }
            });
        Self {
            activity,
            printer: printer.clone(),
            _updater: clock,
        }
    }

    /// Shows a notice. If the printer is quiet, only warnings are shown.
    pub(super) fn show_notice(&mut self, notice: Notice<'_>) {
        if self.printer.is_quiet()
            && !matches!(notice, Notice::Warning(_) | Notice::AdvisedWarning(..))
        {
            return;
        }
        if let Notice::Busy(what) = notice {
            *lock(&self.activity) = Some(CurrentActivity {
                what: what.to_owned(),
                started_ms: now_ms(),
            });
        }
        self.printer.notice(notice);
    }

    /// Shows a new current activity.
    pub(super) fn set_activity(&mut self, what: &str) {
        self.show_notice(Notice::Busy(what));
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        if lock(&self.activity).take().is_some() && self.printer.can_show_live_view() {
            self.printer.set_live_rows(Vec::new());
        }
    }
}

impl CurrentActivity {
    fn show(&self, live: bool, printer: &Printer) {
        let (since, what) = (format_duration(now_ms() - self.started_ms), &self.what);
        if live {
            printer.set_live_rows(vec![format!(
                "{since:>8}  {}",
                super::sanitize::sanitize_line(what)
            )])
        } else {
            printer.note(format_args!("still {what} ({since})"))
        }
    }
}

fn lock(current: &Mutex<Option<CurrentActivity>>) -> MutexGuard<'_, Option<CurrentActivity>> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}
