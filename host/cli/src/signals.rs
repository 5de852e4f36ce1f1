//! Signals: the first Ctrl-C, SIGTERM or SIGHUP (the terminal is gone) asks the run to save and stop,
//! the second ends the process immediately. So does the first if no run has started that could stop,
//! or if the run does not stop in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use strata_host::children::{self, Purpose};
use strata_host::process_cache;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::CommandFailure;

/// Exit codes by the convention of shells: 128 plus the signal's number.
const SIGINT_CODE: u8 = 130;
const SIGTERM_CODE: u8 = 143;
const SIGHUP_CODE: u8 = 129;

/// How long a run may take to start after a signal. Once it starts, the signal stops it.
const START_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a run may take to end after a signal. Most of it is for responses that are in progress.
/// What is recorded by then is durable, whatever else the run waits for, such as a pipe that nobody
/// reads.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// The signals received so far.
pub(super) struct Signals {
    /// Becomes true with the first signal.
    pub(super) stop: watch::Receiver<bool>,
    code: Arc<AtomicU8>,
    /// How long it may take until everything has ended after a signal, in seconds. 0 until a run has started.
    stop_seconds: Arc<AtomicU64>,
}

impl Signals {
    /// Listens for signals from now on. Must be called within a runtime.
    pub(super) fn subscribe() -> Result<Self, CommandFailure> {
        Self::listen().map_err(|error| {
            CommandFailure::internal(format!("cannot listen for signals: {error}"))
        })
    }

    fn listen() -> std::io::Result<Self> {
        let (send, stop) = watch::channel(false);
        let code = Arc::new(AtomicU8::new(SIGINT_CODE));
        // Ignores SIGXFSZ: exceeding the file size limit (`ulimit -f`) is an error of that write,
        // not the end of the process.
        drop(signal(SignalKind::from_raw(
            rustix::process::Signal::XFSZ.as_raw(),
        ))?);
        let (mut int, mut term) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        );
        // `nohup` has it ignored, so that the process outlives its terminal.
        let mut hup = if is_ignored(SignalKind::hangup()) {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        let first = code.clone();
        let stop_seconds = Arc::new(AtomicU64::new(0));
        let seconds = stop_seconds.clone();
        tokio::spawn(async move {
            loop {
                let code = tokio::select! {
                    _ = int.recv() => SIGINT_CODE,
                    _ = term.recv() => SIGTERM_CODE,
                    () = receive(&mut hup) => SIGHUP_CODE,
                };
                if *send.borrow() {
                    // Everything finished is durable already; only the writing of team.json is cut
                    // short.
                    exit_now(code);
                }
                first.store(code, Ordering::Relaxed);
                children::kill_all(Purpose::Build);
                let _ = send.send(true);
                let seconds = seconds.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(START_TIMEOUT).await;
                    let seconds = seconds.load(Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    // The program waits for something that does not react to signals.
                    exit_now(code);
                });
            }
        });
        Ok(Self {
            stop,
            code,
            stop_seconds,
        })
    }

    /// Declares that from now on a run observes `stop`.
    pub(super) fn set_run_started(&self) {
        self.set_runs_started(Duration::ZERO);
    }

    /// Declares that from now on several runs observe `stop`, which may first take so long to end by
    /// themselves.
    pub(super) fn set_runs_started(&self, drain: Duration) {
        let time = drain.saturating_add(STOP_TIMEOUT);
        self.stop_seconds.store(time.as_secs(), Ordering::Relaxed);
    }

    /// Returns the exit code for the first signal.
    pub(super) fn code(&self) -> u8 {
        self.code.load(Ordering::Relaxed)
    }
}

/// Waits for a signal; forever, if nobody listens for it.
async fn receive(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether whoever started this process has it ignore a signal.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_ignored_in(&status, kind)
}

/// Whether a process whose `/proc/PID/status` this is ignores a signal.
fn is_ignored_in(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let bit = u32::try_from(kind.as_raw_value()).unwrap_or_default();
    mask.is_some_and(|mask| mask >> bit.saturating_sub(1) & 1 == 1)
}

/// Ends the process immediately.
fn exit_now(code: u8) -> ! {
    children::kill_all(Purpose::External);
    process_cache::remove();
    std::process::exit(i32::from(code));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_found_in_the_status_of_a_process() {
        let status =
            "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        for (kind, expected) in [
            (SignalKind::hangup(), true),
            (SignalKind::pipe(), true),
            (SignalKind::interrupt(), false),
            (SignalKind::terminate(), false),
        ] {
            assert_eq!(is_ignored_in(status, kind), expected, "{kind:?}");
        }
        assert!(!is_ignored_in("", SignalKind::hangup()));
    }
}
