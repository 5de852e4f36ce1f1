//! The events of messages and files on their way: who receives a message, what joins release, what
//! leaves the outbox, and which files were put in place.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::id::{JoinId, MessageId, RoleId};
use crate::record::message::{Hop, Message};

/// Who receives a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingResult {
    /// The message.
    pub id: MessageId,
    /// The role that sent it; `None` if it came from outside.
    pub from: Option<RoleId>,
    /// Its label.
    pub cause_by: String,
    /// The roles that receive it, ascending, without duplicates.
    pub to: Vec<RoleId>,
    /// The joins it enters, ascending, without duplicates.
    pub joins: Vec<JoinId>,
    /// Recipient names that nobody has, and joins that do not wait for the sender.
    pub undeliverable: Vec<String>,
    /// Why the message has no recipients at all, e.g. because no condition of a route holds.
    pub drop_reason: Option<String>,
    /// The rest of the itinerary, which the message keeps.
    pub remaining_route: Vec<Hop>,
    /// Recipient names that belong to the external environment.
    pub external: Vec<String>,
    /// The conditions of routes that could not be evaluated for the message, and so did not hold.
    pub failed_conditions: Vec<FailedCondition>,
}

/// A condition that could not be evaluated for a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCondition {
    /// The condition, as the team file says it.
    pub condition: String,
    /// Why it could not be evaluated.
    pub reason: String,
}

/// What a join released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRelease {
    /// The join.
    pub join: JoinId,
    /// The messages, in the order of the sources of the join, each with its sender.
    pub messages: Vec<(RoleId, MessageId)>,
    /// The roles that received them, ascending, without duplicates.
    pub to: Vec<RoleId>,
    /// The join that they entered instead, if it leads into another join.
    pub into: Option<JoinId>,
}

/// A message arrived from outside the team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSent {
    /// The message.
    pub message: Message,
    /// Who received it.
    pub routed: RoutingResult,
}

/// Joins fired between steps because the team is quiet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinReleased {
    /// What they released, in order.
    pub released: Vec<JoinRelease>,
}

/// The oldest message in the outbox was delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOver {
    /// The message.
    pub id: MessageId,
}

/// The oldest message in the outbox could not be delivered. A resume tries again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOverFailed {
    /// The message.
    pub id: MessageId,
    /// The reason.
    pub why: String,
}

/// Files were written to their final paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesPlaced {
    /// How many of the pending placements were carried out, oldest first.
    pub count: u32,
    /// Files that somebody else had changed there, each with the name under which it was kept
    /// beside.
    pub aside: Vec<(String, String)>,
}
