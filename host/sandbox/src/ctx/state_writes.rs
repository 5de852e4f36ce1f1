//! The writes of an attempt to its state, which are kept until it succeeds, and how its reads see them.

use std::collections::{BTreeSet, HashMap};

use strata_core::record::json::Json;
use strata_core::record::scope_write::{ROLE_SCOPE, Write};

/// The writes of an attempt.
#[derive(Default)]
pub(crate) struct StateWrites {
    writes: Vec<Write>,
    /// The scopes that the driver has found.
    known_scopes: BTreeSet<String>,
    /// The keys that the attempt has written, by scope and key, with the value it last read and its
    /// writes since. Without this map each read would cost as much as all writes before it.
    written_keys: HashMap<(String, String), KeyHistory>,
}

/// A key of a scope that the attempt has written.
#[derive(Default)]
struct KeyHistory {
    /// The value that was read last, with the writes up to then applied.
    last_read: Option<Option<Json>>,
    /// The indices of the writes since then among all writes of the attempt.
    writes_since: Vec<usize>,
}

impl StateWrites {
    /// Returns whether a scope exists, as far as the attempt knows.
    pub(crate) fn is_known(&self, scope: &str) -> bool {
        scope == ROLE_SCOPE || self.known_scopes.contains(scope)
    }

    /// Notes that a scope exists.
    pub(crate) fn add_known(&mut self, scope: &str) {
        self.known_scopes.insert(scope.to_owned());
    }

    /// Adds a write.
    pub(crate) fn add(&mut self, write: Write) {
        self.written_keys
            .entry((write.scope.clone(), write.key.clone()))
            .or_default()
            .writes_since
            .push(self.writes.len());
        self.writes.push(write);
    }

    /// Returns the value of a key that was read last, if it was, and the writes since then.
    pub(crate) fn of_key(&self, at: &(String, String)) -> (Option<Option<Json>>, Vec<Write>) {
        let Some(history) = self.written_keys.get(at) else {
            return (None, Vec::new());
        };
        let writes = history.writes_since.iter();
        let writes = writes.map(|index| self.writes[*index].clone());
        (history.last_read.clone(), writes.collect())
    }

    /// Notes the value of a key that was read, with all writes applied.
    pub(crate) fn note_read(&mut self, at: &(String, String), value: &Option<Json>) {
        if let Some(history) = self.written_keys.get_mut(at) {
            *history = KeyHistory {
                last_read: Some(value.clone()),
                writes_since: Vec::new(),
            };
        }
    }

    /// Returns the writes to a scope.
    pub(crate) fn of_scope(&self, scope: &str) -> Vec<Write> {
        let writes = self.writes.iter().filter(|write| write.scope == scope);
        writes.cloned().collect()
    }

    /// Takes the writes, in order.
    pub(crate) fn take(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.writes)
    }
}
