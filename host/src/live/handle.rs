//! A handle to an environment, usable from any task or thread.

use std::fmt;

use futures_util::future::BoxFuture;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_core::record::message::Message;
use strata_driver::{DriverHandle, RunState};
use tokio::sync::watch;

use super::{AnsweredRequest, HumanReply, LiveError, SendReceipt};

/// A handle to a `LiveEnvironment` while it runs, usable from any task or thread. It is cheap to
/// clone, borrows nothing, and stays valid when the environment is stopped and started again.
#[derive(Clone)]
pub struct Handle {
    control: watch::Receiver<Option<ControlHandle>>,
    run_state: watch::Receiver<RunState>,
}

/// How to reach a run.
#[derive(Clone)]
pub(super) struct ControlHandle {
    pub(super) orders: DriverHandle,
    pub(super) stop: watch::Sender<bool>,
}

impl Handle {
    pub(super) fn new(
        control: watch::Receiver<Option<ControlHandle>>,
        run_state: watch::Receiver<RunState>,
    ) -> Self {
        Self { control, run_state }
    }

    fn orders(&self) -> Result<DriverHandle, LiveError> {
        let reins = self.control.borrow();
        reins
            .as_ref()
            .map(|reins| reins.orders.clone())
            .ok_or(LiveError::State("does not run; start it first"))
    }

    /// Publishes a message from outside and returns its recipients. The environment assigns its id.
    /// If the message names no recipients, every role that watches its label receives it. If its
    /// `meta` contains an `idempotency_key` under which a message from outside was published
    /// before, it is not published again. The sender is recorded as given: check it first if the
    /// message comes from somebody you do not trust. The message is durable when the future
    /// completes.
    pub fn send(&self, message: Message) -> BoxFuture<'static, Result<SendReceipt, LiveError>> {
        let orders = self.orders();
        Box::pin(async move { Ok(orders?.send(message).await?) })
    }

    /// Publishes a text of a user under a label. Every role that watches the label receives it.
    /// Otherwise like `send`.
    pub fn say(
        &self,
        label: &str,
        text: impl Into<String>,
    ) -> BoxFuture<'static, Result<SendReceipt, LiveError>> {
        self.send(Message::from_user("".into(), text.into(), label.into()))
    }

    /// Answers open requests: all of them, or none. The answers are durable when the future
    /// completes, and the roles that asked continue immediately. Open requests are announced by
    /// `request-opened` events and are part of the `state`.
    pub fn answer(
        &self,
        replies: Vec<HumanReply>,
    ) -> BoxFuture<'static, Result<Vec<AnsweredRequest>, LiveError>> {
        let orders = self.orders();
        Box::pin(async move { Ok(orders?.answer(replies).await??) })
    }

    /// Returns a copy of the team and its current state, with every message. Everything in it is
    /// durable. Copying takes time proportional to the number of messages, but does not copy their
    /// contents.
    pub fn state(&self) -> BoxFuture<'static, Result<Box<Stepper>, LiveError>> {
        let orders = self.orders();
        Box::pin(async move { Ok(orders?.snapshot().await?) })
    }

    /// Writes the current state to `team.json`. This is not needed for durability; the file is for
    /// people and other programs, and for moving a team.
    pub fn save(&self) -> BoxFuture<'static, Result<(), LiveError>> {
        let orders = self.orders();
        Box::pin(async move { Ok(orders?.save().await??) })
    }

    /// Requests a stop as soon as possible. `LiveEnvironment::ended` waits for it, and so does
    /// `idle`.
    pub fn stop(&self) {
        if let Some(reins) = &*self.control.borrow() {
            reins.stop.send_replace(true);
        }
    }

    /// Returns whether the environment is idle; see `idle`.
    pub fn is_idle(&self) -> bool {
        // If the driver was dropped together with its runtime, the environment stays idle.
        *self.run_state.borrow() != RunState::Busy || self.run_state.has_changed().is_err()
    }

    /// Waits until the environment is idle: nothing can be done without input from outside, or it
    /// does not run. Returns `Done` if all mail is handled, `Waiting` if a request is open, and
    /// `Failed` and so on if the run has ended. Returns `None` if it was not started yet, or was
    /// ended by an error or the end of its runtime. Stopping it also ends the wait.
    pub fn idle(&self) -> BoxFuture<'static, Option<Status>> {
        let mut motion = self.run_state.clone();
        Box::pin(async move {
            match *motion
                .wait_for(|motion| *motion != RunState::Busy)
                .await
                .ok()?
            {
                RunState::NotRunning(status) => status,
                RunState::Idle(status) => Some(status),
                RunState::Busy => None,
            }
        })
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("motion", &*self.run_state.borrow())
            .finish_non_exhaustive()
    }
}
