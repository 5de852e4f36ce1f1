//! The note of what the state of a run was at its end, with the event that ended it.

use rusqlite::Connection;
use serde_json::{Value, json};
use strata_core::record::event::{Event, Status};
use strata_core::record::money::Usd;

use super::super::write::write_note;
use crate::Append;
use crate::overview::RunOverview;

/// The name of the note.
pub(super) const OVERVIEW_NOTE: &str = "overview";

/// A note of what the state of a run was at its end.
pub(super) struct EndNote(String);

impl EndNote {
    /// Returns the note for events that end a run, the last of which gets this key.
    pub(super) fn after(append: Append<'_>, key: i64) -> Option<Self> {
        let ends = |event: &Event| matches!(event, Event::RunEnded(_));
        let state = append.state?;
        let last = append.records.last().filter(|last| ends(&last.event))?;
        let one = RunOverview::of(state);
        let text = json!({
            "n": key, "ended": last.time_ms, "run": one.run, "team": one.team, "status": one.status.name(),
            "step": one.step, "spent": one.spent.0, "budget": one.budget.map(|budget| budget.0),
            "requests": one.requests, "faults": one.faults,
        });
        Some(Self(text.to_string()))
    }

    /// Writes it, in a transaction that is open.
    pub(super) fn write(&self, conn: &Connection, run: i64) -> rusqlite::Result<()> {
        write_note(conn, run, OVERVIEW_NOTE, &self.0)
    }
}

/// Returns what a note says if it is of the event with this key, and when the run ended.
pub(super) fn parse_note(text: &str, newest: Option<i64>) -> Option<(RunOverview, i64)> {
    let note: Value = serde_json::from_str(text).ok()?;
    if note["n"].as_i64() != newest || newest.is_none() {
        return None;
    }
    let overview = RunOverview {
        run: note["run"].as_str()?.into(),
        team: note["team"].as_str()?.into(),
        status: Status::from_name(note["status"].as_str()?)?,
        step: note["step"].as_u64()?,
        spent: Usd(note["spent"].as_u64()?),
        budget: note["budget"].as_u64().map(Usd),
        requests: note["requests"].as_u64()?,
        faults: note["faults"].as_u64()?,
    };
    Some((overview, note["ended"].as_i64()?))
}
