//! Commands from outside to a running team, and the handle that sends them to its driver.

use serde::{Deserialize, Serialize};
use strata_core::event::Event;
use strata_core::id::RoleId;
use strata_core::message::Message;
use strata_core::stepper::Stepper;
use tokio::sync::{mpsc, oneshot};

use super::{AnswerError, Answered, Driver, DriverError, Given, Journal, Motion, ReplyError};

/// How many commands may be queued. Each caller waits for its answer, so this is the number of
/// callers that need not wait to send, not a limit on what is accepted.
const QUEUE: usize = 64;

/// A command to a running team.
#[derive(Debug)]
pub(super) enum Order {
    /// Publish a message from outside.
    Send {
        message: Box<Message>,
        reply: oneshot::Sender<Result<Sent, Unserved>>,
    },
    /// Record people's answers.
    Answer {
        given: Vec<Given>,
        reply: oneshot::Sender<Result<Result<Vec<Answered>, AnswerError>, Unserved>>,
    },
    /// Return a copy of the team and its state.
    Look {
        reply: oneshot::Sender<Box<Stepper>>,
    },
    /// Write `team.json`.
    Save {
        reply: oneshot::Sender<Result<(), DriverError>>,
    },
}

impl Order {
    /// Returns whether the caller is gone.
    fn is_given_up(&self) -> bool {
        match self {
            Self::Send { reply, .. } => reply.is_closed(),
            Self::Answer { reply, .. } => reply.is_closed(),
            Self::Look { reply } => reply.is_closed(),
            Self::Save { reply } => reply.is_closed(),
        }
    }
}

/// What became of a message from outside. It is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The id that the environment assigned.
    pub id: String,
    /// The roles whose mailboxes received it.
    pub to: Vec<String>,
    /// Names in its recipients that denote nobody.
    pub dead: Vec<String>,
    /// Whether it is a repetition, by its idempotency key, and was not published again. The
    /// recipients of the first time are not listed.
    #[serde(default)]
    pub known: bool,
}

impl Sent {
    /// Returns whether it reached nobody and named no unknown recipient. Joins and the external
    /// program do not receive messages from outside.
    pub fn is_unheard(&self) -> bool {
        self.to.is_empty() && self.dead.is_empty() && !self.known
    }

    /// Returns the receipt for the recording of a message; `None` for other events.
    fn of(event: &Event, stepper: &Stepper) -> Option<Self> {
        let Event::MessageSent { routed, .. } = event else {
            return None;
        };
        let name = |id: &RoleId| stepper.team().role(*id).name.clone();
        let to = routed.to.iter().map(name).collect();
        Some(Self {
            id: routed.id.0.clone(),
            to,
            dead: routed.dead.clone(),
            known: false,
        })
    }
}

impl Journal {
    /// Publishes a message from outside, unless it is a repetition. The next flush makes it
    /// durable.
    pub(crate) fn take_in(&mut self, message: Message) -> Result<Sent, DriverError> {
        if let Some(id) = self.came_before(&message) {
            return Ok(Sent {
                id: id.0.clone(),
                to: Vec::new(),
                dead: Vec::new(),
                known: true,
            });
        }
        let event = self.stepper().sent(message);
        let sent = Sent::of(&event, self.stepper());
        self.stage(event)?;
        Ok(sent.expect("what was sent is told"))
    }
}

/// Sends commands to one run of a driver. Cheap to clone. A handle may outlive the run; its
/// commands then fail with `Unserved::Ended`.
#[derive(Clone, Debug)]
pub struct Orders(mpsc::Sender<Order>);

/// Why a command has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// The run has ended before the command was carried out.
    #[error("the team does not run any more")]
    Ended,
    /// The change could not be saved, which ended the run. It may still be there when the team is
    /// resumed.
    #[error("{0}; whether it was saved all the same shows when the team is resumed")]
    Unsaved(String),
}

impl Orders {
    pub(super) fn channel() -> (Self, mpsc::Receiver<Order>) {
        let (send, receive) = mpsc::channel(QUEUE);
        (Self(send), receive)
    }

    /// Publishes a message from outside, unless it is a repetition by its idempotency key, and
    /// returns where it went. It is durable when this returns. The environment assigns its id.
    pub async fn send(&self, message: Message) -> Result<Sent, Unserved> {
        self.give(|reply| Order::Send {
            message: Box::new(message),
            reply,
        })
        .await?
    }

    /// Records people's answers: all of them, or none. They are durable when this returns, and the
    /// roles that asked continue.
    pub async fn answer(
        &self,
        given: Vec<Given>,
    ) -> Result<Result<Vec<Answered>, AnswerError>, Unserved> {
        self.give(|reply| Order::Answer { given, reply }).await?
    }

    /// Returns a copy of the team's definition and state, all of which is durable.
    pub async fn look(&self) -> Result<Box<Stepper>, Unserved> {
        self.give(|reply| Order::Look { reply }).await
    }

    /// Writes `team.json` with the current state. The inner error does not affect the run.
    pub async fn save(&self) -> Result<Result<(), DriverError>, Unserved> {
        self.give(|reply| Order::Save { reply }).await
    }

    /// Sends a command and waits for its answer.
    async fn give<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Result<T, Unserved> {
        let (reply, answer) = oneshot::channel();
        self.0
            .send(order(reply))
            .await
            .map_err(|_| Unserved::Ended)?;
        answer.await.map_err(|_| Unserved::Ended)
    }
}

impl Driver {
    /// Carries out commands while the team is not running, until one has changed the state. Cancel
    /// safe.
    pub async fn attend(&mut self) -> Result<(), DriverError> {
        let before = self.journal.next_line();
        while self.journal.next_line() == before {
            // The channel never closes, because this driver holds a sender.
            if let Some(order) = self.orders.recv().await {
                self.obey(order)?;
            }
        }
        // Commands that were sent at the same time are carried out too.
        while let Ok(order) = self.orders.try_recv() {
            self.obey(order)?;
        }
        Ok(())
    }

    /// Rejects queued commands: their callers get `Unserved::Ended`.
    pub(crate) fn turn_away(&mut self) {
        (self.give, self.orders) = Orders::channel();
    }

    /// Carries out a command, unless its caller is gone: the caller assumes that it was not carried
    /// out and may have repeated it.
    pub(super) fn obey(&mut self, order: Order) -> Result<(), DriverError> {
        if order.is_given_up() {
            return Ok(());
        }
        // Whatever a command returns or saves must be durable.
        self.journal.flush()?;
        match order {
            Order::Send { message, reply } => {
                let sent = self
                    .journal
                    .take_in(*message)
                    .and_then(|sent| self.journal.flush().map(|()| sent));
                // A caller that checks the run state after this answer must see that work is in
                // progress.
                if sent.as_ref().is_ok_and(|sent| !sent.known) {
                    self.motion.send_replace(Motion::Busy);
                }
                serve(reply, sent)
            }
            Order::Answer { given, reply } => {
                let answered = match self.journal.reply(&given) {
                    Ok(answered) => Ok(Ok(answered)),
                    Err(ReplyError::Refused(why)) => Ok(Err(why)),
                    Err(ReplyError::Driver(error)) => Err(error),
                };
                if matches!(answered, Ok(Ok(_))) {
                    self.motion.send_replace(Motion::Busy);
                }
                serve(reply, answered)
            }
            Order::Look { reply } => {
                let _ = reply.send(Box::new(self.journal.stepper().clone()));
                Ok(())
            }
            Order::Save { reply } => {
                let _ = reply.send(self.journal.save());
                Ok(())
            }
        }
    }
}

/// Sends the result of a command to its caller. An error ends the run.
fn serve<T>(
    reply: oneshot::Sender<Result<T, Unserved>>,
    result: Result<T, DriverError>,
) -> Result<(), DriverError> {
    let (answer, run) = match result {
        Ok(result) => (Ok(result), Ok(())),
        Err(error) => (Err(Unserved::Unsaved(error.to_string())), Err(error)),
    };
    // It is no error if the caller is gone.
    let _ = reply.send(answer);
    run
}
