//! What a run was started with: the bundle and, for a fork, the run and the checkpoint. Both are stored with the run and
//! never change.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use strata_host::storage::{ServerRecord, ServerRecords, StoreError};

/// The kinds of the records that say so.
const BUNDLE_OF_RUN: &str = "run-bundle";
const FORK_OF_RUN: &str = "run-fork";
/// How many runs are remembered.
const MAX_RUNS: usize = 4096;

/// What a run was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOrigin {
    /// The digest of its bundle.
    pub bundle: Option<String>,
    /// The run and the checkpoint from which it was forked, as `ID@CHECKPOINT`.
    pub forked_from: Option<String>,
}

impl RunOrigin {
    /// Returns the records that are stored with the run with this id.
    pub fn records(&self, id: &str) -> Vec<ServerRecord> {
        let parts = [
            (BUNDLE_OF_RUN, &self.bundle),
            (FORK_OF_RUN, &self.forked_from),
        ];
        let records = parts.into_iter().filter_map(|(kind, text)| {
            Some(ServerRecord {
                kind: kind.into(),
                name: id.into(),
                run: Some(id.into()),
                text: text.clone()?,
                ..ServerRecord::default()
            })
        });
        records.collect()
    }
}

/// What runs were started with, as far as that was asked for.
#[derive(Debug, Default)]
pub struct RunOrigins {
    known: Mutex<BTreeMap<String, RunOrigin>>,
}

impl RunOrigins {
    /// Returns what the run with this id was started with.
    pub fn of_run(&self, id: &str, records: &dyn ServerRecords) -> Result<RunOrigin, StoreError> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(origin) = known().get(id) {
            return Ok(origin.clone());
        }
        let read = |kind| {
            let record = records.read_record(kind, "", id)?;
            Ok::<_, StoreError>(record.map(|record| record.text))
        };
        let origin = RunOrigin {
            bundle: read(BUNDLE_OF_RUN)?,
            forked_from: read(FORK_OF_RUN)?,
        };
        let mut known = known();
        if known.len() >= MAX_RUNS {
            known.pop_first();
        }
        known.insert(id.to_owned(), origin.clone());
        Ok(origin)
    }
}
