//! The driver: carries out what the stepper decides.
//!
//! One loop on one thread owns the journal and the components, each of which owns its part of the
//! run: the running guests (`driver::guests`: attempts, their host calls, their questions to
//! people), the files of actions (`driver::files`) and the outbox (`driver::outbox`). A component
//! returns what is to be recorded, and no effect leaves the host before what it depends on is
//! durable. The stepper decides what happens next, and the sandbox what a guest may do.
//!
//! What happens is reported as public events ([`public_event`]), metrics ([`metrics`]) and spans ([`telemetry`]), and
//! recorded attempts can be repeated ([`replay`]).
//!
//! ```
//! use strata_driver::metrics::Metrics;
//!
//! let metrics = Metrics::default();
//! assert!(metrics.to_text().contains("# TYPE"));
//! ```
//!
//! This crate uses what it is given: a lease of a run, a sandbox, services. It opens no storage and reads no team file.

mod attempt_runner;
mod attempts;
mod command;
mod environment_answer;
mod files;
mod guests;
mod host_calls;
mod human_reply;
mod human_requests;
mod incoming;
mod journal;
mod listener;
pub mod metrics;
mod model_attempt;
mod nested_calls;
mod outbox;
pub mod public_event;
pub mod replay;
mod run_state;
pub mod serialize_name;
mod services;
mod spans;
pub mod telemetry;
#[cfg(test)]
mod tests;
mod tool_listings;
mod turns;
pub mod work_name;

use std::time::Duration;

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::record::event::{Event, RunEnded, Status};
use strata_services::models::StreamObserverFactory;
use tokio::runtime::Handle;
use tokio::sync::watch;

use strata_sandbox::HeldLines;

pub use attempt_runner::{AttemptRunner, PreparedAttempt};
use attempts::GRACE_PERIOD;
pub use command::CommandRequest;
pub use command::{CommandError, DriverHandle, SendReceipt};
use command::{CommandQueue, EndOrder, HaltCommand};
pub use environment_answer::answer_from_environment;
pub use files::ActionFiles;
use guests::Guests;
pub use host_calls::{action_budget_error, decode_random, decode_time, request_number};
pub use human_reply::{AnswerError, AnsweredRequest, HumanReply, ReplyError};
pub use human_reply::{RequestResolution, check_replies, expired_requests};
use incoming::{handle_incoming, handle_signal};
pub use journal::{DriverError, Journal};
pub use listener::LineListener;
use outbox::Outbox;
pub use run_state::{Halt, RunState, StopSignal, WhenIdle};
use run_state::{LoopState, stop_requested};
pub use services::HostServices;
pub use spans::SpanLabels;
pub use turns::{RevisedCalls, revised_calls};

/// How often it is looked whether the servers live that ask people.
const ASKING_SERVER_INTERVAL: Duration = Duration::from_secs(2);

/// Runs a team.
pub struct Driver {
    journal: Journal,
    guests: Guests,
    files: ActionFiles,
    outbox: Outbox,
    commands: CommandQueue,
    when_idle: WhenIdle,
    /// Whether this process drives no other run.
    is_alone: bool,
    run_state: watch::Sender<RunState>,
}

impl Driver {
    /// Creates a driver that continues from the state of the journal.
    pub fn new(journal: Journal, services: HostServices) -> Self {
        if let Some(models) = &services.models {
            models.set_reply_uses(&journal.env().reply_uses);
        }
        if let Some(servers) = &services.mcp {
            servers.set_known_revisions(&journal.env().server_revisions);
        }
        let mut guests = Guests::new(&services);
        guests.calls.set_caps(journal.store_ref().caps());
        Self {
            journal,
            guests,
            files: ActionFiles::new(services.directories),
            outbox: Outbox::new(services.external),
            commands: CommandQueue::new(),
            when_idle: WhenIdle::End,
            is_alone: false,
            run_state: watch::Sender::new(RunState::NotRunning(None)),
        }
    }

    /// Sets the factory of observers, which are notified of calls that leave the host and receive
    /// models' replies while they are streamed. The run does not depend on them.
    pub fn set_observer_factory(&mut self, factory: StreamObserverFactory) {
        self.guests.calls.set_observer_factory(factory);
    }

    /// Sets what the run does when no work is left (the default is to end), and reports the run as
    /// busy, because it is about to start.
    pub fn prepare_to_run(&mut self, when_idle: WhenIdle) {
        self.when_idle = when_idle;
        self.run_state.send_replace(RunState::Busy);
    }

    /// Tells the driver that this process drives no other run. Attempts then begin while the disk is
    /// still working on what led to them. That takes more processor time, which other runs would lack.
    pub fn set_alone(&mut self) {
        self.is_alone = true;
    }

    /// Makes the calls of guests in the context of `runtime`. If that is the runtime whose thread polls
    /// the driver, no call is handed to another thread, which would take longer than everything else
    /// that the host does for it.
    pub fn make_calls_in(&mut self, runtime: Handle) {
        self.guests.calls.set_runtime(runtime);
    }

    /// Returns a handle that sends commands to this driver until its next run has ended.
    pub fn handle(&self) -> DriverHandle {
        self.commands.handle()
    }

    /// Returns a receiver of the run's state, which is updated on each change.
    pub fn run_state(&self) -> watch::Receiver<RunState> {
        self.run_state.subscribe()
    }

    /// Returns the journal: the store and the state that its events led to.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the journal mutably, for changes to what is stored besides events.
    pub fn journal_mut(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Runs until the team halts or is stopped. Everything that happened is recorded when this
    /// returns.
    ///
    /// This waits for the disk on the polling thread if the run is kept on it. Poll it on a thread of
    /// its own, or other tasks wait too.
    pub async fn run(&mut self, stop: &mut StopSignal) -> Result<Status, DriverError> {
        self.journal.mark_started();
        // What an earlier run left is in the journal; pauses and hand-overs start again.
        self.guests.clear();
        self.outbox.clear();
        if self.when_idle == WhenIdle::Stay {
            self.outbox.open();
        }
        self.guests.questions.watch_all(self.journal.env());
        let ended = match self.run_loop(stop).await {
            // An error with files must neither lose pending calls nor cause them to be paid twice.
            // If the run was stopped, `stop` has already waited for them.
            Err(DriverError::Files(error)) if self.journal.env().status == Status::Running => {
                self.interrupt().await.and(Err(DriverError::Files(error)))
            }
            ended => ended,
        };
        if matches!(&ended, Err(error) if !matches!(error, DriverError::Files(_))) {
            self.abandon();
        }
        self.guests.close_servers().await;
        self.run_state
            .send_replace(RunState::NotRunning(ended.as_ref().ok().copied()));
        // Callers whose command came too late must not wait for a run that may never start.
        self.reject_queued_commands();
        ended
    }

    /// Ends everything that is in progress, because nothing can be recorded any more: guests and
    /// their calls, and the connection to the external program. No effect leaves the host after
    /// this.
    fn abandon(&mut self) {
        self.guests.clear();
        self.outbox.disconnect();
    }

    async fn run_loop(&mut self, stop: &mut StopSignal) -> Result<Status, DriverError> {
        let mut lease = self.journal.lease_status();
        let (mut taken_over, mut server) = (lease.clone(), lease.clone());
        loop {
            let (invocations, state) = self.apply_effects(stop).await?;
            self.start(invocations).await?;
            self.guests.answer_tool_calls(&mut self.journal).await?;
            let run_state = match state {
                LoopState::Busy => RunState::Busy,
                LoopState::Idle(status) => RunState::Idle(status),
                LoopState::Halted(status) => return Ok(status),
            };
            self.run_state
                .send_if_modified(|before| std::mem::replace(before, run_state) != run_state);
            let is_confirmed = lease.is_confirmed();
            if is_confirmed {
                self.outbox.start_next(self.journal.env(), self.when_idle);
            }
            // Nothing is heard of a server that dies while a person is asked.
            let looks_at_calls =
                self.when_idle == WhenIdle::KeepCalls && matches!(run_state, RunState::Idle(_));
            let holds_calls = !is_confirmed || self.guests.calls.holds_calls();
            let (journal, guests) = (&mut self.journal, &mut self.guests);
            let (outbox_signal, incoming) = self.outbox.arrivals();
            tokio::select! {
                biased;
                true = stop_requested(stop) => return self.stop(&state).await,
                Some(signal) = guests.attempts.next_signal() => guests.handle_signals(signal, journal).await?,
                Some(expiry) = guests.questions.next_expiry() => guests.expire_requests(expiry, journal)?,
                Some(signal) = outbox_signal => handle_signal(signal, &mut self.outbox, journal)?,
                Some(signal) = guests.calls.next_signal() => guests.handle_call(signal, journal).await?,
                Some(listed) = guests.listings.next() => guests.handle_listing(listed, journal)?,
                Some(request) = guests.queue.recv() => {
                    guests.handle_request(request, journal).await?;
                    // Guests that send requests without end must not starve commands from outside.
                    if let Some(command) = self.commands.next_now()
                        && let Some(halt) = command.execute(journal, &self.run_state).await?
                    {
                        return self.halt(halt).await;
                    }
                }
                Some(command) = self.commands.next() => {
                    if let Some(halt) = command.execute(journal, &self.run_state).await? {
                        return self.halt(halt).await;
                    }
                }
                error = taken_over.lost() => return Err(error.into()),
                () = server.reconnected() => journal.store().ensure_stored()?,
                () = lease.next_confirmation(), if holds_calls => guests.make_calls(journal).await?,
                () = tokio::time::sleep(ASKING_SERVER_INTERVAL), if looks_at_calls => {}
                // Last, because the external program may send messages faster than they can be
                // processed.
                incoming = incoming => handle_incoming(journal, &incoming)?,
            }
        }
    }

    /// Makes durable what was staged, and starts attempts. If the run is alone in its process, an attempt
    /// on this thread runs ahead while the disk is working: it computes with what is not durable yet,
    /// and whatever it asks for waits until it is.
    async fn start(&mut self, invocations: Vec<Invocation>) -> Result<(), DriverError> {
        let runs_ahead = self.is_alone && self.guests.run_here(&invocations);
        if !runs_ahead {
            self.journal.flush_events().await?;
        }
        self.guests.start(invocations, &self.journal, &self.files);
        if runs_ahead {
            let (attempts, mut logged) = (&mut self.guests.attempts, HeldLines::default());
            let meanwhile = || logged = attempts.run_ahead();
            self.journal.flush_beside(Some(meanwhile)).await?;
            logged.forward();
        }
        self.journal.maintain_store().await;
        Ok(())
    }

    /// Carries out all effects that need no waiting, and stages what they record. Returns the attempts
    /// to start and the state afterwards. If the driver is told to stop, the routing of a commit is abandoned;
    /// resuming computes it again.
    async fn apply_effects(
        &mut self,
        stop: &StopSignal,
    ) -> Result<(Vec<Invocation>, LoopState), DriverError> {
        let mut invocations = Vec::new();
        let state = loop {
            self.files
                .place_due(&mut self.journal, &self.guests.attempts)
                .await?;
            match self.journal.stepper().next_while(&|| !*stop.borrow()) {
                Effect::Record(Event::RunEnded(ended)) => match self.defer_end(ended.status) {
                    Some(state) => break state,
                    None => self.journal.stage(Event::RunEnded(ended))?,
                },
                Effect::Record(event) => {
                    self.guests.questions.watch_opened(&event);
                    self.guests.end_blocked(&event);
                    self.journal.stage(event)?;
                }
                Effect::Call(call) => {
                    self.outbox.reset_drain();
                    self.journal
                        .stage(self.journal.stepper().call_started_event(&call))?;
                    invocations.push(call);
                }
                Effect::Wait => break LoopState::Busy,
                Effect::Halt(status) => break LoopState::Halted(status),
            }
        };
        Ok((invocations, state))
    }

    /// Returns the state of a run that does not end yet although no work is left: it waits for
    /// messages from outside. Returns `None` if it ends.
    fn defer_end(&mut self, status: Status) -> Option<LoopState> {
        let can_be_woken = self.journal.stepper().can_be_reactivated(status);
        let stays = match self.when_idle {
            WhenIdle::End => false,
            WhenIdle::KeepCalls => self.guests.has_asking_servers(),
            WhenIdle::Stay => true,
        };
        if can_be_woken && stays {
            return Some(LoopState::Idle(status));
        }
        let waits = self.outbox.holds_end(can_be_woken);
        waits.then_some(LoopState::Busy)
    }

    /// Ends the run because it was told to stop. An idle run ends with the status that it would
    /// have had anyway.
    async fn stop(&mut self, state: &LoopState) -> Result<Status, DriverError> {
        if matches!(state, LoopState::Idle(_)) {
            self.wait_for_answers().await?;
            if let Effect::Record(Event::RunEnded(RunEnded { status, .. })) =
                self.journal.stepper().next()
            {
                return self.record_end(status, EndOrder::default()).await;
            }
            // A message that arrived meanwhile has woken a role.
        }
        self.interrupt().await
    }

    /// Ends the run because an operator said so.
    async fn halt(&mut self, command: HaltCommand) -> Result<Status, DriverError> {
        let ended = self
            .end_early(command.halt.status(), command.end_order())
            .await;
        command.answer(&ended);
        ended
    }

    /// Ends the run because its process is to stop.
    async fn interrupt(&mut self) -> Result<Status, DriverError> {
        self.end_early(Status::Interrupted, EndOrder::default())
            .await
    }

    /// Ends all attempts and saves the state with this status, and the reply to the request for it.
    async fn end_early(&mut self, status: Status, order: EndOrder) -> Result<Status, DriverError> {
        self.guests.abort();
        self.wait_for_answers().await?;
        self.guests.conclude_all(&mut self.journal)?;
        // A file that cannot be written must not keep anything else from being saved.
        let placed = self
            .files
            .place_due(&mut self.journal, &self.guests.attempts)
            .await;
        self.record_end(status, order).await?;
        placed.map(|()| status)
    }

    async fn record_end(&mut self, status: Status, order: EndOrder) -> Result<Status, DriverError> {
        let ended = self.journal.stepper().run_ended_event(status);
        self.journal.stage(ended.with_author(order.by))?;
        if let Some(reply) = order.reply {
            self.journal.stage_reply(reply);
        }
        self.journal.flush().await?;
        Ok(status)
    }

    /// Waits up to `GRACE_PERIOD` for calls and hand-overs that must not be lost.
    async fn wait_for_answers(&mut self) -> Result<(), DriverError> {
        let mut timeout = std::pin::pin!(tokio::time::sleep(GRACE_PERIOD));
        while self.outbox.close_when_idle()
            || self.outbox.is_handing_over()
            || self.guests.calls.must_await_any()
        {
            let (journal, guests) = (&mut self.journal, &mut self.guests);
            let (outbox_signal, incoming) = self.outbox.arrivals();
            tokio::select! {
                // Answers that are ready count even after the time is over, because their number is
                // bounded. What the external program sends may have no end.
                biased;
                Some(returned) = guests.calls.next_returned() => guests.record_returned(returned, journal).await?,
                Some(signal) = outbox_signal => handle_signal(signal, &mut self.outbox, journal)?,
                () = &mut timeout => break,
                incoming = incoming => handle_incoming(journal, &incoming)?,
            }
            // A second signal to stop ends the process at once, so everything is flushed here.
            self.journal.flush().await?;
        }
        Ok(())
    }

    /// Carries out commands while the team is not running, until one has changed the state. Cancel
    /// safe.
    pub async fn handle_commands_until_change(&mut self) -> Result<(), DriverError> {
        self.commands
            .serve_until_change(&mut self.journal, &self.run_state)
            .await
    }

    /// Rejects queued commands: their callers get `CommandError::Ended`.
    pub fn reject_queued_commands(&mut self) {
        self.commands.reject_all();
    }
}
