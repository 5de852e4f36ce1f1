//! The note of what the state of a run was at its end, with the event that ended it.

use rusqlite::Connection;
use serde_json::{Value, json};
use strata_core::record::event::Status;
use strata_core::record::money::Usd;
use strata_records::overview::{OverviewChange, RunOverview};

use super::super::write::write_note;

/// The name of the note.
pub(super) const OVERVIEW_NOTE: &str = "overview";

/// Writes a note of what the state of a run was at its end, which is the event with the key `last`.
pub(in crate::sqlite) fn write_end_note(
    conn: &Connection,
    run: i64,
    end: &OverviewChange,
    last: i64,
) -> rusqlite::Result<()> {
    let Some(one) = &end.overview else {
        return Ok(());
    };
    let text = json!({
        "n": last, "ended": end.changed_ms, "run": one.run, "team": one.team, "status": one.status.name(),
        "step": one.step, "spent": one.spent.0, "budget": one.budget.map(|budget| budget.0),
        "requests": one.requests, "faults": one.faults,
    });
    write_note(conn, run, OVERVIEW_NOTE, &text.to_string())
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
