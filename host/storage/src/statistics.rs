//! What many runs are doing, in numbers: for dashboards and alerts.

use std::collections::BTreeMap;

use strata_base::clock::now_ms;

use super::error::StoreError;
use super::listing::RunFilter;
use super::location::{Place, StorageLocation};
#[cfg(not(feature = "postgres"))]
use super::no_database as database;
use super::overview::LifecycleState;
#[cfg(feature = "postgres")]
use super::postgres as database;

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

/// Returns what the runs at a location are doing, whether or not the location names one of them.
///
/// # Errors
/// Fails if the directory or the database cannot be read.
pub fn run_statistics(location: &StorageLocation) -> Result<RunStatistics, StoreError> {
    if let Place::Database(url) = location.place()? {
        return database::read_statistics(url);
    }
    let mut statistics = RunStatistics::default();
    let now = now_ms();
    for run in location.list_overviews(&RunFilter::default())? {
        let status = run.status_name().unwrap_or(UNKNOWN_STATUS);
        *statistics.by_status.entry(status.into()).or_default() += 1;
        statistics.refused += u64::from(run.state == LifecycleState::Refused);
        let requests = run
            .overview
            .as_ref()
            .map_or(0, |overview| overview.requests);
        statistics.open_requests += requests;
        if requests > 0
            && let Some(changed) = run.changed_ms
        {
            let age = Some(now.saturating_sub(changed).max(0));
            statistics.oldest_request_ms = statistics.oldest_request_ms.max(age);
        }
    }
    Ok(statistics)
}

/// The name of a status that is known only once the state is read.
pub(super) const UNKNOWN_STATUS: &str = "unknown";
