//! The driver: does what the stepper decides.
//!
//! One loop on one thread owns the stepper and the store. It records and applies events (`driver::journal`), starts
//! attempts in the sandbox (`driver::attempt`), answers what they ask (`driver::answer`) and makes the calls that leave the
//! host for them (`driver::call`). It decides nothing: what
//! happens next is the stepper's, what a guest may do is the sandbox's.

mod answer;
mod attempt;
mod call;
pub(crate) mod clock;
mod flights;
mod journal;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_core::effect::{Effect, Invocation};
use strata_core::event::{Event, Status};
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::{RoleId, Slot};
use strata_core::stepper::Illegal;
use tokio::sync::{mpsc, watch};

use crate::gateway::{QUEUE, Question};
use crate::narrator::Line;
use crate::plugin::Plugin;
use crate::sandbox::Sandbox;
use crate::services::http::Http;
use crate::services::llm::Models;
use crate::store::StoreError;

use attempt::{Attempt, Ending};
use call::{GRACE, Served};
pub use journal::Journal;

/// Why a run cannot go on. What a guest does wrong is never among these.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Nothing can be saved any more.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event does not fit: the journal is damaged, or there is a bug in the core.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

/// Told to a driver that shall stop.
pub type Stop = watch::Receiver<bool>;

/// What a team needs to run beside its own state.
pub struct Equipment {
    /// Runs the attempts.
    pub sandbox: Arc<dyn Sandbox>,
    /// The components in their places.
    pub plugins: BTreeMap<Slot, Arc<Plugin>>,
    /// What they say of themselves, for whoever chooses among them.
    pub descriptions: BTreeMap<Slot, String>,
    /// The language models; none where the team file names no provider.
    pub models: Option<Arc<Models>>,
    /// The client for http.
    pub http: Arc<Http>,
}

/// Something that happened and concerns the driver.
enum Arrived {
    /// An attempt ended.
    Ended(Ending),
    /// A pause before another try is over.
    Due(RoleId),
    /// An attempt that has ended was kept open long enough.
    Overdue(RoleId, u32),
}

/// Runs a team.
pub struct Driver {
    journal: Journal,
    equipment: Equipment,
    attempts: BTreeMap<RoleId, Attempt>,
    arrivals: FuturesUnordered<BoxFuture<'static, Arrived>>,
    /// Calls that left the host and did not come back yet.
    flights: FuturesUnordered<BoxFuture<'static, Served>>,
    questions: mpsc::Receiver<Question>,
    ask: mpsc::Sender<Question>,
}

impl Driver {
    /// A driver that goes on from what is in the journal.
    pub fn new(journal: Journal, equipment: Equipment) -> Self {
        let (ask, questions) = mpsc::channel(QUEUE);
        let (arrivals, flights) = (FuturesUnordered::new(), FuturesUnordered::new());
        Self { journal, equipment, attempts: BTreeMap::new(), arrivals, flights, questions, ask }
    }

    /// Runs until the team halts or is stopped. Everything that happened is recorded when this returns.
    pub async fn run(&mut self, stop: &mut Stop) -> Result<Status, DriverError> {
        loop {
            let (calls, halted) = self.decide()?;
            if let Some(status) = halted {
                return Ok(status);
            }
            self.start(calls);
            tokio::select! {
                biased;
                Ok(_) = stop.wait_for(|stop| *stop) => return self.interrupt().await,
                Some(first) = self.arrivals.next(), if !self.arrivals.is_empty() => self.arrived(first)?,
                Some(served) = self.flights.next(), if !self.flights.is_empty() => self.served(served)?,
                Some(question) = self.questions.recv() => self.answer(question)?,
            }
        }
    }

    /// What was recorded, and the state it led to.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The same, to change what is stored beside the events.
    pub fn journal_mut(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Lets everything that needs nobody happen, durably. Returns the attempts to start, or the status at a halt.
    fn decide(&mut self) -> Result<(Vec<Invocation>, Option<Status>), DriverError> {
        let mut calls = Vec::new();
        let halted = loop {
            match self.journal.stepper().next() {
                Effect::Record(event) => self.journal.stage(event)?,
                Effect::Call(call) => {
                    self.journal.stage(self.journal.stepper().call_started(&call))?;
                    calls.push(call);
                }
                Effect::Wait => break None,
                Effect::Halt(status) => break Some(status),
            }
        };
        self.journal.flush()?;
        Ok((calls, halted))
    }

    /// Starts attempts. One that is alone runs on this thread, where nothing has to be handed over; several run in
    /// parallel.
    fn start(&mut self, calls: Vec<Invocation>) {
        let alone = calls.len() == 1 && self.attempts.is_empty();
        for call in calls {
            let (attempt, ending) = self.attempt(call);
            let role = attempt.role();
            self.attempts.insert(role, attempt);
            let ending = if alone { ending } else { attempt::elsewhere(role, ending) };
            self.arrivals.push(Box::pin(async move { Arrived::Ended(ending.await) }));
        }
    }

    /// Takes in what arrived, and what else has arrived by now, so that it is recorded in one go.
    fn arrived(&mut self, first: Arrived) -> Result<(), DriverError> {
        let mut next = Some(first);
        while let Some(arrived) = next {
            match arrived {
                Arrived::Ended(ending) => self.ended(ending)?,
                Arrived::Due(role) => self.journal.stage(Event::RetryDue { role })?,
                Arrived::Overdue(role, number) => {
                    if self.attempts.get(&role).is_some_and(|attempt| attempt.number() == number) {
                        self.conclude(role)?;
                    }
                }
            }
            next = futures_util::FutureExt::now_or_never(self.arrivals.next()).flatten();
        }
        Ok(())
    }

    /// An attempt has ended. It is kept open while answers of weight are under way: with one that is recorded nobody
    /// has to pay twice, or to wonder whether something was done.
    fn ended(&mut self, ending: Ending) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.get_mut(&ending.role) else { return Ok(()) };
        attempt.ended = Some(ending.result);
        attempt.flights.lighten();
        if !attempt.flights.is_heavy() {
            return self.conclude(ending.role);
        }
        let (role, number) = (attempt.role(), attempt.number());
        tracing::warn!(
            "an action has ended while calls of it are under way; waiting up to {GRACE:?} for their answers"
        );
        self.arrivals.push(Box::pin(async move {
            tokio::time::sleep(GRACE).await;
            Arrived::Overdue(role, number)
        }));
        Ok(())
    }

    /// Records the end of an attempt. What is still under way is given up.
    fn conclude(&mut self, role: RoleId) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.remove(&role) else { return Ok(()) };
        let stopped = || Err(Fault::new(FaultKind::Interrupted, "stopped by the operator"));
        let result = attempt.ended.clone().unwrap_or_else(stopped);
        let Some(event) = self.journal.stepper().call_ended(role, result) else { return Ok(()) };
        match &event {
            Event::CallFailed { retry_ms: Some(pause), .. } => {
                let pause = std::time::Duration::from_millis(u64::from(*pause));
                self.arrivals.push(Box::pin(async move {
                    tokio::time::sleep(pause).await;
                    Arrived::Due(role)
                }));
            }
            Event::CallFinished { work, .. } => {
                let activation = self.journal.env().role(role).activation.as_ref();
                let writes = activation.map(|activation| attempt.unclaimed(&activation.current.begun));
                if let Some(writes) = writes.filter(|writes| !writes.is_empty()) {
                    self.journal.stage(Event::WritesUnclaimed { role, work: *work, writes })?;
                }
            }
            _ => {}
        }
        self.journal.stage(event)
    }

    /// Ends all attempts and saves.
    async fn interrupt(&mut self) -> Result<Status, DriverError> {
        // Dropping the futures ends the attempts, wherever they run.
        self.arrivals = FuturesUnordered::new();
        self.attempts.values_mut().for_each(|attempt| attempt.flights.lighten());
        let mut enough = std::pin::pin!(tokio::time::sleep(GRACE));
        while self.attempts.values().any(|attempt| attempt.flights.is_heavy()) {
            tokio::select! {
                Some(served) = self.flights.next() => self.served(served)?,
                () = &mut enough => break,
                else => break,
            }
        }
        for role in self.attempts.keys().copied().collect::<Vec<_>>() {
            self.conclude(role)?;
        }
        self.journal.stage(self.journal.stepper().ended(Status::Interrupted))?;
        self.journal.flush()?;
        Ok(Status::Interrupted)
    }
}

/// Receives every public line, after what it tells is durable.
pub type OnLine = Box<dyn FnMut(&Line) + Send>;
