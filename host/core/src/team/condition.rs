//! Conditions on messages, which decide which arm of a route is taken. They are compiled outside of
//! the core.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::record::message::Message;

/// Evaluates a condition on a message. Fails with the reason if the condition cannot be evaluated.
pub type ConditionFn = dyn Fn(&Message, &mut WorkBudget) -> Result<bool, String> + Send + Sync;

/// A condition on messages, compiled outside of the core.
#[derive(Clone)]
pub struct Condition {
    source: String,
    judge: Arc<ConditionFn>,
}

impl Condition {
    /// Returns a condition with its source text. `judge` must be a pure function of the message and
    /// of what is left of the budget.
    pub fn new(source: String, judge: Box<ConditionFn>) -> Self {
        Self {
            source,
            judge: Arc::from(judge),
        }
    }

    /// Returns the source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Evaluates the condition. Fails if it cannot be evaluated, also because that takes more than
    /// is left of the budget.
    pub fn evaluate(&self, message: &Message, budget: &mut WorkBudget) -> Result<bool, String> {
        (self.judge)(message, budget)
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({:?})", self.source)
    }
}

/// How much work conditions may do for all messages that one sender publishes in one commit. A
/// guest decides how many messages that is and how large they are, so a limit per message would
/// limit nothing. Work is counted instead of time, so that the same messages always take the same
/// routes.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkBudget {
    left: u64,
}

impl WorkBudget {
    /// The budget of one sender, in bytes that a pattern examines. Measured in an optimised build,
    /// using it up takes 0.8 s with patterns, 0.1 to 0.3 s with macros, 0.4 s with large messages, and
    /// less with conditions that look at next to nothing.
    pub const PER_SENDER: u64 = 1 << 28;

    /// Returns how much is left.
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// Takes `cost` from the budget. Takes nothing and returns `None` if less than that is left.
    pub fn spend(&mut self, cost: u64) -> Option<()> {
        self.left = self.left.checked_sub(cost)?;
        Some(())
    }
}

impl Default for WorkBudget {
    fn default() -> Self {
        Self {
            left: Self::PER_SENDER,
        }
    }
}
