//! Where a run is in its life: whether it waits for a worker and for what, who works on it, and why it was refused.

use std::io::{self, Write};

use serde::Serialize;
use strata_host::clock::rfc3339;
use strata_host::operate::find_run;
use strata_host::storage::{LifecycleState, PruneNote, StateSelector, StorageLocation};
use strata_host::view::RunRow;

use crate::missing_worker::describe_missing_worker;
use crate::sanitize::sanitize;
use crate::{CommandFailure, Printer, pluralize};

/// Where a run is in its life.
#[derive(Serialize)]
pub(super) struct RunStanding {
    #[serde(flatten)]
    pub(super) row: RunRow,
    /// What is missing for a worker to take it.
    missing: Option<String>,
    /// Who pruned it last, if it was pruned.
    pruned: Option<PruneView>,
}

/// The last pruning of a run.
#[derive(Serialize)]
struct PruneView {
    by: Option<String>,
    at: String,
    keep: u32,
    checkpoints: u64,
    events: u64,
}

impl From<PruneNote> for PruneView {
    fn from(note: PruneNote) -> Self {
        Self {
            by: note.by,
            at: rfc3339(note.at_ms),
            keep: note.keep,
            checkpoints: note.checkpoints,
            events: note.events,
        }
    }
}

/// Returns where a run is in its life; `None` for an earlier state, and for one that is not kept in records.
pub(super) fn standing(
    location: &StorageLocation,
    at: &StateSelector,
) -> Result<Option<RunStanding>, CommandFailure> {
    if *at != StateSelector::Head {
        return Ok(None);
    }
    let Some(run) = find_run(location)? else {
        return Ok(None);
    };
    let row = RunRow::new(&run.listing, run.damage);
    let state = match run.listing.state {
        LifecycleState::Queued => location.submission_state()?,
        _ => None,
    };
    let missing = state.and_then(|state| describe_missing_worker(location, &state));
    let pruned = match location.read() {
        Ok(reader) => PruneNote::read(reader.as_ref())?,
        // There is a `team.json` alone, or it cannot be read, which was said.
        Err(_) => None,
    };
    Ok(Some(RunStanding {
        row,
        missing,
        pruned: pruned.map(PruneView::from),
    }))
}

impl RunStanding {
    /// Returns where a run at a server is in its life.
    pub(super) fn of_served(row: RunRow, missing: Option<String>) -> Self {
        Self {
            row,
            missing,
            pruned: None,
        }
    }

    /// Whether the run waits for a worker, or was refused by one.
    pub(super) fn is_in_queue(&self) -> bool {
        let states = [LifecycleState::Queued, LifecycleState::Refused];
        states.iter().any(|state| state.name() == self.row.state)
    }

    /// Prints it, as a part of the lines about the run as a whole.
    pub(super) fn show(&self, printer: &Printer) {
        let row = &self.row;
        let state = match &row.problem {
            Some(problem) => format!("{}: {}", row.state, sanitize(problem)),
            None => row.state.into(),
        };
        printer.print_line(&format!("state       {state}"));
        if let Some(missing) = &self.missing {
            printer.print_line(&format!("waits for   {missing}"));
        }
        if let Some(owner) = &row.owner {
            let host = owner.host.as_ref();
            let host = host.map_or_else(String::new, |host| format!(" on {host}"));
            let since = owner.since.as_ref();
            let since = since.map_or_else(String::new, |since| format!(", since {since}"));
            printer.print_line(&format!("owner       {}{host}{since}", owner.worker));
        }
        if let Some(scope) = &row.scope {
            printer.print_line(&format!("scope       {}", sanitize(scope)));
        }
        if let Some(pruned) = &self.pruned {
            let checkpoints = pluralize(pruned.checkpoints, "checkpoint");
            let events = pluralize(pruned.events, "event");
            let by = pruned.by.as_deref().map(sanitize);
            let by = by.map_or_else(String::new, |by| format!(" by {by}"));
            let at = &pruned.at;
            printer.print_line(&format!(
                "pruned      {checkpoints} and {events}{by}, at {at}"
            ));
        }
        if !row.needs.is_empty() {
            printer.print_line(&format!("needs       {}", sanitize(&row.needs.join(", "))));
        }
        for (key, value) in &row.labels {
            printer.print_line(&format!(
                "label       {}={}",
                sanitize(key),
                sanitize(value)
            ));
        }
    }
}

/// Writes a JSON object and holds back its end, so that another member can be added.
pub(super) struct OpenObject<'a> {
    out: &'a mut dyn Write,
    /// The end of what was written: a bracket, and what is around it.
    held: Vec<u8>,
}

impl<'a> OpenObject<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            held: Vec::new(),
        }
    }

    /// Adds a member, and ends the object.
    pub(super) fn close_with(mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let end = self.held.iter().rposition(|byte| *byte == b'}');
        let end = end.ok_or(io::ErrorKind::InvalidData)?;
        let before = self.held[..end].trim_ascii_end();
        self.out.write_all(before)?;
        let member = serde_json::to_string(value)?;
        self.out
            .write_all(format!(",\n  \"{name}\": {member}\n}}\n").as_bytes())?;
        self.held.clear();
        Ok(())
    }
}

impl Write for OpenObject<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// The end of an object and a line break are shorter.
        const HELD_BYTES: usize = 16;
        self.held.extend_from_slice(bytes);
        let passed = self.held.len().saturating_sub(HELD_BYTES);
        let rest = self.held.split_off(passed);
        let passed = std::mem::replace(&mut self.held, rest);
        self.out.write_all(&passed)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_added_at_the_end_however_an_object_is_written() {
        for size in 1..40 {
            let mut out = Vec::new();
            let mut open = OpenObject::new(&mut out);
            for piece in b"{\n  \"a\": {\n    \"b\": [1, 2, 3]\n  }\n}\n".chunks(size) {
                open.write_all(piece).unwrap();
            }
            open.close_with("run", &7).unwrap();
            let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(value, serde_json::json!({"a": {"b": [1, 2, 3]}, "run": 7}));
        }
    }
}
