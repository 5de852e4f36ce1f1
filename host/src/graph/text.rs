//! Texts of a graph: made harmless for every format, broken into lines.

use strata_core::text::is_invisible;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A text on one line, in characters that are seen and that XML allows: what is none of them becomes `U+FFFD`.
pub fn clean(text: &str) -> String {
    let one = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
        c if is_invisible(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(one).collect()
}

/// Breaks a text into lines of at most so many columns: at spaces, and within words that are longer. At most `lines`
/// come of it; what is left out shows as `…`.
pub fn wrap(text: &str, columns: usize, lines: usize) -> Vec<String> {
    let mut wrapped: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && line.width() + 1 + word.width() > columns {
            wrapped.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if line.width() + c.width().unwrap_or(0) > columns && !line.is_empty() {
                wrapped.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    wrapped.push(line);
    if wrapped.len() > lines {
        wrapped.truncate(lines);
        if let Some(last) = wrapped.last_mut() {
            while last.width() >= columns {
                last.pop();
            }
            last.push('…');
        }
    }
    wrapped
}
