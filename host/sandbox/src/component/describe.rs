//! Calls a component once to describe itself, with no grants and within narrow limits, or its own
//! limits where these are narrower.

use std::thread;
use std::time::Duration;

use strata_base::text::units::format_bytes;
use strata_core::record::fault::Fault;
use strata_services::gateway::ITEM_BYTES;
use strata_services::plugin::Limits;

use super::load_error::error_chain;
use super::{ComponentManifest, LinkedComponent, LoadError};
use crate::attempt::new_store;
use crate::bindings::handler;
use crate::capability::wasi;
use crate::ctx::Ctx;
use crate::{SandboxError, fault};

/// As much as the default for actions.
const MAX_MEMORY_BYTES: u64 = 64 << 20;
/// Many times what a component needs to start.
const MAX_CPU_TIME: Duration = Duration::from_secs(1);
/// A component has nothing to wait for here, so only a busy machine makes it slow.
const MAX_WALL_TIME: Duration = Duration::from_secs(30);
/// A manifest is a page of text and two schemas.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// All of its host calls are refused.
const MAX_HOST_CALLS: u32 = 64;

/// Instantiates the component, checks the types of its functions, and returns its description of
/// itself.
pub(super) fn describe_component(
    ready: &LinkedComponent,
    own: &Limits,
) -> Result<ComponentManifest, LoadError> {
    run_alone(|| describe(ready, describe_limits(own)))?
}

/// Runs a future on a thread of its own, because the caller may be inside a runtime.
pub(super) fn run_alone<F: Future<Output: Send>>(
    begin: impl FnOnce() -> F + Send,
) -> Result<F::Output, SandboxError> {
    let done = thread::scope(|scope| {
        scope
            .spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build()?;
                Ok(runtime.block_on(begin()))
            })
            .join()
    });
    match done {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => {
            let error: std::io::Error = error;
            Err(SandboxError::Machine(format!(
                "cannot start a runtime: {error}"
            )))
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Returns the limits: on resources of the machine at most those of a call, otherwise the defaults.
fn describe_limits(own: &Limits) -> Limits {
    Limits {
        memory_bytes: own.memory_bytes.min(MAX_MEMORY_BYTES),
        table_elements: own.table_elements,
        cpu: own.cpu.min(MAX_CPU_TIME),
        timeout: own.timeout.min(MAX_WALL_TIME),
        output_bytes: MAX_MANIFEST_BYTES,
        log_bytes: MAX_MANIFEST_BYTES,
        host_calls: MAX_HOST_CALLS,
        ..Limits::default()
    }
}

async fn describe(ready: &LinkedComponent, limits: Limits) -> Result<ComponentManifest, LoadError> {
    let limits = Limits {
        fuel: ready.counts_fuel().then_some(u64::MAX),
        ..limits
    };
    let mut ctx = Ctx::for_describe(limits);
    if ready.uses_wasi() {
        wasi::add_to_attempt(&mut ctx, "describe");
    }
    let mut store = new_store(ready, ctx);
    let meter = std::sync::Arc::clone(&store.data().meter);
    let described = async {
        let instance = ready
            .instantiate(&mut store)
            .await
            .map_err(DescribeFailure::Failed)?;
        // The types of the other functions are checked as well.
        ready
            .run(&mut store, &instance)
            .map_err(DescribeFailure::Types)?;
        ready
            .plan(&mut store, &instance)
            .map_err(DescribeFailure::Types)?;
        ready
            .choose(&mut store, &instance)
            .map_err(DescribeFailure::Types)?;
        let describe = ready
            .describe(&mut store, &instance)
            .map_err(DescribeFailure::Types)?;
        let Some(describe) = describe else {
            return Ok(ComponentManifest::default());
        };
        let (manifest,) = describe
            .call_async(&mut store, ())
            .await
            .map_err(DescribeFailure::Failed)?;
        Ok(convert_manifest(manifest))
    };
    let result = meter
        .measure(tokio::time::timeout_at(meter.deadline(), described))
        .await;
    let ctx = store.data();
    ctx.capabilities.flush();
    match result {
        Ok(Ok(manifest)) => check_manifest_size(manifest),
        Ok(Err(DescribeFailure::Types(error))) => Err(LoadError::Types {
            why: error_chain(&error),
        }),
        Ok(Err(DescribeFailure::Failed(error))) => {
            Err(describe_error(fault::from_error(&error, ctx)))
        }
        Err(_) => Err(describe_error(fault::from_error(
            &meter.timeout_error(None).into(),
            ctx,
        ))),
    }
}

/// Why a component cannot describe itself.
enum DescribeFailure {
    Types(wasmtime::Error),
    Failed(wasmtime::Error),
}

fn convert_manifest(manifest: handler::Manifest) -> ComponentManifest {
    ComponentManifest {
        name: manifest.name,
        version: manifest.version,
        description: manifest.description,
        config_schema: manifest.config_schema,
        input_schema: manifest.input_schema,
        output_schema: manifest.output_schema,
        needs: manifest.needs,
    }
}

fn check_manifest_size(manifest: ComponentManifest) -> Result<ComponentManifest, LoadError> {
    let schemas = manifest
        .config_schema
        .iter()
        .chain(&manifest.input_schema)
        .chain(&manifest.output_schema);
    let texts = [&manifest.name, &manifest.version, &manifest.description]
        .into_iter()
        .chain(schemas);
    let needs: usize = manifest
        .needs
        .iter()
        .map(|need| need.len() + ITEM_BYTES)
        .sum();
    let length = texts.map(String::len).sum::<usize>() + needs;
    if length as u64 <= MAX_MANIFEST_BYTES {
        return Ok(manifest);
    }
    let (length, limit) = (
        format_bytes(length as u64),
        format_bytes(MAX_MANIFEST_BYTES),
    );
    Err(LoadError::Describe {
        kind: "output-invalid",
        message: format!("its manifest has {length}, at most {limit} are taken"),
    })
}

/// Combines the message, backtrace and log of the fault in one text.
fn describe_error(fault: Fault) -> LoadError {
    let summary = fault.message.lines().next().unwrap_or_default();
    let frames = fault
        .backtrace
        .iter()
        .map(|frame| format!("\n  at {frame}"));
    let log = fault.log.iter().map(|line| format!("\n  log: {line}"));
    LoadError::Describe {
        kind: fault.kind.name(),
        message: frames
            .chain(log)
            .fold(summary.to_owned(), |text, line| text + &line),
    }
}
