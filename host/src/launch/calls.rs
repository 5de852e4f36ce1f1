//! The recorded calls of the host, told one by one with what came back.

use std::path::Path;

use strata_core::event::Event;
use strata_core::host_call::HostCall;

use super::{LaunchError, reader, telling};
use crate::public_event::EventLine;

/// Tells every call of what is saved at a path, oldest first: its public line, and the call.
pub fn calls(path: &Path, tell: &mut dyn FnMut(&EventLine, &HostCall)) -> Result<(), LaunchError> {
    let reader = reader(path)?;
    let mut translator = telling::event_translator(&reader)?;
    for record in reader.all(0) {
        let record = record?;
        let lines = translator.translate(&record.event, record.line, record.time_ms);
        if let Event::HostCalled { call, .. } = &record.event {
            for line in &lines {
                tell(line, call);
            }
        }
    }
    Ok(())
}
