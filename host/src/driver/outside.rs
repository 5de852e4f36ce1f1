//! Exchange of messages with the external program of a team: outgoing messages are handed over one
//! at a time, incoming ones are routed like any message.

use futures_util::future::BoxFuture;
use strata_core::event::{Event, Status};
use strata_core::id::MessageId;

use super::end::GRACE;
use super::{Arrived, Driver, DriverError, WhenIdle};
use crate::excerpt::excerpt;
use crate::services::external::{Bridge, Incoming, Letter, Tries};
use crate::store::team_json;

/// The maximum length of the excerpt of an undelivered message, in characters.
const SHOWN: usize = 60;

/// The connection of a team to its external program.
pub(super) struct Outside {
    bridge: Option<Bridge>,
    /// Whether the end of the run waits for pending messages; nothing more is handed over
    /// meanwhile.
    patience: Patience,
    /// The end of the run that `patience` is about. There may be several, since a message from
    /// outside wakes a team.
    end: End,
}

/// Identifies one of the ends that a run comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End(u64);

/// Whether the end of a run waits for the external program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// The run is not about to end.
    Whole,
    /// The end waits.
    Tried,
    /// The waiting time is over.
    Lost,
}

/// The result of handing over a message.
pub(super) struct Handed {
    id: MessageId,
    /// The messages that came back, or why it failed.
    result: Result<Vec<String>, String>,
}

impl Outside {
    pub(super) fn new(bridge: Option<Bridge>) -> Self {
        Self {
            bridge,
            patience: Patience::Whole,
            end: End::default(),
        }
    }

    /// Returns whether the external program may send messages on its own.
    pub(super) fn is_listening(&self) -> bool {
        self.bridge.as_ref().is_some_and(Bridge::is_listening)
    }

    /// Tells the bridge that there is nothing more to hand over.
    pub(super) fn rest(&mut self) {
        if let Some(bridge) = &mut self.bridge {
            bridge.rest();
        }
    }

    /// Notes that the run is not about to end, or has ended: nothing is waited for any more.
    pub(super) fn let_go(&mut self) {
        self.patience = Patience::Whole;
    }

    /// Ends the wait, if it is still for this end of the run.
    pub(super) fn lose_patience(&mut self, end: End) {
        if self.patience == Patience::Tried && self.end == end {
            self.patience = Patience::Lost;
        }
    }

    /// Returns whether messages can be handed over now.
    fn is_open(&self) -> bool {
        self.bridge.as_ref().is_none_or(Bridge::is_open)
    }

    /// Returns the next message that the external program sends on its own.
    pub(super) async fn incoming(&mut self) -> Incoming {
        match &mut self.bridge {
            Some(bridge) => bridge.incoming().await,
            None => std::future::pending().await,
        }
    }
}

impl Driver {
    /// Connects to the external program at once if the run waits for messages, since an idle team
    /// may have nothing to hand over that would connect it.
    pub(super) fn listen(&mut self) {
        let bridge = self
            .outside
            .bridge
            .as_mut()
            .filter(|_| self.when_idle == WhenIdle::Stay);
        if let Some(Err(why)) = bridge.map(Bridge::open) {
            tracing::warn!(
                "nothing is heard from outside until there is something to say to it: {why}"
            );
        }
    }

    /// Starts to hand over the next outgoing message, if there is one and no hand-over is pending.
    pub(super) fn hand_over(&mut self) {
        let env = self.journal.env();
        let next = env
            .outbox
            .first()
            .filter(|next| next.failed.is_none() && self.outside.is_open());
        let is_next = self.handing.is_empty() && self.outside.patience == Patience::Whole;
        let Some(next) = next.filter(|_| is_next) else {
            return;
        };
        let message = env.message(next.message);
        let id = message.id.clone();
        // Message ids are the same in every run, so the key includes the run; otherwise a service
        // that detects repetitions would drop messages of other runs.
        let key = format!("{}/{}", env.lineage.key(&env.run.0), id.0);
        let letter = Letter {
            key,
            text: team_json::letter(message, &next.to),
        };
        let tries = if self.when_idle == WhenIdle::Stay {
            Tries::Endless
        } else {
            Tries::Few
        };
        let none = "the team file has no `[env.external]` any more";
        let handing: BoxFuture<'static, _> = match &mut self.outside.bridge {
            Some(bridge) => bridge.hand_over(letter, tries),
            None => Box::pin(async move { Err(none.into()) }),
        };
        self.handing.push(Box::pin(async move {
            Handed {
                id,
                result: handing.await,
            }
        }));
    }

    /// Returns whether the end of the run waits for the external program: as long as it may send a
    /// message that wakes a role, otherwise for a limited time for pending messages, which would be
    /// lost or handed over twice.
    pub(super) fn outlasts(&mut self, status: Status) -> bool {
        let listening = self.is_heard_out();
        let wakes = listening && self.journal.stepper().can_be_woken(status);
        wakes || (listening || !self.handing.is_empty()) && self.has_patience()
    }

    /// Tells the external program that no more messages follow for now, and returns whether it may
    /// still read the last ones and reply.
    pub(super) fn is_heard_out(&mut self) -> bool {
        let listening = self.outside.is_listening();
        if listening {
            self.outside.rest();
        }
        listening
    }

    fn has_patience(&mut self) -> bool {
        if self.outside.patience == Patience::Whole {
            self.outside.patience = Patience::Tried;
            self.outside.end.0 += 1;
            let end = self.outside.end;
            self.arrivals.push(Box::pin(async move {
                tokio::time::sleep(GRACE).await;
                Arrived::Enough(end)
            }));
        }
        self.outside.patience == Patience::Tried
    }

    /// Records that a message was handed over, and publishes the replies.
    pub(super) fn handed(&mut self, handed: Handed) -> Result<(), DriverError> {
        let Handed { id, result } = handed;
        match result {
            Ok(replies) => {
                self.journal.stage(Event::HandedOver { id })?;
                for reply in &replies {
                    self.came_in(reply)?;
                }
                Ok(())
            }
            Err(why) => self.journal.stage(Event::HandOverFailed { id, why }),
        }
    }

    /// Handles what the external program sent on its own.
    pub(super) fn heard(&mut self, incoming: &Incoming) -> Result<(), DriverError> {
        match incoming {
            Incoming::Message(text) => self.came_in(text),
            Incoming::Closed { how, well: true } => {
                tracing::info!("the external program {how}");
                Ok(())
            }
            Incoming::Closed { how, well: false } => {
                tracing::warn!(
                    "the external program {how}; what it was told last it may not have read"
                );
                Ok(())
            }
        }
    }

    /// Publishes a message from outside. Text that is no message is only logged: nobody but the
    /// operator can correct it.
    fn came_in(&mut self, text: &str) -> Result<(), DriverError> {
        match team_json::read_letter(text) {
            Ok(message) => {
                let (cause, is_empty) = (
                    message.cause_by.clone(),
                    message.content.is_empty() && message.instruct.is_none(),
                );
                if self.journal.take_in(message)?.is_unheard() {
                    warn_unheard(text, &cause, is_empty);
                }
                Ok(())
            }
            Err(error) => {
                tracing::warn!("what came from outside is no message and was dropped: {error}");
                Ok(())
            }
        }
    }
}

/// Warns the operator of an incoming message that reached nobody, which is probably a mistake in
/// its fields.
fn warn_unheard(text: &str, cause: &str, is_empty: bool) {
    let why = match cause {
        "" => "it has no `cause_by`, and names nobody in `to`".to_owned(),
        cause => format!("nobody watches its `cause_by`, `{cause}`, and it names nobody in `to`"),
    };
    let content = if is_empty {
        "; it has no `content`, either"
    } else {
        ""
    };
    tracing::warn!(
        "what came from outside reached no mailbox: {why}{content}: {}",
        excerpt(text, SHOWN)
    );
}
