//! How deep a document is and how much room it takes as a value, told from its text before anything is made of it. Text
//! that is no document passes here: the parser refuses it where it stops being one, and until there the count is right.

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

/// Refuses what is nested too deep or would take too much room.
pub(super) fn check(text: &str) -> Result<(), JsonError> {
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
    Ok(())
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
        assert_eq!(check(&format!("[{}[]]", "[],".repeat(MAX_DEPTH + 1))), Ok(()));
        let brackets = "[".repeat(1_000);
        for text in [format!("\"{brackets}\""), format!("[\"\\\"{brackets}\"]"), format!("{{\"\\\\\":\"{brackets}\"}}")]
        {
            assert_eq!(check(&text), Ok(()), "{text}");
        }
        for text in ["]]]]", "}[", "\"", "\"\\", ",,,", "[}", ""] {
            assert_eq!(check(text), Ok(()), "what is no document is the parser's to refuse: {text}");
        }
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
        assert_eq!(check(&list("{\"id\": 7, \"name\": \"x\"}", 100_000)), Ok(()));
        assert_eq!(check(&list("0", 1_000_000)), Ok(()));
        assert_eq!(check(&list("{ }", 1_000_000)), Ok(()), "an empty object takes no room of its own");
        assert_eq!(check(&format!("\"{}\"", "x".repeat(100 << 20))), Ok(()));
    }
}
