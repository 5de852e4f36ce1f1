//! What was most likely meant by a name that stands for nothing: one rule for the words of team files and for names on the
//! command line.

use std::collections::BTreeSet;

/// The candidate that was most likely meant, if any is close enough.
pub(crate) fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Half of the letters wrong is still a slip in a short word and a different word in none that we use.
    within_reach(word, candidates, 0.5)
}

/// The candidate that is the same word but for a slip or two, if there is one.
pub(crate) fn almost<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    within_reach(word, candidates, 0.7)
}

/// The candidate that is most alike, from 0 for nothing to 1 for all of it.
fn within_reach<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    least: f64,
) -> Option<&'a str> {
    /// To compare two words takes time with the product of their lengths. No name that somebody typed is longer.
    const LONGEST_COMPARED: usize = 100;
    let word = word.to_lowercase();
    let letters = word.chars().count();
    // As many letters as one is longer are wrong at least.
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

/// "did you mean `x`?", or else the choices there are.
pub(crate) fn suggest(word: &str, candidates: &[&str]) -> Option<String> {
    // A longer list is not read.
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

/// Returns "; did you mean `x`?" to stand behind a message, or nothing if no candidate is close enough.
pub(crate) fn meant<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, candidates).map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"))
}
