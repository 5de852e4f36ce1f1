//! The names of types, functions and modules.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_none, sources};

/// Words that no name of a type, a function or a module contains: metaphors, and verbs that do not
/// say what is done.
const BANNED_WORDS: [&str; 22] = [
    "afford",
    "awake",
    "equipment",
    "flights",
    "hall",
    "hearing",
    "hush",
    "keepers",
    "land",
    "makings",
    "motion",
    "parcel",
    "people",
    "purse",
    "reins",
    "settle",
    "strayed",
    "takeoff",
    "telling",
    "told",
    "utils",
    "weather",
];
/// How many types may have the same name.
const MAX_TYPES_OF_A_NAME: usize = 2;

/// Returns the keyword and the name of the item that a line defines.
fn defined_item(line: &str) -> Option<(&str, &str)> {
    let mut words = line
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty());
    let keyword = words
        .find(|word| !["pub", "crate", "super", "in", "const", "async", "unsafe"].contains(word))?;
    let is_item = ["struct", "enum", "trait", "type", "union", "fn", "mod"].contains(&keyword);
    is_item.then(|| words.next().map(|name| (keyword, name)))?
}

/// Returns the words of a name in lower case: those of `take_off` and `TakeOff` are `take` and
/// `off`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c != '_', words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[test]
fn names_are_words_of_the_field() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.is_product()) {
        for (n, line) in source.code() {
            let Some((_, name)) = defined_item(line) else {
                continue;
            };
            let banned = words_of(name)
                .into_iter()
                .find(|word| BANNED_WORDS.contains(&word.as_str()));
            if let Some(word) = banned {
                broken.push(format!("{}:{n}: `{name}` contains `{word}`", source.name));
            }
        }
    }
    assert_none(broken);
}

#[test]
fn a_type_name_denotes_two_types_at_most() {
    let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| source.is_product()) {
        for (_, line) in source.code() {
            let item = defined_item(line).filter(|(keyword, _)| !["fn", "mod"].contains(keyword));
            // Types that a trait requires have the names that the trait gives them.
            if let Some((keyword, name)) = item
                && !(keyword == "type" && line.starts_with(' '))
            {
                let files = types.entry(name.to_owned()).or_default();
                files.insert(source.name.clone());
            }
        }
    }
    types.retain(|_, files| files.len() > MAX_TYPES_OF_A_NAME);
    assert_none(
        types
            .into_iter()
            .map(|(name, files)| format!("`{name}` is defined in {files:?}"))
            .collect(),
    );
}
