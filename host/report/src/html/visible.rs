//! Makes invisible characters of a page visible, so that nobody can hide a text or change the
//! direction of what is around it.

use std::fmt::Write;

use strata_core::text::is_invisible;

/// Returns a page in which each invisible character is replaced by a visible form of it.
pub(super) fn with_visible_characters(page: String) -> String {
    if !page.contains(is_hidden) {
        return page;
    }
    let mut visible = String::with_capacity(page.len() + page.len() / 64);
    let mut rest = page.as_str();
    while let Some(at) = rest.find(is_hidden) {
        visible.push_str(&rest[..at]);
        let c = rest[at..].chars().next().unwrap_or_default();
        write_visible(&mut visible, c);
        rest = &rest[at + c.len_utf8()..];
    }
    visible.push_str(rest);
    visible
}

fn write_visible(page: &mut String, c: char) {
    match c {
        // Unicode has a symbol for each control character.
        '\0'..='\u{1f}' => page.push(char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}')),
        // Writing to a string cannot fail.
        c => _ = write!(page, "[U+{:04X}]", c as u32),
    }
}

/// Returns whether a character is invisible or must not occur in a page.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{fdd0}'..='\u{fdef}' => true,
        c => is_invisible(c) || (c as u32 & 0xfffe) == 0xfffe,
    }
}

#[cfg(test)]
mod tests {
    use super::with_visible_characters;

    #[test]
    fn invisible_characters_are_shown() {
        let check =
            |text: &str, expected: &str| assert_eq!(with_visible_characters(text.into()), expected);
        check(
            "plain, with\nlines\tand ümläuts — 日本語 🎲",
            "plain, with\nlines\tand ümläuts — 日本語 🎲",
        );
        check("a\0b\u{1b}[31m\r", "a␀b␛[31m␍");
        check(
            "a\u{202e}b\u{2066}c\u{2028}\u{feff}",
            "a[U+202E]b[U+2066]c[U+2028][U+FEFF]",
        );
        check(
            "a\u{ad}\u{180e}\u{fffb}\u{e0041}",
            "a[U+00AD][U+180E][U+FFFB][U+E0041]",
        );
        check("\u{1f469}\u{200d}\u{1f4bb}", "\u{1f469}\u{200d}\u{1f4bb}");
        check("\u{7f}\u{85}\u{ffff}", "[U+007F][U+0085][U+FFFF]");
        check("", "");
    }
}
