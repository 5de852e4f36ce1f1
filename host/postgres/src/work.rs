//! Runs that workers take: submitting, claiming and releasing them.
//!
//! `watch` takes runs from workers that are dead.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_base::files::blob::Blobs;
use strata_base::random_id::random_name;
use strata_core::record::id::Digest;
use strata_records::caps::{CapAccounts, CapScope};
use strata_records::error::StoreError;
use strata_records::work::{
    ClaimedRun, KeptSubmission, NewSubmission, RegistrationHealth, RunFailure, RunNeeds,
    RunRelease, Shortage, SubmissionState, Tended, WorkerProfile,
};
use strata_records::{DatabaseSettings, LEASE_TIME};
use tokio::sync::Notify;
use tokio_postgres::types::Type;

use super::administer::read_settings;
use super::connection::Connection;
use super::database::Database;
use super::failures::{MAX_FAILURES, counting_failure};
use super::heartbeat::OwnerHeartbeat;
use super::new_run::NewPostgresRun;
use super::notifications::{Subject, Subscription, notify_workers};
use super::owner::{Ownership, ProcessIdentity, unregister};
use super::run_name::find_run;
use super::schedule::{NOW, parse_schedule, schedule_columns};
use super::schema::{RECORD_FORMAT, migrate};
use super::server_writer::{PostgresLease, ServerWriter};
use super::sweep::sweep;
use super::watch::ProcessWatch;
use super::workers::registered_workers;

/// How often a worker compares which runs it owns with those that it holds.
const COMPARE_INTERVAL: Duration = Duration::from_secs(30);
/// How often a worker looks for runs that are kept no longer.
const SWEEP_INTERVAL: Duration = Duration::from_secs(20);

/// Puts a run into a database for a worker to take.
pub fn submit(database: &Database, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
    let connection = database.connect()?;
    migrate(&connection)?;
    insert_missing_files(&connection, submission.contents)?;
    let taken = || StoreError::NameTaken {
        path: connection.path().into(),
        name: submission.name.into(),
    };
    let new = NewPostgresRun {
        name: submission.name,
        base: submission.base,
        definition: submission.definition,
        blobs: submission.blobs,
        team: submission.team,
        submission: Some(submission),
    };
    match new.insert(&connection) {
        Ok(_) => {}
        Err(error) if error.is_name_taken => return Err(taken()),
        Err(error) => return Err(error.meaning),
    }
    notify_workers(&connection)
}

/// Stores the bytes of files that are not stored yet.
pub(super) fn insert_missing_files(
    connection: &Connection,
    contents: &Blobs,
) -> Result<(), StoreError> {
    let digests: Vec<&str> = contents.keys().map(|digest| digest.0.as_str()).collect();
    let sql = "SELECT digest FROM strata.file WHERE digest = ANY($1)";
    let rows = connection.query(sql, &[(&digests, Type::TEXT_ARRAY)])?;
    let known: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    for (digest, body) in contents {
        if known.contains(&digest.0) {
            continue;
        }
        let sql = "INSERT INTO strata.file (digest, body) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let body: &[u8] = body;
        connection.execute(sql, &[(&digest.0, Type::TEXT), (&body, Type::BYTEA)])?;
    }
    Ok(())
}

/// What is known of a submitted run besides its records, read over one connection.
pub struct RunSubmission {
    connection: Connection,
    run: i64,
}

impl RunSubmission {
    /// Opens that of a run. Fails if there is no such run.
    pub fn open(database: &Database) -> Result<Self, StoreError> {
        let connection = database.connect()?;
        let run = find_run(&connection)?;
        Ok(Self { connection, run })
    }
}

impl KeptSubmission for RunSubmission {
    fn files(&self) -> Result<BTreeMap<String, Digest>, StoreError> {
        let sql = "SELECT path, digest FROM strata.run_file WHERE run = $1";
        let rows = self.connection.query(sql, &[(&self.run, Type::INT8)])?;
        let entries = rows.iter().map(|row| (row.get(0), Digest(row.get(1))));
        Ok(entries.collect())
    }

    fn bytes(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let sql = "SELECT body FROM strata.file WHERE digest = $1";
        let arguments = [(&digest.0 as _, Type::TEXT)];
        let row = self.connection.query_optional(sql, &arguments)?;
        let bytes: Option<Vec<u8>> = row.map(|row| row.get(0));
        match bytes.filter(|bytes| strata_base::files::blob::digest_of(bytes) == *digest) {
            Some(bytes) => Ok(bytes),
            None => Err(StoreError::corrupt(
                self.connection.path(),
                format!("the submitted file `{digest}` is missing or has changed"),
            )),
        }
    }

    /// Returns the state, also after the connection was broken.
    fn state(&self) -> Result<SubmissionState, StoreError> {
        let sql = "SELECT schedule, (extract(epoch FROM wake_at) * 1000)::bigint, owner IS NOT NULL, problem, labels, \
                       secrets, format FROM strata.run WHERE id = $1";
        let arguments = [(&self.run as _, Type::INT8)];
        let (row, workers) = self.connection.repeat_if_broken(|connection| {
            let row = connection.query_optional(sql, &arguments)?;
            Ok((row, registered_workers(connection)?))
        })?;
        let row =
            row.ok_or_else(|| StoreError::corrupt(self.connection.path(), "the run was removed"))?;
        let needs = RunNeeds {
            labels: row.get(4),
            secrets: row.get(5),
        };
        let format: i64 = row.get(6);
        Ok(SubmissionState {
            schedule: parse_schedule(row.get(0), || row.get(1)),
            is_owned: row.get(2),
            problem: row.get(3),
            shortage: if format > RECORD_FORMAT {
                Some(Shortage::Format(format))
            } else {
                Shortage::find(&needs, &workers)
            },
            needs,
        })
    }
}

/// Asks workers to take up a run. Does nothing to one that workers do not take.
pub fn request_work(database: &Database) -> Result<(), StoreError> {
    let connection = database.connect()?;
    let run = find_run(&connection)?;
    let sql = "UPDATE strata.run SET schedule = $2, is_requested = true, problem = NULL, failures = 0, failed_step = NULL, \
                   scheduled_at = clock_timestamp() WHERE id = $1 AND schedule <> 0";
    if connection.execute(sql, &[(&run, Type::INT8), (&NOW, Type::INT2)])? > 0 {
        notify_workers(&connection)?;
    }
    Ok(())
}

/// Notes that a request to take up a run was met.
pub fn acknowledge_request(database: &Database, run: &ClaimedRun) -> Result<(), StoreError> {
    let connection = database.connect()?;
    // What was stored about how to resume it has been done.
    let sql = "WITH met AS (UPDATE strata.run SET is_requested = false WHERE id = $1 AND epoch = $2 RETURNING id) \
               DELETE FROM strata.note WHERE run IN (SELECT id FROM met) AND name = 'resume'";
    connection.execute(sql, &[(&run.key, Type::INT8), (&run.epoch, Type::INT8)])?;
    Ok(())
}

/// Returns a lease of a run that a worker of this process took.
pub fn open_claimed(database: &Database, run: &ClaimedRun) -> Result<PostgresLease, StoreError> {
    let connection = database.connect()?;
    ServerWriter::lease(database, connection, run.key, Ownership::claimed(run))
}

/// A worker's row, and how it looks for runs.
pub struct DatabaseWorker {
    connection: Connection,
    id: Arc<str>,
    profile: WorkerProfile,
    settings: DatabaseSettings,
    heartbeat: OwnerHeartbeat,
    _notified: Subscription,
    watch: ProcessWatch,
    /// The keys of the runs that it took and has not given up, with the epochs in which it took them last.
    held: BTreeMap<i64, i64>,
    /// Whether it may own other runs, because an answer did not arrive or a release failed.
    may_hold_more: bool,
    /// When it last gave up the runs that it owns and does not hold.
    compared: Instant,
    /// When it looks again for runs that are kept no longer; `None` for at once.
    next_sweep: Option<Instant>,
}

impl Drop for DatabaseWorker {
    fn drop(&mut self) {
        self.heartbeat.end();
        // Runs that were not given up become available once their owner is missing.
        let _ = unregister(&self.connection, &self.id);
    }
}

impl DatabaseWorker {
    /// Registers this process as a worker, with a heartbeat. `notified` fires when runs may have become due.
    pub fn open(
        database: &Database,
        profile: &WorkerProfile,
        notified: &Arc<Notify>,
    ) -> Result<Self, StoreError> {
        let connection = database.connect()?;
        migrate(&connection)?;
        let id = random_name();
        let room = i64::try_from(profile.room).unwrap_or(i64::MAX);
        ProcessIdentity::current().register(&connection, &id)?;
        let sql = "UPDATE strata.worker SET claims = true, host = $2, version = $3, labels = $4, secrets = $5, room = $6 \
                   WHERE id = $1";
        let arguments = [
            (&id as _, Type::TEXT),
            (&profile.host as _, Type::TEXT),
            (&env!("CARGO_PKG_VERSION") as _, Type::TEXT),
            (&profile.labels as _, Type::TEXT_ARRAY),
            (&profile.secrets as _, Type::TEXT_ARRAY),
            (&room as _, Type::INT8),
        ];
        connection.execute(sql, &arguments)?;
        Ok(Self {
            settings: read_settings(&connection)?,
            heartbeat: OwnerHeartbeat::begin(database.heartbeats()?, &id),
            _notified: Subscription::begin(
                database.listener()?,
                Subject::Work,
                Arc::clone(notified),
            ),
            connection,
            id: id.into(),
            profile: profile.clone(),
            watch: ProcessWatch::default(),
            held: BTreeMap::new(),
            may_hold_more: false,
            compared: Instant::now(),
            next_sweep: None,
        })
    }

    /// Returns what was set for the database when this worker began.
    pub fn settings(&self) -> &DatabaseSettings {
        &self.settings
    }

    /// Returns what this process may spend of the caps in the database.
    pub fn caps(&self) -> Arc<CapAccounts> {
        self.heartbeat.caps()
    }

    /// Returns the id under which others see it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a view of how well the database is reached, which goes on while this lasts.
    pub fn health(&self) -> RegistrationHealth {
        self.heartbeat.health()
    }

    /// Returns whether others took this worker for dead and gave its runs away.
    pub fn is_lost(&self) -> bool {
        self.heartbeat.is_refused()
    }

    /// Takes at most `room` runs that are due, for which the worker has the labels and the secrets.
    pub fn claim(&mut self, room: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        let own = self.profile.secrets.clone();
        self.claim_where("secrets <@ $3", &own, room)
    }

    /// Takes at most `room` runs that name a secret for which `is_forbidden` returns true, that nobody has taken yet, and
    /// that no worker was there to take for the time of a lease.
    pub fn claim_forbidden(
        &mut self,
        room: usize,
        is_forbidden: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        let unserved = format!(
            "epoch = 0 AND clock_timestamp() - scheduled_at > make_interval(secs => {seconds}) \
             AND NOT EXISTS (SELECT FROM strata.worker w WHERE w.labels @> r.labels AND w.secrets @> r.secrets \
                             AND clock_timestamp() - w.beat_at < make_interval(secs => {seconds}))",
            seconds = LEASE_TIME.as_secs_f64()
        );
        let sql = format!(
            "SELECT DISTINCT s FROM strata.run r, unnest(r.secrets) s \
             WHERE schedule = 1 AND owner IS NULL AND labels <@ $1 AND NOT secrets <@ $2 AND {unserved}"
        );
        let arguments = [
            (&self.profile.labels as _, Type::TEXT_ARRAY),
            (&self.profile.secrets as _, Type::TEXT_ARRAY),
        ];
        let rows = self
            .connection
            .repeat_if_broken(|connection| connection.query(&sql, &arguments))?;
        let named = rows.iter().map(|row| row.get(0));
        let forbidden: Vec<String> = named.filter(|name: &String| is_forbidden(name)).collect();
        if forbidden.is_empty() {
            Ok(Vec::new())
        } else {
            self.claim_where(&format!("secrets && $3 AND {unserved}"), &forbidden, room)
        }
    }

    /// Takes runs that are due, for which the worker has the labels, and that fulfil a condition about the
    /// run `r` and these secrets, `$3`.
    fn claim_where(
        &mut self,
        condition: &str,
        secrets: &[String],
        room: usize,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        let sql = format!(
            "UPDATE strata.run r SET owner = $1, owned_at = clock_timestamp(), epoch = r.epoch + 1, format = $5 \
                   FROM (SELECT id, is_requested FROM strata.run r \
                         WHERE schedule = 1 AND owner IS NULL AND labels <@ $2 AND format <= $5 AND {condition} \
                         ORDER BY scheduled_at LIMIT $4 FOR UPDATE SKIP LOCKED) due \
                   WHERE r.id = due.id AND EXISTS (SELECT FROM strata.worker WHERE id = $1) \
                   RETURNING r.id, r.name, r.epoch, due.is_requested, r.scope, r.needed_bytes"
        );
        let id: &str = &self.id;
        let room = i64::try_from(room).unwrap_or(i64::MAX);
        let arguments = [
            (&id as _, Type::TEXT),
            (&self.profile.labels as _, Type::TEXT_ARRAY),
            (&secrets as _, Type::TEXT_ARRAY),
            (&room as _, Type::INT8),
            (&RECORD_FORMAT as _, Type::INT8),
        ];
        let attempts = Cell::new(0);
        let claimed = self.connection.repeat_if_broken(|connection| {
            attempts.set(attempts.get() + 1);
            connection.query(&sql, &arguments)
        });
        self.may_hold_more |= claimed.is_err() || attempts.get() > 1;
        let rows = claimed?;
        let claimed = rows.iter().map(|row| ClaimedRun {
            key: row.get(0),
            name: row.get(1),
            epoch: row.get(2),
            is_requested: row.get(3),
            scope: row.get::<_, Option<&str>>(4).map(CapScope::from_stored),
            needed_bytes: row.get::<_, i64>(5).unsigned_abs(),
            owner: Arc::clone(&self.id),
            lease_status: self.heartbeat.lease_status(self.connection.path()),
            caps: self.heartbeat.caps(),
        });
        let claimed: Vec<ClaimedRun> = claimed.collect();
        self.held
            .extend(claimed.iter().map(|run| (run.key, run.epoch)));
        Ok(claimed)
    }

    /// Takes runs like a claim whose connection breaks before the answer arrives.
    #[cfg(any(test, feature = "test-support"))]
    pub fn claim_without_answer(&mut self) -> Result<(), StoreError> {
        for run in self.claim(usize::MAX)? {
            self.held.remove(&run.key);
        }
        self.may_hold_more = true;
        Ok(())
    }

    /// Makes runs of dead processes and runs whose time has come available.
    pub fn tend(&mut self) -> Result<Tended, StoreError> {
        // A database that went back to an earlier state has lost that runs were given up.
        if self.may_hold_more || self.compared.elapsed() >= COMPARE_INTERVAL {
            let sql = "UPDATE strata.run SET owner = NULL, epoch = epoch + 1 \
                       WHERE owner = $1 AND id <> ALL($2)";
            let id: &str = &self.id;
            let held: Vec<i64> = self.held.keys().copied().collect();
            let arguments = [(&id as _, Type::TEXT), (&held as _, Type::INT8_ARRAY)];
            self.connection
                .repeat_if_broken(|connection| connection.execute(sql, &arguments))?;
            self.may_hold_more = false;
            self.compared = Instant::now();
        }
        self.watch.tend(&self.connection, &self.id)
    }

    /// Deletes runs for a moment that have ended and are kept no longer, now and then. Returns how many.
    pub fn sweep(&mut self) -> Result<u64, StoreError> {
        if self.next_sweep.is_some_and(|next| Instant::now() < next) {
            return Ok(0);
        }
        let swept = sweep(&self.connection);
        let has_more = swept.as_ref().is_ok_and(|swept| swept.has_more);
        self.next_sweep = (!has_more).then(|| Instant::now() + SWEEP_INTERVAL);
        Ok(swept?.runs)
    }

    /// Says that this worker takes no more runs, so that nobody waits for it.
    pub fn stop_claiming(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE strata.worker SET claims = false WHERE id = $1";
        let id: &str = &self.id;
        self.connection
            .repeat_if_broken(|connection| connection.execute(sql, &[(&id, Type::TEXT)]))?;
        Ok(())
    }

    /// Gives up a run that was taken, unless it was taken over.
    pub fn release(&mut self, run: &ClaimedRun, release: &RunRelease) -> Result<(), StoreError> {
        // If this fails, `tend` makes the run available. It may have been taken again.
        if self.held.get(&run.key) == Some(&run.epoch) {
            self.held.remove(&run.key);
        }
        let columns = release.schedule.map(schedule_columns);
        let (value, pause_ms) = (
            columns.map(|columns| columns.0),
            columns.and_then(|columns| columns.1),
        );
        if let Some(failure) = &release.failure {
            return self.release_after_failure(run, failure);
        }
        let sql = "UPDATE strata.run SET owner = NULL, failures = 0, failed_step = NULL, needed_bytes = 0, \
                       schedule = coalesce($3, schedule), \
                       wake_at = CASE WHEN $3 IS NULL THEN wake_at ELSE clock_timestamp() + $4::bigint * interval '1 millisecond' END, \
                       problem = coalesce($5, problem), is_requested = is_requested AND $7 \
                   WHERE id = $1 AND epoch = $2 AND owner = $6";
        let owner: &str = &run.owner;
        // A text of the server cannot contain this character, which a submitted team may have.
        let problem = release.problem.as_ref();
        let problem = problem.map(|text| text.replace('\0', "\u{fffd}"));
        let arguments = [
            (&run.key as _, Type::INT8),
            (&run.epoch as _, Type::INT8),
            (&value as _, Type::INT2),
            (&pause_ms as _, Type::INT8),
            (&problem as _, Type::TEXT),
            (&owner as _, Type::TEXT),
            (&release.keeps_request as _, Type::BOOL),
        ];
        let released = self
            .connection
            .repeat_if_broken(|connection| connection.execute(sql, &arguments));
        self.may_hold_more |= released.is_err();
        released.map(drop)
    }

    /// Gives up a run that failed because of its storage.
    fn release_after_failure(
        &mut self,
        run: &ClaimedRun,
        failure: &RunFailure,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "UPDATE strata.run r SET owner = NULL, needed_bytes = $4, {} \
             FROM strata.overview o WHERE o.run = r.id AND r.id = $1 AND r.epoch = $2 AND r.owner = $3",
            counting_failure(
                0,
                &format!("$5 || ' (this was tried {MAX_FAILURES} times in a row)'")
            )
        );
        let owner: &str = &run.owner;
        let needed = i64::try_from(failure.needed_bytes).unwrap_or(i64::MAX);
        let what = failure.what.replace('\0', "\u{fffd}");
        let arguments = [
            (&run.key as _, Type::INT8),
            (&run.epoch as _, Type::INT8),
            (&owner as _, Type::TEXT),
            (&needed as _, Type::INT8),
            (&what as _, Type::TEXT),
        ];
        let released = self
            .connection
            .repeat_if_broken(|connection| connection.execute(&sql, &arguments));
        self.may_hold_more |= released.is_err();
        released.map(drop)
    }
}
