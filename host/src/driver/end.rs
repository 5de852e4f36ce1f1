//! How attempts end: on their own, by a limit, or because the run is stopped. An attempt that ends
//! while calls are in flight whose answers must not be lost is kept open for a while.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_core::record::event::{
    AttemptEvent, CallFailed, Event, FilesWritten, Status, WritesUnclaimed,
};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::work::CallKey;

use super::attempt::AttemptEnd;
use super::{Driver, DriverError, DriverEvent};
use crate::gateway::AttemptId;

/// How long an attempt that has ended (by a limit, or because the run is stopped) is kept open for
/// answers that are paid for or that tell whether a write was made, and how long the end of a run
/// waits for a hand-over. Most pending answers arrive within this time, and an operator who waits
/// for a run to stop is still patient.
pub(super) const GRACE_PERIOD: Duration = Duration::from_secs(10);

impl Driver {
    /// Handles the end of an attempt. It is kept open while calls that must be awaited are in
    /// flight: a recorded answer need not be paid for twice, and leaves no doubt about a write.
    pub(super) fn attempt_ended(&mut self, ending: AttemptEnd) -> Result<(), DriverError> {
        // An attempt that asked a person has already been removed.
        let Some(attempt) = self.running_attempt(ending.attempt) else {
            return Ok(());
        };
        attempt.result = Some(ending.result);
        attempt.files = ending.files;
        attempt.in_flight.abandon_discardable();
        if !attempt.in_flight.must_await() {
            return self.conclude(ending.attempt.call);
        }
        tracing::warn!(
            "an action has ended while calls of it are under way; waiting up to {GRACE_PERIOD:?} for their answers"
        );
        self.driver_events.push(Box::pin(async move {
            tokio::time::sleep(GRACE_PERIOD).await;
            DriverEvent::GracePeriodOver(ending.attempt)
        }));
        Ok(())
    }

    /// Concludes an attempt whose grace period is over, if it is still open. Answers that are ready
    /// are recorded first.
    pub(super) fn end_grace_period(&mut self, attempt: AttemptId) -> Result<(), DriverError> {
        while let Some(returned) = self.calls_in_flight.next().now_or_never().flatten() {
            self.record_returned_call(returned)?;
        }
        match self.running_attempt(attempt) {
            Some(_) => self.conclude(attempt.call),
            None => Ok(()),
        }
    }

    /// Records the end of an attempt. Its calls in flight are abandoned.
    pub(super) fn conclude(&mut self, key: CallKey) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.remove(&key) else {
            return Ok(());
        };
        let role = key.role;
        let stopped = || {
            Err(Fault::new(
                FaultKind::Interrupted,
                "stopped before it ended",
            ))
        };
        let result = attempt.result.clone().unwrap_or_else(stopped);
        let Some(event) = self.journal.stepper().call_ended_event(key, result) else {
            return Ok(());
        };
        match &event {
            Event::Attempt(
                _,
                AttemptEvent::CallFailed(CallFailed {
                    retry_ms: Some(pause),
                    ..
                }),
            ) => {
                let pause = Duration::from_millis(u64::from(*pause));
                self.driver_events.push(Box::pin(async move {
                    tokio::time::sleep(pause).await;
                    DriverEvent::RetryDue(key)
                }));
            }
            Event::Attempt(_, AttemptEvent::CallFinished(_)) => {
                let activation = self.journal.env().role(role).activation.as_ref();
                let writes = activation.map(|activation| {
                    attempt.unclaimed_writes(&activation.current_call.external_writes)
                });
                if let Some(writes) = writes.filter(|writes| !writes.is_empty()) {
                    self.journal.stage(Event::Attempt(
                        key,
                        AttemptEvent::WritesUnclaimed(WritesUnclaimed { writes }),
                    ))?;
                }
                if !attempt.files.changes.is_empty() {
                    self.journal.stage_blobs(attempt.files.blobs);
                    self.journal.stage(Event::Attempt(
                        key,
                        AttemptEvent::FilesWritten(FilesWritten {
                            files: attempt.files.changes,
                        }),
                    ))?;
                }
            }
            _ => {}
        }
        self.journal.stage(event)
    }

    /// Ends all attempts and saves the state.
    pub(super) async fn interrupt(&mut self) -> Result<Status, DriverError> {
        // Dropping the futures ends the attempts, on whichever thread they run.
        self.driver_events = FuturesUnordered::new();
        for attempt in self.attempts.values_mut() {
            attempt.in_flight.abandon_discardable();
        }
        if self
            .attempts
            .values()
            .any(|attempt| attempt.in_flight.must_await())
        {
            tracing::warn!(
                "stopped while calls are under way; waiting up to {GRACE_PERIOD:?} for their answers"
            );
        }
        self.wait_for_answers().await?;
        for call in self.attempts.keys().copied().collect::<Vec<_>>() {
            self.conclude(call)?;
        }
        // A file that cannot be written must not keep anything else from being saved.
        let placed = self.place_files();
        self.journal
            .stage(self.journal.stepper().run_ended_event(Status::Interrupted))?;
        self.journal.flush()?;
        placed.map(|()| Status::Interrupted)
    }

    /// Waits up to `GRACE_PERIOD` for calls and hand-overs that must not be lost.
    pub(super) async fn wait_for_answers(&mut self) -> Result<(), DriverError> {
        let mut timeout = std::pin::pin!(tokio::time::sleep(GRACE_PERIOD));
        while self.drain_external()
            || !self.hand_overs.is_empty()
            || self
                .attempts
                .values()
                .any(|attempt| attempt.in_flight.must_await())
        {
            tokio::select! {
                // Answers that are ready count even after the time is over, because their number is
                // bounded. What the external program sends may have no end.
                biased;
                Some(returned) = self.calls_in_flight.next() => self.record_returned_call(returned)?,
                Some(handed) = self.hand_overs.next() => self.record_hand_over(handed)?,
                () = &mut timeout => break,
                incoming = self.external.incoming(), if self.external.is_listening() => self.handle_incoming(&incoming)?,
            }
            // A second signal to stop ends the process at once, so everything is flushed here.
            self.journal.flush()?;
        }
        Ok(())
    }
}
