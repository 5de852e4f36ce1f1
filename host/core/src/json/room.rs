//! Limits on the depth of a JSON document and on the memory that its value takes. They are checked
//! on the text before anything is parsed, or step by step while a value is built from something
//! else. Text that is not JSON can pass: the parser refuses it at the first error, and up to there
//! the count is right.

use super::{JsonError, MAX_DEPTH};

/// How many bytes a document may take as a value. This is more than any team's message needs, and
/// all documents that are parsed at the same time need only a few times this amount.
pub(super) const ROOM_BYTES: usize = 128 << 20;

/// What a list that is not empty takes: it starts with capacity for four values.
const LIST: usize = 128;
/// What a further value takes in a list whose capacity doubles when it is full; at the same time
/// the least that a string takes.
const ITEM: usize = 96;
/// What an object that is not empty takes: it starts with capacity for eleven keys and values.
const OBJECT: usize = 640;
/// What a further key and value take in an object that is half full; at the same time the least
/// that two strings take.
const ENTRY: usize = 176;

/// The number of bytes that are left for a document while it is built from something other than
/// text. The content of a value inside a list or an object is counted separately.
#[derive(Clone, Debug)]
pub struct Room {
    left: usize,
}

impl Room {
    /// Returns the budget of a whole document, the same as for a text.
    pub fn of_a_document() -> Self {
        Self::of(ROOM_BYTES)
    }

    /// Returns a budget of this many bytes.
    pub fn of(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Takes the bytes of a string of this length. Fails if less is left.
    pub fn text(&mut self, bytes: usize) -> Result<(), JsonError> {
        self.left = self.left.checked_sub(bytes).ok_or(JsonError::Large)?;
        Ok(())
    }

    /// Takes the bytes of a value in a list that has `before` values already.
    pub fn item(&mut self, before: usize) -> Result<(), JsonError> {
        self.text(if before == 0 { LIST } else { ITEM })
    }

    /// Takes the bytes of a key and its value in an object that has `before` entries already.
    pub fn entry(&mut self, before: usize, key: &str) -> Result<(), JsonError> {
        self.text(key.len())?;
        self.text(if before == 0 { OBJECT } else { ENTRY })
    }
}

/// Checks that a text is not nested too deeply and that its value would not take too many bytes.
pub(super) fn check(text: &str) -> Result<(), JsonError> {
    count(text).map(drop)
}

/// Counts the bytes that a text takes together with its value.
fn count(text: &str) -> Result<usize, JsonError> {
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
                    return Err(JsonError::Deep);
                }
                objects = objects << 1 | u128::from(byte == b'{');
                room += if byte == b'{' { OBJECT } else { LIST };
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                objects >>= 1;
                // An empty list or object allocates nothing.
                room -= match (last, byte) {
                    (b'[', b']') => LIST,
                    (b'{', b'}') => OBJECT,
                    _ => 0,
                };
            }
            b',' => room += if objects & 1 == 1 { ENTRY } else { ITEM },
            _ => {}
        }
        if room > ROOM_BYTES {
            return Err(JsonError::Large);
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
        assert_eq!(check(&nested(MAX_DEPTH)), Ok(()));
        assert_eq!(check(&nested(MAX_DEPTH + 1)), Err(JsonError::Deep));
        assert_eq!(
            check(&format!("[{}[]]", "[],".repeat(MAX_DEPTH + 1))),
            Ok(())
        );
        let brackets = "[".repeat(1_000);
        for text in [
            format!("\"{brackets}\""),
            format!("[\"\\\"{brackets}\"]"),
            format!("{{\"\\\\\":\"{brackets}\"}}"),
        ] {
            assert_eq!(check(&text), Ok(()), "{text}");
        }
        for text in ["]]]]", "}[", "\"", "\"\\", ",,,", "[}", ""] {
            assert_eq!(
                check(text),
                Ok(()),
                "what is no document is the parser's to refuse: {text}"
            );
        }
    }

    #[test]
    fn what_is_made_of_something_else_takes_the_room_of_its_text() {
        let text = r#"[0,{"":0},{"":0,"":0},[]]"#;
        let counted = count(text).expect("it is small") - text.len();
        let take = |mut room: Room| {
            (0..4).try_for_each(|before| room.item(before))?;
            room.entry(0, "")?;
            (0..2).try_for_each(|before| room.entry(before, ""))?;
            room.text(0)
        };
        assert_eq!(take(Room::of(counted)), Ok(()));
        assert_eq!(take(Room::of(counted - 1)), Err(JsonError::Large));
        assert_eq!(
            Room::of_a_document().text(usize::MAX),
            Err(JsonError::Large)
        );
        assert_eq!(
            Room::of(1 << 10).entry(0, &"k".repeat(1 << 10)),
            Err(JsonError::Large)
        );
    }

    #[test]
    fn what_would_swell_is_refused_and_what_is_merely_long_is_not() {
        let list = |item: &str, count: usize| {
            let mut text = String::from("[");
            text.push_str(&format!("{item},").repeat(count));
            text + "0]"
        };
        assert_eq!(check(&list("{\"\":0}", 200_000)), Err(JsonError::Large));
        assert_eq!(check(&list("[0]", 700_000)), Err(JsonError::Large));
        assert_eq!(check(&list("0", 1_500_000)), Err(JsonError::Large));
        assert_eq!(check(&list("\"\"", 1_500_000)), Err(JsonError::Large));
        assert_eq!(
            check(&list("{\"id\": 7, \"name\": \"x\"}", 100_000)),
            Ok(())
        );
        assert_eq!(check(&list("0", 1_000_000)), Ok(()));
        assert_eq!(
            check(&list("{ }", 1_000_000)),
            Ok(()),
            "an empty object takes no room of its own"
        );
        assert_eq!(check(&format!("\"{}\"", "x".repeat(100 << 20))), Ok(()));
    }
}
