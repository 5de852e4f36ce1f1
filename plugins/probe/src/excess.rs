//! The ways in which the probe misbehaves when it is told to `fail`.
//!
//! Each shows the host one kind of guest it has to survive. What looks roundabout here keeps the optimiser from
//! seeing that the work is for nothing.

use serde::Deserialize;
use serde_json::Value;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use strata_action::{Failure, Output, log, state};

/// A way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excess {
    /// Runs into an `unreachable` instruction.
    Trap,
    /// Gives up for good.
    Error,
    /// Gives up for this time.
    Retryable,
    /// Never ends.
    Spin,
    /// Takes memory until there is no more.
    Alloc,
    /// Calls itself without end.
    Recurse,
    /// Returns data that breaks the output's schema.
    Invalid,
    /// Logs more than anyone wants to read, and goes on.
    FloodLog,
    /// Returns more than anyone wants to store.
    BigOutput,
    /// Calls the host more often than is decent, and goes on.
    FloodCalls,
}

const LOG_LINES: usize = 64;
const LOG_LINE_BYTES: usize = 64 * 1024;
const BIG_OUTPUT_BYTES: usize = 9 * 1024 * 1024;
const FLOOD_CALLS: usize = 100_000;
const ALLOCATION_BYTES: usize = 1024 * 1024;

/// Misbehaves. An excess that ends the action with an output returns it; one that lets it go on returns none.
///
/// # Errors
/// Returns the failures that are asked for, and what the host answers to a flood of calls.
pub fn commit(excess: Excess, action: &str) -> Result<Option<Output<Value>>, Failure> {
    match excess {
        Excess::Trap => trap(),
        Excess::Spin => spin(),
        Excess::Alloc => take_all_memory(),
        Excess::Recurse => {
            black_box(recurse(1));
            Ok(None)
        }
        Excess::Error => Err(Failure::error("the probe was told to fail")),
        Excess::Retryable => Err(Failure::retryable("the probe was told to fail in passing")),
        Excess::Invalid => {
            let data = Value::from("no schema asks for this");
            Ok(Some(Output::new(format!("{action} ok")).data(data)))
        }
        Excess::BigOutput => Ok(Some(Output::new("x".repeat(BIG_OUTPUT_BYTES)))),
        Excess::FloodLog => {
            let line = "flood ".repeat(LOG_LINE_BYTES / 6);
            (0..LOG_LINES).for_each(|_| log::info(&line));
            Ok(None)
        }
        Excess::FloodCalls => {
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

static TURNS: AtomicU32 = AtomicU32::new(0);

fn spin() -> ! {
    loop {
        TURNS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Touches what it takes, so that the memory is not only promised. The allocator aborts in the end.
fn take_all_memory() -> ! {
    loop {
        std::mem::forget(black_box(vec![1_u8; ALLOCATION_BYTES]));
    }
}

/// Uses no address of a local, so that the stack of WebAssembly runs out and not the one in linear memory; and is
/// no tail call, so that no loop can be made of it.
#[inline(never)]
fn recurse(depth: u32) -> u32 {
    if depth == TURNS.load(Ordering::Relaxed) {
        return 0;
    }
    recurse(depth.wrapping_add(1)).rotate_left(3) ^ depth
}
