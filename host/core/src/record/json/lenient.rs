//! Lenient parsing of JSON as other programs write it: with a byte order mark, with unpaired
//! surrogates, with Python's `NaN`. The strict parser runs first, so that reading correct JSON
//! costs nothing more; only a text that it refuses is repaired.

use alloc::string::{String, ToString};
use core::ops::RangeInclusive;

use super::JsonError;

/// What to do with `NaN`, `Infinity` and `-Infinity`, which Python writes although JSON does not
/// have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonFinite {
    /// Refuse them, with an error that names them.
    Refused,
    /// Read them as `null`.
    Null,
}

/// Parses `text` with `parse`, leniently: a byte order mark is skipped, and an escaped unpaired
/// surrogate becomes U+FFFD. The limits on size and depth are those of `parse`. Returns the error
/// of the strict parser if the text is not JSON for another reason as well.
pub fn parse<T>(
    text: &str,
    non_finite: NonFinite,
    parse: impl Fn(&str) -> Result<T, serde_json::Error>,
) -> Result<T, JsonError> {
    let error = match parse(text) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => JsonError::Syntax(error.to_string()),
    };
    let Some(repaired) = repair(text) else {
        return Err(error);
    };
    match (parse(&repaired.text), repaired.non_finite) {
        (Ok(_), Some(word)) if non_finite == NonFinite::Refused => Err(JsonError::NonFinite(word)),
        (Ok(parsed), _) => Ok(parsed),
        (Err(error), _) => Err(JsonError::Syntax(error.to_string())),
    }
}

/// A text after its flaws were replaced.
struct RepairedText {
    text: String,
    /// The first number that JSON does not have, if there was one.
    non_finite: Option<&'static str>,
}

/// Replaces every escaped unpaired surrogate by what `replacement` returns for it. This is for
/// readers of a text that arrives in pieces, where the other half of a pair may be in the next
/// piece.
pub fn replace_unpaired(text: &str, replacement: impl Fn(u16) -> String) -> String {
    let write = |kind, replaced: &mut String| match kind {
        FlawKind::Unpaired(half) => replaced.push_str(&replacement(half)),
        FlawKind::NonFinite(word) => replaced.push_str(word),
    };
    replace_flaws(text, write).unwrap_or_else(|| text.to_string())
}

/// Replaces what the strict parser refuses. Returns `None` if there is nothing of that kind.
fn repair(text: &str) -> Option<RepairedText> {
    let bare = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut non_finite = None;
    let replaced = replace_flaws(bare, |kind, replaced| match kind {
        FlawKind::Unpaired(_) => replaced.push_str(REPLACEMENT),
        FlawKind::NonFinite(word) => {
            replaced.push_str("null");
            non_finite.get_or_insert(word);
        }
    });
    if replaced.is_none() && bare.len() == text.len() {
        return None;
    }
    Some(RepairedText {
        text: replaced.unwrap_or_else(|| bare.to_string()),
        non_finite,
    })
}

/// Replaces every flaw by what `write` appends for it. Returns `None` if there is none.
fn replace_flaws(text: &str, mut write: impl FnMut(FlawKind, &mut String)) -> Option<String> {
    let (mut replaced, mut copied) = (String::new(), 0);
    for flaw in Flaws::new(text) {
        replaced.push_str(&text[copied..flaw.at]);
        copied = flaw.at + flaw.len;
        write(flaw.kind, &mut replaced);
    }
    (copied > 0).then(|| replaced + &text[copied..])
}

const BYTE_ORDER_MARK: char = '\u{feff}';
/// The escape of U+FFFD. It has the length of the escape it replaces.
const REPLACEMENT: &str = "\\ufffd";
/// The length of the escape of one UTF-16 unit.
const ESCAPE_BYTES: usize = 6;
/// The units that begin a surrogate pair, and those that end one.
const HIGH_SURROGATES: RangeInclusive<u16> = 0xd800..=0xdbff;
const LOW_SURROGATES: RangeInclusive<u16> = 0xdc00..=0xdfff;
/// The numbers that JSON does not have.
const NON_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Something that the strict parser refuses.
struct Flaw {
    at: usize,
    len: usize,
    kind: FlawKind,
}

enum FlawKind {
    /// An unpaired surrogate.
    Unpaired(u16),
    /// A number that JSON does not have.
    NonFinite(&'static str),
}

/// Iterates over all flaws of a text, in order.
struct Flaws<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether `at` is inside a string.
    in_text: bool,
}

impl<'a> Flaws<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
            in_text: false,
        }
    }

    /// Returns the surrogate whose escape begins at this position, if one does.
    fn surrogate_at(&self, at: usize) -> Option<u16> {
        let digits = self
            .bytes
            .get(at..at + ESCAPE_BYTES)?
            .strip_prefix(b"\\u")?;
        let digits = core::str::from_utf8(digits).ok()?;
        u16::from_str_radix(digits, 16)
            .ok()
            .filter(|unit| HIGH_SURROGATES.contains(unit) || LOW_SURROGATES.contains(unit))
    }

    /// Returns the number that JSON does not have at the current position, if there is one. It must
    /// not be part of a longer word.
    fn non_finite_at_cursor(&self) -> Option<&'static str> {
        let is_word = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte))
        };
        let before = self.at.checked_sub(1).and_then(|at| self.bytes.get(at));
        let ends = |word: &&str| !is_word(self.bytes.get(self.at + word.len()));
        let found = NON_FINITE
            .into_iter()
            .find(|word| self.bytes[self.at..].starts_with(word.as_bytes()));
        found.filter(ends).filter(|_| !is_word(before))
    }

    /// Moves past the escape at the current position. Returns a flaw if it is an unpaired
    /// surrogate.
    fn skip_escape(&mut self) -> Option<Flaw> {
        let at = self.at;
        let half = self.surrogate_at(at);
        let is_pair = half.is_some_and(|half| HIGH_SURROGATES.contains(&half))
            && self
                .surrogate_at(at + ESCAPE_BYTES)
                .is_some_and(|half| LOW_SURROGATES.contains(&half));
        self.at += match half {
            None => 2,
            Some(_) if is_pair => 2 * ESCAPE_BYTES,
            Some(_) => ESCAPE_BYTES,
        };
        half.filter(|_| !is_pair).map(|half| Flaw {
            at,
            len: ESCAPE_BYTES,
            kind: FlawKind::Unpaired(half),
        })
    }
}

impl Iterator for Flaws<'_> {
    type Item = Flaw;

    fn next(&mut self) -> Option<Flaw> {
        while let Some(byte) = self.bytes.get(self.at) {
            let flaw = match (self.in_text, byte) {
                (true, b'\\') => self.skip_escape(),
                (false, b'N' | b'I' | b'-') if let Some(word) = self.non_finite_at_cursor() => {
                    self.at += word.len();
                    Some(Flaw {
                        at: self.at - word.len(),
                        len: word.len(),
                        kind: FlawKind::NonFinite(word),
                    })
                }
                (in_text, byte) => {
                    self.in_text = in_text != (*byte == b'"');
                    self.at += 1;
                    None
                }
            };
            if flaw.is_some() {
                return flaw;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use serde_json::{Value, json};

    use super::super::parse_untrusted;
    use super::*;

    fn check(text: &str, expected: Value) {
        assert_eq!(parse_untrusted(text), Ok(expected), "{text}");
    }

    fn nulled(text: &str) -> Result<Value, JsonError> {
        parse(text, NonFinite::Null, |text| serde_json::from_str(text))
    }

    #[test]
    fn a_byte_order_mark_at_the_start_is_skipped() {
        check("\u{feff}{\"a\": 1}", json!({ "a": 1 }));
        check("\u{feff} [\"\u{feff}\"]", json!(["\u{feff}"]));
        assert!(parse_untrusted("[\u{feff}]").is_err());
        assert!(parse_untrusted("\u{feff}\u{feff}1").is_err());
        assert!(parse_untrusted("\u{feff}").is_err());
    }

    #[test]
    fn unpaired_surrogates_are_replaced_and_pairs_are_characters() {
        check(r#""\ud83d\ude00""#, json!("\u{1f600}"));
        check(r#""\uD83D\uDE00 \ud83d""#, json!("\u{1f600} \u{fffd}"));
        check(r#""\ud83d\ud83d\ude00""#, json!("\u{fffd}\u{1f600}"));
        check(r#""\ude00\ud83d""#, json!("\u{fffd}\u{fffd}"));
        check(r#""\ud83dx\ude00""#, json!("\u{fffd}x\u{fffd}"));
        check(
            r#"{"\ud800": ["\\ud800", "\\\udfff", "é\ud800é"]}"#,
            json!({ "\u{fffd}": ["\\ud800", "\\\u{fffd}", "é\u{fffd}é"] }),
        );
        for text in [
            r#""\ud83"#,
            r#""\ud83d"#,
            r#""\ud83d\u"#,
            r#""\ud83d\uzzzz""#,
            r#"\ud83d"#,
            r#""\"#,
        ] {
            assert!(parse_untrusted(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_unpaired_surrogates_are_replaced_by_other_than_the_usual() {
        let check = |text: &str, expected: &str| {
            assert_eq!(
                replace_unpaired(text, |half| format!("<{half:x}>")),
                expected,
                "{text}"
            );
        };
        check(
            r#"["\ud83d", "\uDE00\ud83d\ude00", NaN]"#,
            r#"["<d83d>", "<de00>\ud83d\ude00", NaN]"#,
        );
        check(r#""\\ud83d""#, r#""\\ud83d""#);
    }

    #[test]
    fn numbers_that_json_does_not_have_are_refused_by_name_or_null() {
        for word in NON_FINITE {
            for text in [
                word.to_string(),
                format!("[1,{word}]"),
                format!("{{\"a\": {word} }}"),
                format!("\u{feff}{word}"),
            ] {
                assert_eq!(
                    parse_untrusted(&text),
                    Err(JsonError::NonFinite(word)),
                    "{text}"
                );
                let expected =
                    serde_json::from_str(&text.replace(word, "null").replace('\u{feff}', ""));
                assert_eq!(nulled(&text), Ok(expected.expect("a document")), "{text}");
            }
            check(&format!("[\"{word}\"]"), json!([word]));
        }
        let error = parse_untrusted("[NaN, Infinity]")
            .expect_err("refused")
            .to_string();
        assert!(error.contains("`NaN` is not JSON"), "{error}");
    }

    #[test]
    fn what_is_wrong_for_another_reason_is_reported_as_that() {
        for text in [
            "the answer is NaN",
            "[NaN",
            "NaN NaN",
            "xNaN",
            "NaN1",
            "--Infinity",
            "1-Infinity",
            "+Infinity",
            "nan",
        ] {
            assert!(
                matches!(parse_untrusted(text), Err(JsonError::Syntax(_))),
                "{text}"
            );
            assert!(matches!(nulled(text), Err(JsonError::Syntax(_))), "{text}");
        }
    }
}
