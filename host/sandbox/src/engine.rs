//! The wasmtime engines and their configuration.
//!
//! `engine::cache` stores compiled code, `engine::ticker` interrupts running guests.

use std::sync::{Arc, OnceLock};

use strata_services::plugin::Limits;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig,
    WasmBacktraceDetails, WasmFeatures,
};

use super::SandboxError;
use super::limits::memory::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLES};

pub(super) mod cache;
mod executable;
mod ticker;

pub use cache::CacheHealth;
pub(super) use ticker::{TickGuard, Ticker};

/// How many attempts run at once; more wait for a slot. This bounds the address space that the pool
/// reserves.
const MAX_ATTEMPTS: u32 = 128;
/// The stack of a guest. Deeper recursion is a fault. This is a setting of the engine for all
/// guests, so plugins cannot change it.
pub(super) const STACK_BYTES: usize = 8 << 20;
/// The size of the stack for a guest and the host functions it calls.
const FIBER_BYTES: usize = STACK_BYTES + (1 << 20);
/// The maximum number of elements of a table in the pool. It only costs address space.
const MAX_TABLE_ELEMENTS: usize = 1 << 20;
/// The maximum size of the data of a core or component instance in the pool. A runtime with 100,000
/// functions needs less.
const MAX_INSTANCE_BYTES: usize = 16 << 20;
/// How much of a memory is zeroed instead of being returned to the system. Most actions use less.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;
/// How much a memory outside the pool reserves when it grows, so that not every growth moves it.
const GROWTH_BYTES: u64 = 1 << 20;

/// The features of WebAssembly that components may use. Compilers and language runtimes use
/// WebAssembly 2.0, some optimise with the features listed besides it, and modules of one component
/// that call each other are linked with several memories. All other features are off, because each
/// is one more thing to attack.
const ENABLED_FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::COMPONENT_MODEL);

/// Whether instructions are counted. Counting costs time, so there is an engine for either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metering {
    /// Instructions are not counted.
    Plain,
    /// Instructions are counted, for plugins with `limits.fuel`.
    Fuel,
}

impl Metering {
    /// Returns what calls with these limits need.
    pub fn for_limits(limits: &Limits) -> Self {
        if limits.fuel.is_some() {
            Self::Fuel
        } else {
            Self::Plain
        }
    }
}

/// The use of a sandbox, which determines how much the pool reserves. Reserving it for many
/// attempts takes a millisecond, as long as some commands take in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SandboxUse {
    /// Running teams, any number of them.
    Teams,
    /// A few calls, one after another.
    OneShot,
    /// Compiling for every processor of this architecture, and not only for this one.
    Portable,
}

impl SandboxUse {
    /// Returns how many attempts run at once.
    pub(super) fn max_attempts(self) -> u32 {
        match self {
            Self::Teams => MAX_ATTEMPTS,
            // One, and a guard that it waits for.
            Self::OneShot | Self::Portable => 2,
        }
    }
}

/// Where attempts get their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// From a pool that is reserved once.
    Pool {
        /// How many attempts fit into the pool.
        attempts: u32,
    },
    /// From the system for each attempt, because there is not enough address space for a pool.
    OnDemand,
}

/// The engines, created on first use.
pub(super) struct Engines {
    plain: Engine,
    pub(super) allocation: Allocation,
    sandbox_use: SandboxUse,
    fuel: OnceLock<Engine>,
    ticker: Arc<Ticker>,
}

impl Engines {
    pub(super) fn new(work: SandboxUse) -> Result<Self, SandboxError> {
        executable::check_executable_memory()?;
        let (plain, allocation) = new_engine(Metering::Plain, work)?;
        let ticker = Ticker::start().map_err(|e| {
            SandboxError::Machine(format!(
                "cannot start the thread that interrupts guests: {e}"
            ))
        })?;
        ticker.add(&plain);
        Ok(Self {
            plain,
            allocation,
            sandbox_use: work,
            fuel: OnceLock::new(),
            ticker: Arc::new(ticker),
        })
    }

    pub(super) fn get(&self, metering: Metering) -> Result<&Engine, SandboxError> {
        if metering == Metering::Plain {
            return Ok(&self.plain);
        }
        if let Some(engine) = self.fuel.get() {
            return Ok(engine);
        }
        let (new, _) = new_engine(Metering::Fuel, self.sandbox_use)?;
        // Another thread may have created one at the same time; only one of them is kept.
        Ok(self.fuel.get_or_init(|| {
            self.ticker.add(&new);
            new
        }))
    }

    /// Returns what interrupts guests of these engines.
    pub(super) fn ticker(&self) -> &Arc<Ticker> {
        &self.ticker
    }
}

/// Creates an engine with a pool of instances, or without one if there is not enough address space.
fn new_engine(metering: Metering, work: SandboxUse) -> Result<(Engine, Allocation), SandboxError> {
    let mut config = config(metering);
    if work == SandboxUse::Portable {
        // With a named target, the features of this machine's processor are not used.
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        config.target(&target).map_err(|error| {
            SandboxError::Machine(format!("cannot compile for `{target}`: {error:#}"))
        })?;
        // Only interpreters are compiled for every processor. Their addresses say nothing of the script that they run, and
        // are a twelfth of the package. Engines load code with and without them.
        config.generate_address_map(false);
    }
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(work)));
    if let Ok(pooled) = Engine::new(&config) {
        return Ok((
            pooled,
            Allocation::Pool {
                attempts: work.max_attempts(),
            },
        ));
    }
    let frugal = Engine::new(on_demand_config(&mut config));
    let frugal = frugal.map_err(|error| {
        SandboxError::Machine(format!("cannot set up the WebAssembly engine: {error:#}"))
    })?;
    Ok((frugal, Allocation::OnDemand))
}

/// Configures memories that reserve only what they use, at the cost of a check of each access.
fn on_demand_config(config: &mut Config) -> &Config {
    config
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        .memory_reservation(0)
        .memory_reservation_for_growth(GROWTH_BYTES)
        .memory_guard_size(0)
}

fn config(metering: Metering) -> Config {
    let mut config = Config::new();
    config
        .wasm_features(WasmFeatures::all().difference(ENABLED_FEATURES), false)
        .wasm_component_model(true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .consume_fuel(metering == Metering::Fuel)
        .max_wasm_stack(STACK_BYTES)
        .async_stack_size(FIBER_BYTES)
        // Traps are found by frame pointers. These tables are for debuggers, and are registered each time that code is loaded.
        .native_unwind_info(false)
        // Reading debug information is not bounded in wasmtime; `source` does it instead.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        // These make results the same on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
    config
}

/// Configures the pool. Its size does not affect the compiled code.
fn pool(work: SandboxUse) -> PoolingAllocationConfig {
    // One more for the component that may describe itself at the same time.
    let slots = work.max_attempts() + 1;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_core_instances(slots * MAX_CORE_INSTANCES)
        .total_memories(slots * MAX_MEMORIES)
        .total_tables(slots * MAX_TABLES)
        .total_stacks(slots)
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .max_memories_per_component(MAX_MEMORIES)
        .max_memories_per_module(MAX_MEMORIES)
        .max_tables_per_component(MAX_TABLES)
        .max_tables_per_module(MAX_TABLES)
        .max_component_instance_size(MAX_INSTANCE_BYTES)
        .max_core_instance_size(MAX_INSTANCE_BYTES)
        .table_elements(MAX_TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);
    pool
}

#[cfg(test)]
mod tests {
    use strata_core::record::id::Digest;

    use super::cache::CompileCache;
    use super::*;

    #[test]
    fn compiled_code_is_the_same_whatever_the_work() {
        let key = |work| {
            let engines = Engines::new(work).unwrap();
            CompileCache::disabled().key(
                &Digest("ab12".into()),
                engines.get(Metering::Plain).unwrap(),
            )
        };
        assert_eq!(key(SandboxUse::OneShot), key(SandboxUse::Teams));
    }
}
