//! Runs that fail because of the infrastructure: their storage, or a worker that dies of them. Each is taken again after
//! a pause that grows with the number of failures in a row, and refused after too many. Failures are in a row if they
//! are at the same step, so a run that makes progress is never refused for them.

use strata_records::error::StoreError;
use strata_records::work::ClaimedRun;
use tokio_postgres::types::Type;

use super::database::Database;

/// After how many failures in a row a run is refused.
pub(super) const MAX_FAILURES: i64 = 10;
/// The pause after the first failure, which doubles with each, and the longest pause, in seconds.
const FIRST_PAUSE_S: i64 = 5;
const MAX_PAUSE_S: i64 = 600;

/// Returns the assignments of an update of `strata.run r`, joined with `strata.overview o`, that count a failure and say
/// when the run is taken again. `pauses` is the number of failures without a pause; `problem` is an expression of SQL for
/// why the run is refused after too many.
pub(super) fn counting_failure(free: i64, problem: &str) -> String {
    let failures = "(CASE WHEN r.failed_step = o.step THEN r.failures + 1 ELSE 1 END)";
    format!(
        "failures = {failures}, failed_step = o.step, \
         schedule = CASE WHEN r.schedule <> 1 THEN r.schedule WHEN {failures} >= {MAX_FAILURES} THEN 3 \
                         WHEN {failures} > {free} THEN 2 ELSE 1 END, \
         wake_at = CASE WHEN r.schedule <> 1 THEN r.wake_at ELSE clock_timestamp() + make_interval(secs => \
                       least({MAX_PAUSE_S}, {FIRST_PAUSE_S} * 2 ^ least(greatest({failures} - {free} - 1, 0), 20))) END, \
         problem = CASE WHEN r.schedule = 1 AND {failures} >= {MAX_FAILURES} THEN {problem} ELSE r.problem END"
    )
}

/// Returns the statement that takes runs from a process that is dead: those that fulfil a condition about `r`.
pub(super) fn taking_from_dead(condition: &str) -> String {
    let counted = counting_failure(
        1,
        &format!("'its workers died {MAX_FAILURES} times in a row at the same step'"),
    );
    format!(
        "UPDATE strata.run r SET owner = NULL, epoch = r.epoch + 1, {counted} \
         FROM strata.overview o WHERE o.run = r.id AND {condition}"
    )
}

/// Fails unless the database takes a write of this size for a run. Nothing is kept of it.
pub fn try_write(database: &Database, run: &ClaimedRun, bytes: u64) -> Result<(), StoreError> {
    /// Larger changes are written in pieces.
    const MAX_BYTES: u64 = 64 << 20;
    let connection = database.connect()?;
    let body = vec![0_u8; usize::try_from(bytes.min(MAX_BYTES)).unwrap_or(0)];
    let written = connection.transact("", || -> Result<(), TrialEnd> {
        let sql = "INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) \
                   VALUES ($1, -1, 0, 0, 0, 0, 0, $2)";
        let arguments = [(&run.key as _, Type::INT8), (&body as _, Type::BYTEA)];
        connection
            .execute(sql, &arguments)
            .map_err(TrialEnd::Failed)?;
        Err(TrialEnd::Written)
    });
    match written {
        Ok(()) | Err(TrialEnd::Written) => Ok(()),
        Err(TrialEnd::Failed(error)) => Err(error.meaning.needing(bytes)),
    }
}

/// Why a write that is tried is not kept.
enum TrialEnd {
    /// It was taken.
    Written,
    Failed(super::connect::StatementError),
}

impl From<super::connect::StatementError> for TrialEnd {
    fn from(error: super::connect::StatementError) -> Self {
        Self::Failed(error)
    }
}
