//! What goes out of a team and what comes in: messages on their way out are handed over one by one, what the outside
//! says is routed like any message.

use futures_util::future::BoxFuture;
use strata_core::event::{Event, Status};
use strata_core::id::MessageId;

use super::end::GRACE;
use super::{Arrived, Driver, DriverError, WhenIdle};
use crate::excerpt::excerpt;
use crate::services::external::{Bridge, Incoming, Letter, Tries};
use crate::store::team_json;

/// How much is shown of what nobody hears.
const SHOWN: usize = 60;

/// The way out of a team.
pub(super) struct Outside {
    bridge: Option<Bridge>,
    /// How long the end of the run waits for what is on its way; nothing more is handed over meanwhile.
    patience: Patience,
    /// Which end of the run that is. There may be several: a message from outside wakes a team.
    end: End,
}

/// One of the ends that a run comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End(u64);

/// Whether the end of a run waits for the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// It does not end yet.
    Whole,
    /// It waits.
    Tried,
    /// It waited long enough.
    Lost,
}

/// The end of a handing over.
pub(super) struct Handed {
    id: MessageId,
    /// What came back, or why it failed.
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

    /// Whether something may come from outside by itself.
    pub(super) fn is_listening(&self) -> bool {
        self.bridge.as_ref().is_some_and(Bridge::is_listening)
    }

    /// Says that there is nothing more to hand over.
    pub(super) fn rest(&mut self) {
        self.bridge.iter_mut().for_each(Bridge::rest);
    }

    /// The run does not end yet, or has ended: nothing is waited for any more.
    pub(super) fn let_go(&mut self) {
        self.patience = Patience::Whole;
    }

    /// What was waited for took long enough, at this end.
    pub(super) fn lose_patience(&mut self, end: End) {
        if self.patience == Patience::Tried && self.end == end {
            self.patience = Patience::Lost;
        }
    }

    /// Whether messages can be handed over now.
    fn is_open(&self) -> bool {
        self.bridge.as_ref().is_none_or(Bridge::is_open)
    }

    /// What comes next by itself.
    pub(super) async fn incoming(&mut self) -> Incoming {
        match &mut self.bridge {
            Some(bridge) => bridge.incoming().await,
            None => std::future::pending().await,
        }
    }
}

impl Driver {
    /// Lets the outside speak first where the run waits for messages: an idle team may have nothing to say to it.
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

    /// Begins to hand over the next message on its way out, if there is one and nothing else has to happen before.
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
        // Ids are the same in every run; whoever knows repetitions by the key must not take another run's for one.
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

    /// Whether the end of a run waits for the outside: as long as it may say something that somebody is woken by, else a
    /// while for what is on its way. That would be lost, or handed over once more.
    pub(super) fn outlasts(&mut self, status: Status) -> bool {
        let listening = self.is_heard_out();
        let wakes = listening && self.journal.stepper().can_be_woken(status);
        wakes || (listening || !self.handing.is_empty()) && self.has_patience()
    }

    /// Whether the outside may still read what it was told, and say something. It is told that it hears no more for now.
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

    /// Records that a message was handed over, with what came back for it.
    pub(super) fn handed(&mut self, handed: Handed) -> Result<(), DriverError> {
        let Handed { id, result } = handed;
        match result {
            Ok(replies) => {
                self.journal.stage(Event::HandedOver { id })?;
                replies.iter().try_for_each(|reply| self.came_in(reply))
            }
            Err(why) => self.journal.stage(Event::HandOverFailed { id, why }),
        }
    }

    /// Takes in what came from outside by itself.
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

    /// Publishes a message from outside. What is none is told to the operator: nobody else could mend it.
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

/// Tells the operator of what came from outside and went nowhere: most likely it means something else than it says.
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
