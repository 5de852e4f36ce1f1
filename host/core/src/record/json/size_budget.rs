//! Limits on the depth of a JSON document and on the memory that its value takes. They are checked
//! on the text before anything is parsed, or step by step while a value is built from something
//! else. Text that is not JSON can pass: the parser refuses it at the first error, and up to there
//! the count is right.

use super::{JsonError, MAX_DEPTH};

/// How many bytes a document may take as a value. This is more than any team's message needs, and
/// all documents that are parsed at the same time need only a few times this amount.
pub(super) const MAX_VALUE_BYTES: usize = 128 << 20;

/// What a list that is not empty takes: it starts with capacity for four values.
const LIST_BYTES: usize = 128;
/// What a further value takes in a list whose capacity doubles when it is full; at the same time
/// the least that a string takes.
const ITEM_BYTES: usize = 96;
/// What an object that is not empty takes: it starts with capacity for eleven keys and values.
const OBJECT_BYTES: usize = 640;
/// What a further key and value take in an object that is half full; at the same time the least
/// that two strings take.
const ENTRY_BYTES: usize = 176;

/// The number of bytes that are left for a document while it is built from something other than
/// text. The content of a value inside a list or an object is counted separately.
#[derive(Clone, Debug)]
pub struct SizeBudget {
    left: usize,
}

impl SizeBudget {
    /// Returns the budget of a whole document, the same as for a text.
    pub fn for_document() -> Self {
        Self::with_bytes(MAX_VALUE_BYTES)
    }

    /// Returns a budget of this many bytes.
    pub fn with_bytes(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Takes the bytes of a string of this length. Fails if less is left.
    pub fn take_string(&mut self, bytes: usize) -> Result<(), JsonError> {
        self.left = self.left.checked_sub(bytes).ok_or(JsonError::TooLarge)?;
        Ok(())
    }

    /// Takes the bytes of a value in a list that has `before` values already.
    pub fn take_item(&mut self, before: usize) -> Result<(), JsonError> {
        self.take_string(if before == 0 { LIST_BYTES } else { ITEM_BYTES })
    }

    /// Takes the bytes of a key and its value in an object that has `before` entries already.
    pub fn take_entry(&mut self, before: usize, key: &str) -> Result<(), JsonError> {
        self.take_string(key.len())?;
        self.take_string(if before == 0 {
            OBJECT_BYTES
        } else {
            ENTRY_BYTES
        })
    }
}

/// Checks that a text is not nested too deeply and that its value would not take too many bytes.
pub(super) fn check_text(text: &str) -> Result<(), JsonError> {
    count_bytes(text).map(drop)
}

/// Counts the bytes that a text takes together with its value.
fn count_bytes(text: &str) -> Result<usize, JsonError> {
    let mut room = text.len();
    let mut depth = 0;
    // One bit for each level that is open, the innermost last: whether it is an object.
    let mut objects = 0u128;
    let mut last = b' ';
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => continue,
            b'"' => skip_string(&mut bytes),
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(JsonError::TooDeep);
                }
                objects = objects << 1 | u128::from(byte == b'{');
                room += if byte == b'{' {
                    OBJECT_BYTES
                } else {
                    LIST_BYTES
                };
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                objects >>= 1;
                // An empty list or object allocates nothing.
                room -= match (last, byte) {
                    (b'[', b']') => LIST_BYTES,
                    (b'{', b'}') => OBJECT_BYTES,
                    _ => 0,
                };
            }
            b',' => {
                room += if objects & 1 == 1 {
                    ENTRY_BYTES
                } else {
                    ITEM_BYTES
                }
            }
            _ => {}
        }
        if room > MAX_VALUE_BYTES {
            return Err(JsonError::TooLarge);
        }
        last = byte;
    }
    Ok(room)
}

/// Moves past the end of a string that has begun.
fn skip_string(bytes: &mut core::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    #[test]
    fn depth_is_that_of_what_is_open_and_strings_open_nothing() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(check_text(&nested(MAX_DEPTH)), Ok(()));
        assert_eq!(check_text(&nested(MAX_DEPTH + 1)), Err(JsonError::TooDeep));
        assert_eq!(
            check_text(&format!("[{}[]]", "[],".repeat(MAX_DEPTH + 1))),
            Ok(())
        );
        let brackets = "[".repeat(1_000);
        for text in [
            format!("\"{brackets}\""),
            format!("[\"\\\"{brackets}\"]"),
            format!("{{\"\\\\\":\"{brackets}\"}}"),
        ] {
            assert_eq!(check_text(&text), Ok(()), "{text}");
        }
        for text in ["]]]]", "}[", "\"", "\"\\", ",,,", "[}", ""] {
            assert_eq!(
                check_text(text),
                Ok(()),
                "what is no document is the parser's to refuse: {text}"
            );
        }
    }

    #[test]
    fn what_is_made_of_something_else_takes_the_room_of_its_text() {
        let text = r#"[0,{"":0},{"":0,"":0},[]]"#;
        let counted = count_bytes(text).expect("it is small") - text.len();
        let take = |mut room: SizeBudget| {
            (0..4).try_for_each(|before| room.take_item(before))?;
            room.take_entry(0, "")?;
            (0..2).try_for_each(|before| room.take_entry(before, ""))?;
            room.take_string(0)
        };
        assert_eq!(take(SizeBudget::with_bytes(counted)), Ok(()));
        assert_eq!(
            take(SizeBudget::with_bytes(counted - 1)),
            Err(JsonError::TooLarge)
        );
        assert_eq!(
            SizeBudget::for_document().take_string(usize::MAX),
            Err(JsonError::TooLarge)
        );
        assert_eq!(
            SizeBudget::with_bytes(1 << 10).take_entry(0, &"k".repeat(1 << 10)),
            Err(JsonError::TooLarge)
        );
    }

    #[test]
    fn what_would_swell_is_refused_and_what_is_merely_long_is_not() {
        let list = |item: &str, count: usize| {
            let mut text = String::from("[");
            text.push_str(&format!("{item},").repeat(count));
            text + "0]"
        };
        assert_eq!(
            check_text(&list("{\"\":0}", 200_000)),
            Err(JsonError::TooLarge)
        );
        assert_eq!(check_text(&list("[0]", 700_000)), Err(JsonError::TooLarge));
        assert_eq!(check_text(&list("0", 1_500_000)), Err(JsonError::TooLarge));
        assert_eq!(
            check_text(&list("\"\"", 1_500_000)),
            Err(JsonError::TooLarge)
        );
        assert_eq!(
            check_text(&list("{\"id\": 7, \"name\": \"x\"}", 100_000)),
            Ok(())
        );
        assert_eq!(check_text(&list("0", 1_000_000)), Ok(()));
        assert_eq!(
            check_text(&list("{ }", 1_000_000)),
            Ok(()),
            "an empty object takes no room of its own"
        );
        assert_eq!(
            check_text(&format!("\"{}\"", "x".repeat(100 << 20))),
            Ok(())
        );
    }
}
