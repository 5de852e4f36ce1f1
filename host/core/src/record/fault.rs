//! Faults: failures of guests, as values. Errors of the operator and of the machine are elsewhere.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::record::host_call::Grant;
use crate::record::id::GuardMoment;
use crate::record::work::Work;

/// How an action failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FaultKind {
    /// It executed an instruction that ends it: `unreachable`, an access out of bounds.
    Trap,
    /// It returned a failure of its own.
    Error,
    /// It used up its fuel (instructions).
    Fuel,
    /// It used too much CPU time.
    Cpu,
    /// It took too long in total, including the time it waited.
    Timeout,
    /// It asked for more memory than it may have.
    Memory,
    /// Its call stack overflowed.
    Stack,
    /// Its output does not conform to its schema, or is not a valid output at all.
    OutputInvalid,
    /// It needed something it was not granted.
    Denied,
    /// A host call failed, or it made too many.
    Host,
    /// It wrote a key that another role wrote in the same step, in a scope without a reducer.
    StateConflict,
    /// Choosing the next action failed.
    Think,
    /// The operator stopped it.
    Interrupted,
    /// Its output is too large. It has the same name as `OutputInvalid`, but keeps the recorded
    /// calls like every other limit.
    OutputLimit,
    /// The model of a tools role replied as often as it may without an answer.
    Turns,
    /// A guard of a tools role failed. It has the same name as `Host`, but is never a failure of the tool that was
    /// called; its cause is that of the guard.
    Guard(GuardMoment),
}

impl FaultKind {
    /// The name used in events and in `team.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Error => "error",
            Self::Fuel => "fuel",
            Self::Cpu => "cpu",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::Stack => "stack",
            Self::OutputInvalid | Self::OutputLimit => "output-invalid",
            Self::Denied => "denied",
            Self::Host | Self::Guard(_) => "host",
            Self::StateConflict => "state-conflict",
            Self::Think => "think",
            Self::Interrupted => "interrupted",
            Self::Turns => "turns",
        }
    }

    /// Returns the first kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// All kinds, each name once.
    pub const ALL: [Self; 14] = [
        Self::Trap,
        Self::Error,
        Self::Fuel,
        Self::Cpu,
        Self::Timeout,
        Self::Memory,
        Self::Stack,
        Self::OutputInvalid,
        Self::Denied,
        Self::Host,
        Self::StateConflict,
        Self::Think,
        Self::Interrupted,
        Self::Turns,
    ];

    /// Returns whether the next attempt with an unchanged component is served the recorded host
    /// calls first.
    ///
    /// After a failure that the component caused itself, the same answers would only repeat it.
    pub fn keeps_recorded_calls(self) -> bool {
        !matches!(
            self,
            Self::Trap | Self::Error | Self::OutputInvalid | Self::Think
        )
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why an attempt failed, as far as the host itself knows.
///
/// The host alone sets it, where a fault is created, and it is saved with the fault. Advice and
/// comparisons use it instead of the message, which may contain words of a guest, a model or a
/// server.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum FaultCause {
    /// The host knows nothing beyond the kind.
    #[default]
    Unspecified,
    /// The guest declared the failure. The kind and the message are its own words, and the host did
    /// not refuse it anything.
    Declared,
    /// `limits.cpu` was reached.
    CpuLimit,
    /// `limits.fuel` was reached.
    FuelLimit,
    /// `limits.timeout` was reached.
    TimeLimit,
    /// Another limit in `[limits]` was reached.
    Limit,
    /// The host refused something that the team file does not grant.
    NotGranted(Grant),
    /// The service behind a host call failed.
    Service,
    /// The team has no model.
    NoModel,
    /// The file of scripted replies has none for the request.
    NoScriptedReply,
    /// The record of model calls has no reply to the request.
    NoRecordedReply,
    /// The action's own budget is used up.
    OwnBudget,
    /// The scope is not declared in the team file.
    NoScope,
    /// A symbolic link or another special file prevents a change.
    SymbolicLink,
    /// The attempt tried to change the directory in which the host saves the team.
    StorageDirectory,
    /// The granted directories could not be copied for the attempt.
    Staging,
    /// What the attempt left in its directories could not be kept.
    Keeping,
    /// The attempt was stopped while it wrote more than its directories may hold. When it is
    /// stopped depends on the machine.
    DirectoryOverflow,
    /// The host could not create temporary files.
    TemporaryFiles,
    /// The conversation with a model is longer than the model or `summarise_at` allows.
    ContextTooLong,
    /// A tool that the attempt called failed, and its failure is a fault of the run.
    NestedCall,
}

impl FaultCause {
    /// All causes, in the order of the variants.
    pub const ALL: [Self; 27] = [
        Self::Unspecified,
        Self::Declared,
        Self::CpuLimit,
        Self::FuelLimit,
        Self::TimeLimit,
        Self::Limit,
        Self::NotGranted(Grant::Llm),
        Self::NotGranted(Grant::Http),
        Self::NotGranted(Grant::Dirs),
        Self::NotGranted(Grant::Env),
        Self::NotGranted(Grant::Secrets),
        Self::NotGranted(Grant::Tools),
        Self::NotGranted(Grant::Mcp),
        Self::Service,
        Self::NoModel,
        Self::NoScriptedReply,
        Self::NoRecordedReply,
        Self::OwnBudget,
        Self::NoScope,
        Self::SymbolicLink,
        Self::StorageDirectory,
        Self::Staging,
        Self::Keeping,
        Self::DirectoryOverflow,
        Self::TemporaryFiles,
        Self::ContextTooLong,
        Self::NestedCall,
    ];

    /// Returns the name used in events and in `team.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Declared => "declared",
            Self::CpuLimit => "cpu-limit",
            Self::FuelLimit => "fuel-limit",
            Self::TimeLimit => "time-limit",
            Self::Limit => "limit",
            Self::NotGranted(grant) => grant.cause_name(),
            Self::Service => "service",
            Self::NoModel => "no-model",
            Self::NoScriptedReply => "no-scripted-reply",
            Self::NoRecordedReply => "no-recorded-reply",
            Self::OwnBudget => "own-budget",
            Self::NoScope => "no-scope",
            Self::SymbolicLink => "symbolic-link",
            Self::StorageDirectory => "storage-directory",
            Self::Staging => "staging",
            Self::Keeping => "keeping",
            Self::DirectoryOverflow => "directory-overflow",
            Self::TemporaryFiles => "temporary-files",
            Self::ContextTooLong => "context-too-long",
            Self::NestedCall => "nested-call",
        }
    }

    /// Returns the cause with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }
}

/// What becomes of the fault of a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultHandling {
    /// It is a fault of the run, like those of all other calls.
    #[default]
    Stops,
    /// The model is told, and the call counts as finished.
    Returned,
}

/// Whether trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retryability {
    /// It may: the guest says so, or the kind of failure suggests it (a timeout, a failed host
    /// call).
    Retryable,
    /// It does not help.
    Final,
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// How it failed.
    pub kind: FaultKind,
    /// Whether trying again may help.
    pub retryability: Retryability,
    /// Why it failed, as far as the host knows.
    pub cause: FaultCause,
    /// What was attempted and why it failed; the first line is the summary.
    pub message: String,
    /// The stack frames of the guest, innermost first; empty if there are none.
    pub backtrace: Vec<String>,
    /// The last lines that the guest logged or wrote to its standard streams.
    pub log: Vec<String>,
}

impl Fault {
    /// Returns whether the next attempt with an unchanged component is served the recorded host
    /// calls first.
    pub fn keeps_recorded_calls(&self) -> bool {
        // The component did not cause it: a call of a tool failed like any other host call.
        self.cause == FaultCause::NestedCall || self.kind.keeps_recorded_calls()
    }

    /// Returns a fault without a backtrace, a log or a specified cause. Timeouts and failed host
    /// calls are retryable.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        let retryability = match kind {
            FaultKind::Timeout | FaultKind::Host => Retryability::Retryable,
            _ => Retryability::Final,
        };
        let cause = FaultCause::Unspecified;
        Self {
            kind,
            retryability,
            cause,
            message: message.into(),
            backtrace: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Returns the fault with this cause.
    pub fn with_cause(self, cause: FaultCause) -> Self {
        Self { cause, ..self }
    }

    /// Returns the fault as it is saved and reported for this call. A failure of the component that
    /// chooses the next action becomes a fault of kind `Think`, whatever its own kind is. An
    /// interruption by the operator stays as it is.
    pub fn as_reported(&self, work: Work) -> Cow<'_, Self> {
        match (work, self.kind) {
            (Work::Think { .. }, FaultKind::Interrupted | FaultKind::Think) => Cow::Borrowed(self),
            (Work::Think { .. }, kind) => {
                let message = format!("choosing failed: {kind}: {}", self.message);
                Cow::Owned(Self {
                    kind: FaultKind::Think,
                    message,
                    ..self.clone()
                })
            }
            _ => Cow::Borrowed(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_their_names() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(FaultKind::from_name("Trap"), None);
        for cause in FaultCause::ALL {
            assert_eq!(FaultCause::from_name(cause.name()), Some(cause));
        }
        for grant in Grant::ALL {
            assert!(FaultCause::ALL.contains(&FaultCause::NotGranted(grant)));
        }
        assert_eq!(FaultCause::from_name("Declared"), None);
        let not_granted = FaultCause::NotGranted(Grant::Secrets);
        assert_eq!(
            FaultCause::from_name("secrets-not-granted"),
            Some(not_granted)
        );
    }

    #[test]
    fn what_goes_wrong_while_choosing_is_a_failed_choice_but_for_an_interruption() {
        let check = |work: Work, kind: FaultKind, expected: (FaultKind, &str)| {
            let fault = Fault::new(kind, "why");
            let seen = fault.as_reported(work);
            assert_eq!((seen.kind, seen.message.as_str()), expected);
            assert_eq!(
                seen.as_reported(work),
                seen,
                "what is saved is told as it is"
            );
        };
        let (think, plan) = (Work::Think { round: 0 }, Work::Plan);
        check(
            think,
            FaultKind::Cpu,
            (FaultKind::Think, "choosing failed: cpu: why"),
        );
        check(think, FaultKind::Think, (FaultKind::Think, "why"));
        check(
            think,
            FaultKind::Interrupted,
            (FaultKind::Interrupted, "why"),
        );
        check(plan, FaultKind::Cpu, (FaultKind::Cpu, "why"));
    }

    #[test]
    fn what_an_action_did_by_itself_is_asked_afresh_and_only_passing_kinds_are_retried() {
        let check = |kinds: &[FaultKind], keeps: bool, hope: Retryability| {
            for kind in kinds {
                assert_eq!(
                    (
                        kind.keeps_recorded_calls(),
                        Fault::new(*kind, "").retryability
                    ),
                    (keeps, hope),
                    "{kind}"
                );
            }
        };
        use FaultKind::*;
        check(
            &[Trap, Error, OutputInvalid, Think],
            false,
            Retryability::Final,
        );
        check(
            &[
                Fuel,
                Cpu,
                Memory,
                Stack,
                OutputLimit,
                StateConflict,
                Denied,
                Interrupted,
                Turns,
                Guard(GuardMoment::Before),
                Guard(GuardMoment::After),
            ],
            true,
            Retryability::Final,
        );
        check(&[Timeout, Host], true, Retryability::Retryable);
    }
}
