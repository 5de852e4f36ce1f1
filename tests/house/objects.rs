//! No object is spread over many files: a type whose methods lie in more than three is several
//! objects, each of which should own its state.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_none, sources};

/// The most files that may hold methods of one type.
const MAX_FILES_OF_A_TYPE: usize = 3;
/// Types that are still spread over more files, and over how many.
const EXEMPT: [(&str, usize); 1] = [("Stepper", 12)];

/// Returns the type to which a line begins to add methods.
fn extended_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?.strip_suffix(" {")?;
    let rest = match rest.strip_prefix('<') {
        Some(generic) => generic.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    (!rest.contains(" for ")).then(|| rest.split('<').next().unwrap_or(rest))
}

#[test]
fn the_methods_of_a_type_lie_in_three_files_at_most() {
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| source.is_product()) {
        for (_, line) in source.code() {
            if let Some(name) = extended_type(line) {
                let of_type = files.entry(name.to_owned()).or_default();
                of_type.insert(source.name.clone());
            }
        }
    }
    files.retain(|name, files| {
        let exempt = EXEMPT.iter().find(|(exempt, _)| exempt == name);
        files.len() > exempt.map_or(MAX_FILES_OF_A_TYPE, |(_, most)| *most)
    });
    assert_none(
        files
            .into_iter()
            .map(|(name, files)| format!("`{name}` has methods in {files:?}"))
            .collect(),
    );
}
