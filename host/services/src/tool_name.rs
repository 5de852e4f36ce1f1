//! The names under which models know tools. Providers accept fewer characters than team files, and
//! the names have to differ.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::record::id::to_hex;

use strata_base::files::sha256::sha256;

/// The longest name of a tool that all providers accept, in characters.
const MAX_MODEL_NAME_CHARS: usize = 64;
/// The number of hexadecimal digits that distinguish names which would become equal.
const NAME_DIGITS: usize = 8;

/// Which names of tools a provider accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Letters, digits, `_` and `-`. All providers accept most of these names.
    Common,
    /// Letters, digits, `_` and `-`, beginning with a letter or `_`.
    LetterFirst,
}

/// Returns the names under which a model knows tools, in the order of `names`. Characters that are
/// not accepted become `_`. A name that is too long is cut off. Where names would become equal, or
/// a name is cut off, it ends with digits of the digest of the original name, so that a name does
/// not depend on the order of the tools. Names that are equal originally remain equal.
pub fn model_names<'a>(names: impl IntoIterator<Item = &'a str>, rule: NameRule) -> Vec<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut users: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for name in &names {
        users
            .entry(model_name(name, rule))
            .or_default()
            .insert(name);
    }
    let unique = |name: &str| {
        let mapped = model_name(name, rule);
        let is_shared = users.get(&mapped).is_some_and(|users| users.len() > 1);
        if is_shared && mapped != name {
            with_digest(&mapped, name)
        } else {
            mapped
        }
    };
    names.into_iter().map(unique).collect()
}

/// Returns the name under which a model knows a tool whose name does not become equal to another.
pub fn model_name(name: &str, rule: NameRule) -> String {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let mut mapped = String::new();
    if !name.starts_with(is_first) && (rule == NameRule::LetterFirst || name.is_empty()) {
        mapped.push('_');
    }
    // One character more shows that the name is too long.
    let accepted = name.chars().take(MAX_MODEL_NAME_CHARS + 1);
    mapped.extend(accepted.map(|c| if is_accepted_in_model_name(c) { c } else { '_' }));
    if mapped.len() > MAX_MODEL_NAME_CHARS {
        return with_digest(&mapped, name);
    }
    mapped
}

/// Returns whether all providers accept a character in the name of a tool.
pub fn is_accepted_in_model_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns a mapped name that ends with digits of the digest of the original name.
fn with_digest(mapped: &str, name: &str) -> String {
    let digest = to_hex(&sha256(name));
    let kept = mapped.len().min(MAX_MODEL_NAME_CHARS - NAME_DIGITS - 1);
    format!("{}_{}", &mapped[..kept], &digest[..NAME_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_are_mapped_to_what_providers_accept() {
        let check = |name: &str, rule, expected: &str| {
            let mapped = model_name(name, rule);
            assert_eq!(mapped, expected, "{name}");
            assert_eq!(model_name(&mapped, rule), mapped, "{name}");
        };
        use NameRule::{Common, LetterFirst};
        check("search", Common, "search");
        check("Web-Search_2", Common, "Web-Search_2");
        check("files/read file", Common, "files_read_file");
        check("größe", Common, "gr__e");
        check("", Common, "_");
        check("2fa", Common, "2fa");
        check("2fa", LetterFirst, "_2fa");
        check("-x", LetterFirst, "_-x");
        check("_x", LetterFirst, "_x");
        check("é", LetterFirst, "__");
        check("", LetterFirst, "_");
        let longest = "x".repeat(MAX_MODEL_NAME_CHARS);
        check(&longest, Common, &longest);
        let cut = format!(
            "{}_{}",
            "x".repeat(55),
            &to_hex(&sha256("x".repeat(200)))[..8]
        );
        check(&"x".repeat(200), Common, &cut);
    }

    #[test]
    fn names_that_become_equal_are_told_apart_by_their_digests() {
        let names = ["a b", "a_b", "a/b", "c d", "a b", "a_b"];
        let mapped = model_names(names, NameRule::Common);
        let digest = |name: &str| format!("a_b_{}", &to_hex(&sha256(name))[..8]);
        let expected = [
            &digest("a b"),
            "a_b",
            &digest("a/b"),
            "c_d",
            &digest("a b"),
            "a_b",
        ];
        assert_eq!(mapped, expected);
        let mut reversed = model_names(names.into_iter().rev(), NameRule::Common);
        reversed.reverse();
        assert_eq!(reversed, mapped);
        let long = "x".repeat(70);
        let longer = model_names([long.as_str(), &format!("{long}y")], NameRule::Common);
        assert_ne!(longer[0], longer[1]);
        assert!(longer.iter().all(|name| name.len() == MAX_MODEL_NAME_CHARS));
        let digits = model_names(["2fa", "_2fa"], NameRule::LetterFirst);
        assert!(digits[0].starts_with("_2fa_"), "{digits:?}");
        assert_eq!(digits[1], "_2fa");
    }
}
