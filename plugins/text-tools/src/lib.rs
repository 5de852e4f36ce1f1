//! Text functions with an interface of their own. Nothing here depends on strata-host: only the
//! team file makes actions of these functions.

#![allow(
    unsafe_code,
    reason = "the exports of a component, which the bindings make here"
)]

#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::unwrap_used,
    reason = "generated"
)]
mod bindings;

use bindings::{Guest, Measures};

struct TextTools;

impl Guest for TextTools {
    fn measure(text: String) -> Measures {
        let words: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let length = |word: &&str| word.chars().count();
        let most = words.iter().map(length).max().unwrap_or(0);
        Measures {
            words: words.len() as u32,
            sentences: text
                .split(['.', '!', '?'])
                .filter(|part| part.contains(char::is_alphanumeric))
                .count() as u32,
            longest: words
                .iter()
                .find(|word| length(word) == most)
                .map(|word| (*word).to_owned()),
        }
    }

    fn slug(text: String) -> Result<String, String> {
        let lower = text.to_lowercase();
        let parts: Vec<&str> = lower
            .split(|c: char| !c.is_alphanumeric())
            .filter(|part| !part.is_empty())
            .collect();
        if parts.is_empty() {
            return Err(format!(
                "making a name of `{text}`: it has neither letters nor digits"
            ));
        }
        Ok(parts.join("-"))
    }

    fn headed(head: String, text: String) -> String {
        format!("{head}\n{}\n\n{text}", "=".repeat(head.chars().count()))
    }
}

bindings::export!(TextTools with_types_in bindings);

#[cfg(test)]
mod tests {
    use super::{Guest, TextTools};

    #[test]
    fn texts_are_measured() {
        let found = TextTools::measure("To be, or not to be? That is it.".into());
        assert_eq!(
            (found.words, found.sentences, found.longest.as_deref()),
            (9, 2, Some("That"))
        );
        let nothing = TextTools::measure("...".into());
        assert_eq!(
            (nothing.words, nothing.sentences, nothing.longest),
            (0, 0, None)
        );
    }

    #[test]
    fn names_are_made() {
        assert_eq!(
            TextTools::slug("To be, or not?".into()).as_deref(),
            Ok("to-be-or-not")
        );
        assert!(TextTools::slug("!?".into()).is_err());
    }
}
