//! The journal: the stepper and the store, moved together.
//!
//! An event is staged (applied to the stepper, put aside for the store) and takes effect in the world only after the
//! flush that makes it durable: no line is told and no attempt is started before. A failed flush ends the run.

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
use crate::narrator::{Narrator, count};
use crate::store::{Durability, Record, Store, team_json};

/// The stepper and the store, moved together.
pub struct Journal {
    stepper: Stepper,
    store: Box<dyn Store>,
    narrator: Narrator,
    on_line: OnLine,
    /// What an event that others depend on must survive.
    durability: Durability,
    /// How many checkpoints can be gone back to, beside the first; none for all.
    keep: Option<u32>,
    next_line: u64,
    staged: Vec<Record>,
    /// The bytes of files that staged events name.
    blobs: Blobs,
    spans: Spans,
    metrics: Option<Arc<Metrics>>,
    /// What was recorded before the team goes, for who begins to count then; none once it has gone.
    opening: Option<Vec<Record>>,
}

impl Journal {
    /// A journal that goes on with the line `next_line`.
    pub fn new(
        stepper: Stepper,
        store: Box<dyn Store>,
        next_line: u64,
        durability: Durability,
    ) -> Self {
        let narrator = Narrator::new(stepper.env().shape.clone(), stepper.env().step);
        Self {
            stepper,
            store,
            narrator,
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

    /// Tells `on_line` from now on what happens, after it is durable.
    pub fn on_line(mut self, on_line: OnLine) -> Self {
        self.on_line = on_line;
        self
    }

    /// Forgets checkpoints from now on, but for the first and the newest `keep`.
    pub fn keep_checkpoints(mut self, keep: Option<u32>) -> Self {
        self.keep = keep;
        self
    }

    /// Counts from now on, and from the beginning where the team has not gone yet.
    pub fn count_in(&mut self, metrics: Arc<Metrics>) {
        metrics.recorded(self.opening.as_deref().unwrap_or_default(), &self.stepper);
        self.metrics = Some(metrics);
    }

    /// The number of the line that comes next.
    pub(super) fn next_line(&self) -> u64 {
        self.next_line
    }

    /// The spans of what is going on.
    pub(super) fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The team in motion.
    pub fn stepper(&self) -> &Stepper {
        &self.stepper
    }

    /// The state.
    pub fn env(&self) -> &Environment {
        self.stepper.env()
    }

    /// The store.
    pub fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut()
    }

    /// The store, to look things up.
    pub(super) fn records(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Writes `team.json`, as everything stands that was flushed.
    pub fn save(&mut self) -> Result<(), DriverError> {
        self.project(Durability::Full)
    }

    /// The same behind something that was recorded and flushed. That is done: who were told that it failed would do it
    /// again. What cannot be written here, `team.db` has.
    pub fn save_if_possible(&mut self) {
        if let Err(error) = self.save() {
            tracing::warn!(
                "`team.json` stays as it is until the next stop, `team.db` has everything: {error}"
            );
        }
    }

    /// Makes the beginning of a run durable: what is staged, and `team.json` as it stands then. That comes first, so that
    /// the sync of the one is that of the other.
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

    /// The id of the message that came from outside under the same key as this one, if there is one.
    pub(super) fn came_before(&mut self, message: &Message) -> Option<&MessageId> {
        self.stepper.came_before(message)
    }

    /// What a role remembers, newest `limit` of it, oldest of them first.
    pub(super) fn remembered(
        &mut self,
        role: RoleId,
        label: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        self.stepper.remembered(role, label, limit)
    }

    /// Lets an event happen, to be made durable by the next `flush`.
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

    /// The team goes.
    pub(super) fn go(&mut self) {
        self.opening = None;
    }

    /// Lets an event happen that was recorded before. It is not recorded here.
    pub(super) fn repeat(&mut self, event: &Event) -> Result<(), Illegal> {
        self.stepper.apply(event)
    }

    /// Keeps the bytes of files, with the events that name them.
    pub(super) fn keep(&mut self, blobs: Blobs) {
        self.blobs.extend(blobs);
    }

    /// Makes what is staged durable, in one transaction, then tells it.
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
        // It is recorded, and is not staged any more.
        let mut recorded = std::mem::take(&mut self.staged);
        self.on_line.tell(&recorded, &mut self.narrator);
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
        // Its room is used again.
        self.staged = recorded;
        Ok(())
    }

    /// Saves the state where that makes a resume quicker, and after a commit forgets checkpoints. Nothing depends on
    /// either: a disk that has room for events only is no reason to end a run.
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

/// Whether something that cannot be repeated for nothing depends on an event. What the stepper would decide again
/// from the same state (steps, commits, starts) need only survive the process.
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
