//! Formats JSON for people: what fits on a line is on one line, and everything else has a line for
//! each member. Numbers and texts stay as they were written.

use serde::de::IgnoredAny;

/// The width up to which an array or an object is on one line.
const LINE_CHARS: usize = 76;
const INDENT: &str = "  ";

/// Returns a JSON array or object with line breaks and indentation; `None` if the text is anything
/// else.
pub(super) fn pretty(text: &str) -> Option<String> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) || serde_json::from_str::<IgnoredAny>(text).is_err() {
        return None;
    }
    let mut reader = Reader { rest: text };
    let value = reader.value()?;
    let mut lines = String::with_capacity(text.len() * 2);
    value.write(&mut lines, 0);
    Some(lines)
}

/// Returns whether two texts are the same JSON, or the second one is the first as a JSON string.
pub(super) fn is_same(text: &str, data: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    match parse(data) {
        Some(serde_json::Value::String(string)) => string.trim() == text.trim(),
        Some(value) => parse(text) == Some(value),
        None => text == data,
    }
}

/// A part of a JSON text.
enum Value<'a> {
    /// A number, a string, `true`, `false` or `null`, as it was written.
    Scalar(&'a str),
    /// An array or an object, with its brackets. Members of an object have a key.
    List([char; 2], Vec<(Option<&'a str>, Value<'a>)>),
}

impl Value<'_> {
    fn write(&self, lines: &mut String, depth: usize) {
        let (brackets, members) = match self {
            Self::Scalar(text) => return lines.push_str(text),
            Self::List(brackets, members) => (brackets, members),
        };
        let mut line = String::new();
        let room = LINE_CHARS.saturating_sub(depth * INDENT.len());
        if self.write_line(&mut line, room) {
            return lines.push_str(&line);
        }
        lines.push(brackets[0]);
        for (place, (key, value)) in members.iter().enumerate() {
            lines.push_str(if place == 0 { "\n" } else { ",\n" });
            lines.push_str(&INDENT.repeat(depth + 1));
            if let Some(key) = key {
                lines.push_str(key);
                lines.push_str(": ");
            }
            value.write(lines, depth + 1);
        }
        lines.push('\n');
        lines.push_str(&INDENT.repeat(depth));
        lines.push(brackets[1]);
    }

    /// Writes it on one line. Returns false if that is longer than `room`.
    fn write_line(&self, line: &mut String, room: usize) -> bool {
        match self {
            Self::Scalar(text) => line.push_str(text),
            Self::List(brackets, members) => {
                line.push(brackets[0]);
                for (place, (key, value)) in members.iter().enumerate() {
                    if place > 0 {
                        line.push_str(", ");
                    }
                    if let Some(key) = key {
                        line.push_str(key);
                        line.push_str(": ");
                    }
                    if !value.write_line(line, room) {
                        return false;
                    }
                }
                line.push(brackets[1]);
            }
        }
        line.len() <= room
    }
}

/// Reads a text that is known to be JSON.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Option<Value<'a>> {
        let brackets = match self.peek()? {
            '{' => ['{', '}'],
            '[' => ['[', ']'],
            _ => return self.scalar().map(Value::Scalar),
        };
        self.skip(1);
        let mut members = Vec::new();
        loop {
            match self.peek()? {
                c if c == brackets[1] => {
                    self.skip(1);
                    return Some(Value::List(brackets, members));
                }
                ',' => self.skip(1),
                _ => {
                    let key = if brackets[0] == '{' {
                        let key = self.scalar()?;
                        self.peek()?;
                        self.skip(1);
                        Some(key)
                    } else {
                        None
                    };
                    members.push((key, self.value()?));
                }
            }
        }
    }

    /// Returns the next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn scalar(&mut self) -> Option<&'a str> {
        let end = if self.peek()? == '"' {
            let mut is_escaped = false;
            let closing = self.rest[1..].find(|c| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            })?;
            closing + 2
        } else {
            let is_end = |c: char| matches!(c, ',' | ':' | ']' | '}') || c.is_whitespace();
            self.rest.find(is_end).unwrap_or(self.rest.len())
        };
        let (scalar, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        Some(scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::{is_same, pretty};

    #[test]
    fn what_fits_on_a_line_stays_on_it() {
        let check =
            |text: &str, expected: &str| assert_eq!(pretty(text).as_deref(), Some(expected));
        check("{}", "{}");
        check("[ ]", "[]");
        check(
            r#" {"b":[1,2],"a":{"c":"x"}} "#,
            r#"{"b": [1, 2], "a": {"c": "x"}}"#,
        );
        check(
            "[12345678901234567890,1.50,1e3]",
            "[12345678901234567890, 1.50, 1e3]",
        );
        check(r#"{"a\"}":"]\\"}"#, r#"{"a\"}": "]\\"}"#);
    }

    #[test]
    fn a_longer_value_has_a_line_for_each_member() {
        let long = "x".repeat(50);
        let text = format!(r#"{{"first":"{long}","second":["{long}",{{"a":1}}],"third":{{}}}}"#);
        let expected = format!(
            "{{\n  \"first\": \"{long}\",\n  \"second\": [\"{long}\", {{\"a\": 1}}],\n  \"third\": {{}}\n}}"
        );
        assert_eq!(pretty(&text), Some(expected));
    }

    #[test]
    fn other_texts_are_no_json() {
        for text in [
            "",
            "12",
            "\"a\"",
            "{",
            "[1,]",
            "{} {}",
            "[see here]",
            "{\"a\": \"cut o…",
        ] {
            assert_eq!(pretty(text), None, "{text}");
        }
        assert_eq!(pretty(&"[".repeat(100_000)), None);
    }

    #[test]
    fn data_is_compared_with_the_text_by_what_it_means() {
        let check =
            |text, data, expected| assert_eq!(is_same(text, data), expected, "{text} {data}");
        check("{\"b\": 1, \"a\": [2]}", "{\"a\":[2],\"b\":1}", true);
        check("hello", "\"hello\"", true);
        check("12", "12", true);
        check("hello", "{\"text\":\"hello\"}", false);
        check("{\"a\": 1}", "{\"a\":2}", false);
        check("12 ", "\"12\"", true);
    }
}
