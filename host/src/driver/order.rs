//! Orders: what a running team is told from outside of it, and the handle that carries them to its driver.

use serde::{Deserialize, Serialize};
use strata_core::event::Event;
use strata_core::id::RoleId;
use strata_core::message::Message;
use strata_core::stepper::Stepper;
use tokio::sync::{mpsc, oneshot};

use super::{AnswerError, Answered, Driver, DriverError, Given, Journal, Motion, ReplyError};

/// How many orders may wait for the driver. Who gives one waits for its answer, so this is the number of callers that
/// are not held up, not a bound on what is accepted.
const QUEUE: usize = 64;

/// Something asked of a running team.
#[derive(Debug)]
pub(super) enum Order {
    /// Publish a message from outside.
    Send {
        message: Box<Message>,
        reply: oneshot::Sender<Result<Sent, Unserved>>,
    },
    /// Record answers of people.
    Answer {
        given: Vec<Given>,
        reply: oneshot::Sender<Result<Result<Vec<Answered>, AnswerError>, Unserved>>,
    },
    /// Tell how the team stands.
    Look {
        reply: oneshot::Sender<Box<Stepper>>,
    },
    /// Write `team.json`.
    Save {
        reply: oneshot::Sender<Result<(), DriverError>>,
    },
}

impl Order {
    /// Whether nobody waits for its answer any more.
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
    /// The id that the environment gave it.
    pub id: String,
    /// The roles in whose mailboxes it is.
    pub to: Vec<String>,
    /// Names that stand for nobody.
    pub dead: Vec<String>,
    /// Whether it had come before, under the same idempotency key, and was not published again. Where it went then is
    /// not told.
    #[serde(default)]
    pub known: bool,
}

impl Sent {
    /// Whether it reached nobody, and names nobody either. Neither joins nor the outside take what comes from outside.
    pub fn is_unheard(&self) -> bool {
        self.to.is_empty() && self.dead.is_empty() && !self.known
    }

    /// What the recording of a message says; none for another event.
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
    /// Publishes a message from outside, unless it has come before. It is durable with the next flush.
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

/// Carries orders to one run of a driver. Cheap to clone; it outlives the run, and then says that nobody listens any
/// more.
#[derive(Clone, Debug)]
pub struct Orders(mpsc::Sender<Order>);

/// Why an order has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// The run has ended, or ended before it came to the order, which was certainly not carried out.
    #[error("the team does not run any more")]
    Ended,
    /// It could not be saved, which ended the run. It may be there all the same when the team is taken up again.
    #[error("{0}; whether it was saved all the same shows when the team is resumed")]
    Unsaved(String),
}

impl Orders {
    pub(super) fn channel() -> (Self, mpsc::Receiver<Order>) {
        let (send, receive) = mpsc::channel(QUEUE);
        (Self(send), receive)
    }

    /// Publishes a message from outside, unless it has come before under the same idempotency key, and says where it
    /// went. It is durable when this returns. Its id is given by the environment.
    pub async fn send(&self, message: Message) -> Result<Sent, Unserved> {
        self.give(|reply| Order::Send {
            message: Box::new(message),
            reply,
        })
        .await?
    }

    /// Records answers of people: all of them, or none. They are durable when this returns, and whoever asked goes on.
    pub async fn answer(
        &self,
        given: Vec<Given>,
    ) -> Result<Result<Vec<Answered>, AnswerError>, Unserved> {
        self.give(|reply| Order::Answer { given, reply }).await?
    }

    /// How the team stands: its definition and all of its state, of which everything is durable.
    pub async fn look(&self) -> Result<Box<Stepper>, Unserved> {
        self.give(|reply| Order::Look { reply }).await
    }

    /// Writes `team.json` as the team stands now. That it cannot be written concerns nobody else.
    pub async fn save(&self) -> Result<Result<(), DriverError>, Unserved> {
        self.give(|reply| Order::Save { reply }).await
    }

    /// Gives an order, and waits for its answer.
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
    /// Carries out orders while the team stands still, until one has changed something. Nothing is lost if that is given
    /// up.
    pub async fn attend(&mut self) -> Result<(), DriverError> {
        let before = self.journal.next_line();
        while self.journal.next_line() == before {
            // It never ends: this driver could give one itself.
            if let Some(order) = self.orders.recv().await {
                self.obey(order)?;
            }
        }
        // Who spoke at the same time is not sent away.
        while let Ok(order) = self.orders.try_recv() {
            self.obey(order)?;
        }
        Ok(())
    }

    /// Whoever gave an order that was not carried out is told that nobody does any more.
    pub(crate) fn turn_away(&mut self) {
        (self.give, self.orders) = Orders::channel();
    }

    /// Carries out an order, unless who gave it is gone: he takes it for one that was not carried out, and may have
    /// given it again.
    pub(super) fn obey(&mut self, order: Order) -> Result<(), DriverError> {
        if order.is_given_up() {
            return Ok(());
        }
        // What is told or saved is durable.
        self.journal.flush()?;
        match order {
            Order::Send { message, reply } => {
                let sent = self
                    .journal
                    .take_in(*message)
                    .and_then(|sent| self.journal.flush().map(|()| sent));
                // Who is told that it was sent, and looks, finds somebody at work.
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

/// Tells what came of an order, or why that is not known, which ends the run.
fn serve<T>(
    reply: oneshot::Sender<Result<T, Unserved>>,
    came: Result<T, DriverError>,
) -> Result<(), DriverError> {
    let (told, run) = match came {
        Ok(came) => (Ok(came), Ok(())),
        Err(error) => (Err(Unserved::Unsaved(error.to_string())), Err(error)),
    };
    // Who has gone away is not told.
    let _ = reply.send(told);
    run
}
