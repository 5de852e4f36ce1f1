//! The revisions of the protocol that the client speaks.

use std::fmt;

/// A revision of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// 2024-11-05.
    V2024,
    /// 2025-03-26.
    V2025March,
    /// 2025-06-18.
    V2025June,
    /// 2025-11-25.
    V2025November,
    /// 2026-07-28, which has no handshake.
    V2026,
}

impl Revision {
    /// All revisions, the newest first.
    pub const ALL: [Self; 5] = [
        Self::V2026,
        Self::V2025November,
        Self::V2025June,
        Self::V2025March,
        Self::V2024,
    ];

    /// The newest of those that begin with `initialize`.
    pub(super) const NEWEST_WITH_HANDSHAKE: Self = Self::V2025November;

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::V2024 => "2024-11-05",
            Self::V2025March => "2025-03-26",
            Self::V2025June => "2025-06-18",
            Self::V2025November => "2025-11-25",
            Self::V2026 => "2026-07-28",
        }
    }

    /// Returns the revision with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Returns whether a session begins with `initialize`.
    pub(super) fn has_handshake(self) -> bool {
        self != Self::V2026
    }

    /// Returns the names of all revisions, the newest first, for people.
    pub(super) fn all_names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
