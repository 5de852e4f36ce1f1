//! Where the runs of a team are kept, and who carries them out: this process, each in a directory of its own, or the
//! workers of a server.

use std::fmt;

use strata_core::record::event::Status;
use strata_driver::HumanReply;
use strata_driver::public_event::{EventLine, PublicEvent};
use strata_view::RunEnding;
use tokio::sync::watch;

use super::arguments::RunName;
use crate::launch::LaunchError;

/// How a run is begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// A new run with this idea.
    New {
        /// What the team is asked to do.
        idea: String,
    },
    /// A saved run, whatever stopped it. One that is done is not run.
    Resume,
    /// A saved run only if it was cut off, interrupted, or waits; otherwise its ending is that which
    /// is saved.
    Reattach,
    /// A saved run is not run. Its ending is that which is saved.
    Look,
}

/// How a run ended, or why it could not be run.
pub type RunResult = Result<RunEnding, String>;

/// What a run does at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// A number that grows.
    pub number: u64,
    /// The role and the action.
    pub text: String,
}

impl Activity {
    /// Returns what a line says about what the run does; `None` if it says nothing.
    pub fn of_line(line: &EventLine) -> Option<Self> {
        let text = match &line.event {
            PublicEvent::ActionStarted { action, .. } => {
                format!("{} started", action.qualified_name())
            }
            PublicEvent::ActionFinished { action, .. } => {
                format!("{} finished", action.qualified_name())
            }
            PublicEvent::ActionFailed { action, .. } => {
                format!("{} failed", action.qualified_name())
            }
            PublicEvent::Turn { role, turn, .. } => format!("{role} turn {turn}"),
            _ => return None,
        };
        Some(Self {
            number: line.n,
            text,
        })
    }
}

/// What carries a run out, and reports what it does.
pub struct RunAttempt {
    /// The run.
    pub run: RunName,
    /// Becomes true when nobody waits for the run any more, or the server ends.
    pub stopped: watch::Receiver<bool>,
    /// Receives what the run does.
    pub activity: watch::Sender<Activity>,
}

/// The runs of a team for one client. Everything blocks, and is called on threads that may wait.
pub trait RunPlace: Send + Sync + 'static {
    /// Returns a name that no run has.
    fn new_name(&self) -> RunName;

    /// Returns what tells the run apart from those of all other clients and teams.
    fn key(&self, run: &RunName) -> String;

    /// Returns the run that a client names; `None` if there is none that it may continue.
    fn find(&self, text: &str) -> Option<RunName>;

    /// Returns whether a run of this name is saved.
    fn exists(&self, run: &RunName) -> bool {
        self.find(run.as_str()).is_some()
    }

    /// Begins or continues a run, and returns when it has ended, rests or was stopped.
    fn carry_out(&self, attempt: RunAttempt, launch: &Launch) -> RunResult;

    /// Durably records an answer to a request of a run.
    ///
    /// # Errors
    /// Fails if the run cannot be read or written, or the answer does not fit.
    fn answer(&self, run: &RunName, reply: HumanReply) -> Result<(), LaunchError>;

    /// Interrupts a run that rests and is kept open, because the call that it belongs to was cancelled.
    fn interrupt(&self, _run: &RunName) {}

    /// Interrupts what goes on although nobody waits for it, and returns when it is saved.
    fn close(&self) {}
}

impl fmt::Debug for dyn RunPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunPlace")
    }
}

/// Returns whether a run with this status is continued by a call that repeats an earlier one.
pub(super) fn may_reattach(status: Status) -> bool {
    matches!(
        status,
        Status::Running | Status::Interrupted | Status::Waiting
    )
}
