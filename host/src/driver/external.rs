//! Exchange of messages with the external program of a team: outgoing messages are handed over one
//! at a time, incoming ones are routed like any message.

use futures_util::future::BoxFuture;
use strata_core::record::event::{Event, HandOverFailed, HandedOver, Status};
use strata_core::record::id::MessageId;

use super::end::GRACE_PERIOD;
use super::{Driver, DriverError, DriverEvent, WhenIdle};
use crate::excerpt::excerpt;
use crate::services::external::{
    DeliveryRetries, ExternalConnection, ExternalEvent, OutboundMessage,
};
use crate::storage::team_json;

/// The maximum length of the excerpt of an undelivered message, in characters.
const EXCERPT_CHARS: usize = 60;

/// The connection of a team to its external program.
pub(super) struct ExternalChannel {
    bridge: Option<ExternalConnection>,
    /// Whether the end of the run waits for pending messages; nothing more is handed over
    /// meanwhile.
    drain_phase: DrainPhase,
    /// The end of the run that `patience` is about. There may be several, since a message from
    /// outside wakes a team.
    drain: DrainId,
}

/// Identifies one of the ends that a run comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DrainId(u64);

/// Whether the end of a run waits for the external program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainPhase {
    /// The run is not about to end.
    NotDraining,
    /// The end waits.
    Draining,
    /// The waiting time is over.
    TimedOut,
}

/// The result of handing over a message.
pub(super) struct HandOverResult {
    id: MessageId,
    /// The messages that came back, or why it failed.
    result: Result<Vec<String>, String>,
}

impl ExternalChannel {
    pub(super) fn new(bridge: Option<ExternalConnection>) -> Self {
        Self {
            bridge,
            drain_phase: DrainPhase::NotDraining,
            drain: DrainId::default(),
        }
    }

    /// Returns whether the external program may send messages on its own.
    pub(super) fn is_listening(&self) -> bool {
        self.bridge
            .as_ref()
            .is_some_and(ExternalConnection::is_listening)
    }

    /// Tells the bridge that there is nothing more to hand over.
    pub(super) fn finish_sending(&mut self) {
        if let Some(bridge) = &mut self.bridge {
            bridge.close_input_when_idle();
        }
    }

    /// Notes that the run is not about to end, or has ended: nothing is waited for any more.
    pub(super) fn reset_drain(&mut self) {
        self.drain_phase = DrainPhase::NotDraining;
    }

    /// Ends the wait, if it is still for this end of the run.
    pub(super) fn end_drain(&mut self, end: DrainId) {
        if self.drain_phase == DrainPhase::Draining && self.drain == end {
            self.drain_phase = DrainPhase::TimedOut;
        }
    }

    /// Returns whether messages can be handed over now.
    fn is_open(&self) -> bool {
        self.bridge.as_ref().is_none_or(ExternalConnection::is_open)
    }

    /// Returns the next message that the external program sends on its own.
    pub(super) async fn incoming(&mut self) -> ExternalEvent {
        match &mut self.bridge {
            Some(bridge) => bridge.next_incoming().await,
            None => std::future::pending().await,
        }
    }
}

impl Driver {
    /// Connects to the external program at once if the run waits for messages, since an idle team
    /// may have nothing to hand over that would connect it.
    pub(super) fn open_external(&mut self) {
        let bridge = self
            .external
            .bridge
            .as_mut()
            .filter(|_| self.when_idle == WhenIdle::Stay);
        if let Some(Err(why)) = bridge.map(ExternalConnection::open) {
            tracing::warn!(
                "nothing is heard from outside until there is something to say to it: {why}"
            );
        }
    }

    /// Starts to hand over the next outgoing message, if there is one and no hand-over is pending.
    pub(super) fn start_hand_over(&mut self) {
        let env = self.journal.env();
        let next = env
            .outbox
            .first()
            .filter(|next| next.failed.is_none() && self.external.is_open());
        let is_next =
            self.hand_overs.is_empty() && self.external.drain_phase == DrainPhase::NotDraining;
        let Some(next) = next.filter(|_| is_next) else {
            return;
        };
        let message = env.message(next.message);
        let id = message.id.clone();
        // Message ids are the same in every run, so the key includes the run; otherwise a service
        // that detects repetitions would drop messages of other runs.
        let key = format!("{}/{}", env.lineage.idempotency_prefix(&env.run.0), id.0);
        let letter = OutboundMessage {
            key,
            text: team_json::external_message_json(message, &next.to),
        };
        let tries = if self.when_idle == WhenIdle::Stay {
            DeliveryRetries::Unlimited
        } else {
            DeliveryRetries::Limited
        };
        let none = "the team file has no `[env.external]` any more";
        let handing: BoxFuture<'static, _> = match &mut self.external.bridge {
            Some(bridge) => bridge.deliver(letter, tries),
            None => Box::pin(async move { Err(none.into()) }),
        };
        self.hand_overs.push(Box::pin(async move {
            HandOverResult {
                id,
                result: handing.await,
            }
        }));
    }

    /// Returns whether the end of the run waits for the external program: as long as it may send a
    /// message that wakes a role, otherwise for a limited time for pending messages, which would be
    /// lost or handed over twice.
    pub(super) fn waits_for_external(&mut self, status: Status) -> bool {
        let listening = self.drain_external();
        let wakes = listening && self.journal.stepper().can_be_reactivated(status);
        wakes || (listening || !self.hand_overs.is_empty()) && self.within_drain_period()
    }

    /// Tells the external program that no more messages follow for now, and returns whether it may
    /// still read the last ones and reply.
    pub(super) fn drain_external(&mut self) -> bool {
        let listening = self.external.is_listening();
        if listening {
            self.external.finish_sending();
        }
        listening
    }

    fn within_drain_period(&mut self) -> bool {
        if self.external.drain_phase == DrainPhase::NotDraining {
            self.external.drain_phase = DrainPhase::Draining;
            self.external.drain.0 += 1;
            let end = self.external.drain;
            self.driver_events.push(Box::pin(async move {
                tokio::time::sleep(GRACE_PERIOD).await;
                DriverEvent::DrainTimedOut(end)
            }));
        }
        self.external.drain_phase == DrainPhase::Draining
    }

    /// Records that a message was handed over, and publishes the replies.
    pub(super) fn record_hand_over(&mut self, handed: HandOverResult) -> Result<(), DriverError> {
        let HandOverResult { id, result } = handed;
        match result {
            Ok(replies) => {
                self.journal.stage(Event::HandedOver(HandedOver { id }))?;
                for reply in &replies {
                    self.publish_text(reply)?;
                }
                Ok(())
            }
            Err(why) => self
                .journal
                .stage(Event::HandOverFailed(HandOverFailed { id, why })),
        }
    }

    /// Handles what the external program sent on its own.
    pub(super) fn handle_incoming(&mut self, incoming: &ExternalEvent) -> Result<(), DriverError> {
        match incoming {
            ExternalEvent::Message(text) => self.publish_text(text),
            ExternalEvent::Closed {
                reason: how,
                well: true,
            } => {
                tracing::info!("the external program {how}");
                Ok(())
            }
            ExternalEvent::Closed {
                reason: how,
                well: false,
            } => {
                tracing::warn!(
                    "the external program {how}; what it was told last it may not have read"
                );
                Ok(())
            }
        }
    }

    /// Publishes a message from outside. Text that is no message is only logged: nobody but the
    /// operator can correct it.
    fn publish_text(&mut self, text: &str) -> Result<(), DriverError> {
        match team_json::parse_external_message(text) {
            Ok(message) => {
                let (cause, is_empty) = (
                    message.cause_by.clone(),
                    message.content.is_empty() && message.instruct.is_none(),
                );
                if self.journal.publish_external(message)?.is_undelivered() {
                    warn_undelivered(text, &cause, is_empty);
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
fn warn_undelivered(text: &str, cause: &str, is_empty: bool) {
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
        excerpt(text, EXCERPT_CHARS)
    );
}
