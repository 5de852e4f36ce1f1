//! What speaks to an environment, from any task and thread.

use std::fmt;

use futures_util::future::BoxFuture;
use strata_core::event::Status;
use strata_core::message::Message;
use strata_core::stepper::Stepper;
use tokio::sync::watch;

use super::{Answered, Given, LiveError, Sent};
use crate::driver::{Motion, Orders};

/// Speaks to a `LiveEnvironment` while that runs, from any task and thread. It is cheap to clone, borrows nothing, and
/// serves on when the environment is stopped and started again.
#[derive(Clone)]
pub struct Handle {
    reins: watch::Receiver<Option<Reins>>,
    motion: watch::Receiver<Motion>,
}

/// How a run is spoken to.
#[derive(Clone)]
pub(super) struct Reins {
    pub(super) orders: Orders,
    pub(super) stop: watch::Sender<bool>,
}

impl Handle {
    pub(super) fn new(
        reins: watch::Receiver<Option<Reins>>,
        motion: watch::Receiver<Motion>,
    ) -> Self {
        Self { reins, motion }
    }

    fn orders(&self) -> Result<Orders, LiveError> {
        let reins = self.reins.borrow();
        reins
            .as_ref()
            .map(|reins| reins.orders.clone())
            .ok_or(LiveError::State("does not run; start it first"))
    }

    /// Publishes a message from outside and says where it went. Its id is given by the environment; where it names no
    /// recipient, everyone who watches its label gets it. Where its `meta` holds an `idempotency_key`, and a message from
    /// outside has come under that already, it is not published again. It is recorded with the sender that it names: one
    /// that comes from a stranger is to be looked at before. It is durable when this returns.
    pub fn send(&self, message: Message) -> BoxFuture<'static, Result<Sent, LiveError>> {
        let orders = self.orders();
        Box::pin(async move { Ok(orders?.send(message).await?) })
    }

    /// Publishes what a user says, under a label: everyone who watches that gets it. Like `send` otherwise.
    pub fn say(
        &self,
        label: &str,
        text: impl Into<String>,
    ) -> BoxFuture<'static, Result<Sent, LiveError>> {
        self.send(Message::of_user("".into(), text.into(), label.into()))
    }

    /// Answers what people were asked: all of it, or nothing. It is durable when this returns, and whoever asked goes on
    /// at once. What is open is told by `request-opened` events, and is in the `state`.
    pub fn answer(
        &self,
        given: Vec<Given>,
    ) -> BoxFuture<'static, Result<Vec<Answered>, LiveError>> {
        let orders = self.orders();
        Box::pin(async move { Ok(orders?.answer(given).await??) })
    }

    /// How the environment stands now: a copy of the team and all of its state, with every message. What is in there is
    /// durable. It takes as long as copying a pointer for each message does.
    pub fn state(&self) -> BoxFuture<'static, Result<Box<Stepper>, LiveError>> {
        let orders = self.orders();
        Box::pin(async move { Ok(orders?.look().await?) })
    }

    /// Writes `team.json` as the environment stands now. Nothing depends on it for durability: that is for people, other
    /// programs, and for moving a team.
    pub fn save(&self) -> BoxFuture<'static, Result<(), LiveError>> {
        let orders = self.orders();
        Box::pin(async move { Ok(orders?.save().await??) })
    }

    /// Lets it stop as soon as it can; `LiveEnvironment::ended` waits for that, and so does `idle`.
    pub fn stop(&self) {
        if let Some(reins) = &*self.reins.borrow() {
            reins.stop.send_replace(true);
        }
    }

    /// Whether it is at rest; see `idle`.
    pub fn is_idle(&self) -> bool {
        // A driver that is gone, with its runtime, rests for good.
        *self.motion.borrow() != Motion::Busy || self.motion.has_changed().is_err()
    }

    /// Waits until it is at rest: nothing is left to do that needs nobody, or it does not run. Says how: `Done` where all
    /// mail is handled, `Waiting` where somebody is asked, `Failed` and so on as a run ends. None where it was not started
    /// yet, or an error or the end of its runtime ended it. It may be stopped meanwhile.
    pub fn idle(&self) -> BoxFuture<'static, Option<Status>> {
        let mut motion = self.motion.clone();
        Box::pin(async move {
            match *motion
                .wait_for(|motion| *motion != Motion::Busy)
                .await
                .ok()?
            {
                Motion::Still(status) => status,
                Motion::Idle(status) => Some(status),
                Motion::Busy => None,
            }
        })
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("motion", &*self.motion.borrow())
            .finish_non_exhaustive()
    }
}
