//! Faults: what a guest did wrong, as a value. The operator's and the machine's errors are elsewhere.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::event::Work;

/// How an action failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FaultKind {
    /// It executed an instruction that ends it: `unreachable`, an access out of bounds.
    Trap,
    /// It returned a failure of its own.
    Error,
    /// It used up its instruction budget.
    Fuel,
    /// It computed for too long.
    Cpu,
    /// It took too long in all, waiting included.
    Timeout,
    /// It asked for more memory than it may have.
    Memory,
    /// It called too deep.
    Stack,
    /// Its output breaks its schema, or is none.
    OutputInvalid,
    /// It needed what it was not granted.
    Denied,
    /// A call to the host failed, or it made too many.
    Host,
    /// It wrote a key that another role wrote in the same step, in a scope without a reducer.
    StateConflict,
    /// Choosing the next action failed.
    Think,
    /// The operator stopped it.
    Interrupted,
    /// Its output is too large. It has the name of `OutputInvalid`, and like every limit it keeps the calls.
    OutputLimit,
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
            Self::Host => "host",
            Self::StateConflict => "state-conflict",
            Self::Think => "think",
            Self::Interrupted => "interrupted",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// All kinds, each name once.
    pub const ALL: [Self; 13] = [
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
    ];

    /// Whether the next attempt, with an unchanged component, is served the recorded host calls first.
    ///
    /// After a failure of the component's own making, the same answers would only repeat it.
    pub fn keeps_calls(self) -> bool {
        !matches!(self, Self::Trap | Self::Error | Self::OutputInvalid | Self::Think)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the guest itself says that trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hope {
    /// It does, or the kind of failure suggests it (a timeout, a failing host call).
    Retryable,
    /// It does not.
    Final,
}

/// One failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// How it failed.
    pub kind: FaultKind,
    /// Whether another try may help.
    pub hope: Hope,
    /// What was attempted and why it failed; the first line is the summary.
    pub message: String,
    /// Frames of the guest's stack, innermost first; empty when there was none.
    pub backtrace: Vec<String>,
    /// The last lines the guest logged or wrote to its standard streams.
    pub log: Vec<String>,
}

impl Fault {
    /// A fault with nothing to show beside its message.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        let hope = match kind {
            FaultKind::Timeout | FaultKind::Host => Hope::Retryable,
            _ => Hope::Final,
        };
        Self { kind, hope, message: message.into(), backtrace: Vec::new(), log: Vec::new() }
    }

    /// The fault of an attempt at some work as it is saved and told: whatever went wrong in the component that a role
    /// chooses with, to the team it is the choice that failed. What the operator stopped is no failure of it.
    pub fn seen(&self, work: Work) -> Cow<'_, Self> {
        match (work, self.kind) {
            (Work::Think { .. }, FaultKind::Interrupted | FaultKind::Think) => Cow::Borrowed(self),
            (Work::Think { .. }, kind) => {
                let message = format!("choosing failed: {kind}: {}", self.message);
                Cow::Owned(Self { kind: FaultKind::Think, message, ..self.clone() })
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
    }

    #[test]
    fn what_goes_wrong_while_choosing_is_a_failed_choice_but_for_an_interruption() {
        let check = |work: Work, kind: FaultKind, expected: (FaultKind, &str)| {
            let fault = Fault::new(kind, "why");
            let seen = fault.seen(work);
            assert_eq!((seen.kind, seen.message.as_str()), expected);
            assert_eq!(seen.seen(work), seen, "what is saved is told as it is");
        };
        let (think, plan) = (Work::Think { round: 0 }, Work::Plan);
        check(think, FaultKind::Cpu, (FaultKind::Think, "choosing failed: cpu: why"));
        check(think, FaultKind::Think, (FaultKind::Think, "why"));
        check(think, FaultKind::Interrupted, (FaultKind::Interrupted, "why"));
        check(plan, FaultKind::Cpu, (FaultKind::Cpu, "why"));
    }

    #[test]
    fn what_an_action_did_by_itself_is_asked_afresh_and_only_passing_kinds_are_retried() {
        let check = |kinds: &[FaultKind], keeps: bool, hope: Hope| {
            for kind in kinds {
                assert_eq!((kind.keeps_calls(), Fault::new(*kind, "").hope), (keeps, hope), "{kind}");
            }
        };
        use FaultKind::*;
        check(&[Trap, Error, OutputInvalid, Think], false, Hope::Final);
        check(&[Fuel, Cpu, Memory, Stack, OutputLimit, StateConflict, Denied, Interrupted], true, Hope::Final);
        check(&[Timeout, Host], true, Hope::Retryable);
    }
}
