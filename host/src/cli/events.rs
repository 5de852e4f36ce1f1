//! `events`: what was recorded, told again from the beginning.

use std::path::Path;

use super::{Failure, print};
use crate::launch::reader;
use crate::narrator::Narrator;
use crate::store::{At, StoreError};

/// How many records are in memory at once.
const CHUNK: usize = 1024;

pub(super) fn events(path: &Path) -> Result<u8, Failure> {
    let reader = reader(path)?;
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
