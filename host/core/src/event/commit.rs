//! What a commit says: where messages went, what joins let go, and whose writes kept it from happening.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Work;
use crate::id::{Digest, JoinId, MessageId, RoleId};
use crate::message::Hop;

/// Where a message went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routed {
    /// The message.
    pub id: MessageId,
    /// Who sent it; none for what came from outside.
    pub from: Option<RoleId>,
    /// Its label.
    pub cause_by: String,
    /// The roles that received it, in order, each once.
    pub to: Vec<RoleId>,
    /// The joins it got into, in order, each once.
    pub joins: Vec<JoinId>,
    /// Names that stand for nobody, and joins that do not wait for the sender.
    pub dead: Vec<String>,
    /// Why nobody was even tried.
    pub dropped: Option<String>,
    /// The legs that travel on with it.
    pub rest: Vec<Hop>,
    /// Names that stand for somebody outside.
    pub outside: Vec<String>,
}

/// What a join let go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// The join.
    pub join: JoinId,
    /// The messages, in the order of its sources, with who sent them.
    pub messages: Vec<(RoleId, MessageId)>,
    /// The roles that received them, in order, each once.
    pub to: Vec<RoleId>,
    /// The join they got into.
    pub into: Option<JoinId>,
}

/// A role that goes back to before a call, since what that wrote conflicts with what others wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// The role.
    pub role: RoleId,
    /// The call.
    pub work: Work,
    /// The attempt that wrote; counts from 1.
    pub attempt: u32,
    /// The component; none when the host itself thinks.
    pub digest: Option<Digest>,
}
