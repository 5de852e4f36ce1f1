//! Signals: the first Ctrl-C or SIGTERM asks the run to save and stop, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::Failure;
use crate::services::external;

/// Exit codes as shells know them: 128 + the signal's number.
const SIGINT_CODE: u8 = 130;
const SIGTERM_CODE: u8 = 143;

/// What has been asked of the run so far.
pub(super) struct Signals {
    /// Becomes true with the first signal.
    pub(super) stop: watch::Receiver<bool>,
    code: Arc<AtomicU8>,
}

impl Signals {
    /// Listens from now on. Needs a runtime.
    pub(super) fn heard() -> Result<Self, Failure> {
        Self::listen().map_err(|error| Failure::internal(format!("cannot listen for signals: {error}")))
    }

    fn listen() -> std::io::Result<Self> {
        let (send, stop) = watch::channel(false);
        let code = Arc::new(AtomicU8::new(SIGINT_CODE));
        // A file that may grow no larger (`ulimit -f`) is an error of that write, not the end of the process.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let first = code.clone();
        tokio::spawn(async move {
            loop {
                let code = tokio::select! { _ = int.recv() => SIGINT_CODE, _ = term.recv() => SIGTERM_CODE };
                if *send.borrow() {
                    // Everything finished is durable already; only the saving of team.json is cut short.
                    external::kill_all();
                    std::process::exit(i32::from(code));
                }
                first.store(code, Ordering::Relaxed);
                let _ = send.send(true);
            }
        });
        Ok(Self { stop, code })
    }

    /// The exit code that belongs to the first signal.
    pub(super) fn code(&self) -> u8 {
        self.code.load(Ordering::Relaxed)
    }
}
