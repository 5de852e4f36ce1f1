//! What an attempt may use up: processor time and wall time are measured here, memory in `limits::memory`. And the
//! reasons to stop.
//!
//! What becomes of a reason is in `fault`; sizes of output, counts and bytes of host calls are kept where they arise, in
//! `ctx`.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wasmtime::UpdateDeadline;

use crate::plugin::{Limit, Limits, Reached};

pub(super) mod memory;

/// Stands for a timeout that is too far off to be reckoned with.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why the host ends an attempt. Travels through wasmtime as an error and comes out in `fault`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stop {
    /// The processor time is used up.
    #[error("CPU limit of {} reached", time(*.0))]
    Cpu(Duration),
    /// The wall time is used up.
    #[error("timeout of {} reached{}", time(*.limit), waiting(*.waiting_in))]
    Timeout {
        /// What was allowed.
        limit: Duration,
        /// The host function the guest was waiting in.
        waiting_in: Option<&'static str>,
    },
    /// The guest has called the host too often.
    #[error("limit of {limit} host calls reached in `{function}` (came to {asked})")]
    HostCalls {
        /// What was allowed.
        limit: u32,
        /// The call too many.
        function: &'static str,
        /// What it would have come to.
        asked: u32,
    },
    /// The guest has exchanged too much with the host.
    #[error(
        "limit of {} to and from the host reached in `{function}` (came to {})",
        bytes(*.limit), asked.map_or_else(|| "more".into(), bytes)
    )]
    HostBytes {
        /// What was allowed.
        limit: u64,
        /// Where it was too much.
        function: &'static str,
        /// What it would have come to; none where that was not waited for.
        asked: Option<u64>,
    },
    /// What the guest gives away is too large.
    #[error(
        "limit of {} of output reached by {what} (came to {})",
        bytes(*.limit), bytes(*.asked)
    )]
    Output {
        /// What was too much.
        what: &'static str,
        /// What was allowed.
        limit: u64,
        /// What it would have come to.
        asked: u64,
    },
    /// The driver no longer listens.
    #[error("the run is being stopped")]
    Interrupted,
}

impl Stop {
    /// The limit that was reached.
    pub(super) fn reached(&self) -> Option<Reached> {
        match self {
            Self::Cpu(_) => Some(Reached::at(Limit::Cpu)),
            Self::Timeout { .. } => Some(Reached::at(Limit::Timeout)),
            Self::HostCalls { asked, .. } => Some(Reached::by(Limit::HostCalls, (*asked).into())),
            Self::HostBytes { asked, .. } => Some(Reached {
                limit: Limit::HostBytes,
                asked: *asked,
            }),
            Self::Output { asked, .. } => Some(Reached::by(Limit::Output, *asked)),
            Self::Interrupted => None,
        }
    }
}

fn waiting(function: Option<&'static str>) -> String {
    function.map_or_else(String::new, |name| format!(" while waiting in `{name}`"))
}

/// Measures the time of an attempt.
///
/// Processor time is what a thread spends while it polls the attempt's future. Waiting in a host call or for a turn is
/// not polled, and a thread that the system has set aside spends nothing: neither is the guest's doing. What the host
/// does at its bidding, a memory fill or the parsing of a document, counts. Only one thread polls at a time, so relaxed
/// atomics are enough.
#[derive(Debug)]
pub(super) struct Meter {
    start: Instant,
    cpu: Duration,
    timeout: Duration,
    spent_ns: AtomicU64,
    polled_since_ns: AtomicU64,
}

impl Meter {
    pub(super) fn start(limits: &Limits) -> Self {
        Self {
            start: Instant::now(),
            cpu: limits.cpu,
            timeout: limits.timeout.min(FOREVER),
            spent_ns: AtomicU64::new(0),
            polled_since_ns: AtomicU64::new(0),
        }
    }

    /// When the wall time is used up.
    pub(super) fn deadline(&self) -> tokio::time::Instant {
        (self.start + self.timeout).into()
    }

    /// The fault of an attempt whose wall time is used up.
    pub(super) fn timed_out(&self, waiting_in: Option<&'static str>) -> Stop {
        let limit = self.timeout;
        Stop::Timeout { limit, waiting_in }
    }

    /// Waits no longer than the attempt may take. Ending it here, inside the call, shows where the guest hung.
    pub(super) async fn by_deadline<F: Future>(
        &self,
        function: &'static str,
        wait: F,
    ) -> Result<F::Output, Stop> {
        tokio::time::timeout_at(self.deadline(), wait)
            .await
            .map_err(|_| self.timed_out(Some(function)))
    }

    /// Processor time so far, for when nothing is being polled.
    pub(super) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Relaxed))
    }

    /// Runs a future on this meter.
    pub(super) async fn measure<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.polled_since_ns.store(thread_ns(), Relaxed);
            let poll = future.as_mut().poll(context);
            self.spent_ns.fetch_add(self.running_ns(), Relaxed);
            poll
        })
        .await
    }

    /// Decides, at each tick that finds the guest running, whether it goes on. It lets others have their turn first.
    pub(super) fn tick(&self) -> Result<UpdateDeadline, Stop> {
        if self.spent() + Duration::from_nanos(self.running_ns()) >= self.cpu {
            return Err(Stop::Cpu(self.cpu));
        }
        if self.start.elapsed() >= self.timeout {
            return Err(self.timed_out(None));
        }
        let turn = Box::pin(tokio::task::yield_now());
        Ok(UpdateDeadline::YieldCustom(1, turn))
    }

    fn running_ns(&self) -> u64 {
        thread_ns().saturating_sub(self.polled_since_ns.load(Relaxed))
    }
}

/// What this thread has spent so far.
fn thread_ns() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (spent.tv_sec.unsigned_abs(), spent.tv_nsec.unsigned_abs());
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

/// A size for people: `64 MiB`, `33.1 MiB`. Rounded up, so that what is over a limit also looks it.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (name, size) in UNITS {
        if count >= size && count.is_multiple_of(size) {
            return format!("{} {name}", count / size);
        }
        if count >= size {
            let tenths = count.saturating_mul(10).div_ceil(size);
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    format!("{count} bytes")
}

/// A duration for people: `10s`, `1.5s`, `250ms`.
fn time(duration: Duration) -> String {
    format!("{duration:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        let check = |count: u64, expected: &str| assert_eq!(bytes(count), expected);
        check(0, "0 bytes");
        check(1023, "1023 bytes");
        check(1 << 10, "1 KiB");
        check(64 << 20, "64 MiB");
        check((1 << 20) + 1, "1.1 MiB");
        check(34_700_000, "33.1 MiB");
        check(3 << 29, "1.5 GiB");
    }
}
