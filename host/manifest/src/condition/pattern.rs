//! Patterns of conditions: compiled once, and matched within a budget.
//!
//! A pattern is matched in one pass over the text by a lazily built DFA. If that is inefficient,
//! because nearly every byte needs a new state, or impossible, the pattern is matched by simulating
//! its NFA, provided that the number of its states times the length of the text fits into the
//! budget.

use regex::Regex;
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use strata_core::team::condition::WorkBudget;

/// The fixed cost of a match.
const MATCH_COST: u64 = 256;
/// The cost of an NFA state for each byte of the text.
const STATE_COST: u64 = 8;
/// How large the cache of DFA states may become, in bytes, before it is cleared.
const CACHE_BYTES: usize = 1 << 20;
/// How often the cache is cleared before the DFA may be given up.
const MIN_CACHE_CLEARS: usize = 3;
/// How many bytes of text must be matched for each new state; otherwise the DFA is given up.
const BYTES_PER_STATE: usize = 8;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// `None` if a DFA cannot be built for the pattern.
    automaton: Option<DFA>,
    states: u64,
}

impl Pattern {
    /// Compiles a pattern. Fails with the reason if it is not a regular expression.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let regex = Regex::new(text).map_err(|error| error.to_string())?;
        let config = DFA::config()
            .cache_capacity(CACHE_BYTES)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(MIN_CACHE_CLEARS))
            .minimum_bytes_per_state(Some(BYTES_PER_STATE))
            // The DFA gives up at the first non-ASCII byte, where Unicode word boundaries could
            // matter.
            .unicode_word_boundary(true);
        let automaton = DFA::builder().configure(config).build(text).ok();
        let states = automaton.as_ref().map_or(u64::MAX, |automaton| {
            automaton.get_nfa().states().len() as u64
        });
        Ok(Self {
            regex,
            automaton,
            states,
        })
    }

    /// Returns whether the pattern occurs in a text, or `None` if the budget does not suffice to find out.
    /// `cache` is kept for the next match of this pattern. The unit of cost is one byte of text that a DFA reads.
    pub(super) fn occurs_in(
        &self,
        text: &str,
        cache: &mut Option<Cache>,
        budget: &mut WorkBudget,
    ) -> Option<bool> {
        let length = text.len() as u64;
        budget.spend(MATCH_COST.saturating_add(length))?;
        if let Some(automaton) = &self.automaton {
            let cache = cache.get_or_insert_with(|| automaton.create_cache());
            if let Ok(found) = automaton.try_search_fwd(cache, &Input::new(text).earliest(true)) {
                return Some(found.is_some());
            }
        }
        let cost = self
            .states
            .saturating_mul(length)
            .saturating_mul(STATE_COST);
        budget.spend(cost)?;
        Some(self.regex.is_match(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_as_the_library_finds_it() {
        let texts = [
            "",
            "tag",
            "a b",
            "Grüße an alle",
            "ÄÖÜ",
            "x1\ny2",
            "ab\u{301}c",
            "- -",
        ];
        for pattern in [
            r"^\w{1,64}$",
            r"\bb\b",
            "(?i)grüße",
            r"\d$",
            "(?m)^y",
            "",
            "^$",
            r"\Bb",
            "[^a]b|ü",
        ] {
            let compiled = Pattern::compile(pattern).expect("a pattern");
            let (mut cache, mut budget) = (None, WorkBudget::default());
            let regex = Regex::new(pattern).expect("a pattern");
            for text in texts {
                assert_eq!(
                    compiled.occurs_in(text, &mut cache, &mut budget),
                    Some(regex.is_match(text)),
                    "{pattern} in {text:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_looked_for_costs_no_more_than_the_budget() {
        let check = |pattern: &str, text: &str, times: usize| {
            let compiled = Pattern::compile(pattern).expect("a pattern");
            let (mut cache, mut budget) = (None, WorkBudget::default());
            (0..times).any(|_| {
                let found = compiled.occurs_in(text, &mut cache, &mut budget);
                found.is_none()
            })
        };
        assert!(!check(r"^\w{1,64}$", "tag", 2_000));
        assert!(check("x", "yyy", 2 << 20));
        // Each byte leads to another state, of which there are more than could ever be held.
        let mut seed = 1_u64;
        let bits: String = (0..1 << 20)
            .map(|_| {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                if seed >> 63 == 0 { 'a' } else { 'b' }
            })
            .collect();
        assert!(check("(a|b)*a(a|b){200}c", &bits, 100));
    }
}
