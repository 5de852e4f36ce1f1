//! The status of a run, with the names used in events and in `team.json`.

use serde::{Deserialize, Serialize};

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// The run continues, or its process was killed.
    Running,
    /// Nothing is left to do.
    Done,
    /// A fault stopped it.
    Failed,
    /// It waits for a human.
    Waiting,
    /// The budget is used up.
    OutOfBudget,
    /// A join can never fire.
    Stalled,
    /// The step limit is reached.
    StepLimit,
    /// The outcome of an external write is unknown.
    InDoubt,
    /// Its process was told to stop.
    Interrupted,
    /// An operator ended it.
    Cancelled,
    /// An operator suspended it.
    Paused,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 11] = [
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Waiting,
        Self::OutOfBudget,
        Self::Stalled,
        Self::StepLimit,
        Self::InDoubt,
        Self::Interrupted,
        Self::Cancelled,
        Self::Paused,
    ];

    /// The name used in events and in `team.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::OutOfBudget => "out-of-budget",
            Self::Stalled => "stalled",
            Self::StepLimit => "step-limit",
            Self::InDoubt => "in-doubt",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::Paused => "paused",
        }
    }

    /// Returns the status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|status| status.name() == name)
    }
}
