//! The journal keeps the stepper and the store in step.
//!
//! An event is staged (applied to the stepper and queued for the store) and takes effect outside
//! only after the flush that makes it durable: no public line is emitted and no attempt is started
//! before. A failed flush ends the run.

use std::sync::Arc;

use strata_core::environment::Environment;
use strata_core::event::{Event, HostCallKind, Source};
use strata_core::id::{MessageId, RoleId};
use strata_core::message::Message;
use strata_core::stepper::{Illegal, Stepper};

use super::clock::{now_ms, stopwatch};
use super::spans::Spans;
use super::{DriverError, OnLine};
use crate::blob::Blobs;
use crate::metrics::Metrics;
use crate::public_event::{EventTranslator, count};
use crate::store::{Durability, Record, Store, team_json};

/// The stepper and the store, advanced together.
pub struct Journal {
    stepper: Stepper,
    store: Box<dyn Store>,
    translator: EventTranslator,
    on_line: OnLine,
    /// The durability of events that others depend on.
    durability: Durability,
    /// How many checkpoints besides the first remain loadable; `None` for all.
    keep: Option<u32>,
    next_line: u64,
    staged: Vec<Record>,
    /// The contents of files that staged events name.
    blobs: Blobs,
    spans: Spans,
    metrics: Option<Arc<Metrics>>,
    /// Records from before the start of the run, for metrics that are attached later; `None` once
    /// the run has started.
    opening: Option<Vec<Record>>,
}

impl Journal {
    /// Creates a journal whose next public line has the number `next_line`.
    pub fn new(
        stepper: Stepper,
        store: Box<dyn Store>,
        next_line: u64,
        durability: Durability,
    ) -> Self {
        let translator = EventTranslator::new(stepper.env().shape.clone(), stepper.env().step);
        Self {
            stepper,
            store,
            translator,
            on_line: OnLine::nobody(),
            durability,
            keep: None,
            next_line,
            staged: Vec::new(),
            blobs: Blobs::new(),
            spans: Spans::default(),
            metrics: None,
            opening: Some(Vec::new()),
        }
    }

    /// Sets the listener that receives public lines after they are durable.
    pub fn on_line(mut self, on_line: OnLine) -> Self {
        self.on_line = on_line;
        self
    }

    /// Keeps only the first and the newest `keep` checkpoints from now on; `None` keeps all.
    pub fn keep_checkpoints(mut self, keep: Option<u32>) -> Self {
        self.keep = keep;
        self
    }

    /// Attaches metrics. They also count the records from before, if the run has not started yet.
    pub fn count_in(&mut self, metrics: Arc<Metrics>) {
        metrics.recorded(self.opening.as_deref().unwrap_or_default(), &self.stepper);
        self.metrics = Some(metrics);
    }

    /// Returns the number of the next public line.
    pub(super) fn next_line(&self) -> u64 {
        self.next_line
    }

    /// Returns the open tracing spans.
    pub(super) fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Returns the stepper.
    pub fn stepper(&self) -> &Stepper {
        &self.stepper
    }

    /// Returns the state of the team.
    pub fn env(&self) -> &Environment {
        self.stepper.env()
    }

    /// Returns the store.
    pub fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut()
    }

    /// Returns the store for reading.
    pub(super) fn records(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Writes `team.json` with the state of everything that was flushed.
    pub fn save(&mut self) -> Result<(), DriverError> {
        self.project(Durability::Full)
    }

    /// Writes `team.json` after something was recorded and flushed. A failure is only logged: a
    /// caller that saw an error would repeat what has succeeded, and `team.db` has everything.
    pub fn save_if_possible(&mut self) {
        if let Err(error) = self.save() {
            tracing::warn!(
                "`team.json` stays as it is until the next stop, `team.db` has everything: {error}"
            );
        }
    }

    /// Makes the start of a run durable: what is staged, and the matching `team.json`. The file is
    /// written first, so that the sync of the events also covers it.
    pub fn begin(&mut self) -> Result<(), DriverError> {
        self.project(Durability::Process)?;
        self.flush()
    }

    fn project(&mut self, durability: Durability) -> Result<(), DriverError> {
        let definition = self.store.definition()?;
        let (team, env) = (self.stepper.team(), self.stepper.env());
        Ok(self.store.write_team_json(
            &|out| team_json::write(team, env, &definition, out),
            durability,
        )?)
    }

    /// Returns the id of the earlier external message with the same idempotency key, if there is
    /// one.
    pub(super) fn came_before(&mut self, message: &Message) -> Option<&MessageId> {
        self.stepper.came_before(message)
    }

    /// Returns the newest `limit` messages that a role remembers, oldest first.
    pub(super) fn remembered(
        &mut self,
        role: RoleId,
        label: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        self.stepper.remembered(role, label, limit)
    }

    /// Applies an event; the next `flush` makes it durable.
    pub fn stage(&mut self, event: Event) -> Result<(), DriverError> {
        self.spans.event(&event, &self.stepper);
        self.stepper.apply(&event)?;
        let time_ms = now_ms();
        let lines = count(&event);
        self.staged.push(Record {
            line: self.next_line,
            lines,
            time_ms,
            event,
        });
        self.next_line += u64::from(lines);
        Ok(())
    }

    /// Notes that the run has started.
    pub(super) fn go(&mut self) {
        self.opening = None;
    }

    /// Applies an event that was recorded before, without recording it.
    pub(super) fn repeat(&mut self, event: &Event) -> Result<(), Illegal> {
        self.stepper.apply(event)
    }

    /// Adds the contents of files that a staged event names.
    pub(super) fn keep(&mut self, blobs: Blobs) {
        self.blobs.extend(blobs);
    }

    /// Makes staged events durable in one transaction, then emits their public lines.
    pub fn flush(&mut self) -> Result<(), DriverError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let hard = self.staged.iter().any(|record| must_last(&record.event));
        let durability = if hard {
            self.durability
        } else {
            Durability::Process
        };
        let timed = self.metrics.as_ref().map(|_| stopwatch());
        if !self.blobs.is_empty() {
            self.store.put_blobs(&std::mem::take(&mut self.blobs))?;
        }
        self.store.append(&self.staged, durability)?;
        if let (Some(metrics), Some(timed)) = (&self.metrics, timed) {
            metrics.committed(&self.staged, &self.stepper, timed.elapsed(), durability);
        }
        // These events are recorded, so they are no longer staged.
        let mut recorded = std::mem::take(&mut self.staged);
        self.on_line.tell(&recorded, &mut self.translator);
        let committed = |record: &Record| {
            matches!(
                record.event,
                Event::StepCommitted { .. } | Event::RunEnded { .. }
            )
        };
        self.keep_house(recorded.iter().any(committed));
        match &mut self.opening {
            Some(opening) => opening.append(&mut recorded),
            None => recorded.clear(),
        }
        // Reuses the allocation.
        self.staged = recorded;
        Ok(())
    }

    /// Saves a snapshot if it would make resuming faster, and forgets old checkpoints after a
    /// commit. Failures are only logged, because nothing depends on either: a disk with space for
    /// nothing but events is no reason to end the run.
    fn keep_house(&mut self, committed: bool) {
        if let (Some(keep), true) = (self.keep, committed)
            && let Err(error) = self.store.keep_checkpoints(keep)
        {
            tracing::warn!("older checkpoints cannot be forgotten, which is tried again: {error}");
        }
        if self.store.snapshot_due()
            && let Err(error) = self.store.save_snapshot(self.stepper.env())
        {
            tracing::warn!(
                "the state cannot be saved beside the events, so a resume takes longer: {error}"
            );
        }
    }
}

/// Returns whether something depends on this event that cannot be repeated for free. Events that
/// the stepper would decide again from the same state (steps, commits, starts) need only survive
/// the process.
fn must_last(event: &Event) -> bool {
    match event {
        Event::RunStarted { .. }
        | Event::RunResumed { .. }
        | Event::ComponentChanged { .. }
        | Event::MessageSent { .. }
        | Event::HandedOver { .. }
        | Event::HandOverFailed { .. }
        | Event::CallFinished { .. }
        | Event::FilesWritten { .. }
        | Event::CallFailed { .. }
        | Event::RequestOpened { .. }
        | Event::RequestAnswered { .. }
        | Event::RunEnded { .. }
        | Event::Forked { .. }
        | Event::HostCallBegun { .. }
        | Event::MoneyReserved { .. }
        | Event::CallSuspended { .. }
        | Event::DoubtSettled { .. } => true,
        Event::HostCalled { call, source, .. } => {
            *source == Source::Live && matches!(call.kind, HostCallKind::Llm | HostCallKind::Http)
        }
        Event::StepStarted { .. }
        | Event::WritesUnclaimed { .. }
        | Event::CallStarted { .. }
        | Event::RetryDue { .. }
        | Event::StepConflicted { .. }
        | Event::JoinReleased { .. }
        | Event::FilesPlaced { .. }
        | Event::StepCommitted { .. } => false,
    }
}
