//! `events`: what was recorded, told again from the beginning.

use std::path::Path;

use super::{Failure, note, print};
use crate::launch::reader;
use crate::narrator::Narrator;
use crate::store::{At, StoreError};

/// How many records are in memory at once.
const CHUNK: usize = 1024;

pub(super) fn events(path: &Path, lineage: Option<&str>) -> Result<u8, Failure> {
    let mut reader = reader(path)?;
    let lineages = reader.lineages()?;
    let told = match lineage {
        Some(name) => {
            reader.turn_to(name)?;
            lineages.iter().find(|row| row.name == name)
        }
        None => lineages.iter().find(|row| row.current),
    };
    if let Some(row) = told.filter(|row| row.dropped > 0) {
        note(format_args!("{} of {} events were pruned and are not told", row.dropped, row.events));
    }
    let shape = reader.load(&At::Head)?.base.shape;
    let mut narrator = Narrator::new(shape);
    let mut from = 0;
    loop {
        let records = reader.records(from, CHUNK)?;
        for record in &records {
            let lines = narrator.tell(&record.event, record.line, record.time_ms);
            lines.iter().for_each(|line| print(&line.to_json()));
        }
        if records.len() < CHUNK {
            return Ok(0);
        }
        from += records.len() as u64;
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Locked { .. } => 9,
            StoreError::Full { .. } | StoreError::Io { .. } | StoreError::Database { .. } => 1,
            StoreError::Permission { .. } | StoreError::Corrupt { .. } => 1,
            _ => 2,
        };
        Self { code, message: error.to_string() }
    }
}
