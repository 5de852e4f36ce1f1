//! Parses the choice in a player's reply.

/// The beginning of the line with the choice.
pub const MARK: &str = "CHOICE:";

/// Returns the name in the last line with a choice, as it is written in `choices`. Returns `None`
/// if it is not one of them.
pub fn parse_choice(text: &str, choices: &[String]) -> Option<String> {
    let plain = |c: char| c.is_alphanumeric();
    let given = text.lines().rev().find_map(|line| {
        let line = line.trim_matches(|c: char| !plain(c) && c != ':');
        let mark = line
            .get(..MARK.len())
            .filter(|mark| mark.eq_ignore_ascii_case(MARK))?;
        Some(
            line[mark.len()..]
                .trim_matches(|c: char| !plain(c))
                .to_lowercase(),
        )
    })?;
    choices
        .iter()
        .find(|name| name.to_lowercase() == given)
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_and_never_guessed() {
        let choices = ["Anna".to_owned(), "Jörg".to_owned()];
        let cases = [
            ("", None),
            ("I choose Anna.", None),
            ("CHOICE: Anna", Some("Anna")),
            ("Because.\n\n**Choice: anna.**\n", Some("Anna")),
            ("CHOICE: Anna\nno, wait\nCHOICE: JÖRG", Some("Jörg")),
            ("CHOICE: nobody", None),
            ("CHOICE: Anna or Jörg", None),
            ("CHOICE:", None),
            ("日本CHOICE: Anna", None),
        ];
        for (text, expected) in cases {
            assert_eq!(
                parse_choice(text, &choices).as_deref(),
                expected,
                "{text:?}"
            );
        }
    }
}
