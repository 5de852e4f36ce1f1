//! For tests: the records of scripted runs.

use std::path::Path;

use crate::SavedDefinition;

pub(crate) use strata_base::scripted_run::{ScriptedRun, normalized, pseudorandom, team};
pub(crate) use strata_records::scripted_records::{record, scripted_run};

/// Returns the names of what a directory contains, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Copies the files of a storage directory that are wanted.
pub(crate) fn copy(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool) {
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if wanted(&name) {
            std::fs::copy(from.join(&name), to.join(&name)).unwrap();
        }
    }
}

pub(crate) fn definition() -> SavedDefinition {
    SavedDefinition::example()
}
