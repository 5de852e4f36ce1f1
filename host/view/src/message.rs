//! One message of a saved run, completely.

use serde::Serialize;
use strata_base::text::suggest::did_you_mean;
use strata_core::machine::stepper::Stepper;
use strata_core::record::message::Message;
use strata_core::state::messages::MessageRef;

/// How many of the newest messages are considered for the hint about an unknown id.
const CANDIDATES: usize = 1000;

/// A message. It is serialised in the form that `team.json` uses, followed by the roles for which it
/// waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageView {
    /// The message.
    #[serde(flatten, serialize_with = "strata_team_json::serialize_message")]
    pub message: Message,
    /// The names of the roles that have not handled it yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
}

/// There is no message with this id.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no message `{id}` in this state{hint}; `events` tells the ids of all that were routed"
)]
pub struct UnknownMessage {
    /// The id.
    pub id: String,
    /// Which id was probably meant, as the end of a sentence; empty if none is similar.
    pub hint: String,
}

impl MessageView {
    /// Returns the message with this id.
    ///
    /// # Errors
    /// Fails if the state has no such message.
    pub fn from_id(stepper: &Stepper, id: &str) -> Result<Self, UnknownMessage> {
        let (team, env) = (stepper.team(), stepper.env());
        let mut places = (0..).map(MessageRef).zip(env.messages.iter());
        let Some((place, message)) = places.find(|(_, message)| message.id.0 == id) else {
            let newest = env.messages.iter().rev().take(CANDIDATES);
            return Err(UnknownMessage {
                id: id.to_owned(),
                hint: did_you_mean(id, newest.map(|message| message.id.0.as_str())),
            });
        };
        let waits = |role| env.unfinished_mail(role).any(|mail| mail == place);
        let waits_for = team.role_ids().filter(|role| waits(*role));
        Ok(Self {
            message: Message::clone(message),
            waits_for: waits_for.map(|role| team.role(role).name.clone()).collect(),
        })
    }
}
