//! What workers do all the time, at scale: the statements of many workers and many runs against a real
//! server, without guests. Workers are registered, watch each other, and claim, load and release runs, as the
//! program does it, and runs that rest are woken as an answer wakes them. Meanwhile old runs are deleted, if there are
//! any. Prints what the server counted.
//!
//! Ignored by default: `cargo test --workspace --test all -- --ignored --nocapture scale::`. How much there is,
//! is set by the variables of `Scale`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use strata_core::state::environment::Environment;
use strata_host::blob::Blobs;
use strata_host::manifest::Definition;
use strata_host::storage::{
    ClaimedRun, Handover, NewSubmission, Retention, RunDatabase, RunNeeds, RunRelease, RunSchedule,
    SavedDefinition, SubmissionIdentity, WorkerProfile, WorkerRegistration,
};
use tokio::sync::Notify;

use crate::database_server::Server;
use crate::live::GREETER;
use crate::postgres_server::{ServerOptions, query};

/// How many runs a worker has at a time.
const ROOM: usize = 8;
/// For how many rounds a run works before it rests again.
const WORK_ROUNDS: u32 = 5;
/// How often a worker looks for runs.
const ROUND: Duration = Duration::from_secs(1);
/// The interval of the heartbeats of workers, which no lock may delay.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How many threads carry out what the workers do.
const THREADS: usize = 16;

/// How much there is.
struct Scale {
    /// `STRATA_SCALE_RUNS`.
    runs: u64,
    /// `STRATA_SCALE_WORKERS`.
    workers: usize,
    /// For how many seconds: `STRATA_SCALE_SECONDS`.
    seconds: u64,
    /// How many resting runs are woken in each second: `STRATA_SCALE_WAKES`.
    wakes: u64,
    /// Whether every second run has ended long ago.
    has_old_runs: bool,
}

impl Scale {
    fn from_environment() -> Self {
        let number = |name: &str, default: u64| {
            let value = std::env::var(name).ok();
            value.map_or(default, |value| value.parse().expect("a number"))
        };
        Self {
            runs: number("STRATA_SCALE_RUNS", 10_000),
            workers: number("STRATA_SCALE_WORKERS", 100) as usize,
            seconds: number("STRATA_SCALE_SECONDS", 30),
            wakes: number("STRATA_SCALE_WAKES", 100),
            has_old_runs: false,
        }
    }
}

/// What all workers have done so far.
#[derive(Default)]
struct Tally {
    claimed: AtomicU64,
    rested: AtomicU64,
    woken: AtomicU64,
    deleted: AtomicU64,
    rounds: AtomicU64,
    /// Rounds that began later than they should have.
    late: AtomicU64,
    /// The names of the runs that a worker has.
    held: Mutex<BTreeSet<String>>,
}

/// A worker, and the runs that it has with the number of rounds for which they still work.
struct SimulatedWorker {
    registration: WorkerRegistration,
    runs: VecDeque<(ClaimedRun, u32)>,
}

impl SimulatedWorker {
    /// Does what a worker does in each round.
    fn work_a_round(&mut self, database: &RunDatabase, tally: &Tally) {
        assert!(!self.registration.is_lost(), "a worker was taken for dead");
        let tended = self.registration.tend().unwrap();
        let deleted = self.registration.sweep().unwrap();
        tally.deleted.fetch_add(deleted, Ordering::Relaxed);
        for (_, rounds) in &mut self.runs {
            *rounds -= 1;
        }
        while let Some((run, _)) = self.runs.pop_front_if(|(_, rounds)| *rounds == 0) {
            let mut lease = database.open_claimed(&run).unwrap();
            lease.set_schedule(RunSchedule::Later(None)).unwrap();
            drop(lease);
            tally.held.lock().unwrap().remove(&run.name);
            let release = RunRelease {
                schedule: None,
                problem: None,
                keeps_request: true,
                failure: None,
            };
            self.registration.release(&run, &release).unwrap();
            tally.rested.fetch_add(1, Ordering::Relaxed);
        }
        let room = ROOM - self.runs.len();
        let claimed = if tended.may_claim && room > 0 {
            self.registration.claim(room).unwrap()
        } else {
            Vec::new()
        };
        for run in claimed {
            assert!(
                tally.held.lock().unwrap().insert(run.name.clone()),
                "`{}` has two owners",
                run.name
            );
            database.acknowledge_request(&run).unwrap();
            self.runs.push_back((run, WORK_ROUNDS));
            tally.claimed.fetch_add(1, Ordering::Relaxed);
        }
        tally.rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Submits a run, of which the others are copies.
fn submit_template(database: &RunDatabase) {
    let definition =
        Definition::parse_without_files(GREETER, "team.toml", Path::new("/bundle/team"));
    let mut base = Environment::new(&definition.unwrap().team);
    base.idea = "hello".into();
    let submitted = database.submit(&NewSubmission {
        name: "run-0",
        team: "greeter",
        base: &base,
        definition: &SavedDefinition {
            name: "team.toml".into(),
            base: "/bundle/team".into(),
            text: GREETER.into(),
            components: Vec::new(),
        },
        blobs: &Blobs::new(),
        files: &BTreeMap::new(),
        contents: &Blobs::new(),
        scope: None,
        identity: SubmissionIdentity::unserved(),
        resume_note: None,
        records: &[],
        needs: &RunNeeds::default(),
        tags: &BTreeMap::new(),
        handover: Handover::Queued,
    });
    submitted.unwrap();
}

/// Copies the rows of the submitted run. All but one of fifty runs wait for a person.
fn multiply(url: &str, runs: u64) {
    for sql in [
        format!(
            "INSERT INTO strata.run (name, epoch, lineage, line, format, schedule) \
             SELECT 'run-' || n, epoch, lineage, line, format, CASE WHEN n % 50 = 0 THEN 1 ELSE 2 END \
             FROM strata.run, generate_series(1, {}) n",
            runs - 1
        ),
        "INSERT INTO strata.lineage (run, id, number, name, origin, leaves_at, events, last, forgotten, spent, since, sum) \
         SELECT r.id, l.id, number, l.name, origin, leaves_at, events, last, forgotten, spent, since, sum \
         FROM strata.run r, strata.lineage l WHERE r.name <> 'run-0'"
            .into(),
        "INSERT INTO strata.snapshot (run, n, bundles_sum, bundles, sum, body) \
         SELECT r.id, n, bundles_sum, bundles, sum, body FROM strata.run r, strata.snapshot s WHERE r.name <> 'run-0'"
            .into(),
        "INSERT INTO strata.definition (run, name, base, text, components, sum) \
         SELECT r.id, d.name, base, text, components, sum FROM strata.run r, strata.definition d WHERE r.name <> 'run-0'"
            .into(),
        "INSERT INTO strata.overview (run, status) SELECT id, 'running' FROM strata.run WHERE name <> 'run-0'".into(),
        "VACUUM ANALYZE".into(),
        "CREATE EXTENSION pg_stat_statements".into(),
    ] {
        query(url, &sql);
    }
}

/// Lets every second run have ended an hour ago. Two of a hundred of these must stay: one waits for a person, and somebody
/// has asked for the other one.
fn end_every_second(url: &str) {
    let old = "SELECT id FROM strata.run WHERE substr(name, 5)::bigint % 2 = 1";
    for sql in [
        format!(
            "UPDATE strata.run SET schedule = 3, is_requested = substr(name, 5)::bigint % 100 = 53 WHERE id IN ({old})"
        ),
        format!(
            "UPDATE strata.overview o SET status = 'done', \
                 ended_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 3600000, \
                 requests = (SELECT (substr(name, 5)::bigint % 100 = 51)::int FROM strata.run WHERE id = o.run) \
             WHERE run IN ({old})"
        ),
        "VACUUM ANALYZE".into(),
    ] {
        query(url, &sql);
    }
}

/// Wakes resting runs, as an answer does, until it is told to stop.
fn wake(database: &RunDatabase, scale: &Scale, tally: &Tally, is_over: &AtomicBool) {
    let begun = Instant::now();
    let mut number: u64 = 1;
    while !is_over.load(Ordering::Relaxed) {
        let due = begun.elapsed().as_millis() as u64 * scale.wakes / 1000;
        if tally.woken.load(Ordering::Relaxed) >= due {
            thread::sleep(Duration::from_millis(2));
            continue;
        }
        // Distributes them over all runs.
        number = u64::wrapping_mul(number, 6_364_136_223_846_793_005).wrapping_add(1);
        let mut run = (number >> 16) % scale.runs;
        if scale.has_old_runs {
            // The others are deleted.
            run -= run % 2;
        }
        let run = database.location(&format!("run-{run}"));
        run.request_work().unwrap();
        tally.woken.fetch_add(1, Ordering::Relaxed);
    }
}

/// Notes ten times a second how many statements wait for locks, and how long the oldest transaction has been open.
fn sample_locks(url: &str, seconds: u64) -> std::process::Child {
    query(
        url,
        "CREATE TABLE sample (waiting bigint, longest interval, held interval)",
    );
    let sql = format!(
        "DO $$ BEGIN FOR n IN 1..{} LOOP INSERT INTO sample \
         SELECT count(*) FILTER (WHERE wait_event_type = 'Lock'), \
                coalesce(max(clock_timestamp() - query_start) FILTER (WHERE wait_event_type = 'Lock'), '0'), \
                coalesce(max(clock_timestamp() - xact_start), '0') \
         FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid(); \
         COMMIT; PERFORM pg_sleep(0.1); END LOOP; END $$",
        seconds * 10
    );
    let mut client = Command::new("psql");
    client.args(["-X", "-q", "-c", &sql, url]);
    client.spawn().unwrap()
}

/// Prints what the server counted.
fn report(url: &str, scale: &Scale, tally: &Tally, elapsed: Duration) {
    let seconds = elapsed.as_secs_f64();
    let count = |what: &AtomicU64| what.load(Ordering::Relaxed);
    println!(
        "{} workers, {} runs, {seconds:.0} s: {} claims, {} rests, {} wakes, {} deleted; {} rounds, {} of them late",
        scale.workers,
        scale.runs,
        count(&tally.claimed),
        count(&tally.rested),
        count(&tally.woken),
        count(&tally.deleted),
        count(&tally.rounds),
        count(&tally.late),
    );
    let show = |title: &str, sql: &str| println!("{title}\n{}\n", query(url, sql));
    show(
        "statements per second, and the server's milliseconds per second for them",
        &format!(
            "SELECT round((sum(calls) / {seconds})::numeric, 1), round((sum(total_exec_time) / {seconds})::numeric, 1) \
             FROM pg_stat_statements WHERE query NOT LIKE 'DO %'"
        ),
    );
    show(
        "calls, mean ms, rows, statement",
        "SELECT calls, round(mean_exec_time::numeric, 3), rows, left(regexp_replace(query, '\\s+', ' ', 'g'), 110) \
         FROM pg_stat_statements WHERE query NOT LIKE 'DO %' ORDER BY total_exec_time DESC LIMIT 16",
    );
    show(
        "samples, mean and largest number of statements that wait for a lock, the longest wait, the longest transaction; \
         deadlocks",
        "SELECT count(*), round(avg(waiting), 3), max(waiting), max(longest), max(held), \
         (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()) FROM sample",
    );
    show(
        "table, live rows, dead rows, updates, of these in place, vacuums, bytes with indexes",
        "SELECT relname, n_live_tup, n_dead_tup, n_tup_upd, n_tup_hot_upd, autovacuum_count, pg_total_relation_size(relid) \
         FROM pg_stat_user_tables WHERE schemaname = 'strata' AND n_live_tup > 0 ORDER BY 7 DESC",
    );
}

/// Lets workers work for a time, and prints what the server counted. Returns the server, and how many runs were deleted;
/// `None` if PostgreSQL is not installed.
fn simulate(scale: &Scale) -> Option<(Server, u64)> {
    let options = ServerOptions {
        arguments: &[
            "-c",
            "shared_preload_libraries=pg_stat_statements",
            "-c",
            "shared_buffers=1GB",
            "-c",
            "autovacuum_naptime=10s",
        ],
        ..ServerOptions::default()
    };
    let server = Server::start_with(options)?;
    let url = server.url();
    let database = RunDatabase::parse(&url).unwrap();
    submit_template(&database);
    multiply(&url, scale.runs);
    if scale.has_old_runs {
        end_every_second(&url);
        let kept = Retention::parse("done=1m").unwrap();
        database.set_retention(&kept).unwrap();
    }
    let notified = Arc::new(Notify::new());
    let register = |_| SimulatedWorker {
        registration: database
            .register(&WorkerProfile::default(), &notified)
            .unwrap(),
        runs: VecDeque::new(),
    };
    let mut workers: Vec<SimulatedWorker> = (0..scale.workers).map(register).collect();
    let (tally, is_over) = (Tally::default(), AtomicBool::new(false));
    query(&url, "SELECT pg_stat_statements_reset()");
    let mut sampling = sample_locks(&url, scale.seconds);
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| wake(&database, scale, &tally, &is_over));
        let per_thread = scale.workers.div_ceil(THREADS);
        let threads = workers.chunks_mut(per_thread).map(|workers| {
            scope.spawn(|| {
                let mut next = Instant::now();
                while begun.elapsed().as_secs() < scale.seconds {
                    for worker in workers.iter_mut() {
                        worker.work_a_round(&database, &tally);
                    }
                    next += ROUND;
                    match next.checked_duration_since(Instant::now()) {
                        Some(time) => thread::sleep(time),
                        None => {
                            tally
                                .late
                                .fetch_add(workers.len() as u64, Ordering::Relaxed);
                            next = Instant::now();
                        }
                    }
                }
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let elapsed = begun.elapsed();
    sampling.wait().unwrap();
    report(&url, scale, &tally, elapsed);
    assert!(tally.rested.load(Ordering::Relaxed) > 0);
    drop(workers);
    Some((server, tally.deleted.into_inner()))
}

#[test]
#[ignore = "a measurement that takes minutes"]
fn statements_of_many_workers_and_runs() {
    simulate(&Scale::from_environment());
}

#[test]
#[ignore = "a measurement that takes minutes"]
fn old_runs_are_deleted_beside_many_workers_and_open_ones_never() {
    let scale = Scale {
        has_old_runs: true,
        ..Scale::from_environment()
    };
    let Some((server, deleted)) = simulate(&scale) else {
        return;
    };
    let count = |what: &str| -> u64 { query(&server.url(), what).trim().parse().unwrap() };
    let left = count("SELECT count(*) FROM strata.run");
    assert!(deleted > 0);
    assert_eq!(left + deleted, scale.runs);
    let open = "SELECT count(*) FROM strata.run WHERE substr(name, 5)::bigint % 2 = 0 \
                OR substr(name, 5)::bigint % 100 IN (51, 53)";
    assert_eq!(count(open), scale.runs / 2 + scale.runs / 50);
    // No lock is held beyond the end of its transaction.
    let late = format!(
        "SELECT count(*) FROM sample WHERE greatest(longest, held) >= interval '{} s'",
        HEARTBEAT.as_secs()
    );
    assert_eq!(count(&late), 0);
}
