//! Shortens texts of any length to a few words on one line.

/// Returns the beginning of a text on one line: at most `most` characters, with each sequence of
/// white space replaced by one space, and an ellipsis if the text is longer.
pub fn excerpt(text: &str, most: usize) -> String {
    let mut words = text
        .split_whitespace()
        .flat_map(|word| [" ", word])
        .skip(1)
        .flat_map(str::chars);
    let mut line: String = words.by_ref().take(most).collect();
    if words.next().is_some() {
        line.push('…');
    }
    line
}

/// Returns the parts of two texts around their first difference, each at most `most` characters long, a
/// quarter of which precede the difference. An ellipsis stands for what is left out.
pub fn around_difference(one: &str, other: &str, most: usize) -> [String; 2] {
    let pairs = one.chars().zip(other.chars());
    let same = pairs.take_while(|(a, b)| a == b).count();
    let skipped = same.saturating_sub(most / 4);
    let window = |text: &str| {
        let mut chars = text.chars().skip(skipped);
        let shown: String = chars.by_ref().take(most).collect();
        let before = if skipped > 0 { "…" } else { "" };
        let after = if chars.next().is_some() { "…" } else { "" };
        format!("{before}{shown}{after}")
    };
    // Texts that are shown as a whole need no window.
    let is_short = |text: &str| text.chars().nth(most).is_none();
    if is_short(one) && is_short(other) {
        [one.to_owned(), other.to_owned()]
    } else {
        [window(one), window(other)]
    }
}

#[test]
fn two_long_texts_are_shown_around_their_first_difference() {
    let same = "x".repeat(100);
    assert_eq!(
        around_difference(&format!("{same}abcdefgh"), &format!("{same}A"), 8),
        ["…xxabcdef…", "…xxA"]
    );
    assert_eq!(
        around_difference("same a", "same b", 8),
        ["same a", "same b"]
    );
    assert_eq!(around_difference(&same, "y", 4), ["xxxx…", "y"]);
}

#[test]
fn a_long_text_is_shortened_to_its_beginning() {
    let check = |text: &str, expected: &str| assert_eq!(excerpt(text, 5), expected, "{text:?}");
    check("", "");
    check(" a\n b ", "a b");
    check("12345", "12345");
    check("12 456", "12 45…");
    check(" a\n\tb ", "a b");
    check("abcde ", "abcde");
    check("ab cd e", "ab cd…");
    check("äöüßé!", "äöüßé…");
}
