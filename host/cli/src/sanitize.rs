//! Makes texts that guests or saved runs chose safe to print: nothing in them moves the cursor or
//! changes the terminal.

use std::borrow::Cow;

use strata_core::text::is_invisible;

/// Replaces characters that must not be printed.
const REPLACEMENT: char = '\u{fffd}';

/// Replaces all control and invisible characters except line feeds and tabs.
pub(super) fn sanitize(text: &str) -> String {
    let unshown = |c: char| is_invisible(c) && !matches!(c, '\n' | '\t');
    text.chars()
        .map(|c| if unshown(c) { REPLACEMENT } else { c })
        .collect()
}

/// Escapes invisible characters beyond ASCII in JSON; JSON already escapes those within ASCII.
pub(super) fn sanitize_json(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c >= '\u{7f}' && is_invisible(c);
    if !text.contains(is_escaped) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            // JSON encodes characters beyond U+FFFF as surrogate pairs.
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped += &format!("\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped.into()
}

/// Makes a text plain and replaces line feeds, so that it cannot look like several lines.
pub(super) fn sanitize_line(text: &str) -> String {
    sanitize(text).replace('\n', "\u{fffd}")
}

/// Makes a text plain but keeps colour sequences, for texts that the host has already coloured.
pub(super) fn sanitize_keeping_colours(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let parameters = rest[at + 2..].find(|c: char| !c.is_ascii_digit() && c != ';');
        let end = parameters
            .map(|length| at + 2 + length)
            .filter(|end| rest[*end..].starts_with('m'));
        shown += &sanitize(&rest[..at]);
        let after = end.map_or(at + 1, |end| end + 1);
        shown.push_str(end.map_or("\u{fffd}", |_| &rest[at..after]));
        rest = &rest[after..];
    }
    shown + &sanitize(rest)
}

#[cfg(test)]
mod tests {
    use super::{sanitize, sanitize_json, sanitize_keeping_colours, sanitize_line};

    #[test]
    fn what_would_do_something_to_the_terminal_is_taken_out_of_a_text() {
        assert_eq!(
            sanitize("a\tb\nc\r\u{1b}[2J\u{7}\u{9b}d\u{7f}"),
            "a\tb\nc\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}d\u{fffd}"
        );
        assert_eq!(sanitize_line("a\nb\u{1b}c"), "a\u{fffd}b\u{fffd}c");
        assert_eq!(
            sanitize("exe.\u{202e}txt\u{2066} \u{5d0}"),
            "exe.\u{fffd}txt\u{fffd} \u{5d0}"
        );
        assert_eq!(
            sanitize("a\u{200b}\u{2028}\u{e0041}b"),
            "a\u{fffd}\u{fffd}\u{fffd}b"
        );
        assert_eq!(
            sanitize("\u{1f469}\u{200d}\u{1f4bb} \u{2764}\u{fe0f}"),
            "\u{1f469}\u{200d}\u{1f4bb} \u{2764}\u{fe0f}"
        );
    }

    #[test]
    fn json_says_the_same_and_does_nothing_to_the_terminal() {
        let value = serde_json::json!({ "a\u{9b}": "\u{202e}\u{7f}\u{e9}\n\u{1b}\u{e0041}" });
        let whole = serde_json::to_string_pretty(&value).unwrap();
        let shown = sanitize_json(&whole);
        assert_eq!(
            shown,
            "{\n  \"a\\u009b\": \"\\u202e\\u007f\u{e9}\\n\\u001b\\udb40\\udc41\"\n}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn colours_are_left_in_what_is_told_and_nothing_else_is() {
        let check = |text: &str, expected: &str| {
            assert_eq!(sanitize_keeping_colours(text), expected, "{text:?}")
        };
        check("", "");
        check(
            "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m ü\n",
            "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m ü\n",
        );
        check("\u{1b}[38;5;9mred\u{1b}[m", "\u{1b}[38;5;9mred\u{1b}[m");
        check("\u{1b}[2J\u{1b}[31m", "\u{fffd}[2J\u{1b}[31m");
        check(
            "\u{1b}[?25l\u{1b}]0;title\u{7}",
            "\u{fffd}[?25l\u{fffd}]0;title\u{fffd}",
        );
        check("\u{1b}[\u{1b}[1m", "\u{fffd}[\u{1b}[1m");
        check("\u{1b}[31", "\u{fffd}[31");
        check("\u{1b}", "\u{fffd}");
    }
}
