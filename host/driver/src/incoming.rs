//! What comes from the external program: messages, which are published, and the outcomes of
//! hand-overs, which are recorded.

use strata_base::text::excerpt::excerpt;
use strata_services::external::ExternalEvent;

use super::outbox::{Outbox, OutboxSignal};
use super::{DriverError, Journal};

/// The maximum length of the excerpt of an undelivered message, in characters.
const EXCERPT_CHARS: usize = 60;

/// Handles what happened to the outbox: records that a message was handed over, and publishes the
/// replies.
pub(super) fn handle_signal(
    signal: OutboxSignal,
    outbox: &mut Outbox,
    journal: &mut Journal,
) -> Result<(), DriverError> {
    let handed = match signal {
        OutboxSignal::HandedOver(handed) => outbox.complete(handed),
        OutboxSignal::DrainTimedOut(drain) => {
            outbox.end_drain(drain);
            return Ok(());
        }
    };
    journal.stage(handed.event)?;
    for reply in &handed.replies {
        publish_text(journal, reply)?;
    }
    Ok(())
}

/// Handles what the external program sent on its own.
pub(super) fn handle_incoming(
    journal: &mut Journal,
    incoming: &ExternalEvent,
) -> Result<(), DriverError> {
    match incoming {
        ExternalEvent::Message(text) => publish_text(journal, text),
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
fn publish_text(journal: &mut Journal, text: &str) -> Result<(), DriverError> {
    match strata_team_json::parse_external_message(text) {
        Ok(message) => {
            let (cause, is_empty) = (
                message.cause_by.clone(),
                message.content.is_empty() && message.instruct.is_none(),
            );
            if let Err(full) = journal.stepper().check_room_for(&message) {
                let why = full.message;
                tracing::warn!("a message from outside was dropped: {why}");
                return Ok(());
            }
            if journal.publish_external(message)?.is_undelivered() {
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
