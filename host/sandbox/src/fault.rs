//! Converts whatever ended an attempt into a fault: its kind, a message with the limit and the key
//! that changes it, the guest's backtrace, and the end of its log.

use strata_base::text::units::format_bytes;
use strata_core::record::fault::{Fault, FaultCause, FaultKind, Retryability};
use strata_services::plugin::{Limit, LimitReached};
use wasmtime::{FrameInfo, Trap, WasmBacktrace};

use super::bindings::types;
use super::capability::files::FilesFault;
use super::ctx::Ctx;
use super::debug_info::{CodePosition, DebugInfo, Symbol};
use super::engine::STACK_BYTES;
use super::limits::AbortReason;

/// The maximum number of frames of a backtrace; the innermost explain the fault.
const MAX_FRAMES: usize = 32;
/// The maximum length of a message that a guest wrote, or that quotes what it returned.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// The maximum length of a function name or source location in a frame. Names of generic functions
/// can be long.
const MAX_PART_BYTES: usize = 1 << 10;

/// Returns the fault of an attempt that wasmtime or the host ended.
pub(super) fn from_error(error: &wasmtime::Error, ctx: &Ctx) -> Fault {
    let mut fault = match error.downcast_ref::<AbortReason>() {
        Some(stop) => from_abort(stop, ctx),
        None => match error.downcast_ref::<Trap>() {
            Some(trap) => from_trap(*trap, ctx),
            None => from_other_error(error, ctx),
        },
    };
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        fault.backtrace = format_backtrace(backtrace.frames(), &ctx.sources);
    }
    fault.log = ctx.log().tail();
    fault
}

/// Returns the fault of an attempt whose guest reported its own failure.
pub(super) fn from_guest_failure(failure: types::Failure, ctx: &Ctx) -> Fault {
    let kind = match failure.kind {
        types::FailureKind::Error | types::FailureKind::Retryable => FaultKind::Error,
        types::FailureKind::Denied => FaultKind::Denied,
        types::FailureKind::Host => match ctx.cause_of_failure() {
            FaultCause::TimeLimit => FaultKind::Timeout,
            _ => FaultKind::Host,
        },
    };
    let mut message = truncate_message(failure.message);
    if message.trim().is_empty() {
        message = "the action gave no reason".into();
    }
    let mut fault = match (failure.kind, memory_refusal(ctx)) {
        // In languages where a failed allocation is an exception, the guest itself reports the
        // failure.
        (types::FailureKind::Error, Some(refusal)) => memory_fault(format!("{refusal}\n{message}")),
        _ => Fault::new(kind, message).with_cause(ctx.cause_of_failure()),
    };
    if matches!(failure.kind, types::FailureKind::Retryable) {
        fault.retryability = Retryability::Retryable;
    }
    fault.log = ctx.log().tail();
    fault
}

fn truncate_message(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    message
}

/// Returns the fault of an attempt that returned an invalid output.
pub(super) fn invalid_output(message: String, ctx: &Ctx) -> Fault {
    let mut fault = Fault::new(FaultKind::OutputInvalid, truncate_message(message));
    fault.log = ctx.log().tail();
    fault
}

/// Returns the fault of an attempt whose files cannot be staged or stored.
pub(super) fn from_files_fault(why: FilesFault, ctx: &Ctx) -> Fault {
    let mut fault = Fault::new(FaultKind::Host, why.message).with_cause(why.cause);
    // The next attempt would fail in the same way.
    fault.retryability = Retryability::Final;
    fault.log = ctx.log().tail();
    fault
}

/// Returns the fault of an attempt whose time was used up before it started.
pub(super) fn staging_timeout(ctx: &Ctx) -> Fault {
    let mut fault = from_abort(&ctx.meter.timeout_error(None), ctx);
    fault
        .message
        .push_str("\nits directories were still being copied");
    fault
}

pub(super) fn from_abort(stop: &AbortReason, ctx: &Ctx) -> Fault {
    let (kind, cause) = match stop {
        AbortReason::Cpu(_) => (FaultKind::Cpu, FaultCause::CpuLimit),
        AbortReason::Timeout { .. } => (FaultKind::Timeout, FaultCause::TimeLimit),
        AbortReason::HostCalls { .. } | AbortReason::HostBytes { .. } => {
            (FaultKind::Host, FaultCause::Limit)
        }
        AbortReason::Output { .. } => (FaultKind::OutputLimit, FaultCause::Limit),
        AbortReason::Interrupted => (FaultKind::Interrupted, FaultCause::Unspecified),
    };
    let message = match stop.limit_reached() {
        Some(reached) => ctx.with_advice(reached, stop.to_string()),
        None => stop.to_string(),
    };
    Fault::new(kind, message).with_cause(cause)
}

fn memory_fault(message: String) -> Fault {
    Fault::new(FaultKind::Memory, message).with_cause(FaultCause::Limit)
}

fn from_trap(trap: Trap, ctx: &Ctx) -> Fault {
    match trap {
        Trap::OutOfFuel => {
            let message = format!(
                "limit of {} units of fuel reached",
                ctx.limits.fuel.unwrap_or_default()
            );
            let message = ctx.with_advice(LimitReached::new(Limit::Fuel), message);
            Fault::new(FaultKind::Fuel, message).with_cause(FaultCause::FuelLimit)
        }
        Trap::StackOverflow => {
            let size = format_bytes(STACK_BYTES as u64);
            let message = format!(
                "call stack exhausted: the action recurses too deeply for its {size}, or without end"
            );
            Fault::new(FaultKind::Stack, message)
        }
        // An interpreter has no wild pointers. The part of its stack that is in its memory begins where
        // the memory begins, so it leaves the memory when it is exhausted.
        Trap::MemoryOutOfBounds if ctx.script_line.is_some() && memory_refusal(ctx).is_none() => {
            let message = "call stack exhausted: the script recurses too deeply for its interpreter, or without end";
            Fault::new(FaultKind::Stack, message)
        }
        _ => trap_or_memory_fault(describe_trap(trap), ctx),
    }
}

/// Returns the fault of a guest that ended in a way that does not give the reason. After its memory could
/// not grow, that is the reason: languages trap, abort or exit then, each in its own way.
fn trap_or_memory_fault(message: String, ctx: &Ctx) -> Fault {
    match memory_refusal(ctx) {
        Some(refusal) => memory_fault(format!("{refusal}\n{message}")),
        None => Fault::new(FaultKind::Trap, message),
    }
}

/// Returns which growth of a memory or table was refused, if the guest has not got that memory since.
fn memory_refusal(ctx: &Ctx) -> Option<String> {
    let (reached, text) = ctx.memory.refusal()?;
    Some(ctx.with_advice(reached, text))
}

fn describe_trap(trap: Trap) -> String {
    let text = trap.to_string();
    let text = text.strip_prefix("wasm trap: ").unwrap_or(&text);
    match trap {
        Trap::UnreachableCodeReached => format!("{text} (a panic, an abort or an explicit trap)"),
        Trap::MemoryOutOfBounds => format!("{text} (a wild pointer, or recursion without end)"),
        _ => text.to_owned(),
    }
}

/// The message of wasmtime's error if a guest passes too much data. The error's type is private, so
/// only the message identifies it. A guest cannot forge it: none of these errors consists of a
/// guest's text, and the whole message is compared. A test fails if wasmtime changes it.
const TRANSFER_ERROR: &str = "too much data is being copied between the host and the guest: \
     fuel allocated for hostcalls has been exhausted";

/// Handles errors that are neither the host's nor traps: failures of instantiation or of passing
/// arguments.
fn from_other_error(error: &wasmtime::Error, ctx: &Ctx) -> Fault {
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        let message = format!("the action ended itself with exit code {}", exit.0);
        return trap_or_memory_fault(message, ctx);
    }
    let cause = error.root_cause().to_string();
    if cause == TRANSFER_ERROR {
        let limit = format_bytes(transfer_bytes(ctx.limits.memory_bytes) as u64);
        let message =
            format!("handed over more than {limit} at once, more than its memory can hold");
        let message = ctx.with_advice(LimitReached::new(Limit::Memory), message);
        return Fault::new(FaultKind::OutputLimit, message).with_cause(FaultCause::Limit);
    }
    // The refused memory or table may be one that the component starts with.
    trap_or_memory_fault(cause, ctx)
}

/// Returns how many bytes a guest may pass in one call. An honest guest holds the data in its
/// memory, where the record of a text is about a third of its size in the host. Only lists that
/// refer to the same memory many times are larger.
pub(super) fn transfer_bytes(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes.saturating_mul(3)).unwrap_or(usize::MAX)
}

/// Formats the frames that are meaningful to a reader. The adapters that toolchains add have no
/// names; they are shown only if no frame has a name.
fn format_backtrace(frames: &[FrameInfo], sources: &DebugInfo) -> Vec<String> {
    let place = |info: &FrameInfo| {
        let offset = info.module_offset().unwrap_or_default();
        CodePosition {
            offset,
            function: offset - info.func_offset().unwrap_or_default(),
        }
    };
    let symbols = sources.symbols_at(&frames.iter().map(place).collect::<Vec<_>>());
    let all: Vec<(&FrameInfo, Vec<Symbol>)> = frames.iter().zip(symbols).collect();
    let is_named = |(info, symbols): &&(&FrameInfo, Vec<Symbol>)| {
        info.func_name().is_some() || !symbols.is_empty()
    };
    let mut selected: Vec<_> = all.iter().filter(is_named).collect();
    if selected.is_empty() {
        selected = all.iter().collect();
    }
    selected
        .into_iter()
        .flat_map(|(info, symbols)| format_frame(info, symbols))
        .take(MAX_FRAMES)
        .collect()
}

/// Returns one line for each function, including inlined ones: `name (file:line)` or `name
/// (module+0xoffset)`.
fn format_frame(frame: &FrameInfo, symbols: &[Symbol]) -> Vec<String> {
    let module = truncate_part(frame.module().name().unwrap_or("module"));
    let place = frame
        .module_offset()
        .map_or_else(|| module.clone(), |offset| format!("{module}+{offset:#x}"));
    let own = frame
        .func_name()
        .map_or_else(|| format!("function {}", frame.func_index()), demangle);
    if symbols.is_empty() {
        return vec![format!("{own} ({place})")];
    }
    let symbol = |symbol: &Symbol| {
        let name = symbol.name.as_deref().map_or_else(|| own.clone(), demangle);
        format!(
            "{name} ({})",
            symbol
                .source
                .as_deref()
                .map_or_else(|| place.clone(), truncate_part)
        )
    };
    symbols.iter().map(symbol).collect()
}

/// Demangles a name and limits its length before and after, because a short mangled name can expand
/// to a long one.
fn demangle(name: &str) -> String {
    truncate_part(&format!(
        "{:#}",
        rustc_demangle::demangle(&truncate_part(name))
    ))
}

/// Limits the length of a part of a line. A component can contain texts of any length.
fn truncate_part(part: &str) -> String {
    match part.len() {
        0..=MAX_PART_BYTES => part.to_owned(),
        _ => format!("{}…", &part[..part.floor_char_boundary(MAX_PART_BYTES)]),
    }
}

#[test]
fn what_a_guest_wrote_is_shortened_to_the_limit() {
    assert_eq!(truncate_message("short".into()), "short");
    let long = truncate_message("é".repeat(MAX_MESSAGE_BYTES));
    assert!(long.len() <= MAX_MESSAGE_BYTES && long.len() > MAX_MESSAGE_BYTES - 2);
}
