//! The records of a commit: who received messages, what joins released, and which writers prevented
//! a commit.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::id::{Digest, JoinId, MessageId, RoleId};
use crate::record::message::Hop;
use crate::record::work::Work;

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

/// A role that is set back to before a call, because what that call wrote conflicts with the writes
/// of other roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictingWriter {
    /// The role.
    pub role: RoleId,
    /// The call.
    pub work: Work,
    /// The number of the attempt that wrote, starting at 1.
    pub attempt: u32,
    /// The component; `None` when the host itself chooses the next action.
    pub digest: Option<Digest>,
}
