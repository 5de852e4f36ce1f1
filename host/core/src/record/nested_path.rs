//! The way from a tool call of a model to a call that was made within it: tools whose code calls other
//! tools.

use alloc::vec::Vec;
use core::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many calls of code may lie between the call of a model and a tool, that tool's call included. A
/// path is part of the key of every call, so its size is fixed.
pub const MAX_NESTED_LEVELS: usize = 4;

/// The numbers of the calls that lead from a tool call of a model to one that was made within it. Each
/// number counts the calls within one call, starting at 0. It is empty for the call of the model.
///
/// The order is that of the numbers in which two paths differ first. A path comes before those that
/// continue it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NestedPath {
    numbers: [u16; MAX_NESTED_LEVELS],
    len: u8,
}

impl NestedPath {
    /// The path of a call of a model.
    pub const EMPTY: Self = Self {
        numbers: [0; MAX_NESTED_LEVELS],
        len: 0,
    };

    /// Returns the numbers, the outermost first.
    pub fn numbers(&self) -> &[u16] {
        &self.numbers[..usize::from(self.len)]
    }

    /// Returns whether it is the path of a call of a model.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the path of a call within this one, or `None` if it would be too long.
    pub fn with(mut self, number: u16) -> Option<Self> {
        *self.numbers.get_mut(usize::from(self.len))? = number;
        self.len += 1;
        Some(self)
    }

    /// Returns the path of the call that this one was made in, or `None` for a call of a model.
    pub fn outer(mut self) -> Option<Self> {
        self.len = self.len.checked_sub(1)?;
        // Unused places are 0, so that equal paths are equal.
        self.numbers[usize::from(self.len)] = 0;
        Some(self)
    }

    /// Returns whether the call was made within the call at `outer`, at whatever level.
    pub fn is_within(&self, outer: &Self) -> bool {
        self.len > outer.len && self.numbers().starts_with(outer.numbers())
    }
}

impl Default for NestedPath {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Writes the numbers, each after a `/`, e.g. `/2/0`.
impl fmt::Display for NestedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.numbers()
            .iter()
            .try_for_each(|number| write!(f, "/{number}"))
    }
}

impl fmt::Debug for NestedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.numbers().fmt(f)
    }
}

impl Serialize for NestedPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.numbers().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NestedPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut path = Self::EMPTY;
        for number in Vec::<u16>::deserialize(deserializer)? {
            path = path
                .with(number)
                .ok_or_else(|| D::Error::custom("too many nested calls"))?;
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(numbers: &[u16]) -> NestedPath {
        numbers.iter().fold(NestedPath::EMPTY, |path, number| {
            path.with(*number).expect("a short path")
        })
    }

    #[test]
    fn a_path_is_read_as_it_was_written_unless_it_is_too_long() {
        for numbers in [&[][..], &[0], &[3, 0, 7], &[1; MAX_NESTED_LEVELS]] {
            let bytes = postcard::to_allocvec(&path(numbers)).expect("bytes");
            assert_eq!(postcard::from_bytes(&bytes), Ok(path(numbers)));
        }
        assert_eq!(path(&[1; MAX_NESTED_LEVELS]).with(0), None);
        let bytes = postcard::to_allocvec(&[1u16; MAX_NESTED_LEVELS + 1].as_slice());
        assert!(postcard::from_bytes::<NestedPath>(&bytes.expect("bytes")).is_err());
    }

    #[test]
    fn a_call_comes_before_those_within_it_and_these_before_the_next() {
        let ordered = [path(&[]), path(&[0]), path(&[0, 1]), path(&[1])];
        assert!(ordered.is_sorted_by(|a, b| a < b));
        assert_eq!(path(&[0, 1]).outer(), Some(path(&[0])));
        assert_eq!(path(&[]).outer(), None);
        assert!(path(&[0, 1]).is_within(&path(&[0])) && path(&[0]).is_within(&path(&[])));
        assert!(!path(&[0]).is_within(&path(&[0])) && !path(&[1, 0]).is_within(&path(&[0])));
    }
}
