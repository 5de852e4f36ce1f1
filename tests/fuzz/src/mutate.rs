//! Generated inputs: entries of a corpus with changes that often break parsers. The same seed gives
//! the same inputs.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The maximum length of a generated input.
const MAX_BYTES: usize = 64 << 10;
/// Byte sequences at the boundaries of formats.
const EDGES: [&str; 20] = [
    "",
    "0",
    "-1",
    "65535",
    "65536",
    "4294967296",
    "18446744073709551615",
    "1e999",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\u{0}",
    "\u{feff}",
    "\u{202e}",
    "\u{1b}[2J",
    "../",
    "\\ud800",
    "'",
];

/// A generator of inputs.
pub struct Mutator<'a> {
    corpus: Vec<&'a [u8]>,
    random: StdRng,
}

impl<'a> Mutator<'a> {
    /// Creates a generator from a corpus.
    pub fn new(corpus: impl IntoIterator<Item = &'a [u8]>, seed: u64) -> Self {
        Self {
            corpus: corpus.into_iter().collect(),
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// Returns the next input: an entry of the corpus with one to eight changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut bytes = self.pick().to_vec();
        for _ in 0..self.random.random_range(1..=8) {
            self.change(&mut bytes);
        }
        bytes.truncate(MAX_BYTES);
        bytes
    }

    fn pick(&mut self) -> &'a [u8] {
        match self.corpus.len() {
            0 => &[],
            count => self.corpus[self.random.random_range(0..count)],
        }
    }

    /// Returns a random range of the bytes.
    fn span(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let start = self.random.random_range(0..=bytes.len());
        let longest = (bytes.len() - start).min(1 << self.random.random_range(0..10));
        start..start + self.random.random_range(0..=longest)
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let span = self.span(bytes);
        match self.random.random_range(0..7) {
            0 => drop(bytes.drain(span)),
            1 => {
                let twice = bytes[span.clone()].to_vec();
                bytes.splice(span.end..span.end, twice);
            }
            2 => {
                let edge = EDGES[self.random.random_range(0..EDGES.len())];
                bytes.splice(span, edge.bytes());
            }
            3 => {
                let other = self.pick();
                let part = self.span(other);
                bytes.splice(span, other[part].iter().copied());
            }
            4 => self.change_word(bytes, span.start),
            _ => {
                for byte in &mut bytes[span.start..span.end.min(span.start + 4)] {
                    *byte ^= 1 << self.random.random_range(0..8);
                }
            }
        }
    }

    /// Replaces the whole word at a position, such as a number or a name, by a boundary value.
    fn change_word(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let part_of_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let before = bytes[..at].iter().rev().take_while(part_of_word).count();
        let after = bytes[at..].iter().take_while(part_of_word).count();
        let edge = EDGES[self.random.random_range(0..EDGES.len())];
        bytes.splice(at - before..at + after, edge.bytes());
    }
}
