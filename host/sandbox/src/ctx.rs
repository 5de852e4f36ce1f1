//! The data of a store during one attempt: what it may use, what it has used and done, and what the host
//! functions in `interfaces` have in common.

pub(super) mod outbound;
mod state_writes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_core::record::fault::FaultCause;
use strata_core::record::host_call::Grant;
use strata_core::record::memory::MemoryRequest;
use strata_core::record::message::Draft;
use strata_core::record::scope_write::Write;
use strata_services::gateway::{
    Allowance, Gateway, GuestRequest, HostAnswer, HostError, HostErrorKind,
};
use strata_services::plugin::{LimitReached, Limits};

use super::bindings::types;
use super::capability::Capabilities;
use super::debug_info::DebugInfo;
use super::denied_lookups::DeniedLookups;
use super::engine::TickGuard;
use super::limits::memory::MemoryLimiter;
use super::limits::{AbortReason, Meter};
use super::log::GuestLog;
use super::media::AttemptMedia;
use super::{EntryPoint, SandboxCall, convert};
use state_writes::StateWrites;

/// The maximum length of the name of a scope, key or label, and of a path. Longer ones make no
/// sense, and names are copied often.
pub(super) const MAX_NAME_BYTES: usize = 4 << 10;

/// The result of a host function that can refuse. The outer error ends the attempt.
pub(super) type HostResult<T> = wasmtime::Result<Result<T, types::HostError>>;

/// Whether the called function may have effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effects {
    Allowed,
    /// A component that chooses, describes itself or prepares an attempt must not have effects.
    Forbidden,
}

/// The state of one attempt.
pub(super) struct Ctx {
    pub(super) memory: MemoryLimiter,
    pub(super) meter: Arc<Meter>,
    pub(super) capabilities: Capabilities,
    pub(super) media: AttemptMedia,
    pub(super) limits: Limits,
    /// `None` while a component describes itself or prepares an attempt: there is no driver then.
    gateway: Option<Gateway>,
    pub(super) log: Arc<Mutex<GuestLog>>,
    effects: Effects,
    calls: u32,
    /// The paths that it looked for and may not see.
    pub(super) denied_lookups: DeniedLookups,
    /// Why the last host call was refused, if it was.
    last_refusal: Option<FaultCause>,
    exchanged_bytes: u64,
    output_bytes: u64,
    /// The messages that it has published.
    pub(super) emissions: Vec<Draft>,
    pub(super) state_writes: StateWrites,
    /// Whether the attempt belongs to a conversation.
    pub(super) conversation: Conversation,
    /// What it asks to replace in that conversation.
    pub(super) memory_request: Option<MemoryRequest>,
    /// The debug information for the backtraces of its faults.
    pub(super) sources: Arc<DebugInfo>,
    /// The line that an interpreter reported last, counted from 1.
    pub(super) script_line: Option<u32>,
    /// Has the guest interrupted at each tick, so that its limits are checked.
    pub(super) tick_guard: Option<TickGuard>,
}

/// Whether an attempt belongs to a conversation of its role with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversation {
    /// It is a tool call of the model.
    Open,
    /// It is not.
    Absent,
}

impl Ctx {
    /// Creates the data for an attempt.
    pub(super) fn new(call: &SandboxCall, gateway: Gateway) -> Self {
        let limits = &call.plugin.limits;
        let log = Arc::new(Mutex::new(GuestLog::new(&call.role.name, &call.plugin)));
        let effects = match call.entry {
            EntryPoint::Run { .. } | EntryPoint::Plan { .. } => Effects::Allowed,
            EntryPoint::Choose { .. } => Effects::Forbidden,
        };
        Self {
            capabilities: Capabilities::new(call, &gateway),
            media: AttemptMedia::received_by(call),
            gateway: Some(gateway),
            effects,
            conversation: match call.entry {
                EntryPoint::Run {
                    tool_call: Some(_), ..
                } => Conversation::Open,
                _ => Conversation::Absent,
            },
            ..Self::with_limits(limits.clone(), log)
        }
    }

    /// Creates the data for a component that describes itself.
    pub(super) fn for_describe(limits: Limits) -> Self {
        let log = Arc::new(Mutex::new(GuestLog::for_describe(limits.log_bytes)));
        Self::with_limits(limits, log)
    }

    fn with_limits(limits: Limits, log: Arc<Mutex<GuestLog>>) -> Self {
        Self {
            memory: MemoryLimiter::new(&limits),
            meter: Arc::new(Meter::start(&limits)),
            capabilities: Capabilities::none(),
            media: AttemptMedia::default(),
            limits,
            gateway: None,
            log,
            effects: Effects::Forbidden,
            calls: 0,
            denied_lookups: DeniedLookups::default(),
            last_refusal: None,
            exchanged_bytes: 0,
            output_bytes: 0,
            emissions: Vec::new(),
            state_writes: StateWrites::default(),
            conversation: Conversation::Absent,
            memory_request: None,
            sources: Arc::default(),
            script_line: None,
            tick_guard: None,
        }
    }

    /// Returns how many host functions the guest has called.
    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    /// Notes a path that the guest looked for and did not find, if it is outside of the granted
    /// directories.
    pub(super) fn note_lookup(&mut self, path: &str) {
        if self.capabilities.files.is_outside(path) {
            let path = match path.trim_end_matches('/') {
                "" => path,
                name => name,
            };
            self.denied_lookups.add(path);
        }
    }

    pub(super) fn log(&self) -> MutexGuard<'_, GuestLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the emissions and writes of the attempt.
    pub(super) fn take_effects(&mut self) -> (Vec<Draft>, Vec<Write>) {
        let emissions = std::mem::take(&mut self.emissions);
        (emissions, self.state_writes.take())
    }

    /// Counts calls of a host function.
    pub(super) fn count_calls(
        &mut self,
        function: &'static str,
        calls: u32,
    ) -> Result<(), AbortReason> {
        self.last_refusal = None;
        self.calls = self.calls.saturating_add(calls);
        let limit = self.limits.host_calls;
        if self.calls > limit {
            return Err(AbortReason::HostCalls {
                limit,
                function,
                demand: self.calls,
            });
        }
        Ok(())
    }

    /// Counts bytes that a host function receives or returns.
    pub(super) fn count_bytes(
        &mut self,
        function: &'static str,
        bytes: u64,
    ) -> Result<(), AbortReason> {
        let limit = self.limits.host_bytes;
        self.exchanged_bytes = self.exchanged_bytes.saturating_add(bytes);
        if self.exchanged_bytes > limit {
            return Err(AbortReason::HostBytes {
                limit,
                function,
                demand: Some(self.exchanged_bytes),
            });
        }
        Ok(())
    }

    /// Appends advice to a text about a limit that was reached.
    pub(super) fn with_advice(&self, reached: LimitReached, text: String) -> String {
        match &self.capabilities.plugin {
            Some(plugin) => format!("{text}; {}", plugin.advice.for_limit(reached)),
            None => text,
        }
    }

    /// Counts the guest's output as it arrives, so that never more than the limit accumulates.
    pub(super) fn count_output(
        &mut self,
        what: &'static str,
        bytes: u64,
    ) -> Result<(), AbortReason> {
        let limit = self.limits.output_bytes;
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if self.output_bytes > limit {
            let demand = self.output_bytes;
            return Err(AbortReason::Output {
                what,
                limit,
                demand,
            });
        }
        Ok(())
    }

    /// Sends a request to the driver. Returns `None` if there is none.
    pub(super) async fn request(
        &mut self,
        function: &'static str,
        ask: GuestRequest,
    ) -> Result<Option<HostAnswer>, AbortReason> {
        self.count_bytes(function, ask.bytes())?;
        let Some(gateway) = &self.gateway else {
            return Ok(None);
        };
        let limit = self.limits.host_bytes;
        let allowance = Allowance::new(limit.saturating_sub(self.exchanged_bytes));
        let Some(answer) = self
            .meter
            .by_deadline(function, gateway.request_within(ask, allowance))
            .await?
        else {
            return Err(AbortReason::Interrupted);
        };
        if answer.is_beyond_limit() {
            // Does not include the number of bytes, which would differ each time and in a replay.
            return Err(AbortReason::HostBytes {
                limit,
                function,
                demand: None,
            });
        }
        self.count_bytes(function, answer.bytes())?;
        if let Some(refusal) = answer.refusal() {
            self.last_refusal = refusal.cause;
        }
        Ok(Some(answer))
    }

    /// Returns the cause of a failure that the guest reports now: the refusal of its last host
    /// call, if that was refused.
    pub(super) fn cause_of_failure(&self) -> FaultCause {
        self.last_refusal.unwrap_or(FaultCause::Declared)
    }

    /// Records why the last operation of WASI was refused, if it was.
    pub(super) fn note_refusal(&mut self, cause: Option<FaultCause>) {
        self.last_refusal = cause;
    }

    /// Refuses the current host call with this error.
    pub(super) fn refuse(&mut self, error: HostError) -> types::HostError {
        self.last_refusal = error.cause;
        convert::host_error(error)
    }

    /// Refuses the current host call, which needs this grant.
    pub(super) fn deny(&mut self, grant: Grant, message: impl Into<String>) -> types::HostError {
        self.refuse(
            HostError::new(HostErrorKind::Denied, message).caused_by(FaultCause::NotGranted(grant)),
        )
    }

    pub(super) fn check_effects_allowed(&self) -> Result<(), types::HostError> {
        match self.effects {
            Effects::Allowed => Ok(()),
            Effects::Forbidden => Err(invalid(
                "nothing can be emitted or written here: a choice changes nothing",
            )),
        }
    }
}

/// Returns an `invalid` error for the guest.
pub(super) fn invalid(message: impl Into<String>) -> types::HostError {
    convert::host_error(HostError::new(HostErrorKind::Invalid, message))
}

/// Returns the error of host functions while a component describes itself.
pub(super) fn unavailable_in_describe(function: &str) -> types::HostError {
    let message = format!("`{function}` is not available while an action describes itself");
    convert::host_error(HostError::new(HostErrorKind::Denied, message))
}

/// The driver answers each kind of request with its own kind of answer; anything else is a bug of
/// the host.
pub(super) fn unexpected_answer(function: &str, answer: &HostAnswer) -> ! {
    panic!("the driver answered `{function}` with {answer:?}")
}

pub(super) fn check_name(what: &str, name: &str) -> Result<(), types::HostError> {
    if name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let length = name.len();
    Err(invalid(format!(
        "the {what} is {length} bytes long; at most {MAX_NAME_BYTES} are taken"
    )))
}
