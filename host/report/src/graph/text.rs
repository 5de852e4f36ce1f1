//! Prepares the texts of a graph: replaces characters that some format does not allow, and breaks
//! texts into lines.

use strata_core::text::is_invisible;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns a text on one line, in which invisible characters and those that XML does not allow are
/// replaced by `U+FFFD`.
pub fn sanitize(text: &str) -> String {
    let one = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
        c if is_invisible(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(one).collect()
}

/// Breaks a text into at most `lines` lines of at most `columns` columns: at spaces, and within
/// words that are longer than a line. Omitted text is marked with `…`.
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
