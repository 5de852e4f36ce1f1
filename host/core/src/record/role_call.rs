//! Calls of roles as tools: the way from the activation that handles mail to the one that a chain of
//! such calls led to.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::record::id::RoleId;
use crate::record::nested_path::NestedPath;

/// How many calls of roles may lead to an activation. A path is part of the key of every call, so
/// its size is fixed; teams in which roles call each other are rarely deeper than three.
pub const MAX_ROLE_CALLS: usize = 8;

/// A tool call by which a role calls another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RoleCall {
    /// The role that calls.
    pub role: RoleId,
    /// The number of the reply that asks for the call, starting at 0.
    pub turn: u32,
    /// The index of the call in the reply.
    pub call: u32,
    /// The calls of code that lead from that call to the one of the role.
    pub nested: NestedPath,
}

/// The calls that led to an activation, the first one first. It is empty for an activation that
/// handles mail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RoleCallPath {
    calls: [RoleCall; MAX_ROLE_CALLS],
    len: u8,
}

impl RoleCallPath {
    /// The path of an activation that handles mail.
    pub const EMPTY: Self = Self {
        calls: [RoleCall {
            role: RoleId(0),
            turn: 0,
            call: 0,
            nested: NestedPath::EMPTY,
        }; MAX_ROLE_CALLS],
        len: 0,
    };

    /// Returns the calls, the first one first.
    pub fn calls(&self) -> &[RoleCall] {
        &self.calls[..usize::from(self.len)]
    }

    /// Returns whether no call led to the activation: it handles mail.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the last call, which the activation answers.
    pub fn last(&self) -> Option<RoleCall> {
        self.calls().last().copied()
    }

    /// Returns the path without its last call.
    pub fn parent(mut self) -> Self {
        if let Some(len) = self.len.checked_sub(1) {
            self.len = len;
            // Unused places hold what they hold in `EMPTY`, so that equal paths are equal.
            self.calls[usize::from(len)] = Self::EMPTY.calls[0];
        }
        self
    }

    /// Returns the path with one more call, or `None` if it would be too long.
    pub fn with(mut self, call: RoleCall) -> Option<Self> {
        *self.calls.get_mut(usize::from(self.len))? = call;
        self.len += 1;
        Some(self)
    }
}

impl fmt::Debug for RoleCallPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls().fmt(f)
    }
}

impl PartialOrd for RoleCallPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of the calls in which they differ first. A path comes before those that continue it.
impl Ord for RoleCallPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.calls().cmp(other.calls())
    }
}

impl Serialize for RoleCallPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.calls().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RoleCallPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut path = Self::EMPTY;
        for call in Vec::<RoleCall>::deserialize(deserializer)? {
            path = path
                .with(call)
                .ok_or_else(|| D::Error::custom("too many calls of roles"))?;
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(calls: &[u32]) -> RoleCallPath {
        calls.iter().fold(RoleCallPath::EMPTY, |path, turn| {
            let call = RoleCall {
                role: RoleId(1),
                turn: *turn,
                call: 0,
                nested: NestedPath::EMPTY,
            };
            path.with(call).expect("a short path")
        })
    }

    #[test]
    fn a_path_is_read_as_it_was_written() {
        for calls in [&[][..], &[0], &[3, 0, 7], &[1; MAX_ROLE_CALLS]] {
            let bytes = postcard::to_allocvec(&path(calls)).expect("bytes");
            assert_eq!(postcard::from_bytes(&bytes), Ok(path(calls)));
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let call = path(&[1]).calls()[0];
        assert_eq!(path(&[1; MAX_ROLE_CALLS]).with(call), None);
        let bytes = postcard::to_allocvec(&[call; MAX_ROLE_CALLS + 1].as_slice()).expect("bytes");
        assert!(postcard::from_bytes::<RoleCallPath>(&bytes).is_err());
    }

    #[test]
    fn paths_are_in_the_order_of_their_calls() {
        let ordered = [
            path(&[]),
            path(&[1]),
            path(&[1, 0]),
            path(&[1, 1]),
            path(&[2]),
        ];
        assert!(ordered.is_sorted_by(|a, b| a < b));
        assert_eq!(path(&[1, 5]).parent(), path(&[1]));
        assert_eq!(path(&[]).parent(), path(&[]));
    }
}
