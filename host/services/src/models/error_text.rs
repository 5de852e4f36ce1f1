//! Errors about requests to models, and what they quote of replies.

use crate::gateway::{HostError, HostErrorKind};

/// The maximum number of characters of a reply or a body that an error message quotes.
pub(super) const EXCERPT_CHARS: usize = 300;

/// Returns the error that a request or a reply is invalid.
pub(super) fn invalid(message: impl Into<String>) -> HostError {
    HostError::new(HostErrorKind::Invalid, message)
}

/// Returns the beginning of a text from outside. Control characters are replaced so that it fits
/// one line of a terminal.
pub(super) fn excerpt(text: &str) -> String {
    let mut start: String = text
        .trim()
        .chars()
        .take(EXCERPT_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.trim().chars().nth(EXCERPT_CHARS).is_some() {
        start.push('…');
    }
    start
}

#[test]
fn texts_from_outside_fit_one_line() {
    let check = |text: &str, expected: &str| assert_eq!(excerpt(text), expected);
    check(" a\tb\u{7}c ", "a b c");
    check(&"é".repeat(EXCERPT_CHARS), &"é".repeat(EXCERPT_CHARS));
    check(
        &"é".repeat(EXCERPT_CHARS + 1),
        &format!("{}…", "é".repeat(EXCERPT_CHARS)),
    );
}
