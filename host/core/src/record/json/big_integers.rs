//! Integers of any size in documents. The values of the parser hold 64 bits and would round larger ones,
//! which models and scripts write: ids, keys, results of computations.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

/// The number of digits from which an integer may not fit into 64 bits.
const LONG: usize = 19;

/// A document whose large integers are replaced by texts, which the parser keeps as they are.
pub(super) struct MarkedDocument<'a> {
    /// The document to be parsed.
    pub(super) text: String,
    mark: String,
    integers: Vec<&'a str>,
}

/// Replaces the large integers of a document. `parsed` returns what the parser makes of the document:
/// the texts that are put in do not occur in it. Returns `None` if there are no such integers.
pub(super) fn mark(text: &str, parsed: impl FnOnce() -> String) -> Option<MarkedDocument<'_>> {
    if !has_long_number(text) {
        return None;
    }
    let parsed = parsed();
    let mut mark = String::from("#");
    while parsed.contains(&mark) || text.contains(&mark) {
        mark.push('#');
    }
    let (mut marked, mut integers, mut copied) = (String::new(), Vec::new(), 0);
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        let end = match byte {
            b'"' => end_of_string(text, at),
            b'-' | b'0'..=b'9' => end_of_number(text, at),
            _ => at + 1,
        };
        if is_large_integer(&text[at..end]) {
            marked.push_str(&text[copied..at]);
            marked.push_str(&alloc::format!("\"{mark}{}\"", integers.len()));
            integers.push(&text[at..end]);
            copied = end;
        }
        at = end;
    }
    marked.push_str(&text[copied..]);
    (!integers.is_empty()).then_some(MarkedDocument {
        text: marked,
        mark,
        integers,
    })
}

impl MarkedDocument<'_> {
    /// Returns a text that the parser made of the marked document, with the integers.
    pub(super) fn restore(&self, parsed: &str) -> String {
        let mut restored = String::new();
        let quoted = alloc::format!("\"{}", self.mark);
        let mut parts = parsed.split(quoted.as_str());
        restored.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (number, after) = part.split_once('"').unwrap_or((part, ""));
            let integer = number
                .parse()
                .ok()
                .and_then(|number: usize| self.integers.get(number));
            restored.push_str(integer.copied().unwrap_or("null"));
            restored.push_str(after);
        }
        restored
    }

    /// Replaces the object of each field with one of these names by its text, if it contains large
    /// integers. `with_marks` is the same document as `value`, with marks.
    pub(super) fn keep_exact_fields(&self, value: &mut Value, with_marks: &Value, names: &[&str]) {
        match (value, with_marks) {
            (Value::Array(list), Value::Array(marked)) => {
                for (value, marked) in list.iter_mut().zip(marked) {
                    self.keep_exact_fields(value, marked, names);
                }
            }
            (Value::Object(fields), Value::Object(marked)) => {
                for ((name, value), marked) in fields.iter_mut().zip(marked.values()) {
                    if value != marked && value.is_object() && names.contains(&name.as_str()) {
                        *value = Value::String(self.restore(&marked.to_string()));
                    } else {
                        self.keep_exact_fields(value, marked, names);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns whether so many digits follow each other that they may be a large integer.
fn has_long_number(text: &str) -> bool {
    let mut digits = 0;
    text.bytes().any(|byte| {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        digits >= LONG
    })
}

fn is_large_integer(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    digits.len() >= LONG
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && token.parse::<i64>().is_err()
        && token.parse::<u64>().is_err()
}

/// Returns the end of the string that begins at `at`.
fn end_of_string(text: &str, at: usize) -> usize {
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(at + 1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the end of the number that begins at `at`.
fn end_of_number(text: &str, at: usize) -> usize {
    let is_part =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
    let length = text[at..].bytes().take_while(|byte| is_part(*byte)).count();
    at + length
}
