//! Patterns for names and paths in grants: `*` matches any characters.

/// Returns whether a text matches a pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    // Splitting returns at least one part.
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(tail)
}

/// Returns whether a text matches one of the patterns.
pub fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

/// Returns the intersection of two patterns if one of them includes the other. Other overlaps
/// cannot be expressed as a pattern; they count as empty.
pub fn intersect<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    // A pattern that matches the text of another one matches everything that the other matches.
    match (matches(one, other), matches(other, one)) {
        (true, _) => Some(other),
        (false, true) => Some(one),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{intersect, matches};

    #[test]
    fn of_two_patterns_the_narrower_one_is_what_they_have_in_common() {
        let check = |one: &str, other: &str, expected| {
            assert_eq!(intersect(one, other), expected, "{one} {other}");
            assert_eq!(intersect(other, one), expected, "{other} {one}");
        };
        check("*", "small-*", Some("small-*"));
        check("/v1/*", "/v1/x/*", Some("/v1/x/*"));
        check("/v1/*", "/v1/x", Some("/v1/x"));
        check("a", "a", Some("a"));
        check("a", "b", None);
        check("a*", "*b", None);
        check("/v1/*", "/v*", Some("/v1/*"));
    }

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        let check = |pattern: &str, text: &str, expected| {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        };
        check("*", "", true);
        check("*", "gpt-4o", true);
        check("gpt-4o", "gpt-4o", true);
        check("gpt-4o", "gpt-4o-mini", false);
        check("gpt-*", "gpt-4o", true);
        check("*-mini", "gpt-4o-mini", true);
        check("*-mini", "gpt-4o-mini-2", false);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-c", false);
        check("ab*ba", "aba", false);
        check("", "x", false);
        check("/v1/*", "/v1/x/y", true);
        check("/v1/*", "/v1", false);
    }
}
