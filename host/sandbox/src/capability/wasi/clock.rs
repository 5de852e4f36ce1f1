//! The clocks of guests that use WASI. They show the same times in every attempt that is served the
//! same records. They start at a recorded time, which is requested when a guest first asks for the
//! date, and advance by what the guest does: a little with each reading, and by as long as it
//! sleeps. Interpreters read clocks all the time, so readings are not recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_services::gateway::{GuestRequest, HostAnswer};
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use super::super::super::ctx::{Ctx, unexpected_answer};
use super::GuestStore;

/// How far the clocks advance with each reading, so that a guest that waits by polling a clock
/// comes to an end.
const TICK_NS: u64 = 1000;
const WALL_CLOCK: &str = "wasi:clocks/wall-clock@0.2.12";
const MONOTONIC_CLOCK: &str = "wasi:clocks/monotonic-clock@0.2.12";

/// The clocks of one attempt.
#[derive(Clone, Default)]
pub(super) struct GuestClock(Arc<Mutex<ClockState>>);

#[derive(Default)]
struct ClockState {
    /// The time since the start, in nanoseconds.
    now: u64,
    /// The start, in nanoseconds since 1970.
    start: Option<u64>,
    /// The deadlines of the timers that are waiting, by number.
    deadlines: BTreeMap<u64, u64>,
    timers_started: u64,
}

impl GuestClock {
    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> u64 {
        let mut time = self.state();
        time.now = time.now.saturating_add(TICK_NS);
        time.now
    }

    fn start(&self) -> Option<u64> {
        self.state().start
    }

    fn timer_at(&self, deadline: u64) -> Timer {
        Timer {
            clock: self.clone(),
            deadline,
        }
    }
}

/// Becomes ready at its deadline.
struct Timer {
    clock: GuestClock,
    deadline: u64,
}

/// Removes a waiting timer on drop, also if it was cancelled.
struct SleepGuard<'a>(&'a GuestClock, u64);

impl<'a> SleepGuard<'a> {
    fn register(clock: &'a GuestClock, deadline: u64) -> Self {
        let mut time = clock.state();
        time.timers_started += 1;
        let number = time.timers_started;
        time.deadlines.insert(number, deadline);
        Self(clock, number)
    }
}

impl Drop for SleepGuard<'_> {
    fn drop(&mut self) {
        self.0.state().deadlines.remove(&self.1);
    }
}

#[async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        let _asleep = SleepGuard::register(&self.clock, self.deadline);
        loop {
            let rest = self.deadline.saturating_sub(self.clock.state().now);
            if rest == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_nanos(rest)).await;
            let mut time = self.clock.state();
            // Advances only to the earliest deadline, so that timers become ready in their order
            // even if the host wakes up late.
            let earliest = time
                .deadlines
                .values()
                .min()
                .copied()
                .unwrap_or(self.deadline);
            time.now = time.now.max(earliest);
        }
    }
}

/// Replaces the clocks of wasmtime-wasi.
pub(super) fn add_to_linker(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut wall = linker.instance(WALL_CLOCK)?;
    wall.func_wrap_async("now", |mut store: GuestStore<'_>, (): ()| {
        Box::new(async move { Ok((date(store.data_mut()).await?,)) })
    })?;
    wall.func_wrap("resolution", |_: GuestStore<'_>, (): ()| {
        Ok((date_of(TICK_NS),))
    })?;
    let mut monotonic = linker.instance(MONOTONIC_CLOCK)?;
    monotonic.func_wrap("now", |mut store: GuestStore<'_>, (): ()| {
        Ok((clock_of(store.data_mut()).read(),))
    })?;
    monotonic.func_wrap("resolution", |_: GuestStore<'_>, (): ()| Ok((TICK_NS,)))?;
    monotonic.func_wrap(
        "subscribe-instant",
        |mut store: GuestStore<'_>, (deadline,): (u64,)| Ok((timer(store.data_mut(), deadline)?,)),
    )?;
    monotonic.func_wrap(
        "subscribe-duration",
        |mut store: GuestStore<'_>, (duration,): (u64,)| {
            let now = clock_of(store.data_mut()).read();
            Ok((timer(store.data_mut(), now.saturating_add(duration))?,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

fn clock_of(ctx: &mut Ctx) -> GuestClock {
    ctx.capabilities.wasi().clock.clone()
}

fn timer(ctx: &mut Ctx, deadline: u64) -> wasmtime::Result<Resource<DynPollable>> {
    let timer = clock_of(ctx).timer_at(deadline);
    let table = &mut ctx.capabilities.wasi().table;
    let timer = table.push(timer)?;
    subscribe(table, timer)
}

/// Returns the date. The first call requests the start time, which is recorded.
async fn date(ctx: &mut Ctx) -> wasmtime::Result<Datetime> {
    const NAME: &str = "wasi:clocks/wall-clock";
    let clock = clock_of(ctx);
    let start = match clock.start() {
        Some(start) => start,
        None => match ctx.request(NAME, GuestRequest::ClockStart).await? {
            // There is no driver while a component describes itctx.
            None => 0,
            Some(HostAnswer::Time(ms)) => (ms as u64).saturating_mul(1_000_000),
            Some(other) => unexpected_answer(NAME, &other),
        },
    };
    clock.state().start = Some(start);
    Ok(date_of(start.saturating_add(clock.read())))
}

fn date_of(ns: u64) -> Datetime {
    const SECOND_NS: u64 = 1_000_000_000;
    Datetime {
        seconds: ns / SECOND_NS,
        nanoseconds: (ns % SECOND_NS) as u32,
    }
}
