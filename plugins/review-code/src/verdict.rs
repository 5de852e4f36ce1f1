//! Parses the verdict and the remarks in a reviewer's reply.

use serde::Serialize;

/// Whether the code may stay as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The code may stay as it is.
    Approved,
    /// The code has to be changed.
    ChangesRequested,
}

impl Verdict {
    /// Returns the line that the reviewer is asked to write.
    pub const fn line(self) -> &'static str {
        match self {
            Self::Approved => "APPROVED",
            Self::ChangesRequested => "CHANGES REQUESTED",
        }
    }
}

/// Returns the verdict in the first line and the list items below it. Punctuation around the words
/// is ignored, because models like to format them, but the verdict is never guessed from other
/// words.
pub fn parse_review(reply: &str) -> Option<(Verdict, Vec<String>)> {
    let mut lines = reply.lines().skip_while(|line| line.trim().is_empty());
    let words = lines.next()?.trim_matches(|c: char| !c.is_alphanumeric());
    let verdict = [Verdict::Approved, Verdict::ChangesRequested]
        .into_iter()
        .find(|verdict| words.eq_ignore_ascii_case(verdict.line()))?;
    Some((verdict, lines.filter_map(list_item).collect()))
}

fn list_item(line: &str) -> Option<String> {
    let line = line.trim();
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = match line.strip_prefix(['-', '*', '+']) {
        Some(rest) => rest,
        None if after_number.len() < line.len() => after_number.strip_prefix(['.', ')'])?,
        None => return None,
    };
    let text = rest.strip_prefix(' ')?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Expected<'a> = Option<(Verdict, &'a [&'a str])>;

    #[test]
    fn a_verdict_is_read_and_never_guessed() {
        use Verdict::{Approved, ChangesRequested};
        let cases: [(&str, Expected<'_>); 8] = [
            ("", None),
            ("Looks good to me.", None),
            ("Not approved", None),
            ("APPROVED", Some((Approved, &[]))),
            (
                "\n**Approved.**\n\n- a\n- b c",
                Some((Approved, &["a", "b c"])),
            ),
            (
                "## Changes requested:\n1. a\n2) b\nnot c",
                Some((ChangesRequested, &["a", "b"])),
            ),
            (
                "APPROVED\n-no item\n2024 neither\n-  \n* d",
                Some((Approved, &["d"])),
            ),
            (
                "CHANGES REQUESTED\r\n- a\r\n",
                Some((ChangesRequested, &["a"])),
            ),
        ];
        for (reply, expected) in cases {
            let expected = expected.map(|(v, r)| (v, r.iter().map(|r| (*r).to_owned()).collect()));
            assert_eq!(parse_review(reply), expected, "{reply:?}");
        }
    }
}
