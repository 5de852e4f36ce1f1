//! Finds secrets in what servers send (HTTP responses and replies of model endpoints) and in error
//! messages, and replaces them by their names. The caller decides which secrets: `http/client`
//! those that the action may send to the hosts that answered, `models/endpoint/key` the key of the
//! endpoint.
//!
//! A secret is found in the encodings in which servers repeat what they received: the value itself;
//! with any of its characters escaped as in URLs (`%2F` and `%2f`, `+` for a space), JSON (`\/`,
//! `\u002f`) or HTML (`&amp;`, `&#47;`, `&#x2F;`); base64 with both alphabets, of the value alone and
//! of a text that contains it; and hexadecimal digits in upper or lower case. Values that are
//! escaped twice, with other upper and lower case, truncated or broken into lines are not found.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// The minimum length of a value in bytes. Shorter values are not redacted, because that would
/// destroy ordinary words; SECURITY.md says so.
const MIN_REDACTED_BYTES: usize = 4;
/// The minimum length in bytes for finding a value within a longer base64 text. A shorter value
/// determines so few base64 characters by itself that they could occur by chance.
const MIN_EMBEDDED_BYTES: usize = 6;
/// The maximum length of an HTML entity: `&#x10FFFF;`.
const MAX_ENTITY_BYTES: usize = 10;
/// The maximum length of an escape of any kind: a surrogate pair, `\ud83d\ude00`.
const MAX_ESCAPE_BYTES: usize = 12;

/// Recognises one secret, which [`redact`] replaces by its name.
pub struct SecretRedactor {
    replacement: Vec<u8>,
    value: Vec<u8>,
    encodings: Vec<SecretEncoding>,
    /// The encodings in lower case, as they occur in names of headers.
    lower_case_encodings: Vec<Vec<u8>>,
    /// The bytes with which the value or an encoding may begin.
    first_bytes: [bool; 256],
}

/// An encoding of a value.
struct SecretEncoding {
    text: Vec<u8>,
    /// Whether the preceding base64 character contains bits of the value, too.
    shares_previous_digit: bool,
    /// Whether the following base64 character contains bits of the value, too.
    shares_next_digit: bool,
}

/// An occurrence of a value. The length comes first, because the longest occurrence is the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SecretOccurrence {
    length: usize,
    /// Whether the preceding base64 character contains bits of the value, too.
    shares_previous_digit: bool,
}

impl SecretRedactor {
    /// Returns a redactor for a secret with this value, or `None` if the value is too short.
    pub fn for_secret(name: &str, value: &str) -> Option<Self> {
        if value.len() < MIN_REDACTED_BYTES {
            return None;
        }
        let value = value.as_bytes().to_vec();
        let standalone = |text: String| SecretEncoding {
            text: text.into_bytes(),
            shares_previous_digit: false,
            shares_next_digit: false,
        };
        let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut encodings = vec![standalone(digits.to_ascii_uppercase()), standalone(digits)];
        encodings.extend([
            standalone(STANDARD.encode(&value)),
            standalone(URL_SAFE.encode(&value)),
        ]);
        if value.len() >= MIN_EMBEDDED_BYTES {
            encodings.extend((0..3).flat_map(|skip| embedded_encodings(&value, skip)));
        }
        encodings.push(SecretEncoding {
            text: value.clone(),
            shares_previous_digit: false,
            shares_next_digit: false,
        });
        let lower_case_encodings = encodings
            .iter()
            .map(|encoding| encoding.text.to_ascii_lowercase())
            .collect();
        let mut first_bytes = [false; 256];
        let firsts = encodings
            .iter()
            .filter_map(|encoding| encoding.text.first())
            .chain(b"%\\&");
        for first in firsts.chain((value[0] == b' ').then_some(&b'+')) {
            first_bytes[usize::from(*first)] = true;
        }
        Some(Self {
            replacement: format!("[secret {name}]").into_bytes(),
            value,
            encodings,
            lower_case_encodings,
            first_bytes,
        })
    }

    /// Returns whether the name of a header, which is in lower case, contains the value, so that the
    /// header must be omitted.
    pub fn is_in_header_name(&self, name: &str) -> bool {
        let (name, value) = (name.as_bytes(), self.value.to_ascii_lowercase());
        (0..name.len()).any(|at| {
            let rest = &name[at..];
            self.lower_case_encodings
                .iter()
                .any(|encoding| rest.starts_with(encoding))
                || match_escaped(rest, &value).is_some()
        })
    }

    /// Returns the longest occurrence at the beginning of a text.
    fn match_at_start(&self, text: &[u8]) -> Option<SecretOccurrence> {
        if !self.first_bytes[usize::from(*text.first()?)] {
            return None;
        }
        let match_encoding = |encoding: &SecretEncoding| {
            let next_digit = encoding.shares_next_digit
                && text
                    .get(encoding.text.len())
                    .is_some_and(|byte| is_base64_digit(*byte));
            let length = encoding.text.len() + usize::from(next_digit);
            text.starts_with(&encoding.text)
                .then_some(SecretOccurrence {
                    length,
                    shares_previous_digit: encoding.shares_previous_digit,
                })
        };
        let escaped = match_escaped(text, &self.value).map(|length| SecretOccurrence {
            length,
            shares_previous_digit: false,
        });
        self.encodings
            .iter()
            .filter_map(match_encoding)
            .chain(escaped)
            .max()
    }

    /// Returns whether more text is needed to decide whether, and how far, the text is an
    /// occurrence.
    fn is_undecided_at_start(&self, text: &[u8]) -> bool {
        let may_continue = |encoding: &SecretEncoding| {
            encoding.text.len() + usize::from(encoding.shares_next_digit) > text.len()
                && encoding.text.starts_with(text)
        };
        let may_begin = text
            .first()
            .is_some_and(|first| self.first_bytes[usize::from(*first)]);
        may_begin
            && (self.encodings.iter().any(may_continue)
                || is_escaped_match_undecided(text, &self.value))
    }
}

/// Returns a text in which the values of secrets are replaced by their names. At each position, the
/// longest occurrence is replaced.
pub fn redact(text: &[u8], redactors: &[&SecretRedactor]) -> Vec<u8> {
    redact_until(text, redactors, |_| false).0
}

/// Redacts the beginning of a text that arrives in pieces, as the streamed text of a model does.
/// Returns the part that further text cannot change, and the number of bytes at the end that have to
/// be processed again with the rest.
pub fn redact_prefix(text: &[u8], redactors: &[&SecretRedactor]) -> (Vec<u8>, usize) {
    let (mut out, mut unprocessed) = redact_until(text, redactors, |rest| {
        redactors
            .iter()
            .any(|redactor| redactor.is_undecided_at_start(rest))
    });
    // The next piece may begin with the base64 of a value, whose first bits are in this character.
    // It is the last byte of the input that was processed, because each replacement ends with `]`.
    if out.last().is_some_and(|byte| is_base64_digit(*byte)) {
        out.pop();
        unprocessed += 1;
    }
    (out, unprocessed)
}

/// Replaces secrets up to the first position at which `stops` returns true. Also returns the number
/// of bytes left.
fn redact_until(
    text: &[u8],
    redactors: &[&SecretRedactor],
    stops: impl Fn(&[u8]) -> bool,
) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first() {
        if stops(rest) {
            break;
        }
        let found = redactors
            .iter()
            .filter_map(|redactor| redactor.match_at_start(rest).map(|found| (found, redactor)));
        match found.max_by_key(|(found, _)| *found) {
            Some((found, redactor)) => {
                if found.shares_previous_digit
                    && out.last().is_some_and(|byte| is_base64_digit(*byte))
                {
                    out.pop();
                }
                out.extend_from_slice(&redactor.replacement);
                rest = &rest[found.length..];
            }
            None => {
                out.push(*first);
                rest = &rest[1..];
            }
        }
    }
    (out, rest.len())
}

/// Returns the base64 characters that depend only on the value, if the value begins `skip` bytes
/// after a multiple of three in a longer text.
fn embedded_encodings(value: &[u8], skip: usize) -> [SecretEncoding; 2] {
    let text = [vec![0; skip], value.to_vec()].concat();
    let (first, last) = ((skip * 8).div_ceil(6), text.len() * 8 / 6);
    [STANDARD.encode(&text), URL_SAFE.encode(&text)].map(|encoded| SecretEncoding {
        text: encoded.as_bytes()[first..last].to_vec(),
        shares_previous_digit: skip > 0,
        shares_next_digit: text.len() % 3 > 0,
    })
}

fn is_base64_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// Returns how many bytes of a text are the value, with any of its characters escaped.
fn match_escaped(text: &[u8], value: &[u8]) -> Option<usize> {
    let (mut at, mut unmatched) = (0, value);
    while !unmatched.is_empty() {
        let (length, value_bytes) = match_character(&text[at..], unmatched)?;
        at += length;
        unmatched = &unmatched[value_bytes..];
    }
    Some(at)
}

/// Returns whether a text ends before it is clear whether it is the value.
fn is_escaped_match_undecided(text: &[u8], value: &[u8]) -> bool {
    let (mut rest, mut unmatched) = (text, value);
    while !unmatched.is_empty() {
        let escape = rest.first().is_none_or(|first| b"%\\&".contains(first));
        if escape && rest.len() < MAX_ESCAPE_BYTES {
            return true;
        }
        let Some((length, value_bytes)) = match_character(rest, unmatched) else {
            return false;
        };
        (rest, unmatched) = (&rest[length..], &unmatched[value_bytes..]);
    }
    false
}

/// Returns how many bytes of a text encode the next character of the value, and how many bytes of
/// the value that is.
fn match_character(text: &[u8], value: &[u8]) -> Option<(usize, usize)> {
    let plain = || (text.first()? == value.first()?).then_some((1, 1));
    match_escape(text, value).or_else(plain)
}

/// Returns the length of the escape at the beginning of a text, and how many bytes of the value it
/// represents, if it matches.
fn match_escape(text: &[u8], value: &[u8]) -> Option<(usize, usize)> {
    let (length, decoded) = match text.first()? {
        b'%' => {
            let byte = u8::try_from(parse_digits(text.get(1..3)?, 16)?).ok()?;
            return (value.first() == Some(&byte)).then_some((3, 1));
        }
        b'+' => (1, ' '),
        b'\\' => parse_json_escape(text)?,
        b'&' => parse_html_entity(text)?,
        _ => return None,
    };
    let mut buffer = [0; 4];
    let decoded = decoded.encode_utf8(&mut buffer).as_bytes();
    value
        .starts_with(decoded)
        .then_some((length, decoded.len()))
}

fn parse_json_escape(text: &[u8]) -> Option<(usize, char)> {
    let unit = |at: usize| match text.get(at..at + 2)? {
        b"\\u" => parse_digits(text.get(at + 2..at + 6)?, 16),
        _ => None,
    };
    let short = |decoded: char| Some((2, decoded));
    match text.get(1)? {
        b'b' => short('\u{8}'),
        b'f' => short('\u{c}'),
        b'n' => short('\n'),
        b'r' => short('\r'),
        b't' => short('\t'),
        b'u' => match unit(0)? {
            high @ 0xd800..0xdc00 => {
                let low = unit(6).filter(|low| (0xdc00..0xe000).contains(low))?;
                Some((
                    12,
                    char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?,
                ))
            }
            one => Some((6, char::from_u32(one)?)),
        },
        other @ (b'"' | b'\\' | b'/' | b'\'') => short(char::from(*other)),
        _ => None,
    }
}

fn parse_html_entity(text: &[u8]) -> Option<(usize, char)> {
    let end = text
        .iter()
        .take(MAX_ENTITY_BYTES)
        .position(|byte| *byte == b';')?;
    let decoded = match &text[1..end] {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(parse_digits(digits, 16)?)?,
        [b'#', digits @ ..] => char::from_u32(parse_digits(digits, 10)?)?,
        _ => return None,
    };
    Some((end + 1, decoded))
}

/// Parses a number that consists of digits only.
fn parse_digits(digits: &[u8], radix: u32) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    let digits = !text.is_empty() && text.chars().all(|digit| digit.is_digit(radix));
    digits
        .then(|| u32::from_str_radix(text, radix).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "ab-cd_ef/gh+ij&kl=\"é😀";

    fn redact_one(value: &str, text: &str) -> String {
        let redactor = SecretRedactor::for_secret("T", value).expect("long enough");
        String::from_utf8_lossy(&redact(text.as_bytes(), &[&redactor])).into_owned()
    }

    #[test]
    fn a_value_is_found_in_every_form_in_which_services_repeat_it() {
        let check =
            |text: &str, expected: &str| assert_eq!(redact_one(VALUE, text), expected, "{text}");
        let percent = |keep: &str| -> String {
            let byte = |byte: &u8| {
                if keep.as_bytes().contains(byte) {
                    char::from(*byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            };
            VALUE.as_bytes().iter().map(byte).collect()
        };
        check(&format!("<{VALUE}>"), "<[secret T]>");
        for keep in [
            "",
            "-_.~abcdefghijkl",
            "-_.~abcdefghijkl/",
            "abcdefghijkl&=+/",
        ] {
            let text = percent(keep);
            check(&format!("k={text}&x"), "k=[secret T]&x");
            check(
                &format!("k={}&x", text.to_ascii_lowercase()),
                "k=[secret T]&x",
            );
        }
        let quoted = serde_json::Value::from(VALUE).to_string();
        check(&quoted, "\"[secret T]\"");
        check(
            &quoted
                .replace('/', "\\/")
                .replace('é', "\\u00e9")
                .replace('😀', "\\ud83d\\uDE00"),
            "\"[secret T]\"",
        );
        let html = VALUE.replace('&', "&amp;").replace('"', "&quot;");
        check(&html, "[secret T]");
        check(
            &html
                .replace('/', "&#47;")
                .replace('é', "&#xE9;")
                .replace('+', "&#x2b;"),
            "[secret T]",
        );
        let digits: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
        check(
            &format!("{digits} {}", digits.to_uppercase()),
            "[secret T] [secret T]",
        );
        check("ab-cd_ef/gh+ij&kl=\"é", "ab-cd_ef/gh+ij&kl=\"é");
        assert_eq!(
            redact_one("one two", "one+two one%20two one%2btwo"),
            "[secret T] [secret T] one%2btwo"
        );
        // An escape counts as one character, or its three characters count separately.
        assert_eq!(
            redact_one("100%25", "100%25 100%2525 100%%25"),
            "[secret T] [secret T] 100%%25"
        );
    }

    #[test]
    fn a_value_is_found_in_base64_wherever_it_begins_and_none_of_it_is_left() {
        for value in ["secret", "secret7", "secret78"] {
            for (before, after) in [
                ("", ""),
                ("u:", ""),
                ("user:", " and more"),
                ("a", "b"),
                ("ab", "c"),
                ("abc", "de"),
            ] {
                let text = format!("{before}{value}{after}");
                for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
                    let got = redact_one(value, &format!("<{encoded}>"));
                    assert!(got.contains("[secret T]"), "{text}: {got}");
                    let left = got.replace("[secret T]", "").len();
                    assert!(
                        left <= (before.len() + after.len()) * 4 / 3 + 6,
                        "{text}: {got}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_text_in_pieces_is_redacted_as_it_would_be_in_one() {
        let redactors = ["secret7", "ab&c%2/=", "sk-é😀x"]
            .map(|value| SecretRedactor::for_secret("T", value).expect("long enough"));
        let redactors: Vec<&SecretRedactor> = redactors.iter().collect();
        let texts = [
            "secret7 secret secre secret7".to_owned(),
            format!(
                "<{}> {} {}",
                STANDARD.encode("user:secret7!"),
                STANDARD.encode("secret7"),
                STANDARD.encode("xsecret7")
            ),
            format!("{} 73656372657437 7365637", URL_SAFE.encode("usersecret7 and")),
            "ab%26c%252%2F%3D ab&amp;c%2/= ab&#38;c%2\\/= ab\\u0026c%25".to_owned(),
            "sk-\\u00e9\\ud83d\\ude00x sk-\\u00e9\\ud83d\\u0041 sk-é😀x sk-&#233;&#x1f600;&#120; &#x0000".to_owned(),
            "%73ecret7 \\u0073ecret7 &#115;ecret&#55; &".to_owned(),
        ];
        for text in &texts {
            let whole = String::from_utf8(redact(text.as_bytes(), &redactors)).expect("a text");
            let ends: Vec<usize> = (1..=text.len())
                .filter(|end| text.is_char_boundary(*end))
                .collect();
            for size in 1..=ends.len() {
                let (mut heard, mut held, mut from) = (Vec::new(), String::new(), 0);
                for end in ends.iter().skip(size - 1).step_by(size).chain(ends.last()) {
                    held += &text[from..*end];
                    from = *end;
                    let (clear, left) = redact_prefix(held.as_bytes(), &redactors);
                    heard.extend(clear);
                    held.drain(..held.len() - left);
                }
                heard.extend(redact(held.as_bytes(), &redactors));
                assert_eq!(
                    String::from_utf8_lossy(&heard),
                    whole,
                    "{text} in pieces of {size}"
                );
            }
        }
        // Only text that may be the beginning of an occurrence is withheld.
        assert_eq!(
            redact_prefix(b"all is well. ", &redactors),
            (b"all is well. ".to_vec(), 0)
        );
    }

    #[test]
    fn names_of_headers_repeat_a_value_in_lower_case() {
        let redactor = SecretRedactor::for_secret("T", "Ab-Cd%9").expect("long enough");
        for (name, expected) in [
            ("x-ab-cd%9", true),
            ("ab-cd%259-x", true),
            ("41622d43642539", true),
            ("x-ab-cd", false),
        ] {
            assert_eq!(redactor.is_in_header_name(name), expected, "{name}");
        }
        assert!(SecretRedactor::for_secret("PIN", "123").is_none());
    }

    #[test]
    fn a_text_of_many_beginnings_of_a_value_is_not_searched_in_quadratic_time() {
        // Comparing each position with the whole rest of the text would take too long for a test.
        let value = "a".repeat(200) + "z";
        for text in ["%61", "a", "&#97;", "\\u0061", "&#", "\\u", "YWFh"] {
            let text = text.repeat(10_000);
            assert_eq!(redact_one(&value, &text).len(), text.len());
        }
    }
}
