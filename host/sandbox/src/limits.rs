//! The limits of an attempt: processor time and wall time are measured here, memory in
//! `limits::memory`. Also the reasons to end an attempt.
//!
//! `fault` converts these reasons. The sizes of output and the counts and bytes of host calls are
//! counted in `ctx`, where they arise.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use strata_base::text::units::format_bytes;
use wasmtime::UpdateDeadline;

use strata_services::plugin::{Limit, LimitReached, Limits};

pub(super) mod memory;

/// How often running guests are interrupted to check their limits. Short enough that a guest delays
/// other tasks on its thread by no more than the usual error of a timer, long enough that the cost
/// of the switch (about 1 µs) is negligible.
pub(super) const TICK_INTERVAL: Duration = Duration::from_millis(5);
/// Replaces timeouts that are too long for date arithmetic.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why the host ends an attempt. It passes through wasmtime as an error and is converted in
/// `fault`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AbortReason {
    /// The processor time is used up.
    #[error("CPU limit of {} reached", format_duration(*.0))]
    Cpu(Duration),
    /// The wall time is used up.
    #[error("timeout of {} reached{}", format_duration(*.limit), describe_wait(*.waiting_in))]
    Timeout {
        /// The limit.
        limit: Duration,
        /// The host function in which the guest was waiting.
        waiting_in: Option<&'static str>,
    },
    /// The guest has called the host too often.
    #[error("limit of {limit} host calls reached in `{function}` (came to {demand})")]
    HostCalls {
        /// The limit.
        limit: u32,
        /// The function that exceeded it.
        function: &'static str,
        /// The number of calls including this one.
        demand: u32,
    },
    /// The guest has exchanged too many bytes with the host.
    #[error(
        "limit of {} to and from the host reached in `{function}` (came to {})",
        format_bytes(*.limit), demand.map_or_else(|| "more".into(), format_bytes)
    )]
    HostBytes {
        /// The limit.
        limit: u64,
        /// The function that exceeded it.
        function: &'static str,
        /// The number of bytes including this call; `None` if the answer was cut off before its
        /// size was known.
        demand: Option<u64>,
    },
    /// The guest's output is too large.
    #[error(
        "limit of {} of output reached by {what} (came to {})",
        format_bytes(*.limit), format_bytes(*.demand)
    )]
    Output {
        /// The output that exceeded the limit.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The number of bytes including this output.
        demand: u64,
    },
    /// The driver is gone.
    #[error("the run is being stopped")]
    Interrupted,
}

impl AbortReason {
    /// Returns the limit that was reached.
    pub(super) fn limit_reached(&self) -> Option<LimitReached> {
        match self {
            Self::Cpu(_) => Some(LimitReached::new(Limit::Cpu)),
            Self::Timeout { .. } => Some(LimitReached::new(Limit::Timeout)),
            Self::HostCalls { demand, .. } => Some(LimitReached::with_demand(
                Limit::HostCalls,
                (*demand).into(),
            )),
            Self::HostBytes { demand, .. } => Some(LimitReached {
                limit: Limit::HostBytes,
                demand: *demand,
            }),
            Self::Output { demand, .. } => Some(LimitReached::with_demand(Limit::Output, *demand)),
            Self::Interrupted => None,
        }
    }
}

fn describe_wait(function: Option<&'static str>) -> String {
    function.map_or_else(String::new, |name| format!(" while waiting in `{name}`"))
}

/// Measures the time of an attempt.
///
/// Processor time is what a thread spends while it polls the attempt's future. Time spent waiting
/// in a host call or for a thread does not count, since the future is not polled, and neither does
/// the time of a thread that the system has preempted. Work of the host on the guest's behalf, such
/// as filling memory or parsing a document, counts. Only one thread polls at a time, so relaxed
/// atomics are sufficient.
///
/// Reading the processor time is a system call. Most attempts end before the first tick, so it is
/// not read until an attempt has run for as long as a tick takes. Until then the wall time counts
/// instead, which includes the time of a preempted thread: at most two ticks in an attempt.
#[derive(Debug)]
pub(super) struct Meter {
    start: Instant,
    cpu: Duration,
    timeout: Duration,
    spent_ns: AtomicU64,
    /// Whether `polled_since_ns` is the processor time of the thread that polls; if not, it is the
    /// wall time since the start.
    reads_cpu_time: AtomicBool,
    polled_since_ns: AtomicU64,
}

impl Meter {
    pub(super) fn start(limits: &Limits) -> Self {
        Self {
            start: Instant::now(),
            cpu: limits.cpu,
            timeout: limits.timeout.min(MAX_TIMEOUT),
            spent_ns: AtomicU64::new(0),
            reads_cpu_time: AtomicBool::new(false),
            polled_since_ns: AtomicU64::new(0),
        }
    }

    /// Returns when the wall time is used up.
    pub(super) fn deadline(&self) -> tokio::time::Instant {
        (self.start + self.timeout).into()
    }

    /// Returns when the wall time is used up, in milliseconds since 1970.
    pub(super) fn deadline_unix_ms(&self) -> f64 {
        let left = self.timeout.saturating_sub(self.start.elapsed());
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        ((since_1970 + left).as_secs_f64() * 1000.0).round()
    }

    /// Returns the error of an attempt whose wall time is used up.
    pub(super) fn timeout_error(&self, waiting_in: Option<&'static str>) -> AbortReason {
        let limit = self.timeout;
        AbortReason::Timeout { limit, waiting_in }
    }

    /// Waits no longer than the attempt's deadline. Ending the attempt inside the call shows where
    /// the guest was waiting.
    pub(super) async fn by_deadline<F: Future>(
        &self,
        function: &'static str,
        wait: F,
    ) -> Result<F::Output, AbortReason> {
        tokio::time::timeout_at(self.deadline(), wait)
            .await
            .map_err(|_| self.timeout_error(Some(function)))
    }

    /// Returns the processor time so far. Only valid while the future is not being polled.
    pub(super) fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Relaxed))
    }

    /// Runs a future and measures its processor time.
    pub(super) async fn measure<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.polled_since_ns.store(self.clock_ns(), Relaxed);
            let poll = future.as_mut().poll(context);
            self.count_running();
            poll
        })
        .await
    }

    /// Decides whether a running guest may continue; called at each tick. It yields to other tasks
    /// first.
    pub(super) fn tick(&self) -> Result<UpdateDeadline, AbortReason> {
        self.count_running();
        self.polled_since_ns.store(self.clock_ns(), Relaxed);
        if self.cpu_time() >= self.cpu {
            return Err(AbortReason::Cpu(self.cpu));
        }
        if self.start.elapsed() >= self.timeout {
            return Err(self.timeout_error(None));
        }
        let yielding = Box::pin(tokio::task::yield_now());
        Ok(UpdateDeadline::YieldCustom(1, yielding))
    }

    /// Adds the time since `polled_since_ns`.
    fn count_running(&self) {
        let running = self
            .clock_ns()
            .saturating_sub(self.polled_since_ns.load(Relaxed));
        if self.reads_cpu_time.load(Relaxed) {
            self.spent_ns.fetch_add(running, Relaxed);
            return;
        }
        let most = nanoseconds(TICK_INTERVAL);
        let before = self.spent_ns.fetch_add(running.min(most), Relaxed);
        if before.saturating_add(running) >= most {
            self.reads_cpu_time.store(true, Relaxed);
        }
    }

    /// Returns the time of the clock that is used at present.
    fn clock_ns(&self) -> u64 {
        if self.reads_cpu_time.load(Relaxed) {
            thread_cpu_ns()
        } else {
            nanoseconds(self.start.elapsed())
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the processor time of this thread so far.
fn thread_cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (spent.tv_sec.unsigned_abs(), spent.tv_nsec.unsigned_abs());
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

/// Formats a duration for people: `10s`, `1.5s`, `250ms`.
fn format_duration(duration: Duration) -> String {
    format!("{duration:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        let check = |count: u64, expected: &str| assert_eq!(format_bytes(count), expected);
        check(0, "0 bytes");
        check(1023, "1023 bytes");
        check(1 << 10, "1 KiB");
        check(64 << 20, "64 MiB");
        check((1 << 20) + 1, "1.1 MiB");
        check(34_700_000, "33.1 MiB");
        check(3 << 29, "1.5 GiB");
    }
}
