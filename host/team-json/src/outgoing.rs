//! Messages in the file that are to be published when the step is committed.

use strata_core::state::activation::{Addressing, UncommittedMessage};
use strata_core::state::environment::Environment;

use super::field::MessageLink;
use super::layout::OutgoingJson;
use super::located_value::{ImportResult, LocatedValue};
use super::messages::ImportedMessages;

/// Returns messages that are to be published.
pub(super) fn write_emissions<'a>(
    env: &'a Environment,
    emissions: &[UncommittedMessage],
) -> Vec<OutgoingJson<'a>> {
    let emissions = emissions.iter();
    emissions.map(|made| write_outgoing(env, made)).collect()
}

/// Returns a message that is to be published.
pub(super) fn write_outgoing<'a>(
    env: &'a Environment,
    outgoing: &UncommittedMessage,
) -> OutgoingJson<'a> {
    OutgoingJson {
        message: MessageLink::to(&env.message(outgoing.message).id.0),
        addressed: outgoing.addressing == Addressing::Explicit,
    }
}

/// Reads messages that are to be published.
pub(super) fn read_emissions(
    saved: Vec<OutgoingJson<'_>>,
    list: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Vec<UncommittedMessage>> {
    let mut emissions = Vec::with_capacity(saved.len());
    for (index, outgoing) in saved.iter().enumerate() {
        emissions.push(read_outgoing(outgoing, &list.item(index), messages)?);
    }
    Ok(emissions)
}

/// Reads a message that is to be published.
pub(super) fn read_outgoing(
    saved: &OutgoingJson<'_>,
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<UncommittedMessage> {
    Ok(UncommittedMessage {
        message: messages.read_link(&saved.message, &place.child("message"))?,
        addressing: if saved.addressed {
            Addressing::Explicit
        } else {
            Addressing::ByEnvironment
        },
    })
}
