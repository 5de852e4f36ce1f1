//! The ways in which the probe misbehaves in a `fail` step.
//!
//! Each is a kind of guest that the host has to survive. Code that looks roundabout here keeps the
//! optimiser from removing work without effect.

use serde::Deserialize;
use serde_json::Value;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use strata_action::{Failure, Output, log, state};

/// A kind of misbehaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misbehaviour {
    /// Executes an `unreachable` instruction.
    Trap,
    /// Returns a permanent failure.
    Error,
    /// Returns a retryable failure.
    Retryable,
    /// Loops forever.
    Spin,
    /// Allocates memory until there is none left.
    Alloc,
    /// Recurses without end.
    Recurse,
    /// Returns data that does not match the output schema.
    Invalid,
    /// Logs more than the limit, and goes on.
    FloodLog,
    /// Returns an output that is larger than the limit.
    BigOutput,
    /// Calls the host more often than the limit, and goes on.
    FloodCalls,
}

const LOG_LINES: usize = 64;
const LOG_LINE_BYTES: usize = 64 * 1024;
const BIG_OUTPUT_BYTES: usize = 9 * 1024 * 1024;
const FLOOD_CALLS: usize = 100_000;
const ALLOCATION_BYTES: usize = 1024 * 1024;

/// Misbehaves. Returns the output with which the action ends, or `None` if the action goes on.
///
/// # Errors
/// Returns the requested failures, and the host's error for too many calls.
pub fn misbehave(excess: Misbehaviour, action: &str) -> Result<Option<Output<Value>>, Failure> {
    match excess {
        Misbehaviour::Trap => trap(),
        Misbehaviour::Spin => spin(),
        Misbehaviour::Alloc => take_all_memory(),
        Misbehaviour::Recurse => {
            black_box(recurse(1));
            Ok(None)
        }
        Misbehaviour::Error => Err(Failure::error("the probe was told to fail")),
        Misbehaviour::Retryable => {
            Err(Failure::retryable("the probe was told to fail temporarily"))
        }
        Misbehaviour::Invalid => {
            let data = Value::from("no schema asks for this");
            Ok(Some(Output::new(format!("{action} ok")).data(data)))
        }
        Misbehaviour::BigOutput => Ok(Some(Output::new("x".repeat(BIG_OUTPUT_BYTES)))),
        Misbehaviour::FloodLog => {
            let line = "flood ".repeat(LOG_LINE_BYTES / 6);
            for _ in 0..LOG_LINES {
                log::info(&line);
            }
            Ok(None)
        }
        Misbehaviour::FloodCalls => {
            for _ in 0..FLOOD_CALLS {
                state::role().get::<Value>("flood")?;
            }
            Ok(None)
        }
    }
}

#[cfg(target_arch = "wasm32")]
fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

#[cfg(not(target_arch = "wasm32"))]
fn trap() -> ! {
    panic!("the probe was told to trap")
}

static ITERATIONS: AtomicU32 = AtomicU32::new(0);

fn spin() -> ! {
    loop {
        ITERATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes to the memory it allocates, so that the memory is really used. The allocator aborts in
/// the end.
fn take_all_memory() -> ! {
    loop {
        std::mem::forget(black_box(vec![1_u8; ALLOCATION_BYTES]));
    }
}

/// Recurses without taking the address of a local variable, so that the call stack overflows and
/// not the stack in linear memory. The call is not a tail call, so that it is not compiled to a
/// loop.
#[inline(never)]
fn recurse(depth: u32) -> u32 {
    if depth == ITERATIONS.load(Ordering::Relaxed) {
        return 0;
    }
    recurse(depth.wrapping_add(1)).rotate_left(3) ^ depth
}
