//! The metrics of a process that runs teams for others: what it does itself, and what all runs of its databases are doing.
//! A worker serves their text, and so can any other program that runs teams.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use strata_base::clock::stopwatch;
use strata_driver::metrics::{FleetMetrics, MetricsWriter};
use strata_storage::{LEASE_TIME, RegistrationHealth, RunStatistics, StorageLocation};

/// How often the databases are asked at most.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// For how long what a database said is served if it does not answer any more.
const MAX_AGE: Duration = Duration::from_secs(30);

/// The metrics of a process.
#[derive(Debug)]
pub struct ProcessMetrics {
    /// The databases, as they are shown and where they are.
    places: Vec<(String, StorageLocation)>,
    /// How many runs it runs at the same time.
    room: usize,
    fleet: Arc<FleetMetrics>,
    counts: Mutex<WorkCounts>,
    /// What the databases said last, and when.
    statistics: Mutex<BTreeMap<usize, (Instant, RunStatistics)>>,
    /// When the databases were asked last. It is locked while they are.
    last_refresh: Mutex<Option<Instant>>,
}

/// Why a run could not be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalReason {
    /// The team would use what its operator has not allowed.
    Grants,
    /// The team file or a component is wrong, or does not fit what is saved.
    Team,
    /// What is stored of the run is damaged or lost.
    Storage,
    /// This machine could not run it.
    Machine,
}

impl RefusalReason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Grants, Self::Team, Self::Storage, Self::Machine];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grants => "grants",
            Self::Team => "team",
            Self::Storage => "storage",
            Self::Machine => "machine",
        }
    }
}

/// What a process did and does.
#[derive(Debug, Default)]
struct WorkCounts {
    runs: usize,
    claims: u64,
    takeovers: u64,
    lost: u64,
    deleted: u64,
    is_draining: bool,
    refusals: BTreeMap<RefusalReason, u64>,
    /// By the number of the database.
    registrations: BTreeMap<usize, RegistrationHealth>,
}

impl ProcessMetrics {
    /// Returns the metrics of a process that runs at most `room` runs of these places at a time.
    ///
    /// ```
    /// use strata_host::operate::ProcessMetrics;
    ///
    /// let metrics = ProcessMetrics::new(&["sqlite:runs.db".into()], 8);
    /// metrics.refresh();
    /// assert!(metrics.to_text().contains("strata_worker_room 8"));
    /// ```
    pub fn new(places: &[StorageLocation], room: usize) -> Self {
        let places = places
            .iter()
            .map(|place| (place.to_string(), place.clone()));
        Self {
            places: places.collect(),
            room,
            fleet: Arc::default(),
            counts: Mutex::default(),
            statistics: Mutex::default(),
            last_refresh: Mutex::default(),
        }
    }

    /// Returns where it is counted what runs do.
    pub fn fleet(&self) -> &Arc<FleetMetrics> {
        &self.fleet
    }

    /// Notes how many runs are in progress.
    pub fn set_runs(&self, runs: usize) {
        self.counts().runs = runs;
    }

    /// Counts a run that was taken.
    pub fn add_claim(&self) {
        self.counts().claims += 1;
    }

    /// Counts processes that turned out to be dead, whose runs became available.
    pub fn add_takeovers(&self, dead: usize) {
        self.counts().takeovers += dead as u64;
    }

    /// Counts a run that was given up because its storage failed or another process took it over.
    pub fn add_lost(&self) {
        self.counts().lost += 1;
    }

    /// Counts a run that could not be run.
    pub fn add_refusal(&self, reason: RefusalReason) {
        *self.counts().refusals.entry(reason).or_default() += 1;
    }

    /// Counts runs that were deleted because they are kept no longer.
    pub fn add_deleted(&self, runs: u64) {
        self.counts().deleted += runs;
    }

    /// Notes that nothing more is taken.
    pub fn set_draining(&self) {
        self.counts().is_draining = true;
    }

    /// Notes how well the database of this number is reached from now on.
    pub fn set_registration(&self, database: usize, health: RegistrationHealth) {
        self.counts().registrations.insert(database, health);
    }

    /// Fails with the reason if the process takes no runs now.
    pub fn check_ready(&self) -> Result<(), String> {
        let counts = self.counts();
        if counts.is_draining {
            return Err("nothing more is taken".into());
        }
        for (number, (name, _)) in self.places.iter().enumerate() {
            let age = counts.registrations.get(&number);
            match age.map(RegistrationHealth::heartbeat_age) {
                None => return Err(format!("`{name}` has not been reached yet")),
                Some(None) => return Err(format!("others took this worker of `{name}` for dead")),
                Some(Some(age)) if age > LEASE_TIME => {
                    return Err(format!("`{name}` has not answered for {} s", age.as_secs()));
                }
                Some(Some(_)) => {}
            }
        }
        Ok(())
    }

    /// Asks the databases what their runs are doing, and waits for the answers, unless that was done a moment ago or
    /// another thread is doing it.
    pub fn refresh(&self) {
        let Ok(mut last_refresh) = self.last_refresh.try_lock() else {
            return;
        };
        if last_refresh.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL) {
            return;
        }
        for (number, (name, place)) in self.places.iter().enumerate() {
            match place.statistics() {
                Ok(statistics) => {
                    self.statistics().insert(number, (stopwatch(), statistics));
                }
                Err(error) => tracing::debug!("metrics lack `{name}`: {error}"),
            }
        }
        *last_refresh = Some(stopwatch());
    }

    /// Returns all metrics in the text format of Prometheus, with what the databases said at the last refresh. Waits for
    /// nothing.
    pub fn to_text(&self) -> String {
        self.to_writer().into_text()
    }

    /// Writes what `to_text` returns, to which more can be added.
    pub fn to_writer(&self) -> MetricsWriter {
        let mut out = MetricsWriter::default();
        self.write_work(&mut out);
        self.fleet.write(&mut out);
        self.write_statistics(&mut out);
        out
    }

    fn counts(&self) -> MutexGuard<'_, WorkCounts> {
        // Numbers have no invariant that a panic could have broken.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn statistics(&self) -> MutexGuard<'_, BTreeMap<usize, (Instant, RunStatistics)>> {
        // Each change is a single insertion.
        self.statistics
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write_work(&self, out: &mut MetricsWriter) {
        let counts = self.counts();
        let mut single = |name: &str, kind: &str, help: &str, value: u64| {
            out.family(name, kind, help);
            out.sample(name, &[], value);
        };
        single(
            "strata_worker_room",
            "gauge",
            "Runs at a time, at most.",
            self.room as u64,
        );
        single(
            "strata_worker_runs",
            "gauge",
            "Runs in progress.",
            counts.runs as u64,
        );
        single(
            "strata_worker_draining",
            "gauge",
            "1 if nothing more is taken.",
            u64::from(counts.is_draining),
        );
        single(
            "strata_worker_claims_total",
            "counter",
            "Runs taken.",
            counts.claims,
        );
        let what = "Dead processes whose runs became available.";
        single(
            "strata_worker_takeovers_total",
            "counter",
            what,
            counts.takeovers,
        );
        let what = "Runs given up because their storage failed or another process took them over.";
        single(
            "strata_worker_lost_runs_total",
            "counter",
            what,
            counts.lost,
        );
        let what = "Runs deleted because they are kept no longer.";
        single(
            "strata_worker_deleted_runs_total",
            "counter",
            what,
            counts.deleted,
        );
        write_refusals(&counts.refusals, out);
        let registrations = counts.registrations.iter();
        let registrations = registrations
            .filter_map(|(number, health)| Some((self.places.get(*number)?.0.as_str(), health)));
        write_registrations(&registrations.collect::<Vec<_>>(), out);
    }

    fn write_statistics(&self, out: &mut MetricsWriter) {
        let statistics = self.statistics();
        let known = |number: usize| {
            let (at, statistics) = statistics.get(&number)?;
            (at.elapsed() < MAX_AGE).then_some(statistics)
        };
        let places = self.places.iter().enumerate();
        let places: Vec<(&str, Option<&RunStatistics>)> = places
            .map(|(number, (name, _))| (name.as_str(), known(number)))
            .collect();
        write_statistics(&places, out);
    }
}

fn write_refusals(refusals: &BTreeMap<RefusalReason, u64>, out: &mut MetricsWriter) {
    let name = "strata_worker_refusals_total";
    out.family(name, "counter", "Runs that could not be run, by reason.");
    // Those that have not happened, too: only from zero on can the first one be seen as an increase.
    for reason in RefusalReason::ALL {
        let count = refusals.get(&reason).copied().unwrap_or_default();
        out.sample(name, &[("reason", reason.name())], count);
    }
}

/// Writes how well each database is reached.
fn write_registrations(registrations: &[(&str, &RegistrationHealth)], out: &mut MetricsWriter) {
    let name = "strata_heartbeat_age_seconds";
    let what = "Seconds since the last heartbeat that the database answered.";
    out.family(name, "gauge", what);
    for (place, health) in registrations {
        // After others took the worker for dead, none counts.
        let age = health.heartbeat_age();
        let age = age.map_or_else(|| "+Inf".into(), |age| age.as_secs_f64().to_string());
        out.sample(name, &[("database", place)], age);
    }
    let name = "strata_reconnects_total";
    let what = "How often the database was connected to again.";
    out.family(name, "counter", what);
    for (place, health) in registrations {
        out.sample(name, &[("database", place)], health.reconnections());
    }
}

/// Writes what the runs of each place are doing.
fn write_statistics(places: &[(&str, Option<&RunStatistics>)], out: &mut MetricsWriter) {
    let name = "strata_database_up";
    out.family(name, "gauge", "1 if the database answers.");
    for (place, statistics) in places {
        out.sample(name, &[("database", place)], u8::from(statistics.is_some()));
    }
    let known: Vec<(&str, &RunStatistics)> = places
        .iter()
        .filter_map(|(place, statistics)| Some((*place, (*statistics)?)))
        .collect();
    let name = "strata_ready_runs";
    out.family(
        name,
        "gauge",
        "Runs that a worker may take, by the labels that it needs.",
    );
    for (place, statistics) in &known {
        if statistics.ready.is_empty() {
            out.sample(name, &[("database", place), ("labels", "")], 0);
        }
        for ready in &statistics.ready {
            let labels = ready.labels.join(",");
            out.sample(
                name,
                &[("database", place), ("labels", &labels)],
                ready.runs,
            );
        }
    }
    let name = "strata_ready_oldest_seconds";
    out.family(
        name,
        "gauge",
        "For how long the first of these runs has been ready.",
    );
    for (place, statistics) in &known {
        for ready in &statistics.ready {
            let labels = ready.labels.join(",");
            out.sample(
                name,
                &[("database", place), ("labels", &labels)],
                seconds(ready.oldest_ms),
            );
        }
    }
    write_states(&known, out);
}

/// Writes how many runs there are of which kind.
fn write_states(known: &[(&str, &RunStatistics)], out: &mut MetricsWriter) {
    let name = "strata_runs";
    out.family(name, "gauge", "Runs by status.");
    for (place, statistics) in known {
        for (status, count) in &statistics.by_status {
            out.sample(name, &[("database", place), ("status", status)], count);
        }
    }
    let name = "strata_refused_runs";
    out.family(
        name,
        "gauge",
        "Runs that workers could not run and take no more.",
    );
    for (place, statistics) in known {
        out.sample(name, &[("database", place)], statistics.refused);
    }
    let name = "strata_requests_open";
    out.family(name, "gauge", "Questions that wait for a person.");
    for (place, statistics) in known {
        out.sample(name, &[("database", place)], statistics.open_requests);
    }
    let name = "strata_requests_oldest_seconds";
    out.family(
        name,
        "gauge",
        "How long ago the run changed that has waited longest for a person.",
    );
    for (place, statistics) in known {
        let age = statistics.oldest_request_ms.unwrap_or(0);
        out.sample(name, &[("database", place)], seconds(age));
    }
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use strata_storage::ReadyRuns;

    use super::*;

    #[test]
    fn what_is_ready_is_written_by_label_and_a_database_that_is_away_as_down() {
        let statistics = RunStatistics {
            ready: vec![ReadyRuns {
                labels: vec!["gpu".into(), "big".into()],
                runs: 3,
                oldest_ms: 1500,
            }],
            by_status: BTreeMap::from([("done".into(), 7)]),
            refused: 1,
            open_requests: 2,
            oldest_request_ms: Some(60_000),
        };
        let mut out = MetricsWriter::default();
        write_statistics(&[("one", Some(&statistics)), ("two", None)], &mut out);
        let text = out.into_text();
        for line in [
            "strata_database_up{database=\"one\"} 1",
            "strata_database_up{database=\"two\"} 0",
            "strata_ready_runs{database=\"one\",labels=\"gpu,big\"} 3",
            "strata_ready_oldest_seconds{database=\"one\",labels=\"gpu,big\"} 1.5",
            "strata_runs{database=\"one\",status=\"done\"} 7",
            "strata_refused_runs{database=\"one\"} 1",
            "strata_requests_open{database=\"one\"} 2",
            "strata_requests_oldest_seconds{database=\"one\"} 60",
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "{line}\n{text}"
            );
        }
        assert!(!text.contains("strata_runs{database=\"two\""), "{text}");
    }

    #[test]
    fn a_process_is_ready_once_its_databases_answer_and_until_it_drains() {
        let metrics = ProcessMetrics::new(&["postgres://host/teams".into()], 1);
        assert!(
            metrics
                .check_ready()
                .unwrap_err()
                .contains("not been reached")
        );
        let nothing = ProcessMetrics::new(&[], 1);
        assert_eq!(nothing.check_ready(), Ok(()));
        nothing.set_draining();
        assert!(nothing.check_ready().is_err());
    }
}
