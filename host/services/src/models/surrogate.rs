//! Joins characters that are split between two chunks of a streamed reply. JSON escapes a character
//! beyond U+FFFF as a pair of surrogates. A chunk may end between them, so that each chunk contains
//! one surrogate.

use serde_json::Value;
use strata_core::record::json::{JsonError, lenient};

use super::reply_json::parse_reply;

/// Marks a surrogate that follows. It is a noncharacter, which no valid text contains.
const MARK: char = '\u{fdd0}';
/// The first code point to which surrogates are mapped, because a string cannot contain them.
const MAPPED_START: u32 = 0xe000;
const SURROGATES: std::ops::RangeInclusive<u16> = 0xd800..=0xdfff;
const HIGH: std::ops::RangeInclusive<u16> = 0xd800..=0xdbff;

/// Parses a chunk of a reply. Unpaired surrogates are kept in marked form; `JoinedText` joins them.
pub(super) fn parse_chunk(text: &str) -> Result<Value, JsonError> {
    parse_reply(&lenient::replace_unpaired(text, mark_surrogate))
}

/// Returns the marked form of a surrogate.
fn mark_surrogate(half: u16) -> String {
    let moved = u32::from(half) - u32::from(*SURROGATES.start()) + MAPPED_START;
    [Some(MARK), char::from_u32(moved)]
        .into_iter()
        .flatten()
        .collect()
}

/// A text that arrives in chunks.
#[derive(Debug, Default)]
pub(super) struct JoinedText {
    text: String,
    /// A high surrogate whose low surrogate may be in the next chunk.
    high: Option<u16>,
}

impl JoinedText {
    /// Adds a chunk and returns the text that is now final.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut added = String::new();
        let mut chars = piece.chars().peekable();
        while let Some(next) = chars.next() {
            let half = if next == MARK {
                chars.peek().copied().and_then(unmapped_surrogate)
            } else {
                None
            };
            if half.is_some() {
                chars.next();
            }
            match (self.high.take(), half) {
                (Some(high), Some(low)) if !HIGH.contains(&low) => added.push(join_pair(high, low)),
                (high, half) => {
                    added.extend(high.map(|_| char::REPLACEMENT_CHARACTER));
                    match half {
                        Some(half) if HIGH.contains(&half) => self.high = Some(half),
                        Some(_) => added.push(char::REPLACEMENT_CHARACTER),
                        None => added.push(next),
                    }
                }
            }
        }
        self.text += &added;
        added
    }

    /// Returns the text. A surrogate without its counterpart becomes U+FFFD.
    pub(super) fn finish(mut self) -> String {
        self.text
            .extend(self.high.map(|_| char::REPLACEMENT_CHARACTER));
        self.text
    }

    /// Returns whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.high.is_none()
    }

    /// Returns the text that is final.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Replaces every marked surrogate in the strings of a value by U+FFFD.
pub(super) fn replace_marked_surrogates(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(MARK) => {
            let mut joined = JoinedText::default();
            joined.push(text);
            *text = joined.finish();
        }
        Value::Array(list) => {
            for item in list {
                replace_marked_surrogates(item);
            }
        }
        Value::Object(map) => {
            for value in map.values_mut() {
                replace_marked_surrogates(value);
            }
        }
        _ => {}
    }
}

/// Returns the surrogate that this character represents.
fn unmapped_surrogate(moved: char) -> Option<u16> {
    let half =
        u16::try_from(u32::from(moved).checked_sub(MAPPED_START)? + u32::from(*SURROGATES.start()))
            .ok()?;
    SURROGATES.contains(&half).then_some(half)
}

fn join_pair(high: u16, low: u16) -> char {
    let decoded = char::decode_utf16([high, low]).next();
    decoded
        .and_then(Result::ok)
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses chunks, each a JSON string, and joins them.
    fn joined(pieces: &[&str]) -> String {
        let mut text = JoinedText::default();
        for piece in pieces {
            let value = parse_chunk(piece).expect("a JSON string");
            text.push(value.as_str().expect("a string"));
        }
        text.finish()
    }

    #[test]
    fn a_character_that_is_split_over_two_pieces_is_put_together() {
        let check =
            |pieces: &[&str], expected: &str| assert_eq!(joined(pieces), expected, "{pieces:?}");
        check(&[r#""hi \ud83d""#, r#""\ude00!""#], "hi 😀!");
        check(&[r#""\uD83D\uDE00""#], "😀");
        check(&[r#""\ud83d""#, r#""""#, r#""\ude00""#], "😀");
        check(&[r#""\ud83d\ud83d\ude00""#], "\u{fffd}😀");
        check(&[r#""\ud83d""#, r#""x""#], "\u{fffd}x");
        check(&[r#""\ude00\ud83d""#], "\u{fffd}\u{fffd}");
        check(&[r#""\ud83d""#], "\u{fffd}");
        check(&[r#""\\ud83d \\\ud83d \n""#], "\\ud83d \\\u{fffd} \n");
    }

    #[test]
    fn halves_in_other_places_are_replaced() {
        let mut value =
            parse_chunk(r#"{"a": ["\ud83d", 1], "b": "\ud83d\ude00"}"#).expect("a document");
        replace_marked_surrogates(&mut value);
        assert_eq!(
            value,
            serde_json::json!({ "a": ["\u{fffd}", 1], "b": "😀" })
        );
    }
}
