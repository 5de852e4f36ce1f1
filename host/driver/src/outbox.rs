//! The outbox: messages to the external program of a team. They are handed over one at a time, in
//! order. At the end of a run this component decides whether the end waits for the program.

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_core::record::event::{Event, HandOverFailed, HandedOver};
use strata_core::record::id::MessageId;
use strata_core::state::environment::Environment;
use strata_services::external::{ExternalConnection, ExternalEvent, OutboundMessage};

use super::attempts::GRACE_PERIOD;
use super::run_state::WhenIdle;

/// The connection of a team to its external program.
pub(super) struct Outbox {
    connection: Option<ExternalConnection>,
    signals: FuturesUnordered<BoxFuture<'static, OutboxSignal>>,
    /// Whether a message is being handed over.
    is_handing_over: bool,
    /// Whether the end of the run waits for pending messages; nothing more is handed over
    /// meanwhile.
    drain_phase: DrainPhase,
    /// The end of the run that `drain_phase` is about. There may be several, since a message from
    /// outside wakes a team.
    drain: DrainId,
}

/// Something that happened to the outbox.
pub(super) enum OutboxSignal {
    /// The message was handed over, or that failed.
    HandedOver(HandOverResult),
    /// The time to wait for the external program at this end of the run is over.
    DrainTimedOut(DrainId),
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

/// What is recorded about a hand-over.
pub(super) struct HandOver {
    pub(super) event: Event,
    /// The messages that came back.
    pub(super) replies: Vec<String>,
}

impl Outbox {
    pub(super) fn new(connection: Option<ExternalConnection>) -> Self {
        Self {
            connection,
            signals: FuturesUnordered::new(),
            is_handing_over: false,
            drain_phase: DrainPhase::NotDraining,
            drain: DrainId::default(),
        }
    }

    /// Abandons a hand-over; it starts again with the next run.
    pub(super) fn clear(&mut self) {
        self.signals = FuturesUnordered::new();
        self.is_handing_over = false;
        self.reset_drain();
    }

    /// Abandons a hand-over and ends the connection for good.
    pub(super) fn disconnect(&mut self) {
        self.clear();
        self.connection = None;
    }

    /// Connects to the external program at once. A run that waits for messages needs this, since an
    /// idle team may have nothing to hand over that would connect it.
    pub(super) fn open(&mut self) {
        if let Some(Err(why)) = self.connection.as_mut().map(ExternalConnection::open) {
            tracing::warn!(
                "nothing is heard from outside until there is something to say to it: {why}"
            );
        }
    }

    /// Returns whether the external program may send messages on its own.
    pub(super) fn is_listening(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(ExternalConnection::is_listening)
    }

    /// Returns whether a message is being handed over.
    pub(super) fn is_handing_over(&self) -> bool {
        self.is_handing_over
    }

    /// Starts to hand over the next outgoing message, if there is one and no hand-over is pending.
    /// The message must be durable.
    pub(super) fn start_next(&mut self, env: &Environment, when_idle: WhenIdle) {
        let is_open = self
            .connection
            .as_ref()
            .is_none_or(ExternalConnection::is_open);
        let next = env
            .outbox
            .first()
            .filter(|next| next.failed.is_none() && is_open);
        let is_next = !self.is_handing_over && self.drain_phase == DrainPhase::NotDraining;
        let Some(next) = next.filter(|_| is_next) else {
            return;
        };
        let message = env.message(next.message);
        let id = message.id.clone();
        // Message ids are the same in every run, so the key includes the run; otherwise a service
        // that detects repetitions would drop messages of other runs.
        let key = format!("{}/{}", env.lineage.idempotency_run(&env.run.0), id.0);
        let letter = OutboundMessage {
            key,
            text: strata_team_json::external_message_json(message, &next.to),
        };
        let none = "the team file has no `[env.external]` any more";
        let handing: BoxFuture<'static, _> = match &mut self.connection {
            Some(connection) => connection.deliver(letter, when_idle.delivery_retries()),
            None => Box::pin(async move { Err(none.into()) }),
        };
        self.is_handing_over = true;
        self.signals.push(Box::pin(async move {
            let result = handing.await;
            OutboxSignal::HandedOver(HandOverResult { id, result })
        }));
    }

    /// Ends a hand-over. Returns what is recorded about it.
    pub(super) fn complete(&mut self, handed: HandOverResult) -> HandOver {
        self.is_handing_over = false;
        let HandOverResult { id, result } = handed;
        match result {
            Ok(replies) => HandOver {
                event: Event::HandedOver(HandedOver { id }),
                replies,
            },
            Err(why) => HandOver {
                event: Event::HandOverFailed(HandOverFailed { id, why }),
                replies: Vec::new(),
            },
        }
    }

    /// Tells the external program that no more messages follow for now, and returns whether it may
    /// still read the last ones and reply.
    pub(super) fn close_when_idle(&mut self) -> bool {
        let is_listening = self.is_listening();
        if let Some(connection) = self.connection.as_mut().filter(|_| is_listening) {
            connection.close_input_when_idle();
        }
        is_listening
    }

    /// Returns whether the end of the run waits for the external program: as long as it may send a
    /// message that wakes a role (`can_be_woken`), otherwise for a limited time for pending
    /// messages, which would be lost or handed over twice.
    pub(super) fn holds_end(&mut self, can_be_woken: bool) -> bool {
        let is_listening = self.close_when_idle();
        is_listening && can_be_woken
            || (is_listening || self.is_handing_over) && self.is_within_drain_period()
    }

    fn is_within_drain_period(&mut self) -> bool {
        if self.drain_phase == DrainPhase::NotDraining {
            self.drain_phase = DrainPhase::Draining;
            self.drain.0 += 1;
            let drain = self.drain;
            self.signals.push(Box::pin(async move {
                tokio::time::sleep(GRACE_PERIOD).await;
                OutboxSignal::DrainTimedOut(drain)
            }));
        }
        self.drain_phase == DrainPhase::Draining
    }

    /// Notes that the run is not about to end, or has ended: nothing is waited for any more.
    pub(super) fn reset_drain(&mut self) {
        self.drain_phase = DrainPhase::NotDraining;
    }

    /// Ends the wait, if it is still for this end of the run.
    pub(super) fn end_drain(&mut self, drain: DrainId) {
        if self.drain_phase == DrainPhase::Draining && self.drain == drain {
            self.drain_phase = DrainPhase::TimedOut;
        }
    }

    /// Returns two futures: the next signal, which is `None` if there is nothing to wait for, and
    /// what the external program sends next on its own, which never comes unless it is listening.
    pub(super) fn arrivals(
        &mut self,
    ) -> (
        impl Future<Output = Option<OutboxSignal>>,
        impl Future<Output = ExternalEvent>,
    ) {
        let connection = self
            .connection
            .as_mut()
            .filter(|connection| connection.is_listening());
        let incoming = async move {
            match connection {
                Some(connection) => connection.next_incoming().await,
                None => std::future::pending().await,
            }
        };
        let signals = &mut self.signals;
        let signal = async move {
            // Polling an empty set would register a waker for nothing.
            if signals.is_empty() {
                return None;
            }
            signals.next().await
        };
        (signal, incoming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_run_waits_for_a_hand_over_for_a_limited_time() {
        let mut outbox = Outbox::new(None);
        assert!(!outbox.holds_end(true), "there is nothing to wait for");
        outbox.is_handing_over = true;
        assert!(outbox.holds_end(false));
        let first = outbox.drain;
        outbox.end_drain(first);
        assert!(!outbox.holds_end(false), "the time is over");
        // A message woke the team, which came to another end.
        outbox.reset_drain();
        assert!(outbox.holds_end(false));
        outbox.end_drain(first);
        assert!(
            outbox.holds_end(false),
            "the time was over for the first end"
        );
    }

    #[test]
    fn a_hand_over_is_recorded_with_its_replies_or_its_failure() {
        let mut outbox = Outbox::new(None);
        let id = MessageId::from("m-1");
        outbox.is_handing_over = true;
        let done = outbox.complete(HandOverResult {
            id: id.clone(),
            result: Ok(vec!["{}".into()]),
        });
        assert!(!outbox.is_handing_over());
        assert_eq!(done.event, Event::HandedOver(HandedOver { id: id.clone() }));
        assert_eq!(done.replies, ["{}"]);
        let failed = outbox.complete(HandOverResult {
            id: id.clone(),
            result: Err("gone".into()),
        });
        let why = "gone".into();
        let expected = HandOverFailed { id, why };
        assert_eq!(failed.event, Event::HandOverFailed(expected));
    }
}
