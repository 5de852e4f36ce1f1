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
