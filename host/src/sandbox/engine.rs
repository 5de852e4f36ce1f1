//! The engines: their one configuration, and the ticker that interrupts what runs in them.
//!
//! Compiled code is kept in `engine::cache`.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::{
    Config, Enabled, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig,
    WasmBacktraceDetails, WasmFeatures,
};

use super::SandboxError;
use super::limits::memory::{INSTANCES, MEMORIES, TABLES};
use crate::plugin::Limits;

pub(super) mod cache;
mod executable;

pub use cache::CacheHealth;

/// How often running guests are interrupted to check their limits. Short enough that a guest holds up its thread's
/// other tasks by no more than a timer's usual error, long enough that the switch (about 1 µs) does not show.
pub(super) const TICK: Duration = Duration::from_millis(5);
/// How many attempts run at once; more wait for their turn. Bounds the address space that the pool reserves.
const SLOTS: u32 = 128;
/// The stack of a guest. What recurses deeper is at fault. There is no key for it: it is the engine's, for all guests.
pub(super) const STACK_BYTES: usize = 1 << 20;
/// The guest's stack and, above it, that of the host functions it calls.
const FIBER_BYTES: usize = 2 << 20;
/// Elements that a table in the pool has room for; address space only.
const TABLE_ELEMENTS: usize = 1 << 20;
/// Bytes that the pool keeps for a core or component instance's own data; a runtime with 100,000 functions has less.
const INSTANCE_BYTES: usize = 16 << 20;
/// What of a memory is reset by hand rather than returned to the system. Most actions dirty less.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;
/// What a memory outside of the pool reserves when it grows, so that not every growth moves it.
const GROWTH_BYTES: u64 = 1 << 20;

/// What components may be made of. Compilers and language runtimes use the second version of WebAssembly, and some
/// optimise with what is listed beside it; modules of one component that call each other are joined with several
/// memories. Whatever else wasmtime knows, now or later, is one more thing to attack.
const NEEDED: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::COMPONENT_MODEL);

/// Whether instructions are counted. Counting costs time, so there is an engine with it and one without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metering {
    /// They are not.
    Plain,
    /// They are, for plugins with `limits.fuel`.
    Fuel,
}

impl Metering {
    /// What calls within these limits need.
    pub fn of(limits: &Limits) -> Self {
        if limits.fuel.is_some() {
            Self::Fuel
        } else {
            Self::Plain
        }
    }
}

/// What a sandbox is for, which decides how much a pool reserves: that takes a millisecond for many attempts, as much as
/// some commands have to do in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Teams that run, however many the process has.
    Teams,
    /// A few calls, one after another.
    OneShot,
}

impl Work {
    /// How many attempts run at once.
    pub(super) fn attempts(self) -> u32 {
        match self {
            Self::Teams => SLOTS,
            Self::OneShot => 1,
        }
    }
}

/// Where attempts get their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// From a pool that is reserved once.
    Pool {
        /// How many attempts it has room for.
        attempts: u32,
    },
    /// From the system, each time, because the address space for a pool is missing.
    OnDemand,
}

/// The engines, made when first used.
pub(super) struct Engines {
    plain: Engine,
    pub(super) allocation: Allocation,
    work: Work,
    fuel: OnceLock<Engine>,
    ticking: Arc<Mutex<Vec<EngineWeak>>>,
}

impl Engines {
    pub(super) fn new(work: Work) -> Result<Self, SandboxError> {
        executable::check()?;
        let (plain, allocation) = engine(Metering::Plain, work)?;
        let ticking = Arc::new(Mutex::new(vec![plain.weak()]));
        let engines = Arc::clone(&ticking);
        thread::Builder::new()
            .name("guest ticker".into())
            .spawn(move || tick(&engines))
            .map_err(|e| {
                SandboxError::Machine(format!(
                    "cannot start the thread that interrupts guests: {e}"
                ))
            })?;
        Ok(Self {
            plain,
            allocation,
            work,
            fuel: OnceLock::new(),
            ticking,
        })
    }

    pub(super) fn get(&self, metering: Metering) -> Result<&Engine, SandboxError> {
        if metering == Metering::Plain {
            return Ok(&self.plain);
        }
        if let Some(engine) = self.fuel.get() {
            return Ok(engine);
        }
        let (made, _) = engine(Metering::Fuel, self.work)?;
        let kept = self.fuel.get_or_init(|| made);
        let mut ticking = self.ticking.lock().unwrap_or_else(PoisonError::into_inner);
        ticking.push(kept.weak());
        Ok(kept)
    }
}

/// Advances the epoch of all engines until they are gone.
fn tick(engines: &Mutex<Vec<EngineWeak>>) {
    loop {
        thread::sleep(TICK);
        let mut engines = engines.lock().unwrap_or_else(PoisonError::into_inner);
        engines.retain(|weak| {
            let engine = weak.upgrade();
            engine.inspect(Engine::increment_epoch).is_some()
        });
        if engines.is_empty() {
            return;
        }
    }
}

/// An engine with a pool of instances, or without one where the address space for it is missing.
fn engine(metering: Metering, work: Work) -> Result<(Engine, Allocation), SandboxError> {
    let mut config = config(metering);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(work)));
    if let Ok(pooled) = Engine::new(&config) {
        return Ok((
            pooled,
            Allocation::Pool {
                attempts: work.attempts(),
            },
        ));
    }
    let frugal = Engine::new(frugal(&mut config));
    let frugal = frugal.map_err(|error| {
        SandboxError::Machine(format!("cannot set up the WebAssembly engine: {error:#}"))
    })?;
    Ok((frugal, Allocation::OnDemand))
}

/// Memories that take only what they use, at the price of checking each access.
fn frugal(config: &mut Config) -> &Config {
    config
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        .memory_reservation(0)
        .memory_reservation_for_growth(GROWTH_BYTES)
        .memory_guard_size(0)
}

fn config(metering: Metering) -> Config {
    let mut config = Config::new();
    config
        .wasm_features(WasmFeatures::all().difference(NEEDED), false)
        .wasm_component_model(true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .consume_fuel(metering == Metering::Fuel)
        .max_wasm_stack(STACK_BYTES)
        .async_stack_size(FIBER_BYTES)
        // Reading debug information has no bounds there; `source` does it.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        // The same input gives the same output on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
    config
}

/// The code that is compiled does not depend on how much room there is.
fn pool(work: Work) -> PoolingAllocationConfig {
    // The attempts, and the one component that describes itself beside them.
    let rooms = work.attempts() + 1;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(rooms)
        .total_core_instances(rooms * INSTANCES)
        .total_memories(rooms * MEMORIES)
        .total_tables(rooms * TABLES)
        .total_stacks(rooms)
        .max_core_instances_per_component(INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_memories_per_module(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_tables_per_module(TABLES)
        .max_component_instance_size(INSTANCE_BYTES)
        .max_core_instance_size(INSTANCE_BYTES)
        .table_elements(TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);
    pool
}

#[cfg(test)]
mod tests {
    use strata_core::id::Digest;

    use super::cache::Cache;
    use super::*;

    #[test]
    fn compiled_code_is_the_same_whatever_the_work() {
        let key = |work| {
            let engines = Engines::new(work).unwrap();
            Cache::none().key(
                &Digest("ab12".into()),
                engines.get(Metering::Plain).unwrap(),
            )
        };
        assert_eq!(key(Work::OneShot), key(Work::Teams));
    }
}
