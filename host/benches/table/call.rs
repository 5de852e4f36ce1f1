//! The cost of an action call, compared with the same in raw wasmtime: new store, instantiate,
//! call, drop.

use std::future::Future;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use strata_core::record::id::RoleId;
use strata_core::team::RoleProfile;
use strata_host::gateway::{AttemptId, Gateway};
use strata_host::plugin::Plugin;
use strata_host::sandbox::{Metering, Sandbox, SandboxCall, WasmSandbox};
use tokio::sync::mpsc;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
};

use super::run::median;
use generated::exports::strata::action::handler::GuestIndices;
use generated::strata::action::types::{Attempt, Input, Profile as RawProfile};

#[allow(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/sandbox/guest.rs"]
mod guest;

#[allow(missing_docs, reason = "generated")]
mod generated {
    wasmtime::component::bindgen!({ path: "../wit", world: "action", exports: { default: async } });
}

/// The number of batches of each kind. The result is their median.
const BATCHES: usize = 200;
/// The number of calls in a batch.
const CALLS: u32 = 100;

/// Raw wasmtime with a pool, epochs, and functions that are looked up in advance.
struct Raw {
    pre: InstancePre<()>,
    indices: GuestIndices,
    attempt: Attempt,
    input: Input,
}

impl Raw {
    fn new(guest: &[u8]) -> wasmtime::Result<Self> {
        let mut pool = PoolingAllocationConfig::new();
        pool.linear_memory_keep_resident(256 << 10)
            .table_keep_resident(256 << 10)
            .pagemap_scan(Enabled::Auto);
        let mut config = Config::new();
        config.concurrency_support(false).epoch_interruption(true);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config)?;
        let component = Component::from_binary(&engine, guest)?;
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&component)?;
        let pre = linker.instantiate_pre(&component)?;
        let indices = GuestIndices::new(&pre)?;
        let empty = String::new;
        let attempt = Attempt {
            number: 1,
            idempotency_key: "run/0/R/0".into(),
            turn: None,
            call: None,
            deadline_ms: None,
        };
        let role = RawProfile {
            name: "R".into(),
            profile: empty(),
            goal: empty(),
            constraints: empty(),
            desc: empty(),
        };
        let (news, outputs, task) = (Vec::new(), Vec::new(), None);
        let input = Input {
            role,
            action: "A".into(),
            index: 0,
            config: "null".into(),
            news,
            outputs,
            task,
            arguments: None,
        };
        Ok(Self {
            pre,
            indices,
            attempt,
            input,
        })
    }

    async fn call(&self) {
        let mut store = Store::new(self.pre.engine(), ());
        store.set_epoch_deadline(1_000_000);
        let instance = self
            .pre
            .instantiate_async(&mut store)
            .await
            .expect("it instantiates");
        let guest = self
            .indices
            .load(&mut store, &instance)
            .expect("its types fit");
        let result = guest
            .call_run(&mut store, &self.attempt, &self.input)
            .await
            .expect("it runs");
        assert!(result.is_ok());
    }
}

/// The same call through the sandbox.
struct Ours {
    sandbox: WasmSandbox,
    call: SandboxCall,
    gateway: Gateway,
}

impl Ours {
    fn new(guest: &[u8]) -> Self {
        let sandbox = WasmSandbox::uncached().expect("the sandbox starts");
        let digest = sandbox
            .load(guest, Metering::Plain)
            .expect("the guest loads")
            .digest;
        let role = RoleProfile {
            name: "R".into(),
            ..RoleProfile::default()
        };
        let call = SandboxCall::first_attempt(digest, Plugin::new("/guest.wasm"), role, "A");
        let (questions, _) = mpsc::channel(1);
        Self {
            sandbox,
            call,
            gateway: Gateway::new(AttemptId::first(RoleId(0)), questions),
        }
    }

    async fn call(&self) {
        let ended = self
            .sandbox
            .call(self.call.clone(), self.gateway.clone())
            .await;
        assert!(ended.result.is_ok());
    }
}

async fn batch<F: Future<Output = ()>>(call: impl Fn() -> F) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS {
        call().await;
    }
    start.elapsed() / CALLS
}

pub(crate) fn call() -> anyhow::Result<Value> {
    let guest = guest::Guest::default().build();
    let raw = Raw::new(&guest).expect("raw wasmtime runs the guest");
    let ours = Ours::new(&guest);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let (mut raw_us, mut our_us) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        for _ in 0..BATCHES {
            raw_us.push(batch(|| raw.call()).await.as_secs_f64() * 1e6);
            our_us.push(batch(|| ours.call()).await.as_secs_f64() * 1e6);
        }
    });
    Ok(json!({ "call_us": median(&our_us), "bare_us": median(&raw_us) }))
}
