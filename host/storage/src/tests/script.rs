//! For tests: the records of scripted runs.

use std::path::Path;

use strata_base::scripted_run::scripted_events;
use strata_core::record::event::Event;
use strata_core::state::environment::Environment;

use crate::{Record, SavedDefinition};

pub(crate) use strata_base::scripted_run::{ScriptedRun, normalized, pseudorandom, team};

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

/// Turns an event into a record that differs from all others.
pub(crate) fn record(n: usize, event: &Event) -> Record {
    let lines = (n % 3) as u32;
    let before = (n / 3) * 3 + [0, 0, 1][n % 3];
    Record {
        line: crate::FIRST_LINE + before as u64,
        lines,
        time_ms: 1_000_000 + n as i64,
        event: event.clone(),
    }
}

/// Returns the records of a run of at most `limit` events, and the state after them.
pub(crate) fn scripted_run(turns: &[u8], limit: usize) -> (Vec<Record>, Environment) {
    let (events, env) = scripted_events(turns, limit);
    let records = events.iter().enumerate();
    let records = records.map(|(n, event)| record(n, event)).collect();
    (records, env)
}
