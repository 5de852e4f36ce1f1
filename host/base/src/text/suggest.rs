//! Finds the name that was most likely meant by an unknown one. The same rule applies to words of
//! team files and to names on the command line.

use std::collections::BTreeSet;

/// Returns the candidate that was most likely meant, if any is similar enough.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // With half of the letters wrong, a short word can still be a misspelling. Our names are so
    // different that it is not mistaken for another.
    most_similar(word, candidates, 0.5)
}

/// Returns the candidate that differs only by one or two typing errors, if there is one.
pub fn closest_typo<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    most_similar(word, candidates, 0.7)
}

/// Returns the candidate that is most similar to `word`, if its similarity is at least `least`: 0
/// means nothing in common, 1 means equal.
fn most_similar<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    least: f64,
) -> Option<&'a str> {
    /// The time to compare two words grows with the product of their lengths. Names that people
    /// type are shorter.
    const LONGEST_COMPARED: usize = 100;
    let word = word.to_lowercase();
    let letters = word.chars().count();
    // The difference in length is a lower bound of the number of wrong letters.
    let may_be = |candidate: &&str| {
        let (less, more) = match candidate.chars().count() {
            length if length < letters => (length, letters),
            length => (letters, length),
        };
        more <= LONGEST_COMPARED && less as f64 >= least * more as f64
    };
    candidates
        .into_iter()
        .filter(may_be)
        .map(|c| {
            let likeness = strsim::normalized_damerau_levenshtein(&word, &c.to_lowercase());
            (likeness, c)
        })
        .filter(|(likeness, _)| *likeness >= least)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Returns "did you mean `x`?", or else the list of candidates. Returns `None` if there are none or
/// too many.
pub fn suggest(word: &str, candidates: &[&str]) -> Option<String> {
    // A longer list would not be read.
    const MAX_LISTED: usize = 30;
    if let Some(meant) = closest(word, candidates.iter().copied()) {
        return Some(format!("did you mean `{meant}`?"));
    }
    if candidates.is_empty() || candidates.len() > MAX_LISTED {
        return None;
    }
    let mut all: Vec<String> = candidates.iter().map(|c| format!("`{c}`")).collect();
    let mut seen = BTreeSet::new();
    all.retain(|candidate| seen.insert(candidate.clone()));
    Some(format!("expected one of: {}", all.join(", ")))
}

/// Returns "; did you mean `x`?" to be appended to a message, or an empty text if no candidate is
/// similar enough.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, candidates).map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"))
}
