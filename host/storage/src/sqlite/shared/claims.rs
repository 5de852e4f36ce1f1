//! The worker of a database file: the process that holds its lock. No other process can take its runs, so it has no
//! heartbeat, and what another process left behind is available as soon as the lock is held.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};
use strata_base::clock::{now_ms, stopwatch};
use strata_records::caps::{CapAccounts, CapScope};
use strata_records::error::StoreError;
use strata_records::work::{
    ClaimedRun, ListedWorker, RESUME_NOTE, RunFailure, RunRelease, Tended, WorkerProfile,
};
use tokio::sync::Notify;

use super::super::rows::{SqliteReader, SqliteRows, WHOLE_DATABASE};
use super::cap_accounts::caps_of;
use super::change::ChangeTerms;
use super::database::{DatabaseHandle, MissingDatabase, SharedDatabase};
use super::delete::sweep;
use super::queued_writer::{QueuedWriter, SharedLease};
use super::settings::read_settings;
use super::stored_cap::generations;
use super::submission_row::{
    COLUMNS, LATER, NEVER, NOW, ON_REQUEST, SubmissionRow, schedule_columns,
};
use crate::sqlite_url::SqliteUrl;
use crate::{DatabaseSettings, LeaseStatus};

/// After how many failures in a row a run is refused.
const MAX_FAILURES: i64 = 10;
/// The pause after the first failure, which doubles with each, and the longest pause.
const FIRST_PAUSE_MS: i64 = 5_000;
const MAX_PAUSE_MS: i64 = 600_000;
/// For how long a run is waited for that somebody else in this process is changing, and how often it is tried.
const OPEN_TIME: Duration = Duration::from_secs(20);
const OPEN_INTERVAL: Duration = Duration::from_millis(2);
/// How often the worker looks for runs that are kept no longer.
const SWEEP_INTERVAL: Duration = Duration::from_secs(20);

/// The worker of a database file.
pub(crate) struct FileWorker {
    url: SqliteUrl,
    database: DatabaseHandle,
    reader: SqliteReader,
    id: Arc<str>,
    profile: WorkerProfile,
    settings: DatabaseSettings,
    caps: Arc<CapAccounts>,
    /// The runs that it took and has not given up.
    held: BTreeSet<i64>,
    /// When it looks again for runs that are kept no longer; `None` for at once.
    next_sweep: Option<Instant>,
}

impl Drop for FileWorker {
    fn drop(&mut self) {
        self.database.set_claiming(None);
    }
}

impl FileWorker {
    /// Makes this process the worker of a database. `notified` fires when runs may have become due.
    pub(crate) fn open(
        url: &SqliteUrl,
        profile: &WorkerProfile,
        notified: &Arc<Notify>,
    ) -> Result<Self, StoreError> {
        let database = SharedDatabase::open_queue(&url.file)?;
        database.change(ChangeTerms::durable(), free_taken_runs)?;
        let rows = SqliteRows::open_beside_writer(database.path().to_path_buf(), WHOLE_DATABASE)?;
        database.notify_with(Arc::clone(notified));
        database.set_claiming(Some(profile.clone()));
        Ok(Self {
            url: url.clone(),
            settings: read_settings(&database)?,
            reader: SqliteReader::from_rows(rows),
            caps: caps_of(&database),
            database,
            id: std::process::id().to_string().into(),
            profile: profile.clone(),
            held: BTreeSet::new(),
            next_sweep: None,
        })
    }

    pub(crate) fn url(&self) -> &SqliteUrl {
        &self.url
    }

    pub(crate) fn settings(&self) -> &DatabaseSettings {
        &self.settings
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn caps(&self) -> Arc<CapAccounts> {
        Arc::clone(&self.caps)
    }

    /// Takes runs that are due, for which the worker has the labels and the secrets.
    pub(crate) fn claim(&mut self, room: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        let (labels, own) = (self.profile.labels.clone(), self.profile.secrets.clone());
        self.claim_where(room, move |row| {
            row.labels.iter().all(|label| labels.contains(label))
                && row.secrets.iter().all(|secret| own.contains(secret))
        })
    }

    /// Takes runs that name a secret for which `is_forbidden` returns true.
    pub(crate) fn claim_forbidden(
        &mut self,
        room: usize,
        is_forbidden: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        let due = self.due_rows()?;
        let named = due.iter().flat_map(|row| &row.secrets);
        let forbidden: Vec<String> = named.filter(|name| is_forbidden(name)).cloned().collect();
        let labels = self.profile.labels.clone();
        self.claim_where(room, move |row| {
            row.labels.iter().all(|label| labels.contains(label))
                && row.secrets.iter().any(|secret| forbidden.contains(secret))
        })
    }

    fn due_rows(&self) -> Result<Vec<SubmissionRow>, StoreError> {
        let rows = due_rows(&self.reader.rows.conn);
        rows.map_err(|e| self.reader.rows.error("read", e))
    }

    fn claim_where(
        &mut self,
        room: usize,
        accepts: impl Fn(&SubmissionRow) -> bool + Send + 'static,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        if !self.due_rows()?.iter().any(&accepts) {
            return Ok(Vec::new());
        }
        let claimed = self.database.change(ChangeTerms::default(), move |conn| {
            let mut taken = due_rows(conn)?;
            taken.retain(&accepts);
            taken.truncate(room);
            let mut claimed = Vec::new();
            for row in taken {
                let sql = "UPDATE submission SET is_taken = 1, taken_ms = ?2 WHERE run = ?1";
                conn.execute(sql, [row.run, now_ms()])?;
                let sql = "SELECT name FROM run WHERE id = ?1";
                let name = conn.query_row(sql, [row.run], |row| row.get::<_, String>(0));
                claimed.extend(name.optional()?.map(|name| (row, name)));
            }
            Ok(claimed)
        })?;
        let claimed = claimed.unwrap_or_default();
        self.held.extend(claimed.iter().map(|(row, _)| row.run));
        for (row, _) in &claimed {
            self.database.note_changed(row.run);
        }
        let to_claim = |(row, name): (SubmissionRow, String)| ClaimedRun {
            key: row.run,
            name,
            epoch: 0,
            is_requested: row.is_requested,
            needed_bytes: row.needed_bytes.unsigned_abs(),
            owner: Arc::clone(&self.id),
            lease_status: LeaseStatus::permanent(),
            scope: row.scope.as_deref().map(CapScope::from_stored),
            caps: Arc::clone(&self.caps),
        };
        Ok(claimed.into_iter().map(to_claim).collect())
    }

    /// Makes runs available whose time has come. Fails with `StoreError::WriteFailed` if nothing can be written any more.
    pub(crate) fn tend(&mut self) -> Result<Tended, StoreError> {
        self.database.check_writable()?;
        let conn = &self.reader.rows.conn;
        let exists = |sql: &str, now: i64| -> rusqlite::Result<bool> {
            conn.prepare_cached(sql)?.query_row([now], |row| row.get(0))
        };
        let has_due = "SELECT EXISTS (SELECT 1 FROM submission WHERE schedule = 2 AND is_taken = 0 AND wake_ms <= ?1)";
        let has_ready = "SELECT EXISTS (SELECT 1 FROM submission WHERE schedule = 1 AND is_taken = 0 AND ?1 > 0)";
        let failed = |e| self.reader.rows.error("read", e);
        let is_due = exists(has_due, now_ms()).map_err(failed)?;
        let is_ready = exists(has_ready, now_ms()).map_err(failed)?;
        let generations = generations(conn).map_err(failed)?;
        self.caps.note_heartbeat(self.caps.report(), &generations);
        if is_due {
            self.database.change(ChangeTerms::default(), |conn| {
                let sql = "UPDATE submission SET schedule = 1, scheduled_ms = ?1 \
                           WHERE schedule = 2 AND is_taken = 0 AND wake_ms <= ?1";
                conn.execute(sql, [now_ms()])
            })?;
        }
        Ok(Tended {
            dead: 0,
            may_claim: is_due || is_ready,
            is_draining: self.database.is_draining(),
        })
    }

    /// Deletes some runs that have ended and are kept no longer, now and then. Returns how many.
    pub(crate) fn sweep(&mut self) -> Result<u64, StoreError> {
        if self.next_sweep.is_some_and(|next| stopwatch() < next) {
            return Ok(0);
        }
        let swept = sweep(&self.database, &self.reader);
        let has_more = swept.as_ref().is_ok_and(|swept| swept.has_more);
        self.next_sweep = (!has_more).then(|| stopwatch() + SWEEP_INTERVAL);
        Ok(swept?.runs)
    }

    pub(crate) fn stop_claiming(&mut self) {
        self.database.set_claiming(None);
    }

    /// Gives up a run that was taken.
    pub(crate) fn release(
        &mut self,
        run: &ClaimedRun,
        release: &RunRelease,
    ) -> Result<(), StoreError> {
        self.held.remove(&run.key);
        let (key, release) = (run.key, release.clone());
        self.database.change(ChangeTerms::durable(), move |conn| {
            if let Some(failure) = &release.failure {
                return release_after_failure(conn, key, failure);
            }
            let columns = release.schedule.map(schedule_columns);
            let sql = "UPDATE submission SET is_taken = 0, failures = 0, failed_step = NULL, needed_bytes = 0, \
                           schedule = CASE WHEN schedule = 0 THEN 0 ELSE coalesce(?2, schedule) END, \
                           wake_ms = CASE WHEN ?2 IS NULL THEN wake_ms ELSE ?3 END, \
                           problem = coalesce(?4, problem), is_requested = is_requested AND ?5 WHERE run = ?1";
            let params = params![
                key,
                columns.map(|columns| columns.0),
                columns.and_then(|columns| columns.1),
                release.problem,
                release.keeps_request
            ];
            conn.execute(sql, params).map(drop)
        })?;
        self.database.note_changed(run.key);
        Ok(())
    }
}

/// Returns the worker of a database, if it is this process.
pub(crate) fn list_workers(url: &SqliteUrl) -> Vec<ListedWorker> {
    let claiming = SharedDatabase::claiming(&url.file);
    let worker = claiming.map(|(profile, is_draining)| ListedWorker {
        id: std::process::id().to_string(),
        profile,
        version: env!("CARGO_PKG_VERSION").into(),
        runs: SharedDatabase::count_leases(&url.file) as u64,
        beat_age_ms: 0,
        is_draining,
    });
    worker.into_iter().collect()
}

/// Returns the runs that are due, those first that have been due for longest.
fn due_rows(conn: &Connection) -> rusqlite::Result<Vec<SubmissionRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM submission s WHERE s.schedule = 1 AND s.is_taken = 0 ORDER BY s.scheduled_ms, s.run"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map([], SubmissionRow::from_row)?;
    rows.collect()
}

/// Makes the runs available that a process had when it was killed. One that killed its process twice at the same step
/// is only taken after a pause.
fn free_taken_runs(conn: &Connection) -> rusqlite::Result<()> {
    let mut statement = conn.prepare("SELECT run FROM submission WHERE is_taken = 1")?;
    let rows = statement.query_map([], |row| row.get::<_, i64>(0))?;
    let taken: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    for run in taken {
        let what = "the process that ran it died";
        count_failure(conn, run, what, 1)?;
    }
    Ok(())
}

fn release_after_failure(
    conn: &Connection,
    run: i64,
    failure: &RunFailure,
) -> rusqlite::Result<()> {
    let sql = "UPDATE submission SET needed_bytes = ?2 WHERE run = ?1";
    let needed = i64::try_from(failure.needed_bytes).unwrap_or(i64::MAX);
    conn.execute(sql, [run, needed])?;
    count_failure(conn, run, &failure.what, 0)
}

/// Counts a failure of a run, and says when it is taken again. The first `free` failures in a row have no pause.
fn count_failure(conn: &Connection, run: i64, what: &str, free: i64) -> rusqlite::Result<()> {
    let sql = "SELECT failures, failed_step, step, schedule FROM submission WHERE run = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        let failed: Option<i64> = row.get(1)?;
        Ok((row.get::<_, i64>(0)?, failed, row.get(2)?, row.get(3)?))
    };
    let found: Option<(i64, Option<i64>, i64, i64)> =
        conn.query_row(sql, [run], read).optional()?;
    let Some((before, failed_step, step, schedule)) = found else {
        return Ok(());
    };
    let failures = if failed_step == Some(step) {
        before + 1
    } else {
        1
    };
    let (schedule, pause_ms) = next_attempt(schedule, failures, free);
    let problem = (schedule == ON_REQUEST && failures >= MAX_FAILURES)
        .then(|| format!("{what} (this was tried {MAX_FAILURES} times in a row)"));
    let sql = "UPDATE submission SET is_taken = 0, failures = ?2, failed_step = ?3, schedule = ?4, \
                   wake_ms = coalesce(?5, wake_ms), problem = coalesce(?6, problem) WHERE run = ?1";
    let wake_ms = pause_ms.map(|pause| now_ms().saturating_add(pause));
    conn.execute(
        sql,
        params![run, failures, step, schedule, wake_ms, problem],
    )
    .map(drop)
}

/// Returns the value of `schedule` after so many failures in a row, and the pause in milliseconds.
fn next_attempt(schedule: i64, failures: i64, free: i64) -> (i64, Option<i64>) {
    match schedule {
        NOW if failures >= MAX_FAILURES => (ON_REQUEST, None),
        NOW if failures > free => {
            let doubled = u32::try_from(failures - free - 1).unwrap_or(0).min(20);
            let pause = FIRST_PAUSE_MS.saturating_mul(1 << doubled);
            (LATER, Some(pause.min(MAX_PAUSE_MS)))
        }
        NEVER | NOW | LATER | ON_REQUEST => (schedule, None),
        _ => (ON_REQUEST, None),
    }
}

/// Returns a lease of a run that the worker of this process took. Somebody in this process who changes it is waited for.
pub(crate) fn open_claimed(url: &SqliteUrl, run: &ClaimedRun) -> Result<SharedLease, StoreError> {
    let database = SharedDatabase::open(&url.file, MissingDatabase::Fail)?;
    let start = stopwatch();
    loop {
        match QueuedWriter::take_claimed(database.clone(), run, &url.to_path()) {
            Err(StoreError::Locked { .. }) if start.elapsed() < OPEN_TIME => {
                std::thread::sleep(OPEN_INTERVAL);
            }
            taken => return taken,
        }
    }
}

/// Fails unless the database takes a write of this size for a run. Nothing is kept of it.
pub(crate) fn try_write(url: &SqliteUrl, bytes: u64) -> Result<(), StoreError> {
    /// Larger changes are written in pieces.
    const MAX_BYTES: u64 = 64 << 20;
    let database = SharedDatabase::open(&url.file, MissingDatabase::Fail)?;
    let body = vec![0_u8; usize::try_from(bytes.min(MAX_BYTES)).unwrap_or(0)];
    let tried = database.change(ChangeTerms::default(), move |conn| {
        let sql = "INSERT OR REPLACE INTO blob VALUES (0, '', ?1)";
        conn.execute(sql, [&body])?;
        conn.execute("DELETE FROM blob WHERE run = 0", []).map(drop)
    });
    tried.map(drop).map_err(|error| error.needing(bytes))
}

/// Notes that a request to take up a run was met: what was stored about how to resume it has been done.
pub(crate) fn acknowledge_request(url: &SqliteUrl, run: &ClaimedRun) -> Result<(), StoreError> {
    let database = SharedDatabase::open(&url.file, MissingDatabase::Fail)?;
    let key = run.key;
    database.change(ChangeTerms::default(), move |conn| {
        let sql = "UPDATE submission SET is_requested = 0 WHERE run = ?1";
        conn.execute(sql, [key])?;
        let sql = "DELETE FROM note WHERE run = ?1 AND name = ?2";
        conn.execute(sql, params![key, RESUME_NOTE]).map(drop)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_fails_again_and_again_is_taken_later_each_time_and_refused_at_last() {
        let check = |failures, free, expected| {
            assert_eq!(next_attempt(NOW, failures, free), expected, "{failures}");
        };
        check(1, 0, (LATER, Some(5_000)));
        check(2, 0, (LATER, Some(10_000)));
        check(9, 0, (LATER, Some(600_000)));
        check(10, 0, (ON_REQUEST, None));
        check(1, 1, (NOW, None));
        check(2, 1, (LATER, Some(5_000)));
        assert_eq!(next_attempt(NEVER, 3, 0), (NEVER, None));
        assert_eq!(next_attempt(ON_REQUEST, 3, 0), (ON_REQUEST, None));
    }
}
