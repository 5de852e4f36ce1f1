//! Names of things: newtypes, so that one kind of id cannot be taken for another.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

/// A role, by its place in the team file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RoleId(pub u16);

impl RoleId {
    /// The place as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// An action, by its place in its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActionId(pub u16);

impl ActionId {
    /// The place as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A join, by its place in the team file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JoinId(pub u16);

impl JoinId {
    /// The place as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A component's place in the team: what a role thinks with, or one of its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// The role.
    pub role: RoleId,
    /// What the component does for it.
    pub part: Part,
}

/// What a component does for its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// It chooses the next action of a `react` role.
    Think,
    /// It is this action.
    Action(ActionId),
}

/// Bytes in lower-case hex, as digests are written.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| alloc::format!("{byte:02x}"))
        .collect()
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
    };
}

text_id! {
    /// One run of a team, from its idea to its end, over all resumes.
    RunId
}
text_id! {
    /// A message; unique within a run, and the same when the run is repeated.
    MessageId
}
text_id! {
    /// Something that a person is asked; unique among what is open in a run, and the same when the run is repeated.
    RequestId
}
text_id! {
    /// A saved state to which a run can go back.
    CheckpointId
}
text_id! {
    /// The SHA-256 of a component, in lower-case hex.
    Digest
}
