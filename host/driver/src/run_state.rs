//! Whether a run is making progress, what it does when no work is left, and how it is stopped.

use strata_core::record::event::Status;
use tokio::sync::watch;

use strata_services::external::DeliveryRetries;

/// What a run does when no work is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenIdle {
    /// The run ends.
    End,
    /// The run ends, unless an MCP server asks a person within a call that is lost with this process: it waits for the
    /// answer as long as the server lives.
    KeepCalls,
    /// The run waits for messages from outside until it is stopped.
    Stay,
}

impl WhenIdle {
    /// Returns how often the delivery of a message to the external program is retried: without end
    /// unless somebody waits for the end of the run.
    pub(super) fn delivery_retries(self) -> DeliveryRetries {
        match self {
            Self::End | Self::KeepCalls => DeliveryRetries::Limited,
            Self::Stay => DeliveryRetries::Unlimited,
        }
    }
}

/// Whether a run is making progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The run is not in progress. The status is that of its end; it is `None` if the run has not
    /// been started yet or was ended by an error.
    NotRunning(Option<Status>),
    /// Work is in progress, or is about to start.
    Busy,
    /// No work is left, and the run would end with this status; it waits for messages from outside.
    Idle(Status),
}

/// How an operator ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// For good, unless somebody resumes it.
    Cancel,
    /// For a while.
    Pause,
}

impl Halt {
    /// Returns the status of a run that was ended like this.
    pub fn status(self) -> Status {
        match self {
            Self::Cancel => Status::Cancelled,
            Self::Pause => Status::Paused,
        }
    }
}

/// The state of the loop after everything that needs no waiting has been carried out.
pub(super) enum LoopState {
    /// Attempts, calls or timers are pending.
    Busy,
    /// No work is left: the run would end.
    Idle(Status),
    /// The run has ended.
    Halted(Status),
}

/// Set to true when the driver must stop.
pub type StopSignal = watch::Receiver<bool>;

/// Waits until the driver is told to stop. Returns false if the sender is gone.
pub(super) async fn stop_requested(stop: &mut StopSignal) -> bool {
    stop.wait_for(|stop| *stop).await.is_ok()
}
