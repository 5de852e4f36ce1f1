//! When workers take up a run, as it is stored.

use std::collections::BTreeMap;

use strata_base::clock::now_ms;
use strata_core::record::id::Digest;
use strata_records::caps::CapScope;
use strata_records::work::{Handover, NewSubmission, RunSchedule};
use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;
use super::write;

/// The values of `strata.run.schedule`.
const NEVER: i16 = 0;
pub(super) const NOW: i16 = 1;
const LATER: i16 = 2;
const ON_REQUEST: i16 = 3;

/// Returns the value of `schedule`, and how far `wake_at` is from now, in milliseconds. The clocks of the server and
/// of this machine may differ, so a point in time of one means nothing to the other.
pub(super) fn schedule_columns(schedule: RunSchedule) -> (i16, Option<i64>) {
    match schedule {
        RunSchedule::Now => (NOW, None),
        RunSchedule::Later(due_ms) => (LATER, due_ms.map(|due| due.saturating_sub(now_ms()))),
        RunSchedule::OnRequest => (ON_REQUEST, None),
    }
}

/// Returns when a run is taken up. `due_ms` is the value of `wake_at` in milliseconds. Returns `None`
/// if workers do not take it.
pub(super) fn parse_schedule(
    schedule: i16,
    due_ms: impl FnOnce() -> Option<i64>,
) -> Option<RunSchedule> {
    match schedule {
        NEVER => None,
        NOW => Some(RunSchedule::Now),
        LATER => Some(RunSchedule::Later(due_ms())),
        _ => Some(RunSchedule::OnRequest),
    }
}

/// Makes a run that was just inserted one that a worker takes.
pub(super) fn schedule_submission(
    connection: &Connection,
    run: i64,
    submission: &NewSubmission<'_>,
) -> Result<(), StatementError> {
    let sql = "UPDATE strata.run SET schedule = $2, labels = $3, secrets = $4, scope = $5, tags = $6::text::jsonb \
               WHERE id = $1";
    let schedule = match submission.handover {
        Handover::Queued => NOW,
        Handover::Detached => NEVER,
    };
    // A text of the server cannot contain this character.
    let tags = serde_json::json!(submission.tags)
        .to_string()
        .replace("\\u0000", "\u{fffd}");
    let needs = submission.needs;
    let scope = submission.scope.map(CapScope::name);
    let arguments = [
        (&run as _, Type::INT8),
        (&schedule as _, Type::INT2),
        (&needs.labels as _, Type::TEXT_ARRAY),
        (&needs.secrets as _, Type::TEXT_ARRAY),
        (&scope as _, Type::TEXT),
        (&tags as _, Type::TEXT),
    ];
    connection.execute(sql, &arguments)?;
    if let Some((name, text)) = &submission.resume_note {
        write::write_note(connection, run, name, text)?;
        let sql = "UPDATE strata.run SET is_requested = true WHERE id = $1";
        connection.execute(sql, &[(&run, Type::INT8)])?;
    }
    insert_files(connection, run, submission.files)
}

/// Inserts at which path a run has which file.
pub(super) fn insert_files(
    connection: &Connection,
    run: i64,
    files: &BTreeMap<String, Digest>,
) -> Result<(), StatementError> {
    let paths: Vec<&str> = files.keys().map(String::as_str).collect();
    let digests: Vec<&str> = files.values().map(|digest| digest.0.as_str()).collect();
    let sql = "INSERT INTO strata.run_file (run, path, digest) \
               SELECT $1, t.* FROM unnest($2::text[], $3::text[]) t";
    let arguments = [
        (&run as _, Type::INT8),
        (&paths as _, Type::TEXT_ARRAY),
        (&digests as _, Type::TEXT_ARRAY),
    ];
    connection.execute(sql, &arguments)?;
    Ok(())
}

/// Says when a run is taken up, if workers take it.
pub(super) fn write_schedule(
    connection: &Connection,
    run: i64,
    schedule: RunSchedule,
) -> Result<(), StatementError> {
    let (value, pause_ms) = schedule_columns(schedule);
    let sql = "UPDATE strata.run SET schedule = $2, wake_at = clock_timestamp() + $3::bigint * interval '1 millisecond', \
                   scheduled_at = clock_timestamp(), is_requested = false, problem = NULL \
               WHERE id = $1 AND schedule <> 0";
    let arguments = [
        (&run as _, Type::INT8),
        (&value as _, Type::INT2),
        (&pause_ms as _, Type::INT8),
    ];
    connection.execute(sql, &arguments).map(drop)
}
