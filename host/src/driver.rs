//! The driver: does what the stepper decides.
//!
//! One loop on one thread owns the stepper and the store. It records and applies events (`driver::journal`), starts
//! attempts in the sandbox (`driver::attempt`), answers what they ask (`driver::answer`), makes the calls that leave the
//! host for them (`driver::call`, `driver::afford`), ends them (`driver::end`) and puts their files in place
//! (`driver::files`). It decides nothing: what happens next is the stepper's, what a guest may do is the sandbox's.

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

/// Why a run cannot go on. What a guest does wrong is never among these.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Nothing can be saved any more.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event does not fit: the journal is damaged, or there is a bug in the core.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// A file cannot be put in its place. It is saved; a resume tries again.
    #[error("{0}; fix that and resume")]
    Files(#[from] PlaceError),
}

/// Told to a driver that shall stop.
pub type Stop = watch::Receiver<bool>;

/// What a run does once nothing is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenIdle {
    /// It ends.
    End,
    /// It waits for messages from outside, until it is stopped.
    Stay,
}

/// Whether a run moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// It does not run: not yet, or it has ended like this, or was ended by an error.
    Still(Option<Status>),
    /// Somebody is at work, or will be.
    Busy,
    /// Nothing is left to do, and it would end like this; it waits for messages from outside.
    Idle(Status),
}

/// How things stand once everything has happened that needs nobody.
enum Turn {
    /// Something is under way.
    Busy,
    /// Nothing is left to do: the run would end.
    Idle(Status),
    /// The run has ended.
    Halted(Status),
}

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
    /// Where messages for names outside of the team go.
    pub external: Option<Bridge>,
    /// Where actions may write files.
    pub directories: Directories,
}

/// Something that happened and concerns the driver.
enum Arrived {
    /// An attempt ended.
    Ended(Ending),
    /// A pause before another try is over.
    Due(RoleId),
    /// An attempt that has ended was kept open long enough.
    Overdue(AttemptId),
    /// The time of a request is over.
    Over(Over),
    /// What is on its way outside was waited for long enough, at this end of the run.
    Enough(End),
}

/// Runs a team.
pub struct Driver {
    journal: Journal,
    equipment: Equipment,
    attempts: BTreeMap<RoleId, Attempt>,
    attempts_made: u64,
    outside: Outside,
    /// The message that is being handed over, if one is.
    handing: FuturesUnordered<BoxFuture<'static, Handed>>,
    arrivals: FuturesUnordered<BoxFuture<'static, Arrived>>,
    /// Calls that left the host and did not come back yet.
    flights: FuturesUnordered<BoxFuture<'static, Served>>,
    questions: mpsc::Receiver<Question>,
    ask: mpsc::Sender<Question>,
    orders: mpsc::Receiver<Order>,
    give: Orders,
    when_idle: WhenIdle,
    motion: watch::Sender<Motion>,
    /// Is told of calls that leave, and hears models' replies while they are written.
    audience: Option<Audience>,
    /// What an attempt that is made again sees at these paths, whatever lies there now.
    then: Option<BTreeMap<String, Content>>,
}

impl Driver {
    /// A driver that goes on from what is in the journal.
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

    /// Lets somebody be told of calls that leave, and hear models' replies while they are written. Nothing depends on it.
    pub fn let_hear(&mut self, audience: Audience) {
        self.audience = Some(audience);
    }

    /// Sets what happens once nothing is left to do, which at first is to end. From now on it counts as busy: it is
    /// about to run.
    pub fn prepare(&mut self, when_idle: WhenIdle) {
        self.when_idle = when_idle;
        self.motion.send_replace(Motion::Busy);
    }

    /// Carries orders to this driver until its next run has ended.
    pub fn orders(&self) -> Orders {
        self.give.clone()
    }

    /// Whether it moves, as that changes.
    pub fn motion(&self) -> watch::Receiver<Motion> {
        self.motion.subscribe()
    }

    /// Runs until the team halts or is stopped. Everything that happened is recorded when this returns.
    ///
    /// It waits for the disk on the thread that polls it: one that blocks on it and has nothing else to do, or other
    /// tasks wait, too.
    pub async fn run(&mut self, stop: &mut Stop) -> Result<Status, DriverError> {
        self.journal.go();
        self.let_go();
        self.listen();
        self.await_ends();
        let ended = match self.go_on(stop).await {
            // What is under way is neither lost nor paid for again because of that. Who was stopped has seen to it already.
            Err(DriverError::Files(error)) if self.journal.env().status == Status::Running => {
                self.interrupt().await.and(Err(DriverError::Files(error)))
            }
            ended => ended,
        };
        self.motion
            .send_replace(Motion::Still(ended.as_ref().ok().copied()));
        // Who gave an order too late is not kept waiting for a run that may never come.
        self.turn_away();
        ended
    }

    /// Lets go of what an earlier run left: its state is in the journal, its pauses and hand-overs begin anew.
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
                    // Guests that ask without end keep nobody outside waiting.
                    if let Ok(order) = self.orders.try_recv() {
                        self.obey(order)?;
                    }
                }
                Some(order) = self.orders.recv() => self.obey(order)?,
                // Last: the outside may have more to say than there is time for.
                incoming = self.outside.incoming(), if self.outside.is_listening() => self.heard(&incoming)?,
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

    /// Lets everything that needs nobody happen, durably. Returns the attempts to start, and how things stand then.
    /// Deciding whom a commit reaches is given up when the driver is told to stop; a resume decides it again.
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

    /// Ends the run because it was told to: an idle one as it would have ended by itself.
    async fn stop(&mut self, turn: &Turn) -> Result<Status, DriverError> {
        match turn {
            Turn::Idle(_) => {
                self.wait_for_answers().await?;
                let Effect::Record(Event::RunEnded { status, .. }) = self.journal.stepper().next()
                else {
                    // What came meanwhile is for somebody.
                    return self.interrupt().await;
                };
                self.journal.stage(self.journal.stepper().ended(status))?;
                self.journal.flush()?;
                Ok(status)
            }
            Turn::Busy | Turn::Halted(_) => self.interrupt().await,
        }
    }

    /// An attempt that has not been recorded as ended.
    fn running(&mut self, id: AttemptId) -> Option<&mut Attempt> {
        self.attempts
            .get_mut(&id.role)
            .filter(|attempt| attempt.id() == id)
    }

    /// Starts attempts. One that is alone runs on this thread, where nothing has to be handed over; several run in
    /// parallel.
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

    /// Takes in what arrived, and what else has arrived by now, so that it is recorded in one go.
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
        // What was held back for an attempt that has ended counts as spent: others may wait for it in vain.
        self.make_waiting()
    }
}

/// Waits until a driver is told to stop. False when nobody is left who could.
async fn is_told(stop: &mut Stop) -> bool {
    stop.wait_for(|stop| *stop).await.is_ok()
}
