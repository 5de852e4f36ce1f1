//! The recorded calls of the host, told one by one with what came back.

use std::path::Path;

use strata_core::event::Event;
use strata_core::host_call::HostCall;

use super::{LaunchError, reader};
use crate::narrator::{Line, Narrator};
use crate::store::At;

/// How many records are in memory at once.
const CHUNK: usize = 1024;

/// Tells every call of what is saved at a path, oldest first: its public line, and the call.
pub fn calls(path: &Path, tell: &mut dyn FnMut(&Line, &HostCall)) -> Result<(), LaunchError> {
    let reader = reader(path)?;
    let mut narrator = Narrator::new(reader.load(&At::Head)?.base.shape);
    let mut told = 0;
    loop {
        let records = reader.records(told, CHUNK)?;
        if records.is_empty() {
            return Ok(());
        }
        told += records.len() as u64;
        for record in &records {
            let lines = narrator.tell(&record.event, record.line, record.time_ms);
            if let Event::HostCalled { call, .. } = &record.event {
                lines.iter().for_each(|line| tell(line, call));
            }
        }
    }
}
