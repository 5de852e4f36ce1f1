//! How attempts end: by themselves, by a limit, or because the run is stopped. Who ended while answers of weight are under
//! way is kept open for a while.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_core::event::{Event, Status};
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::RoleId;

use super::attempt::Ending;
use super::{Arrived, Driver, DriverError};
use crate::gateway::AttemptId;

/// How long an attempt that has ended (it ran into a limit, or the run is being stopped) is kept open for answers that
/// are paid for, or that say whether a write was made; and a run that ends, for a message that is being handed over. Most
/// of what is under way arrives in that time, and an operator who waits for the end of a run still has patience.
pub(super) const GRACE: Duration = Duration::from_secs(10);

impl Driver {
    /// An attempt has ended. It is kept open while answers of weight are under way: with one that is recorded nobody
    /// has to pay twice, or to wonder whether something was done.
    pub(super) fn ended(&mut self, ending: Ending) -> Result<(), DriverError> {
        // One that asked a person is no longer among them.
        let Some(attempt) = self.running(ending.attempt) else {
            return Ok(());
        };
        attempt.ended = Some(ending.result);
        (attempt.files, attempt.blobs) = ending.files;
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

    /// An attempt was kept open long enough, if it still is. An answer that is there already is not given up.
    pub(super) fn overdue(&mut self, attempt: AttemptId) -> Result<(), DriverError> {
        while let Some(served) = self.flights.next().now_or_never().flatten() {
            self.served(served)?;
        }
        match self.running(attempt) {
            Some(_) => self.conclude(attempt.role),
            None => Ok(()),
        }
    }

    /// Records the end of an attempt. What is still under way is given up.
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
                if !attempt.files.is_empty() {
                    self.journal.keep(attempt.blobs);
                    self.journal.stage(Event::FilesWritten {
                        role,
                        work: *work,
                        files: attempt.files,
                    })?;
                }
            }
            _ => {}
        }
        self.journal.stage(event)
    }

    /// Ends all attempts and saves.
    pub(super) async fn interrupt(&mut self) -> Result<Status, DriverError> {
        // Dropping the futures ends the attempts, wherever they run.
        self.arrivals = FuturesUnordered::new();
        self.attempts
            .values_mut()
            .for_each(|attempt| attempt.flights.lighten());
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
        // A file that cannot be put in its place keeps nothing else from being saved.
        let placed = self.place();
        self.journal
            .stage(self.journal.stepper().ended(Status::Interrupted))?;
        self.journal.flush()?;
        placed.map(|()| Status::Interrupted)
    }

    /// Waits for what is under way, here and outside, and with which something would be lost; but not for long.
    pub(super) async fn wait_for_answers(&mut self) -> Result<(), DriverError> {
        let mut enough = std::pin::pin!(tokio::time::sleep(GRACE));
        while self.is_heard_out()
            || !self.handing.is_empty()
            || self
                .attempts
                .values()
                .any(|attempt| attempt.flights.is_heavy())
        {
            tokio::select! {
                // Answers that are there already count, also where the time is over: there are only so many of them. What
                // the outside says by itself may have no end.
                biased;
                Some(served) = self.flights.next() => self.served(served)?,
                Some(handed) = self.handing.next() => self.handed(handed)?,
                () = &mut enough => break,
                incoming = self.outside.incoming(), if self.outside.is_listening() => self.heard(&incoming)?,
            }
            // Who stops a run twice ends the process at once.
            self.journal.flush()?;
        }
        Ok(())
    }
}
