//! Escapes untrusted texts, so that a page displays them and interprets nothing in them.

use std::fmt::{self, Write};

use strata_core::text::is_invisible;

/// A text that is escaped when it is displayed. It can be used between tags and in quoted
/// attributes.
pub(super) struct Escaped<'a>(&'a str);

/// Escapes a text.
pub(super) fn esc(text: &str) -> Escaped<'_> {
    Escaped(text)
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(needs_escaping) {
            f.write_str(&rest[..at])?;
            let c = rest[at..].chars().next().unwrap_or_default();
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '`' => f.write_str("&#96;")?,
                c => write_visible(f, c)?,
            }
            rest = &rest[at + c.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// Markup in which invisible characters are replaced by their code points. Everything else is kept.
pub(super) struct VisibleMarkup<'a>(pub(super) &'a str);

impl fmt::Display for VisibleMarkup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| {
            if is_hidden(c) {
                write_visible(f, c)
            } else {
                f.write_char(c)
            }
        })
    }
}

/// Writes a visible form of a character that is invisible, or that would change the direction of
/// the text around it.
fn write_visible(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    match c {
        // Unicode has a symbol for each control character.
        '\0'..='\u{1f}' => f.write_char(char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}')),
        c => write!(f, "[U+{:04X}]", c as u32),
    }
}

fn needs_escaping(c: char) -> bool {
    matches!(c, '&' | '<' | '>' | '"' | '\'' | '`') || is_hidden(c)
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
    use super::*;

    #[test]
    fn nothing_that_is_written_is_markup() {
        let check = |text: &str, expected: &str| assert_eq!(esc(text).to_string(), expected);
        check(
            "plain, with\nlines\tand ümläuts — 日本語 🎲",
            "plain, with\nlines\tand ümläuts — 日本語 🎲",
        );
        check(
            "<script>alert(1)</script>",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
        );
        check("\" onload=\"x", "&quot; onload=&quot;x");
        check("' ` &amp;", "&#39; &#96; &amp;amp;");
        check("<!--", "&lt;!--");
        check("]]>", "]]&gt;");
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
