//! Messages and drafts of messages. Who receives a message is decided in `environment::routing`.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::conversation::Part;
use crate::record::id::{Digest, MessageId};
use crate::record::json::Json;

/// The label of the idea that a run starts from.
pub const IDEA_LABEL: &str = "UserRequirement";
/// The recipient name that means everyone who watches the label of the message.
pub const TO_ALL: &str = "<all>";
/// The recipient name that means the sender.
pub const TO_SELF: &str = "<self>";
/// The recipient name that means nobody. It distinguishes a message that is meant for nobody from one
/// that names no recipients.
pub const TO_NOBODY: &str = "<nobody>";

/// The key of `meta` with the idempotency key of a message from outside.
pub const IDEMPOTENCY_KEY: &str = "idempotency_key";

/// The prefix of the ids of messages from outside. No message of a role has it.
pub const EXTERNAL_ID_PREFIX: &str = "sent-";
/// The key of `meta` with the sender that a message from outside claims to have.
pub const CLAIMED_SENDER: &str = "external_sent_from";
/// The key of `meta` with the role that a message from outside claims to speak as.
pub const CLAIMED_ROLE: &str = "external_role";
/// The `role` of every message from outside.
const USER_ROLE: &str = "user";

/// A published message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Unique within the run.
    pub id: MessageId,
    /// The text of the message.
    pub content: String,
    /// Structured content. Boxed, because most messages have none and there are many messages.
    pub instruct: Option<Box<Instruct>>,
    /// Images and files, in order. The text is in `content` only.
    pub parts: Vec<Part>,
    /// Who speaks, for people: `Name(Profile)`, or `user`.
    pub role: String,
    /// The label: the action that produced it, or what the sender named as the cause.
    pub cause_by: String,
    /// The name of the sending role; empty for messages from outside.
    pub sent_from: String,
    /// The recipients named by the sender; `<all>` for a broadcast.
    pub send_to: Vec<String>,
    /// Further values by name.
    pub meta: BTreeMap<String, Json>,
    /// The hops of the itinerary that are still to be made.
    pub route: Vec<Hop>,
}

impl Message {
    /// Returns a message of the user to everyone who watches its label.
    pub fn from_user(id: MessageId, content: String, cause_by: String) -> Self {
        Self {
            id,
            content,
            instruct: None,
            parts: Vec::new(),
            role: USER_ROLE.into(),
            cause_by,
            sent_from: String::new(),
            send_to: alloc::vec![TO_ALL.into()],
            meta: BTreeMap::new(),
            route: Vec::new(),
        }
    }

    /// Returns whether the message was sent from outside the team, whatever sender it names. The
    /// idea is not.
    pub fn is_from_outside(&self) -> bool {
        self.id.0.starts_with(EXTERNAL_ID_PREFIX)
    }
}

impl Message {
    /// Clears the sender of a message from outside, so that it does not appear to come from a role.
    /// What it claimed is kept in `meta`.
    pub(crate) fn move_claims_to_meta(&mut self) {
        let sender = core::mem::take(&mut self.sent_from);
        let role = core::mem::replace(&mut self.role, USER_ROLE.into());
        for (key, claim, usual) in [
            (CLAIMED_SENDER, sender, ""),
            (CLAIMED_ROLE, role, USER_ROLE),
        ] {
            if !claim.is_empty() && claim != usual {
                self.meta
                    .insert(key.into(), Json::from(Value::String(claim)));
            }
        }
    }

    /// Returns the sender that this message from outside claims to have.
    pub(crate) fn claimed_sender(&self) -> Option<String> {
        match self.meta.get(CLAIMED_SENDER)?.value() {
            Value::String(name) => Some(name),
            _ => None,
        }
    }
}

/// Structured content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruct {
    /// The name of the type of the value; empty if unknown. It is never resolved to anything.
    pub class: String,
    /// The value.
    pub value: Json,
}

impl Instruct {
    /// Returns a value whose type is not named.
    pub fn untyped(value: Json) -> Box<Self> {
        Box::new(Self {
            class: String::new(),
            value,
        })
    }
}

/// One hop of an itinerary: the output of `from` goes to `to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// A role, by name or alias.
    pub from: String,
    /// The recipients of its output.
    pub to: Vec<String>,
}

/// A message as an action returned it, before it gets an id and a sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// The text.
    pub content: String,
    /// Structured content.
    pub data: Option<Json>,
    /// Images and files, in order.
    pub parts: Vec<Part>,
    /// The recipients; empty leaves the choice to the environment, and `<nobody>` alone means nobody.
    pub to: Vec<String>,
    /// The label, if it is not the name of the action.
    pub cause_by: Option<String>,
    /// The itinerary.
    pub route: Vec<Hop>,
}

/// Returns the digests of the images and files among `parts` whose bytes are stored.
pub fn stored_parts(parts: &[Part]) -> impl Iterator<Item = &Digest> {
    parts
        .iter()
        .filter_map(|part| Some(part.media()?.blob()?.0))
}
