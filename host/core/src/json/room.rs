//! How deep a document is and how much room it takes as a value, told from its text before anything is made of it, or
//! part by part while it is made of something else. Text that is no document passes here: the parser refuses it where it
//! stops being one, and until there the count is right.

use super::{JsonError, MAX_DEPTH};

/// How much room a document may take as a value. More than any team's message needs; all that run at the same time
/// parse theirs within a few times this.
pub(super) const ROOM_BYTES: usize = 128 << 20;

/// A list that is not empty begins with room for four values.
const LIST: usize = 128;
/// A further value of a list that doubles when it is full, and the least that a text takes.
const ITEM: usize = 96;
/// An object that is not empty begins with room for eleven keys and values.
const OBJECT: usize = 640;
/// A further key and value of an object that is half full, and the least that two texts take.
const ENTRY: usize = 176;

/// The room that is left for a document while it is made of something else than text. What is in a list or an object
/// takes its own beside.
#[derive(Clone, Debug)]
pub struct Room {
    left: usize,
}

impl Room {
    /// As much as may be made of a text.
    pub fn of_a_document() -> Self {
        Self::of(ROOM_BYTES)
    }

    /// Another amount.
    pub fn of(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Takes room for a text of so many bytes.
    pub fn text(&mut self, bytes: usize) -> Result<(), JsonError> {
        self.left = self.left.checked_sub(bytes).ok_or(JsonError::Large)?;
        Ok(())
    }

    /// Takes room for a value in a list, where so many are before it.
    pub fn item(&mut self, before: usize) -> Result<(), JsonError> {
        self.text(if before == 0 { LIST } else { ITEM })
    }

    /// Takes room for a key of an object, where so many are before it, and for its value.
    pub fn entry(&mut self, before: usize, key: &str) -> Result<(), JsonError> {
        self.text(key.len())?;
        self.text(if before == 0 { OBJECT } else { ENTRY })
    }
}

/// Refuses what is nested too deep or would take too much room.
pub(super) fn check(text: &str) -> Result<(), JsonError> {
    count(text).map(drop)
}

/// The room that a text takes with its values.
fn count(text: &str) -> Result<usize, JsonError> {
    let mut room = text.len();
    let mut depth = 0;
    // A bit for each level that is open, the innermost last: whether it is an object.
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
                // What is empty takes no room of its own.
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

/// Goes on behind the end of a string that has begun.
fn skip_string(bytes: &mut core::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
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
