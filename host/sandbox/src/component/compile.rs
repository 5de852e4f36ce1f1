//! Compiles components within bounds. A compiler cannot be interrupted, so its input is bounded
//! first. If it still takes too long, it is abandoned and finishes on threads of its own.
//!
//! `part_count` computes the size of the expanded component.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use rayon::ThreadPoolBuilder;
use strata_services::plugin::Limits;
use wasmparser::{Parser, Payload};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::part_count::PartCounter;
use super::{LoadError, load_error};
use crate::SandboxError;

/// The maximum size of the body of one function. The time and memory to compile a function grow
/// faster than its size; the largest real ones, the main loops of interpreters, have about 300 KB.
const MAX_FUNCTION_BYTES: usize = 1 << 20;
/// The maximum number of functions of one component. Interpreters with all their libraries have
/// about 50,000.
const MAX_FUNCTIONS: usize = 500_000;

/// Fails if the component has more bytes than its limit.
pub(super) fn check_size(length: u64, limits: &Limits) -> Result<(), LoadError> {
    let limit = limits.component_bytes;
    if length > limit {
        Err(LoadError::TooLarge { length, limit })
    } else {
        Ok(())
    }
}

/// Fails if compiling the component would take too long or too much memory.
fn check_contents(bytes: &[u8]) -> Result<(), LoadError> {
    let mut functions = 0;
    let mut parts = PartCounter::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| LoadError::Invalid(error.to_string()))?;
        let Payload::CodeSectionEntry(body) = payload else {
            parts.count_section(&payload)?;
            continue;
        };
        functions += 1;
        let length = body.range().len();
        if length > MAX_FUNCTION_BYTES {
            return Err(LoadError::FunctionTooLarge {
                length,
                bound: MAX_FUNCTION_BYTES,
            });
        }
        if functions > MAX_FUNCTIONS {
            return Err(LoadError::TooManyFunctions {
                bound: MAX_FUNCTIONS,
            });
        }
    }
    Ok(())
}

/// Compiles a component. Fails if that takes longer than its limit.
pub(super) fn compile(
    engine: &Engine,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Component, LoadError> {
    check_contents(bytes)?;
    // The compiler uses all threads of the pool that it is called in. With a pool of its own, an
    // abandoned compilation does not block others.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|n| format!("compiler {n}"))
        .build();
    let pool = pool.map_err(|error| {
        SandboxError::Machine(format!("cannot start the compiler's threads: {error}"))
    })?;
    let (done, compiled) = mpsc::channel();
    let (engine, bytes) = (engine.clone(), bytes.to_vec());
    pool.spawn(move || {
        // It is no error if the receiver has stopped waiting.
        let _ = done.send(Component::from_binary(&engine, &bytes));
    });
    match compiled.recv_timeout(limits.compile) {
        Ok(component) => component.map_err(|error| load_error::compile_error(&error)),
        Err(RecvTimeoutError::Timeout) => Err(LoadError::SlowToCompile {
            limit: limits.compile,
        }),
        Err(RecvTimeoutError::Disconnected) => panic!("the compiler panicked"),
    }
}
