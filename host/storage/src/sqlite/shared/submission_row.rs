//! The rows of submitted runs: when a worker takes each, and what a list shows of it.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};
use serde::de::DeserializeOwned;
use strata_base::clock::now_ms;
use strata_core::record::event::Status;
use strata_core::record::money::Usd;
use strata_records::overview::{EndTime, LifecycleState, OverviewChange, RunOverview};
use strata_records::work::RunSchedule;

/// The values of `submission.schedule`.
pub(super) const NEVER: i64 = 0;
pub(super) const NOW: i64 = 1;
pub(super) const LATER: i64 = 2;
pub(super) const ON_REQUEST: i64 = 3;

/// The columns that `SubmissionRow` reads, in its order, of the table `s`.
pub(super) const COLUMNS: &str = "s.run, s.code, s.tenant, s.submitter, s.schedule, s.wake_ms, s.is_requested, s.is_taken, \
    s.taken_ms, s.labels, s.secrets, s.tags, s.scope, s.problem, s.needed_bytes, s.created_ms, s.changed_ms, s.ended_ms, \
    s.started, s.team, s.status, s.step, s.spent, s.budget, s.requests, s.faults";
/// How many these are.
pub(super) const COLUMN_COUNT: usize = 26;

/// The row of a submitted run.
#[derive(Clone, Debug, Default)]
pub(super) struct SubmissionRow {
    pub(super) run: i64,
    pub(super) code: String,
    pub(super) tenant: String,
    pub(super) submitter: String,
    pub(super) schedule: i64,
    pub(super) wake_ms: Option<i64>,
    pub(super) is_requested: bool,
    pub(super) is_taken: bool,
    pub(super) taken_ms: Option<i64>,
    pub(super) labels: Vec<String>,
    pub(super) secrets: Vec<String>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) scope: Option<String>,
    pub(super) problem: Option<String>,
    pub(super) needed_bytes: i64,
    pub(super) created_ms: i64,
    pub(super) changed_ms: i64,
    pub(super) ended_ms: Option<i64>,
    /// `None` if the state has to be read.
    pub(super) overview: Option<RunOverview>,
}

impl SubmissionRow {
    /// Reads the columns of a row.
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let status: Option<String> = row.get(20)?;
        let overview = match status.as_deref().and_then(Status::from_name) {
            Some(status) => Some(RunOverview {
                run: row.get(18)?,
                team: row.get(19)?,
                status,
                step: number(21)?,
                spent: Usd(number(22)?),
                budget: row
                    .get::<_, Option<i64>>(23)?
                    .map(|usd| Usd(usd.unsigned_abs())),
                requests: number(24)?,
                faults: number(25)?,
            }),
            None => None,
        };
        Ok(Self {
            run: row.get(0)?,
            code: row.get(1)?,
            tenant: row.get(2)?,
            submitter: row.get(3)?,
            schedule: row.get(4)?,
            wake_ms: row.get(5)?,
            is_requested: row.get(6)?,
            is_taken: row.get(7)?,
            taken_ms: row.get(8)?,
            labels: from_json(row.get(9)?),
            secrets: from_json(row.get(10)?),
            tags: from_json(row.get(11)?),
            scope: row.get(12)?,
            problem: row.get(13)?,
            needed_bytes: row.get(14)?,
            created_ms: row.get(15)?,
            changed_ms: row.get(16)?,
            ended_ms: row.get(17)?,
            overview,
        })
    }

    /// Inserts the row of a new run.
    pub(super) fn insert(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT INTO submission (run, code, tenant, submitter, schedule, scheduled_ms, is_requested, is_taken, \
                       labels, secrets, tags, scope, failures, needed_bytes, created_ms, changed_ms, started, team, \
                       status, step, spent, budget, requests, faults) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?18, 0, ?7, ?8, ?9, ?10, 0, 0, ?6, ?6, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 0)";
        let one = self.overview.as_ref();
        let params = params![
            self.run,
            self.code,
            self.tenant,
            self.submitter,
            self.schedule,
            self.created_ms,
            serde_json::json!(self.labels).to_string(),
            serde_json::json!(self.secrets).to_string(),
            serde_json::json!(self.tags).to_string(),
            self.scope,
            one.map_or("", |one| &one.run),
            one.map_or("", |one| &one.team),
            one.map(|one| one.status.name()),
            one.map_or(0, |one| to_i64(one.step)),
            one.map_or(0, |one| to_i64(one.spent.0)),
            one.and_then(|one| one.budget).map(|usd| to_i64(usd.0)),
            one.map_or(0, |one| to_i64(one.requests)),
            self.is_requested,
        ];
        conn.execute(sql, params).map(drop)
    }

    /// Returns when it is taken up; `None` if no worker ever takes it.
    pub(super) fn run_schedule(&self) -> Option<RunSchedule> {
        match self.schedule {
            NEVER => None,
            NOW => Some(RunSchedule::Now),
            LATER => Some(RunSchedule::Later(self.wake_ms)),
            _ => Some(RunSchedule::OnRequest),
        }
    }

    /// Returns where it is in its life. `is_owned` says whether a process works on it.
    pub(super) fn state(&self, is_owned: bool) -> LifecycleState {
        let status = self
            .overview
            .as_ref()
            .map_or(Status::Running, |one| one.status);
        let has_problem = self.problem.is_some();
        LifecycleState::of_queued(is_owned, self.run_schedule(), has_problem, status)
    }
}

/// Returns what a column of JSON contains; nothing if it is no such JSON.
fn from_json<T: DeserializeOwned + Default>(text: String) -> T {
    serde_json::from_str(&text).unwrap_or_default()
}

fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the values of `schedule` and `wake_ms`.
pub(super) fn schedule_columns(schedule: RunSchedule) -> (i64, Option<i64>) {
    match schedule {
        RunSchedule::Now => (NOW, None),
        RunSchedule::Later(due_ms) => (LATER, due_ms),
        RunSchedule::OnRequest => (ON_REQUEST, None),
    }
}

/// Says when a run is taken up, if workers take it.
pub(in crate::sqlite) fn write_schedule(
    conn: &Connection,
    run: i64,
    schedule: RunSchedule,
) -> rusqlite::Result<()> {
    let (value, wake_ms) = schedule_columns(schedule);
    let sql = "UPDATE submission SET schedule = ?2, wake_ms = ?3, scheduled_ms = ?4, is_requested = 0, problem = NULL \
               WHERE run = ?1 AND schedule <> 0";
    conn.execute(sql, params![run, value, wake_ms, now_ms()])
        .map(drop)
}

/// Lets workers take a run, if it is one that they take.
pub(super) fn write_request(conn: &Connection, run: i64) -> rusqlite::Result<usize> {
    let sql = "UPDATE submission SET schedule = 1, is_requested = 1, problem = NULL, failures = 0, failed_step = NULL, \
                   scheduled_ms = ?2 WHERE run = ?1 AND schedule <> 0";
    conn.execute(sql, params![run, now_ms()])
}

/// Writes what becomes of what a list shows of a run.
pub(in crate::sqlite) fn write_shown(
    conn: &Connection,
    run: i64,
    change: &OverviewChange,
) -> rusqlite::Result<()> {
    let changed_ms = change.changed_ms.unwrap_or(0);
    let Some(one) = &change.overview else {
        let sql =
            "UPDATE submission SET status = NULL, changed_ms = max(changed_ms, ?2) WHERE run = ?1";
        return conn.execute(sql, params![run, changed_ms]).map(drop);
    };
    let (keeps_end, ended) = match change.ended {
        EndTime::None => (false, None),
        EndTime::At(time_ms) => (false, Some(time_ms)),
        EndTime::Unchanged => (true, None),
    };
    // What changes with most events is in no index.
    let sql = "UPDATE submission SET team = ?2, step = ?3, spent = ?4, budget = ?5, faults = ?6, \
                   changed_ms = max(changed_ms, ?7), ended_ms = CASE WHEN ?8 THEN ended_ms ELSE ?9 END WHERE run = ?1";
    let params = params![
        run,
        one.team,
        to_i64(one.step),
        to_i64(one.spent.0),
        one.budget.map(|usd| to_i64(usd.0)),
        to_i64(one.faults),
        changed_ms,
        keeps_end,
        ended
    ];
    conn.prepare_cached(sql)?.execute(params)?;
    let sql = "UPDATE submission SET started = ?2, status = ?3, requests = ?4 \
               WHERE run = ?1 AND (started, status, requests) IS NOT (?2, ?3, ?4)";
    let params = params![run, one.run, one.status.name(), to_i64(one.requests)];
    conn.prepare_cached(sql)?.execute(params).map(drop)
}
