//! Messages and their drafts. Who receives one is decided in `environment::routing`.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::MessageId;
use crate::json::Json;

/// The label of the idea a run starts from.
pub const IDEA_LABEL: &str = "UserRequirement";
/// The recipient that stands for everyone who watches the message's label.
pub const TO_ALL: &str = "<all>";
/// The recipient that stands for the sender.
pub const TO_SELF: &str = "<self>";

/// Under what `meta` keeps the key by which a message from outside is known again.
pub const IDEMPOTENCY_KEY: &str = "idempotency_key";

/// What the ids of messages from outside begin with. No message of a role has such an id.
pub const SENT: &str = "sent-";
/// Under what `meta` keeps who a message from outside says has sent it.
pub const CLAIMED_SENDER: &str = "external_sent_from";
/// Under what `meta` keeps as whom a message from outside says it speaks.
pub const CLAIMED_ROLE: &str = "external_role";
/// As whom everything from outside speaks.
const USER: &str = "user";

/// A published message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Unique within the run.
    pub id: MessageId,
    /// The text.
    pub content: String,
    /// Structured content. Most messages have none, and there are many of them.
    pub instruct: Option<Box<Instruct>>,
    /// Who speaks, for people: `Name(Profile)`, or `user`.
    pub role: String,
    /// The label: the producing action, or what the sender named as the cause.
    pub cause_by: String,
    /// The sending role's name; empty for what comes from outside.
    pub sent_from: String,
    /// The recipients the sender named; `<all>` for a broadcast.
    pub send_to: Vec<String>,
    /// What else travels with it, by name.
    pub meta: BTreeMap<String, Json>,
    /// The legs still to go.
    pub route: Vec<Hop>,
}

impl Message {
    /// What the person in front of the team says, to everyone who watches the label.
    pub fn of_user(id: MessageId, content: String, cause_by: String) -> Self {
        Self {
            id,
            content,
            instruct: None,
            role: USER.into(),
            cause_by,
            sent_from: String::new(),
            send_to: alloc::vec![TO_ALL.into()],
            meta: BTreeMap::new(),
            route: Vec::new(),
        }
    }

    /// Returns whether the message was sent from outside the team, whatever sender it names. The idea is not.
    pub fn is_from_outside(&self) -> bool {
        self.id.0.starts_with(SENT)
    }
}

impl Message {
    /// Makes a message from outside one that no role has sent. Who it says has sent it is kept in `meta`.
    pub(crate) fn set_claims_aside(&mut self) {
        let sender = core::mem::take(&mut self.sent_from);
        let role = core::mem::replace(&mut self.role, USER.into());
        for (key, claim, usual) in [(CLAIMED_SENDER, sender, ""), (CLAIMED_ROLE, role, USER)] {
            if !claim.is_empty() && claim != usual {
                self.meta
                    .insert(key.into(), Json::from(Value::String(claim)));
            }
        }
    }

    /// Returns who this message from outside says has sent it.
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
    /// The name of its type; empty when unknown. Never resolved to anything.
    pub class: String,
    /// The document.
    pub value: Json,
}

impl Instruct {
    /// A document whose type nobody named.
    pub fn untyped(value: Json) -> Box<Self> {
        Box::new(Self {
            class: String::new(),
            value,
        })
    }
}

/// One leg of an itinerary: the output of `from` goes to `to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// A role, by name or alias.
    pub from: String,
    /// The recipients of its output.
    pub to: Vec<String>,
}

/// What an action returned, before it is a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// The text.
    pub content: String,
    /// Structured content.
    pub data: Option<Json>,
    /// Explicit recipients; empty leaves the choice to the environment.
    pub to: Vec<String>,
    /// The label, where it is not the action's name.
    pub cause_by: Option<String>,
    /// An itinerary.
    pub route: Vec<Hop>,
}
