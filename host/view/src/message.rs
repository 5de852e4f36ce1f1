//! One message of a saved run, completely.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use strata_base::text::suggest::did_you_mean;
use strata_core::machine::stepper::Stepper;
use strata_core::record::message::Message;
use strata_core::state::messages::MessageRef;

use crate::part::PartFields;

/// How many of the newest messages are considered for the hint about an unknown id.
const CANDIDATES: usize = 1000;

/// A message. It is serialised in the form that `team.json` uses, followed by the roles for which it
/// waits.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MessageView {
    /// The message.
    #[serde(flatten, serialize_with = "strata_team_json::serialize_message")]
    #[schemars(schema_with = "message_schema")]
    pub message: Message,
    /// The names of the roles that have not handled it yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
}

/// Returns the schema of a message in the form that `team.json` uses.
fn message_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut parts = generator.subschema_for::<Vec<PartFields<'_>>>();
    let about = "Its parts, if it has others than its text.";
    parts.insert("description".into(), about.into());
    json_schema!({
        "type": "object",
        "required": [
            "id", "content", "instruct_content", "role", "cause_by", "sent_from", "send_to", "meta_info", "route"
        ],
        "properties": {
            "id": { "type": "string", "description": "Its id." },
            "content": { "type": "string", "description": "Its text." },
            "instruct_content": {
                "type": ["object", "null"],
                "description": "Its data.",
                "required": ["class", "value"],
                "properties": {
                    "class": { "type": "string", "description": "The name of the type of the data." },
                    "value": { "description": "The data." },
                },
            },
            "parts": parts,
            "role": { "type": "string", "description": "The role under which a model is shown it, such as `user`." },
            "cause_by": { "type": "string", "description": "The label under which it is heard." },
            "sent_from": { "type": "string", "description": "The sender; empty if it came from outside." },
            "send_to": {
                "type": "array", "items": { "type": "string" }, "description": "Its recipients; `<all>` for all who watch its label.",
            },
            "meta_info": { "type": "object", "description": "What others noted with it." },
            "route": {
                "type": "array",
                "description": "The hops that it still has to take.",
                "items": {
                    "type": "object",
                    "required": ["from", "to"],
                    "properties": {
                        "from": { "type": "string" },
                        "to": { "type": "array", "items": { "type": "string" } },
                    },
                },
            },
        },
    })
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use schemars::schema_for;
    use strata_core::record::json::Json;
    use strata_core::record::message::Instruct;

    use super::*;

    #[test]
    fn the_schema_names_the_fields_that_are_written() {
        let mut message = Message::from_user("m".into(), "text".into(), "label".into());
        message.instruct = Some(Instruct::untyped(Json::from(serde_json::json!(1))));
        let view = MessageView {
            message,
            waits_for: vec!["A".into()],
        };
        let written = serde_json::to_value(&view).expect("JSON");
        let schema = schema_for!(MessageView).to_value();
        let names = |value: &serde_json::Value| -> BTreeSet<String> {
            let fields = value.as_object().into_iter().flatten();
            fields.map(|(name, _)| name.clone()).collect()
        };
        // A message of one text has no list of parts.
        let mut described = names(&schema["properties"]);
        assert!(described.remove("parts"));
        assert_eq!(names(&written), described);
    }
}
