//! What many runs are doing, in numbers: for dashboards and alerts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use strata_base::clock::now_ms;

use super::listing::RunListing;
use super::overview::LifecycleState;

/// What the runs at a location are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStatistics {
    /// The runs that a worker may take, by the labels that it needs. Of many combinations, those with the most runs.
    pub ready: Vec<ReadyRuns>,
    /// How many runs there are, by the name of their status.
    pub by_status: BTreeMap<String, u64>,
    /// How many runs workers could not run.
    pub refused: u64,
    /// How many questions wait for a person.
    pub open_requests: u64,
    /// How many milliseconds ago the run changed last that has waited longest for a person.
    pub oldest_request_ms: Option<i64>,
}

/// Runs that a worker with some labels may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyRuns {
    /// The labels.
    pub labels: Vec<String>,
    /// How many there are.
    pub runs: u64,
    /// For how many milliseconds the first of them has been ready.
    pub oldest_ms: i64,
}

impl RunStatistics {
    /// Returns what these runs are doing.
    pub fn of<L>(runs: &[RunListing<L>]) -> Self {
        let mut statistics = Self::default();
        let mut ready: BTreeMap<Vec<String>, (u64, i64)> = BTreeMap::new();
        let now = now_ms();
        let age_of = |time_ms: i64| now.saturating_sub(time_ms).max(0);
        for run in runs {
            let status = run.status_name().unwrap_or(UNKNOWN_STATUS);
            *statistics.by_status.entry(status.into()).or_default() += 1;
            statistics.refused += u64::from(run.state == LifecycleState::Refused);
            let age = run.changed_ms.map(age_of);
            if run.state == LifecycleState::Queued {
                let labels = run.queued.as_ref().map(|queued| queued.needs.clone());
                let (runs, oldest_ms) = ready.entry(labels.unwrap_or_default()).or_default();
                *runs += 1;
                *oldest_ms = age.unwrap_or(0).max(*oldest_ms);
            }
            let requests = run
                .overview
                .as_ref()
                .map_or(0, |overview| overview.requests);
            statistics.open_requests += requests;
            if requests > 0 {
                statistics.oldest_request_ms = statistics.oldest_request_ms.max(age);
            }
        }
        let ready = ready.into_iter();
        let ready = ready.map(|(labels, (runs, oldest_ms))| ReadyRuns {
            labels,
            runs,
            oldest_ms,
        });
        statistics.ready = ready.collect();
        statistics.ready.sort_by_key(|ready| Reverse(ready.runs));
        statistics.ready.truncate(MAX_LABELS);
        statistics
    }
}

/// The maximum number of combinations of labels. Whoever submits runs chooses them.
pub const MAX_LABELS: usize = 50;

/// The name of a status that is known only once the state is read.
pub const UNKNOWN_STATUS: &str = "unknown";
