//! Patterns of names and paths, as grants write them: `*` stands for any run of characters.

/// Whether a text is of a pattern.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    // Splitting gives at least one part.
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::matches;

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
