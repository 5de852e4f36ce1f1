//! What an attempt may use up: memory, processor time, wall time. The counters, and the reasons to stop.
//!
//! What becomes of a reason is in `fault`; sizes of output and counts of host calls are kept where they arise, in
//! `ctx`.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wasmtime::{ResourceLimiter, UpdateDeadline};

use crate::plugin::Limits;

/// Linear memories of one component: its own and those of what it is composed of.
pub(super) const MEMORIES: u32 = 8;
/// Tables of one component: one for each language runtime and adapter in it, and some to spare.
pub(super) const TABLES: u32 = 16;
/// Core instances of one component; a component of a large runtime has about ten.
pub(super) const INSTANCES: u32 = 64;
/// Bytes that a table element takes in the host.
const ELEMENT_BYTES: u64 = 8;
/// Stands for a timeout that is too far off to be reckoned with.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why the host ends an attempt. Travels through wasmtime as an error and comes out in `fault`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stop {
    /// The processor time is used up.
    #[error("limit of {} processor time reached; raise `limits.cpu`", time(*.0))]
    Cpu(Duration),
    /// The wall time is used up.
    #[error("timeout of {} reached{}; raise `limits.timeout`", time(*.limit), waiting(*.waiting_in))]
    Timeout {
        /// What was allowed.
        limit: Duration,
        /// The host function the guest was waiting in.
        waiting_in: Option<&'static str>,
    },
    /// The guest has called the host too often.
    #[error("limit of {limit} host calls reached in `{function}`; raise `limits.host_calls`")]
    HostCalls {
        /// What was allowed.
        limit: u32,
        /// The call too many.
        function: &'static str,
    },
    /// What the guest gives away is too large.
    #[error(
        "limit of {} of output reached by {what} (came to {}); raise `limits.output`",
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

fn waiting(function: Option<&'static str>) -> String {
    function.map_or_else(String::new, |name| format!(" while waiting in `{name}`"))
}

/// Sums all memories and tables of a store, and remembers what it refused: to the guest a refusal is a return value,
/// and the trap that follows does not say why.
#[derive(Debug)]
pub(super) struct Memory {
    limit: u64,
    used: u64,
    peak: u64,
    granted_last: u64,
    refused: Option<u64>,
}

impl Memory {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, used: 0, peak: 0, granted_last: 0, refused: None }
    }

    /// The most that was in use, in bytes.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Says what was refused, unless the guest has got along without it since.
    pub(super) fn refusal(&self) -> Option<String> {
        let (limit, asked) = (bytes(self.limit), bytes(self.refused?));
        Some(format!("memory limit of {limit} reached (asked for {asked}); raise `limits.memory`"))
    }

    fn grow(&mut self, more: u64) -> bool {
        let asked = self.used.saturating_add(more);
        if asked > self.limit {
            self.refused = Some(asked);
            return false;
        }
        self.refused = None;
        self.used = asked;
        self.granted_last = more;
        self.peak = self.peak.max(asked);
        true
    }

    fn give_back(&mut self) {
        self.used -= self.granted_last;
        self.granted_last = 0;
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.grow(desired.saturating_sub(current) as u64))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.give_back();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        Ok(self.grow(more.saturating_mul(ELEMENT_BYTES)))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.give_back();
        Ok(())
    }

    fn instances(&self) -> usize {
        INSTANCES as usize
    }

    fn tables(&self) -> usize {
        TABLES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }
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
    pub(super) async fn by_deadline<F: Future>(&self, function: &'static str, wait: F) -> Result<F::Output, Stop> {
        tokio::time::timeout_at(self.deadline(), wait).await.map_err(|_| self.timed_out(Some(function)))
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
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// A size for people: `64 MiB`, `33.1 MiB`. Rounded up, so that what is over a limit also looks it.
pub(super) fn bytes(count: u64) -> String {
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

    #[test]
    fn memories_and_tables_are_one_sum_and_a_failed_growth_is_given_back() {
        let mut memory = Memory::new(1000);
        assert!(memory.memory_growing(0, 400, None).unwrap());
        assert!(memory.table_growing(0, 50, None).unwrap());
        assert!(!memory.memory_growing(400, 601, None).unwrap());
        assert_eq!(
            memory.refusal().unwrap(),
            "memory limit of 1000 bytes reached (asked for 1001 bytes); raise `limits.memory`"
        );
        assert!(memory.memory_growing(400, 600, None).unwrap());
        assert_eq!(memory.refusal(), None);
        memory.memory_grow_failed(wasmtime::format_err!("full")).unwrap();
        assert!(memory.memory_growing(400, 600, None).unwrap());
        assert_eq!(memory.peak(), 1000);
    }
}
