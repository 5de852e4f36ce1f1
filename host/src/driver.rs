//! The driver: carries out what the stepper decides.
//!
//! One loop on one thread owns the stepper and the store. It records and applies events
//! (`driver::journal`), starts attempts in the sandbox (`driver::attempt`), answers the requests of
//! guests (`driver::answer`), makes the calls that leave the host (`driver::call`,
//! `driver::afford`), ends attempts (`driver::end`) and writes their files (`driver::files`). It
//! makes no decisions of its own: the stepper decides what happens next, and the sandbox enforces
//! what a guest may do.

mod afford;
mod answer;
mod attempt;
mod call;
pub(crate) mod clock;
mod end;
mod files;
mod flights;
mod human;
mod journal;
mod listener;
mod occurrence;
mod order;
mod outside;
mod reply;
mod rerun;
mod spans;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_core::effect::{Effect, Invocation};
use strata_core::event::{Event, Status};
use strata_core::file::Content;
use strata_core::id::{RoleId, Slot};
use strata_core::stepper::Illegal;
use tokio::sync::{mpsc, watch};

use crate::gateway::{AttemptId, QUEUE, Question};
use crate::plugin::Plugin;
use crate::sandbox::{Directories, PlaceError, Sandbox};
use crate::services::external::Bridge;
use crate::services::http::Http;
use crate::services::llm::{Audience, Models};
use crate::store::StoreError;

use attempt::{Attempt, Ending};
use call::Served;
use human::Over;
pub use journal::Journal;
pub use listener::OnLine;
use order::Order;
pub use order::{Orders, Sent, Unserved};
use outside::{End, Handed, Outside};
pub use reply::{AnswerError, Answered, Given, ReplyError};
pub(crate) use reply::{Verdict, judge, lapsed};
pub(crate) use rerun::{Again, FilesThen, ModelsThen, Recorded, Rerun};

/// Why a run cannot continue. Errors of guests are faults and are never reported here.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The store cannot save any more.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event does not fit the state: the journal is damaged, or the core has a bug.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// A file cannot be written to its path. Its content is saved, and resuming tries again.
    #[error("{0}; fix that and resume")]
    Files(#[from] PlaceError),
}

/// Set to true when the driver must stop.
pub type Stop = watch::Receiver<bool>;

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
pub enum Motion {
    /// The run is not in progress. The status is that of its end; it is `None` if the run has not
    /// been started yet or was ended by an error.
    Still(Option<Status>),
    /// Work is in progress, or is about to start.
    Busy,
    /// No work is left, and the run would end with this status; it waits for messages from outside.
    Idle(Status),
}

/// The state of the loop after everything that needs no waiting has been carried out.
enum Turn {
    /// Attempts, calls or timers are pending.
    Busy,
    /// No work is left: the run would end.
    Idle(Status),
    /// The run has ended.
    Halted(Status),
}

/// What the driver depends on besides the state of the team.
pub struct Equipment {
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
    pub http: Arc<Http>,
    /// Where messages to names outside the team are sent.
    pub external: Option<Bridge>,
    /// The directories in which actions may write files.
    pub directories: Directories,
}

/// Something that the driver waited for.
enum Arrived {
    /// An attempt ended.
    Ended(Ending),
    /// The pause before a retry is over.
    Due(RoleId),
    /// The grace period of an ended attempt is over; see `GRACE`.
    Overdue(AttemptId),
    /// A request to a person has reached its time limit.
    Over(Over),
    /// The time to wait for the external program at this end of the run is over.
    Enough(End),
}

/// Runs a team.
pub struct Driver {
    journal: Journal,
    equipment: Equipment,
    attempts: BTreeMap<RoleId, Attempt>,
    attempts_made: u64,
    outside: Outside,
    /// The message that is being handed over to the external program. Holds at most one future.
    handing: FuturesUnordered<BoxFuture<'static, Handed>>,
    arrivals: FuturesUnordered<BoxFuture<'static, Arrived>>,
    /// Calls that have left the host and have not returned yet.
    flights: FuturesUnordered<BoxFuture<'static, Served>>,
    questions: mpsc::Receiver<Question>,
    ask: mpsc::Sender<Question>,
    orders: mpsc::Receiver<Order>,
    give: Orders,
    when_idle: WhenIdle,
    motion: watch::Sender<Motion>,
    /// Creates an observer for each call that leaves the host. It is notified of the call and
    /// receives a model's reply while it is streamed.
    audience: Option<Audience>,
    /// The file contents that a replayed attempt sees at these paths, instead of what is on disk.
    then: Option<BTreeMap<String, Content>>,
}

impl Driver {
    /// Creates a driver that continues from the state of the journal.
    pub fn new(journal: Journal, mut equipment: Equipment) -> Self {
        let (ask, questions) = mpsc::channel(QUEUE);
        let (give, orders) = Orders::channel();
        Self {
            journal,
            outside: Outside::new(equipment.external.take()),
            equipment,
            attempts: BTreeMap::new(),
            attempts_made: 0,
            handing: FuturesUnordered::new(),
            arrivals: FuturesUnordered::new(),
            flights: FuturesUnordered::new(),
            questions,
            ask,
            orders,
            give,
            when_idle: WhenIdle::End,
            motion: watch::Sender::new(Motion::Still(None)),
            audience: None,
            then: None,
        }
    }

    /// Sets the factory of observers, which are notified of calls that leave the host and receive
    /// models' replies while they are streamed. The run does not depend on them.
    pub fn let_hear(&mut self, audience: Audience) {
        self.audience = Some(audience);
    }

    /// Sets what the run does when no work is left (the default is to end), and reports the run as
    /// busy, because it is about to start.
    pub fn prepare(&mut self, when_idle: WhenIdle) {
        self.when_idle = when_idle;
        self.motion.send_replace(Motion::Busy);
    }

    /// Returns a handle that sends commands to this driver until its next run has ended.
    pub fn orders(&self) -> Orders {
        self.give.clone()
    }

    /// Returns a receiver of the run's state, which is updated on each change.
    pub fn motion(&self) -> watch::Receiver<Motion> {
        self.motion.subscribe()
    }

    /// Runs until the team halts or is stopped. Everything that happened is recorded when this
    /// returns.
    ///
    /// This waits for the disk on the polling thread. Poll it on a thread of its own, or other
    /// tasks wait too.
    pub async fn run(&mut self, stop: &mut Stop) -> Result<Status, DriverError> {
        self.journal.go();
        self.let_go();
        self.listen();
        self.await_ends();
        let ended = match self.go_on(stop).await {
            // An error with files must neither lose pending calls nor cause them to be paid twice.
            // If the run was stopped, `stop` has already waited for them.
            Err(DriverError::Files(error)) if self.journal.env().status == Status::Running => {
                self.interrupt().await.and(Err(DriverError::Files(error)))
            }
            ended => ended,
        };
        self.motion
            .send_replace(Motion::Still(ended.as_ref().ok().copied()));
        // Callers whose command came too late must not wait for a run that may never start.
        self.turn_away();
        ended
    }

    /// Discards what an earlier run left. Its state is in the journal; pauses and hand-overs start
    /// again.
    fn let_go(&mut self) {
        self.arrivals = FuturesUnordered::new();
        self.flights = FuturesUnordered::new();
        self.attempts.clear();
        self.handing = FuturesUnordered::new();
        self.outside.let_go();
    }

    async fn go_on(&mut self, stop: &mut Stop) -> Result<Status, DriverError> {
        loop {
            let (calls, turn) = self.decide(stop)?;
            let motion = match turn {
                Turn::Busy => Motion::Busy,
                Turn::Idle(status) => Motion::Idle(status),
                Turn::Halted(status) => return Ok(status),
            };
            self.motion
                .send_if_modified(|before| std::mem::replace(before, motion) != motion);
            self.start(calls);
            self.hand_over();
            tokio::select! {
                biased;
                true = is_told(stop) => return self.stop(&turn).await,
                Some(first) = self.arrivals.next(), if !self.arrivals.is_empty() => self.arrived(first)?,
                Some(handed) = self.handing.next(), if !self.handing.is_empty() => self.handed(handed)?,
                Some(served) = self.flights.next(), if !self.flights.is_empty() => self.served(served)?,
                Some(question) = self.questions.recv() => {
                    self.asked(question)?;
                    // Guests that send requests without end must not starve commands from outside.
                    if let Ok(order) = self.orders.try_recv() {
                        self.obey(order)?;
                    }
                }
                Some(order) = self.orders.recv() => self.obey(order)?,
                // Last, because the external program may send messages faster than they can be
                // processed.
                incoming = self.outside.incoming(), if self.outside.is_listening() => self.heard(&incoming)?,
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
    fn decide(&mut self, stop: &Stop) -> Result<(Vec<Invocation>, Turn), DriverError> {
        let mut calls = Vec::new();
        let turn = loop {
            self.place()?;
            match self.journal.stepper().next_while(&|| !*stop.borrow()) {
                Effect::Record(Event::RunEnded { status, .. }) if self.stays(status) => {
                    break Turn::Idle(status);
                }
                Effect::Record(Event::RunEnded { status, .. }) if self.outlasts(status) => {
                    break Turn::Busy;
                }
                Effect::Record(event) => self.journal.stage(event)?,
                Effect::Call(call) => {
                    self.outside.let_go();
                    self.journal
                        .stage(self.journal.stepper().call_started(&call))?;
                    calls.push(call);
                }
                Effect::Wait => break Turn::Busy,
                Effect::Halt(status) => break Turn::Halted(status),
            }
        };
        self.journal.flush()?;
        Ok((calls, turn))
    }

    fn stays(&self, status: Status) -> bool {
        self.when_idle == WhenIdle::Stay && self.journal.stepper().can_be_woken(status)
    }

    /// Ends the run because it was told to stop. An idle run ends with the status that it would
    /// have had anyway.
    async fn stop(&mut self, turn: &Turn) -> Result<Status, DriverError> {
        match turn {
            Turn::Idle(_) => {
                self.wait_for_answers().await?;
                let Effect::Record(Event::RunEnded { status, .. }) = self.journal.stepper().next()
                else {
                    // A message that arrived meanwhile has woken a role.
                    return self.interrupt().await;
                };
                self.journal.stage(self.journal.stepper().ended(status))?;
                self.journal.flush()?;
                Ok(status)
            }
            Turn::Busy | Turn::Halted(_) => self.interrupt().await,
        }
    }

    /// Returns the role's attempt if it has this id and its end has not been recorded.
    fn running(&mut self, id: AttemptId) -> Option<&mut Attempt> {
        self.attempts
            .get_mut(&id.role)
            .filter(|attempt| attempt.id() == id)
    }

    /// Starts attempts. A single one runs on this thread, which avoids handing anything over;
    /// several run in parallel.
    fn start(&mut self, calls: Vec<Invocation>) {
        let alone = calls.len() == 1 && self.attempts.is_empty();
        for call in calls {
            let (attempt, ending) = self.attempt(call);
            let ending = self.journal.spans().around(attempt.role(), ending);
            let ending = if alone {
                ending
            } else {
                attempt::elsewhere(&attempt, ending)
            };
            self.attempts.insert(attempt.role(), attempt);
            self.arrivals
                .push(Box::pin(async move { Arrived::Ended(ending.await) }));
        }
    }

    /// Handles an event and all others that are ready by now, so that they are recorded in one
    /// transaction.
    fn arrived(&mut self, first: Arrived) -> Result<(), DriverError> {
        let mut next = Some(first);
        while let Some(arrived) = next {
            match arrived {
                Arrived::Ended(ending) => self.ended(ending)?,
                Arrived::Due(role) => self.journal.stage(Event::RetryDue { role })?,
                Arrived::Overdue(attempt) => self.overdue(attempt)?,
                Arrived::Over(over) => self.over(over)?,
                Arrived::Enough(end) => self.outside.lose_patience(end),
            }
            next = futures_util::FutureExt::now_or_never(self.arrivals.next()).flatten();
        }
        // What was reserved for an ended attempt now counts as spent, so calls that waited for it
        // may never be affordable.
        self.make_waiting()
    }
}

/// Waits until the driver is told to stop. Returns false if the sender is gone.
async fn is_told(stop: &mut Stop) -> bool {
    stop.wait_for(|stop| *stop).await.is_ok()
}
