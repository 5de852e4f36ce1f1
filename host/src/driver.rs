//! The driver: carries out what the stepper decides.
//!
//! One loop on one thread owns the stepper and the store. It records and applies events
//! (`driver::journal`), starts attempts in the sandbox (`driver::attempt`), answers the requests of
//! guests (`driver::answer`), makes the calls that leave the host (`driver::call`,
//! `driver::budget_gate`), ends attempts (`driver::end`) and writes their files (`driver::files`). It
//! makes no decisions of its own: the stepper decides what happens next, and the sandbox enforces
//! what a guest may do.

mod answer;
mod attempt;
mod budget_gate;
mod call;
pub mod clock;
mod command;
mod end;
mod external;
mod files;
mod human;
mod in_flight;
mod journal;
mod listener;
mod replayer;
mod reply;
mod request_sequence;
mod spans;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_core::machine::effect::{Effect, Invocation};
use strata_core::machine::stepper::IllegalEvent;
use strata_core::record::event::{AttemptEvent, Event, RunEnded, Status};
use strata_core::record::file::PathContent;
use strata_core::record::id::Slot;
use strata_core::record::work::CallKey;
use tokio::sync::{mpsc, watch};

use crate::gateway::{AttemptId, GUEST_REQUEST_QUEUE, PendingGuestRequest};
use crate::plugin::Plugin;
use crate::sandbox::{Directories, PlaceError, Sandbox};
use crate::services::external::ExternalConnection;
use crate::services::http::HttpClient;
use crate::services::models::{Models, StreamObserverFactory};
use crate::storage::StoreError;

use attempt::{AttemptEnd, RunningAttempt};
use call::ReturnedCall;
use command::DriverCommand;
pub use command::{CommandError, DriverHandle, SendReceipt};
use external::{DrainId, ExternalChannel, HandOverResult};
use human::RequestExpiry;
pub use journal::Journal;
pub use listener::LineListener;
pub(crate) use replayer::{
    RecordedAttempt, RecordedFiles, RecordedModels, ReplayOutcome, Replayer,
};
pub use reply::{AnswerError, AnsweredRequest, HumanReply, ReplyError};
pub(crate) use reply::{RequestResolution, check_replies, expired_requests};

/// Why a run cannot continue. Errors of guests are faults and are never reported here.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The store cannot save any more.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event does not fit the state: the journal is damaged, or the core has a bug.
    #[error(transparent)]
    Illegal(#[from] IllegalEvent),
    /// A file cannot be written to its path. Its content is saved, and resuming tries again.
    #[error("{0}; fix that and resume")]
    Files(#[from] PlaceError),
}

/// Set to true when the driver must stop.
pub type StopSignal = watch::Receiver<bool>;

/// What a run does when no work is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenIdle {
    /// The run ends.
    End,
    /// The run waits for messages from outside until it is stopped.
    Stay,
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

/// The state of the loop after everything that needs no waiting has been carried out.
enum LoopState {
    /// Attempts, calls or timers are pending.
    Busy,
    /// No work is left: the run would end.
    Idle(Status),
    /// The run has ended.
    Halted(Status),
}

/// What the driver depends on besides the state of the team.
pub struct HostServices {
    /// Runs the attempts.
    pub sandbox: Arc<dyn Sandbox>,
    /// The plugins of the team, by slot.
    pub plugins: BTreeMap<Slot, Arc<Plugin>>,
    /// The descriptions that the components give of themselves, for the model or action that
    /// chooses between them.
    pub descriptions: BTreeMap<Slot, String>,
    /// The language models; `None` if the team file names no provider.
    pub models: Option<Arc<Models>>,
    /// The HTTP client.
    pub http: Arc<HttpClient>,
    /// Where messages to names outside the team are sent.
    pub external: Option<ExternalConnection>,
    /// The directories in which actions may write files.
    pub directories: Directories,
}

/// Something that the driver waited for.
enum DriverEvent {
    /// An attempt ended.
    AttemptEnded(AttemptEnd),
    /// The pause before a retry is over.
    RetryDue(CallKey),
    /// The grace period of an ended attempt is over; see `GRACE_PERIOD`.
    GracePeriodOver(AttemptId),
    /// A request to a person has reached its time limit.
    RequestExpired(RequestExpiry),
    /// The time to wait for the external program at this end of the run is over.
    DrainTimedOut(DrainId),
}

/// Runs a team.
pub struct Driver {
    journal: Journal,
    services: HostServices,
    attempts: BTreeMap<CallKey, RunningAttempt>,
    attempts_started: u64,
    external: ExternalChannel,
    /// The message that is being handed over to the external program. Holds at most one future.
    hand_overs: FuturesUnordered<BoxFuture<'static, HandOverResult>>,
    driver_events: FuturesUnordered<BoxFuture<'static, DriverEvent>>,
    /// Calls that have left the host and have not returned yet.
    calls_in_flight: FuturesUnordered<BoxFuture<'static, ReturnedCall>>,
    guest_requests: mpsc::Receiver<PendingGuestRequest>,
    guest_request_sender: mpsc::Sender<PendingGuestRequest>,
    commands: mpsc::Receiver<DriverCommand>,
    command_sender: DriverHandle,
    when_idle: WhenIdle,
    run_state: watch::Sender<RunState>,
    /// Creates an observer for each call that leaves the host. It is notified of the call and
    /// receives a model's reply while it is streamed.
    observer_factory: Option<StreamObserverFactory>,
    /// The file contents that a replayed attempt sees at these paths, instead of what is on disk.
    replayed_files: Option<BTreeMap<String, PathContent>>,
}

impl Driver {
    /// Creates a driver that continues from the state of the journal.
    pub fn new(journal: Journal, mut services: HostServices) -> Self {
        let (guest_request_sender, guest_requests) = mpsc::channel(GUEST_REQUEST_QUEUE);
        let (command_sender, commands) = DriverHandle::channel();
        Self {
            journal,
            external: ExternalChannel::new(services.external.take()),
            services,
            attempts: BTreeMap::new(),
            attempts_started: 0,
            hand_overs: FuturesUnordered::new(),
            driver_events: FuturesUnordered::new(),
            calls_in_flight: FuturesUnordered::new(),
            guest_requests,
            guest_request_sender,
            commands,
            command_sender,
            when_idle: WhenIdle::End,
            run_state: watch::Sender::new(RunState::NotRunning(None)),
            observer_factory: None,
            replayed_files: None,
        }
    }

    /// Sets the factory of observers, which are notified of calls that leave the host and receive
    /// models' replies while they are streamed. The run does not depend on them.
    pub fn set_observer_factory(&mut self, factory: StreamObserverFactory) {
        self.observer_factory = Some(factory);
    }

    /// Sets what the run does when no work is left (the default is to end), and reports the run as
    /// busy, because it is about to start.
    pub fn prepare_to_run(&mut self, when_idle: WhenIdle) {
        self.when_idle = when_idle;
        self.run_state.send_replace(RunState::Busy);
    }

    /// Returns a handle that sends commands to this driver until its next run has ended.
    pub fn handle(&self) -> DriverHandle {
        self.command_sender.clone()
    }

    /// Returns a receiver of the run's state, which is updated on each change.
    pub fn run_state(&self) -> watch::Receiver<RunState> {
        self.run_state.subscribe()
    }

    /// Runs until the team halts or is stopped. Everything that happened is recorded when this
    /// returns.
    ///
    /// This waits for the disk on the polling thread. Poll it on a thread of its own, or other
    /// tasks wait too.
    pub async fn run(&mut self, stop: &mut StopSignal) -> Result<Status, DriverError> {
        self.journal.mark_started();
        self.reset();
        self.open_external();
        self.schedule_expiries();
        let ended = match self.run_loop(stop).await {
            // An error with files must neither lose pending calls nor cause them to be paid twice.
            // If the run was stopped, `stop` has already waited for them.
            Err(DriverError::Files(error)) if self.journal.env().status == Status::Running => {
                self.interrupt().await.and(Err(DriverError::Files(error)))
            }
            ended => ended,
        };
        self.run_state
            .send_replace(RunState::NotRunning(ended.as_ref().ok().copied()));
        // Callers whose command came too late must not wait for a run that may never start.
        self.reject_queued_commands();
        ended
    }

    /// Discards what an earlier run left. Its state is in the journal; pauses and hand-overs start
    /// again.
    fn reset(&mut self) {
        self.driver_events = FuturesUnordered::new();
        self.calls_in_flight = FuturesUnordered::new();
        self.attempts.clear();
        self.hand_overs = FuturesUnordered::new();
        self.external.reset_drain();
    }

    async fn run_loop(&mut self, stop: &mut StopSignal) -> Result<Status, DriverError> {
        loop {
            let (calls, state) = self.apply_effects(stop)?;
            let run_state = match state {
                LoopState::Busy => RunState::Busy,
                LoopState::Idle(status) => RunState::Idle(status),
                LoopState::Halted(status) => return Ok(status),
            };
            self.run_state
                .send_if_modified(|before| std::mem::replace(before, run_state) != run_state);
            self.start_attempts(calls);
            self.start_hand_over();
            tokio::select! {
                biased;
                true = stop_requested(stop) => return self.stop(&state).await,
                Some(first) = self.driver_events.next(), if !self.driver_events.is_empty() => self.handle_events(first)?,
                Some(handed) = self.hand_overs.next(), if !self.hand_overs.is_empty() => self.record_hand_over(handed)?,
                Some(returned) = self.calls_in_flight.next(), if !self.calls_in_flight.is_empty() => self.record_returned_call(returned)?,
                Some(question) = self.guest_requests.recv() => {
                    self.handle_guest_request(question)?;
                    // Guests that send requests without end must not starve commands from outside.
                    if let Ok(order) = self.commands.try_recv() {
                        self.handle_command(order)?;
                    }
                }
                Some(order) = self.commands.recv() => self.handle_command(order)?,
                // Last, because the external program may send messages faster than they can be
                // processed.
                incoming = self.external.incoming(), if self.external.is_listening() => self.handle_incoming(&incoming)?,
            }
        }
    }

    /// Returns the journal: the store and the state that its events led to.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the journal mutably, for changes to what is stored besides events.
    pub fn journal_mut(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Carries out all effects that need no waiting, durably. Returns the attempts to start and the
    /// state afterwards. If the driver is told to stop, the routing of a commit is abandoned;
    /// resuming computes it again.
    fn apply_effects(
        &mut self,
        stop: &StopSignal,
    ) -> Result<(Vec<Invocation>, LoopState), DriverError> {
        let mut calls = Vec::new();
        let state = loop {
            self.place_files()?;
            match self.journal.stepper().next_while(&|| !*stop.borrow()) {
                Effect::Record(Event::RunEnded(RunEnded { status, .. }))
                    if self.stays_idle(status) =>
                {
                    break LoopState::Idle(status);
                }
                Effect::Record(Event::RunEnded(RunEnded { status, .. }))
                    if self.waits_for_external(status) =>
                {
                    break LoopState::Busy;
                }
                Effect::Record(event) => self.journal.stage(event)?,
                Effect::Call(call) => {
                    self.external.reset_drain();
                    self.journal
                        .stage(self.journal.stepper().call_started_event(&call))?;
                    calls.push(call);
                }
                Effect::Wait => break LoopState::Busy,
                Effect::Halt(status) => break LoopState::Halted(status),
            }
        };
        self.journal.flush()?;
        Ok((calls, state))
    }

    fn stays_idle(&self, status: Status) -> bool {
        self.when_idle == WhenIdle::Stay && self.journal.stepper().can_be_reactivated(status)
    }

    /// Ends the run because it was told to stop. An idle run ends with the status that it would
    /// have had anyway.
    async fn stop(&mut self, state: &LoopState) -> Result<Status, DriverError> {
        match state {
            LoopState::Idle(_) => {
                self.wait_for_answers().await?;
                let Effect::Record(Event::RunEnded(RunEnded { status, .. })) =
                    self.journal.stepper().next()
                else {
                    // A message that arrived meanwhile has woken a role.
                    return self.interrupt().await;
                };
                self.journal
                    .stage(self.journal.stepper().run_ended_event(status))?;
                self.journal.flush()?;
                Ok(status)
            }
            LoopState::Busy | LoopState::Halted(_) => self.interrupt().await,
        }
    }

    /// Returns the attempt with this id, if its end has not been recorded.
    fn running_attempt(&mut self, id: AttemptId) -> Option<&mut RunningAttempt> {
        self.attempts
            .get_mut(&id.call)
            .filter(|attempt| attempt.id() == id)
    }

    /// Starts attempts. A single one runs on this thread, which avoids handing anything over;
    /// several run in parallel.
    fn start_attempts(&mut self, calls: Vec<Invocation>) {
        let alone = calls.len() == 1 && self.attempts.is_empty();
        for call in calls {
            let (attempt, ending) = self.prepare_attempt(call);
            let ending = self.journal.spans().instrument(attempt.key(), ending);
            let ending = if alone {
                ending
            } else {
                attempt::spawn_attempt(&attempt, ending)
            };
            self.attempts.insert(attempt.key(), attempt);
            self.driver_events.push(Box::pin(
                async move { DriverEvent::AttemptEnded(ending.await) },
            ));
        }
    }

    /// Handles an event and all others that are ready by now, so that they are recorded in one
    /// transaction.
    fn handle_events(&mut self, first: DriverEvent) -> Result<(), DriverError> {
        let mut next = Some(first);
        while let Some(arrived) = next {
            match arrived {
                DriverEvent::AttemptEnded(ending) => self.attempt_ended(ending)?,
                DriverEvent::RetryDue(call) => {
                    let due = Event::Attempt(call, AttemptEvent::RetryDue);
                    self.journal.stage(due)?;
                }
                DriverEvent::GracePeriodOver(attempt) => self.end_grace_period(attempt)?,
                DriverEvent::RequestExpired(over) => self.expire_request(over)?,
                DriverEvent::DrainTimedOut(end) => self.external.end_drain(end),
            }
            next = futures_util::FutureExt::now_or_never(self.driver_events.next()).flatten();
        }
        // What was reserved for an ended attempt now counts as spent, so calls that waited for it
        // may never be affordable.
        self.dispatch_waiting()
    }
}

/// Waits until the driver is told to stop. Returns false if the sender is gone.
async fn stop_requested(stop: &mut StopSignal) -> bool {
    stop.wait_for(|stop| *stop).await.is_ok()
}
