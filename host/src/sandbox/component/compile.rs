//! Compiling within bounds. A compiler cannot be interrupted, so what it is given is bounded first, and where it still
//! takes too long it is left behind: it works on threads of its own, in nobody's way, until it is done.
//!
//! What a component comes to once it is put together is counted in `parts`.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use rayon::ThreadPoolBuilder;
use wasmparser::{Parser, Payload};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::parts::Parts;
use super::{LoadError, problem};
use crate::plugin::Limits;
use crate::sandbox::SandboxError;

/// The body of one function. The time and the memory that a compiler takes for one grow faster than the function; the
/// largest real ones, the main loops of interpreters, have about 300 KB.
const FUNCTION_BYTES: usize = 1 << 20;
/// Functions of one component; interpreters with all their libraries have about 50,000.
const FUNCTIONS: usize = 500_000;

/// Refuses what has too many bytes.
pub(super) fn check_size(bytes: &[u8], limits: &Limits) -> Result<(), LoadError> {
    let (length, limit) = (bytes.len() as u64, limits.component_bytes);
    if length > limit {
        Err(LoadError::TooLarge { length, limit })
    } else {
        Ok(())
    }
}

/// Refuses what would take the compiler too long or too much memory, before it sees it.
fn check_contents(bytes: &[u8]) -> Result<(), LoadError> {
    let mut functions = 0;
    let mut parts = Parts::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| LoadError::Invalid(error.to_string()))?;
        let Payload::CodeSectionEntry(body) = payload else {
            parts.count(&payload)?;
            continue;
        };
        functions += 1;
        let length = body.range().len();
        if length > FUNCTION_BYTES {
            return Err(LoadError::FunctionTooLarge {
                length,
                bound: FUNCTION_BYTES,
            });
        }
        if functions > FUNCTIONS {
            return Err(LoadError::TooManyFunctions { bound: FUNCTIONS });
        }
    }
    Ok(())
}

/// Compiles a component, and gives up waiting for it when its time is over.
pub(super) fn compile(
    engine: &Engine,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Component, LoadError> {
    check_contents(bytes)?;
    // The compiler works on all threads of the pool that it is called in. With a pool of its own, one that is left
    // behind holds up no other.
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
        // Nobody waits any more for one that comes too late.
        let _ = done.send(Component::from_binary(&engine, &bytes));
    });
    match compiled.recv_timeout(limits.compile) {
        Ok(component) => component.map_err(|error| problem::of_compiling(&error)),
        Err(RecvTimeoutError::Timeout) => Err(LoadError::SlowToCompile {
            limit: limits.compile,
        }),
        Err(RecvTimeoutError::Disconnected) => panic!("the compiler panicked"),
    }
}
