//! The journal keeps the stepper and the store in step.
//!
//! An event is staged (applied to the stepper and queued for the store) and takes effect outside
//! only after the flush that makes it durable: no public line is emitted and no attempt is started
//! before. A failed flush closes the journal, which ends the run.

use std::sync::Arc;

use strata_base::clock::{now_ms, stopwatch};
use strata_base::files::blob::Blobs;
use strata_base::process::wait::wait;
use strata_core::machine::stepper::{IllegalEvent, Stepper};
use strata_core::record::event::{AttemptEvent, Event, HostCalled};
use strata_core::record::host_call::AnswerSource;
use strata_core::record::id::MessageId;
use strata_core::record::message::Message;
use strata_core::record::work::ActivationKey;
use strata_core::state::environment::Environment;
use strata_sandbox::PlaceError;
use strata_services::gateway::{EnvironmentRequest, HostAnswer};
use strata_storage::{
    Append, AppendedState, Durability, Lease, LeaseStatus, MailReply, OtherWork, Record,
    StoreError, TeamJsonFile,
};

use super::LineListener;
use super::answer_from_environment;
use super::spans::{SpanLabels, Spans};
use crate::metrics::{FleetMember, Metrics};
use crate::public_event::{EventTranslator, count_lines};

/// Why a run cannot continue. Errors of guests are faults and are never reported here.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The store cannot save any more.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event does not fit the state: the journal is damaged, or the core has a bug.
    #[error(transparent)]
    Illegal(#[from] IllegalEvent),
    /// Events could not be saved before, so nothing more may be recorded.
    #[error("nothing more can be recorded, because saving failed before; resume the team")]
    Closed,
    /// A file cannot be written to its path. Its content is saved, and resuming tries again.
    #[error("{0}; fix that and resume")]
    Files(#[from] PlaceError),
}

/// The stepper and the store, advanced together.
pub struct Journal {
    stepper: Stepper,
    store: Box<dyn Lease>,
    translator: EventTranslator,
    listener: LineListener,
    /// The durability of events that others depend on.
    durability: Durability,
    /// The file that shows the state to people and other programs; `None` if there is none.
    team_json: Option<TeamJsonFile>,
    /// How many checkpoints besides the first remain loadable; `None` for all.
    kept_checkpoints: Option<u32>,
    next_line: u64,
    staged: Vec<Record>,
    /// The replies to requests that became staged events.
    replies: Vec<MailReply>,
    /// Whether events could not be saved. What was applied since is not durable, and another process
    /// may own the run, so nothing is recorded, reported or written any more.
    is_closed: bool,
    recorded_since: RecordedSince,
    /// The contents of files that staged events name.
    blobs: Blobs,
    spans: Spans,
    metrics: Option<Arc<Metrics>>,
    /// Where it is counted with the other runs of this process.
    fleet: Option<FleetMember>,
    /// Records from before the start of the run, for metrics that are attached later; `None` once
    /// the run has started.
    records_before_start: Option<Vec<Record>>,
}

/// What was recorded since the store was maintained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RecordedSince {
    Nothing,
    Events,
    /// Events, among them the commit of a step or the end of the run.
    Commit,
}

impl Journal {
    /// Creates a journal whose next public line has the number `next_line`.
    pub fn new(
        stepper: Stepper,
        store: Box<dyn Lease>,
        next_line: u64,
        durability: Durability,
    ) -> Self {
        let translator = EventTranslator::new(stepper.env().shape.clone(), stepper.env().step)
            .with_open_calls(stepper.env());
        Self {
            stepper,
            store,
            translator,
            listener: LineListener::none(),
            durability,
            team_json: None,
            kept_checkpoints: None,
            next_line,
            staged: Vec::new(),
            replies: Vec::new(),
            is_closed: false,
            recorded_since: RecordedSince::Nothing,
            blobs: Blobs::new(),
            spans: Spans::default(),
            metrics: None,
            fleet: None,
            records_before_start: Some(Vec::new()),
        }
    }

    /// Sets the listener that receives public lines after they are durable.
    pub fn with_listener(mut self, on_line: LineListener) -> Self {
        self.listener = on_line;
        self
    }

    /// Sets the `team.json` that is written with the state; with `None`, there is none.
    pub fn with_team_json(mut self, file: Option<TeamJsonFile>) -> Self {
        self.team_json = file;
        self
    }

    /// Keeps only the first and the newest `keep` checkpoints from now on; `None` keeps all.
    pub fn with_kept_checkpoints(mut self, keep: Option<u32>) -> Self {
        self.kept_checkpoints = keep;
        self
    }

    /// Counts from now on what becomes durable with the other runs of this process.
    pub fn with_fleet(mut self, fleet: Option<FleetMember>) -> Self {
        self.fleet = fleet;
        self
    }

    /// Notes the name of the run and the worker for its spans.
    pub fn with_span_labels(mut self, labels: SpanLabels) -> Self {
        self.spans = Spans::new(labels);
        self
    }

    /// Attaches metrics. They also count the records from before, if the run has not started yet.
    pub fn attach_metrics(&mut self, metrics: Arc<Metrics>) {
        metrics.record_events(
            self.records_before_start.as_deref().unwrap_or_default(),
            &self.stepper,
        );
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
    pub fn store(&mut self) -> &mut dyn Lease {
        self.store.as_mut()
    }

    /// Returns the store for reading.
    pub fn store_ref(&self) -> &dyn Lease {
        self.store.as_ref()
    }

    /// Returns whether the run is certainly still that of this process, from now on.
    pub(super) fn lease_status(&self) -> LeaseStatus {
        self.store.status()
    }

    /// Writes `team.json`, if there is to be one, with the state of everything that was flushed.
    pub fn save(&mut self) -> Result<(), DriverError> {
        self.write_team_json(Durability::Full)
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
        self.write_team_json(Durability::Process)?;
        self.flush_blocking()
    }

    fn write_team_json(&mut self, durability: Durability) -> Result<(), DriverError> {
        self.ensure_open()?;
        let Some(file) = &self.team_json else {
            return Ok(());
        };
        Ok(file.write_state(self.store.as_mut(), &self.stepper, durability)?)
    }

    /// Returns the id of the earlier external message with the same idempotency key, if there is
    /// one.
    pub(super) fn find_repetition(&mut self, message: &Message) -> Option<&MessageId> {
        self.stepper.earlier_with_same_key(message)
    }

    /// Answers what an attempt in this activation asks about the environment.
    pub(super) fn answer_from_environment(
        &mut self,
        activation: ActivationKey,
        request: EnvironmentRequest,
    ) -> HostAnswer {
        answer_from_environment(&mut self.stepper, activation, request)
    }

    /// Applies an event; the next `flush` makes it durable.
    pub fn stage(&mut self, event: Event) -> Result<(), DriverError> {
        self.ensure_open()?;
        self.spans.observe(&event, &self.stepper);
        self.stepper.apply(&event)?;
        let time_ms = now_ms();
        let lines = count_lines(&event);
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
    pub(super) fn mark_started(&mut self) {
        self.records_before_start = None;
    }

    /// Adds the contents of files that a staged event names.
    pub fn stage_blobs(&mut self, blobs: Blobs) {
        self.blobs.extend(blobs);
    }

    /// Adds the reply to a request that became the events that were staged since the last flush. It is
    /// stored together with them, so that the request is carried out once, whatever happens to this
    /// process. Does nothing if the request became no events: carrying it out again does no harm, and
    /// its reply must not wait for the events of something else.
    pub(super) fn stage_reply(&mut self, reply: MailReply) {
        if !self.staged.is_empty() {
            self.replies.push(reply);
        }
    }

    /// Fails if events could not be saved before, or if the state turned out to be damaged.
    fn ensure_open(&self) -> Result<(), DriverError> {
        if self.is_closed {
            return Err(DriverError::Closed);
        }
        Ok(self.store.recorded().check_loaded()?)
    }

    /// Makes staged events durable in one transaction, then emits their public lines, and maintains
    /// the store. If that fails, the journal is closed: the run ends, and nothing more is recorded. The
    /// same holds if the future is dropped before it returns.
    pub async fn flush(&mut self) -> Result<(), DriverError> {
        self.flush_events().await?;
        self.maintain_store().await;
        Ok(())
    }

    /// Makes staged events durable and emits their public lines, without maintaining the store, which
    /// the caller does when attempts that may run meanwhile were started.
    pub(super) async fn flush_events(&mut self) -> Result<(), DriverError> {
        self.flush_beside(None::<fn()>).await
    }

    /// Makes staged events durable and emits their public lines. Calls `meanwhile` once while the disk or a server is working, if it does so by
    /// itself. What `meanwhile` does must have no effect outside before this has returned.
    pub(super) async fn flush_beside(
        &mut self,
        meanwhile: Option<impl FnOnce()>,
    ) -> Result<(), DriverError> {
        self.ensure_open()?;
        if self.staged.is_empty() {
            return Ok(());
        }
        let hard = self
            .staged
            .iter()
            .any(|record| needs_full_durability(&record.event));
        let durability = if hard {
            self.durability
        } else {
            Durability::Process
        };
        let is_counted = self.metrics.is_some() || self.fleet.is_some();
        let timed = is_counted.then(stopwatch);
        self.is_closed = true;
        self.append_staged(durability, meanwhile).await?;
        self.is_closed = false;
        if let Some(took) = timed.map(|timed| timed.elapsed()) {
            if let Some(metrics) = &self.metrics {
                metrics.record_commit(&self.staged, &self.stepper, took, durability);
            }
            if let Some(fleet) = &self.fleet {
                fleet.record_commit(&self.staged, took);
            }
        }
        // These events are recorded, so they are no longer staged.
        let mut recorded = std::mem::take(&mut self.staged);
        self.listener.notify(&recorded, &mut self.translator);
        let is_commit =
            |record: &Record| matches!(record.event, Event::StepCommitted(_) | Event::RunEnded(_));
        self.recorded_since = self.recorded_since.max(if recorded.iter().any(is_commit) {
            RecordedSince::Commit
        } else {
            RecordedSince::Events
        });
        match &mut self.records_before_start {
            Some(opening) => opening.append(&mut recorded),
            None => recorded.clear(),
        }
        // Reuses the allocation.
        self.staged = recorded;
        Ok(())
    }

    /// Makes staged events durable as `flush` does, and blocks this thread meanwhile.
    pub fn flush_blocking(&mut self) -> Result<(), DriverError> {
        wait(self.flush())
    }

    async fn append_staged(
        &mut self,
        durability: Durability,
        meanwhile: Option<impl FnOnce()>,
    ) -> Result<(), StoreError> {
        if !self.blobs.is_empty() {
            let blobs = std::mem::take(&mut self.blobs);
            self.store.begin_put_blobs(blobs).finish().await?;
        }
        let replies = std::mem::take(&mut self.replies);
        let append = Append {
            records: &self.staged,
            replies: &replies,
            state: Some(AppendedState {
                team: self.stepper.team(),
                env: self.stepper.env(),
            }),
            durability,
            other_work: match meanwhile {
                Some(_) => OtherWork::Some,
                None => OtherWork::None,
            },
        };
        let meanwhile = || {
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
        };
        let appending = self.store.begin_append(append);
        appending.finish_beside(meanwhile).await
    }

    /// Saves a snapshot if it would make resuming faster, and forgets old checkpoints after a
    /// commit. Failures are only logged, because nothing depends on either: a disk with space for
    /// nothing but events is no reason to end the run.
    pub(super) async fn maintain_store(&mut self) {
        let recorded = std::mem::replace(&mut self.recorded_since, RecordedSince::Nothing);
        if let (Some(keep), RecordedSince::Commit) = (self.kept_checkpoints, recorded)
            && let Err(error) = self.store.begin_keep_checkpoints(keep).finish().await
        {
            tracing::warn!("older checkpoints cannot be forgotten, which is tried again: {error}");
        }
        let is_intact = self.store.recorded().check_loaded().is_ok();
        if recorded == RecordedSince::Nothing || !self.store.snapshot_due() || !is_intact {
            return;
        }
        let saving = self.store.begin_save_snapshot(self.stepper.env());
        if let Err(error) = saving.finish().await {
            tracing::warn!(
                "the state cannot be saved beside the events, so a resume takes longer: {error}"
            );
        }
    }
}

/// Returns whether something depends on this event that cannot be repeated for free. Events that
/// the stepper would decide again from the same state (steps, commits, starts) need only survive
/// the process.
fn needs_full_durability(event: &Event) -> bool {
    match event {
        Event::RunStarted(_)
        | Event::RunResumed(_)
        | Event::ComponentChanged(_)
        | Event::MessageSent(_)
        | Event::HandedOver(_)
        | Event::HandOverFailed(_)
        | Event::RunEnded(_)
        | Event::CapReached(_)
        | Event::ConsentWithdrawn(_)
        | Event::Forked(_) => true,
        Event::Attempt(_, event) => attempt_needs_full_durability(event),
        Event::StepStarted(_)
        | Event::StepConflicted(_)
        | Event::JoinReleased(_)
        | Event::FilesPlaced(_)
        | Event::ServerChanged(_)
        | Event::ServerToolOmitted(_)
        | Event::StepCommitted(_) => false,
    }
}

fn attempt_needs_full_durability(event: &AttemptEvent) -> bool {
    match event {
        AttemptEvent::CallFinished(_)
        | AttemptEvent::FilesWritten(_)
        | AttemptEvent::CallFailed(_)
        | AttemptEvent::RequestOpened(_)
        | AttemptEvent::CallAsks(_)
        | AttemptEvent::RequestAnswered(_)
        | AttemptEvent::HostCallBegun(_)
        | AttemptEvent::MoneyReserved(_)
        | AttemptEvent::CallSuspended(_)
        | AttemptEvent::DoubtSettled(_)
        | AttemptEvent::CallRevised(_) => true,
        AttemptEvent::HostCalled(HostCalled { call, source, .. }) => {
            *source == AnswerSource::Live && call.kind.leaves_host()
        }
        AttemptEvent::WritesUnclaimed(_)
        | AttemptEvent::Logged(_)
        | AttemptEvent::LookupsDenied(_)
        | AttemptEvent::SkillLoaded(_)
        | AttemptEvent::MemoryRequested(_)
        | AttemptEvent::NestedCallMade(_)
        | AttemptEvent::ToolsListed(_)
        | AttemptEvent::CallStarted(_)
        | AttemptEvent::RetryDue => false,
    }
}

#[cfg(test)]
mod tests {
    use strata_base::owner::RunReply;
    use strata_core::record::host_call::CallPolicy;
    use strata_storage::{
        FIRST_LINE, MailId, SavedDefinition, create_in_memory, create_with_damage,
    };

    use super::*;
    use crate::tests::fixture::{ROLE, RunningTeam};

    #[test]
    fn a_reply_is_stored_only_with_what_its_request_became() {
        let team = RunningTeam::start(ROLE).stepper.team().clone();
        let stepper = Stepper::new(team.clone(), Environment::new(&team));
        let lease = create_in_memory(stepper.env(), &SavedDefinition::default()).unwrap();
        let durability = Durability::Process;
        let mut journal = Journal::new(stepper, lease, FIRST_LINE, durability);
        let reply = MailReply {
            id: MailId::EXAMPLE,
            reply: RunReply::refused("not now"),
        };
        journal.stage_reply(reply.clone());
        assert!(journal.replies.is_empty());
        let started = journal
            .stepper()
            .run_started_event("run".into(), "idea".into(), [].into());
        journal.stage(started).unwrap();
        journal.stage_reply(reply.clone());
        assert_eq!(journal.replies, [reply]);
        journal.flush_blocking().unwrap();
        assert!(journal.replies.is_empty());
    }

    #[test]
    fn nothing_is_recorded_once_messages_of_the_state_could_not_be_decoded() {
        let team = RunningTeam::start(ROLE).stepper.team().clone();
        let stepper = Stepper::new(team.clone(), Environment::new(&team));
        let (lease, damage) =
            create_with_damage(stepper.env(), &SavedDefinition::default()).unwrap();
        let mut journal = Journal::new(stepper, lease, FIRST_LINE, Durability::Process);
        let event = journal
            .stepper()
            .run_started_event("run".into(), "idea".into(), [].into());
        journal.stage(event.clone()).unwrap();
        journal.flush_blocking().unwrap();
        let resumed = journal.stepper().run_resumed_event(None, CallPolicy::Auto);
        journal.stage(resumed.clone()).unwrap();
        damage();
        for refused in [
            journal.flush_blocking(),
            journal.stage(resumed),
            journal.save(),
        ] {
            let error = refused.unwrap_err().to_string();
            let expected = "bundle 1 of messages cannot be read";
            assert!(error.contains(expected), "{error}");
        }
    }
}
