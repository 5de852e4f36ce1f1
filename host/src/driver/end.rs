//! How attempts end: on their own, by a limit, or because the run is stopped. An attempt that ends
//! while calls are in flight whose answers must not be lost is kept open for a while.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_core::event::{Event, Status};
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::RoleId;

use super::attempt::Ending;
use super::{Arrived, Driver, DriverError};
use crate::gateway::AttemptId;

/// How long an attempt that has ended (by a limit, or because the run is stopped) is kept open for
/// answers that are paid for or that tell whether a write was made, and how long the end of a run
/// waits for a hand-over. Most pending answers arrive within this time, and an operator who waits
/// for a run to stop is still patient.
pub(super) const GRACE: Duration = Duration::from_secs(10);

impl Driver {
    /// Handles the end of an attempt. It is kept open while calls that must be awaited are in
    /// flight: a recorded answer need not be paid for twice, and leaves no doubt about a write.
    pub(super) fn ended(&mut self, ending: Ending) -> Result<(), DriverError> {
        // An attempt that asked a person has already been removed.
        let Some(attempt) = self.running(ending.attempt) else {
            return Ok(());
        };
        attempt.ended = Some(ending.result);
        attempt.files = ending.files;
        attempt.flights.lighten();
        if !attempt.flights.is_heavy() {
            return self.conclude(ending.attempt.role);
        }
        tracing::warn!(
            "an action has ended while calls of it are under way; waiting up to {GRACE:?} for their answers"
        );
        self.arrivals.push(Box::pin(async move {
            tokio::time::sleep(GRACE).await;
            Arrived::Overdue(ending.attempt)
        }));
        Ok(())
    }

    /// Concludes an attempt whose grace period is over, if it is still open. Answers that are ready
    /// are recorded first.
    pub(super) fn overdue(&mut self, attempt: AttemptId) -> Result<(), DriverError> {
        while let Some(served) = self.flights.next().now_or_never().flatten() {
            self.served(served)?;
        }
        match self.running(attempt) {
            Some(_) => self.conclude(attempt.role),
            None => Ok(()),
        }
    }

    /// Records the end of an attempt. Its calls in flight are abandoned.
    pub(super) fn conclude(&mut self, role: RoleId) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.remove(&role) else {
            return Ok(());
        };
        let stopped = || {
            Err(Fault::new(
                FaultKind::Interrupted,
                "stopped before it ended",
            ))
        };
        let result = attempt.ended.clone().unwrap_or_else(stopped);
        let Some(event) = self.journal.stepper().call_ended(role, result) else {
            return Ok(());
        };
        match &event {
            Event::CallFailed {
                retry_ms: Some(pause),
                ..
            } => {
                let pause = Duration::from_millis(u64::from(*pause));
                self.arrivals.push(Box::pin(async move {
                    tokio::time::sleep(pause).await;
                    Arrived::Due(role)
                }));
            }
            Event::CallFinished { work, .. } => {
                let activation = self.journal.env().role(role).activation.as_ref();
                let writes =
                    activation.map(|activation| attempt.unclaimed(&activation.current.begun));
                if let Some(writes) = writes.filter(|writes| !writes.is_empty()) {
                    self.journal.stage(Event::WritesUnclaimed {
                        role,
                        work: *work,
                        writes,
                    })?;
                }
                if !attempt.files.changes.is_empty() {
                    self.journal.keep(attempt.files.blobs);
                    self.journal.stage(Event::FilesWritten {
                        role,
                        work: *work,
                        files: attempt.files.changes,
                    })?;
                }
            }
            _ => {}
        }
        self.journal.stage(event)
    }

    /// Ends all attempts and saves the state.
    pub(super) async fn interrupt(&mut self) -> Result<Status, DriverError> {
        // Dropping the futures ends the attempts, on whichever thread they run.
        self.arrivals = FuturesUnordered::new();
        for attempt in self.attempts.values_mut() {
            attempt.flights.lighten();
        }
        if self
            .attempts
            .values()
            .any(|attempt| attempt.flights.is_heavy())
        {
            tracing::warn!(
                "stopped while calls are under way; waiting up to {GRACE:?} for their answers"
            );
        }
        self.wait_for_answers().await?;
        for role in self.attempts.keys().copied().collect::<Vec<_>>() {
            self.conclude(role)?;
        }
        // A file that cannot be written must not keep anything else from being saved.
        let placed = self.place();
        self.journal
            .stage(self.journal.stepper().ended(Status::Interrupted))?;
        self.journal.flush()?;
        placed.map(|()| Status::Interrupted)
    }

    /// Waits up to `GRACE` for calls and hand-overs that must not be lost.
    pub(super) async fn wait_for_answers(&mut self) -> Result<(), DriverError> {
        let mut timeout = std::pin::pin!(tokio::time::sleep(GRACE));
        while self.is_heard_out()
            || !self.handing.is_empty()
            || self
                .attempts
                .values()
                .any(|attempt| attempt.flights.is_heavy())
        {
            tokio::select! {
                // Answers that are ready count even after the time is over, because their number is
                // bounded. What the external program sends may have no end.
                biased;
                Some(served) = self.flights.next() => self.served(served)?,
                Some(handed) = self.handing.next() => self.handed(handed)?,
                () = &mut timeout => break,
                incoming = self.outside.incoming(), if self.outside.is_listening() => self.heard(&incoming)?,
            }
            // A second signal to stop ends the process at once, so everything is flushed here.
            self.journal.flush()?;
        }
        Ok(())
    }
}
