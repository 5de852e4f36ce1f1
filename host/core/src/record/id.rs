//! Identifiers: newtypes, so that one kind of id cannot be mistaken for another.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

/// A role, by its index in the team file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RoleId(pub u16);

impl RoleId {
    /// Returns the index of the role in the team.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// An action, by its index in its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActionId(pub u16);

impl ActionId {
    /// Returns the index of the action in its role.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A join, by its index in the team file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JoinId(pub u16);

impl JoinId {
    /// Returns the index of the join in the team.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The position of a component in a team: a role, and either what chooses its next action or one of
/// its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// The role.
    pub role: RoleId,
    /// What the component does for the role.
    pub kind: SlotKind,
}

/// What a component does for its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SlotKind {
    /// It chooses the next action of a `react` role.
    Think,
    /// It is this action.
    Action(ActionId),
    /// It is no component: what the model of a tools role costs is charged here.
    Turn,
    /// It decides about tool calls of a tools role, or sees their results.
    Guard(GuardMoment),
    /// It runs the scripts of a tools role's skills that are in this language.
    SkillScript(SkillLanguage),
    /// It writes the summaries of a tools role. What a model costs that does is charged here, too.
    Summary,
}

/// When a guard is asked about a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GuardMoment {
    /// Before it is made.
    Before,
    /// When it has returned a result.
    After,
}

impl GuardMoment {
    /// Both, in order.
    pub const ALL: [Self; 2] = [Self::Before, Self::After];

    /// Returns the word for it in team files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// A language of scripts that skills can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SkillLanguage {
    /// Python.
    Python,
    /// JavaScript.
    JavaScript,
}

impl SkillLanguage {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Python, Self::JavaScript];

    /// Returns the name of the component that runs its scripts.
    pub fn component_name(self) -> &'static str {
        match self {
            Self::Python => "run_skill_script.py",
            Self::JavaScript => "run_skill_script.js",
        }
    }
}

/// Returns bytes in lower-case hexadecimal, the notation of digests.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
        hex.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    hex
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
    /// One run of a team, from its idea to its end, across all resumes.
    RunId
}
text_id! {
    /// A message. Unique within a run, and the same when the run is repeated.
    MessageId
}
text_id! {
    /// A request to a human. Unique among the open requests of a run, and the same when the run is
    /// repeated.
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

impl Digest {
    /// Returns whether it has the form of a SHA-256.
    pub fn is_sha256(&self) -> bool {
        self.0.len() == 64 && self.0.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}
