//! Waits until runs have ended or need a person.

use std::thread::sleep;
use std::time::{Duration, Instant};

use strata_core::record::event::Status;
use strata_storage::{LifecycleState, RunFilter, StorageLocation};

use super::Patience;
use super::list::{FoundRun, list_runs};
use crate::launch::LaunchError;

/// How often it is looked at whether runs have ended.
const INTERVAL: Duration = Duration::from_millis(250);
/// How many times as long as the last look took is waited at least.
const LIST_TIMES: u32 = 4;

/// For which of several runs is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// All of them.
    All,
    /// The first that ends.
    Any,
}

/// A run for which nothing is waited any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAtRest {
    /// The run.
    pub run: FoundRun,
    /// Why it rests.
    pub rest: RestCause,
}

/// Why a run rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestCause {
    /// It ended, or waits for a person, with this status.
    Status(Status),
    /// Workers do not take it, for this reason.
    Refused(String),
    /// What is saved of it cannot be read, for this reason.
    Unreadable(String),
}

/// The outcome of waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The runs that rest, in the order in which they were found to.
    pub rested: Vec<RunAtRest>,
    /// Whether the time was over before all was waited for.
    pub is_time_over: bool,
}

/// Waits until the runs at these places have ended, need a person, or are refused by workers; at most for a time.
/// `on_rest` is called once for each of them. A database that is away is waited for.
///
/// # Errors
/// Fails if a place cannot be read, or has no run.
pub fn wait_for_runs(
    places: &[StorageLocation],
    wait_for: WaitFor,
    timeout: Option<Duration>,
    on_rest: &mut dyn FnMut(&RunAtRest),
) -> Result<Waited, LaunchError> {
    let (begun, mut patience) = (Instant::now(), Patience::default());
    let mut rested: Vec<RunAtRest> = Vec::new();
    loop {
        let asked = Instant::now();
        let listed = list_runs(places, &RunFilter::default());
        let list_time = asked.elapsed();
        if let Some(runs) = patience.accept(listed)? {
            if runs.is_empty() {
                let text = "there is no run to wait for";
                return Err(LaunchError::InvalidInput(text.into()));
            }
            let count = runs.len();
            for run in runs {
                let location = &run.listing.location;
                let is_known = |one: &RunAtRest| one.run.listing.location == *location;
                if !rested.iter().any(is_known)
                    && let Some(rest) = rest_of(&run)
                {
                    let one = RunAtRest { run, rest };
                    on_rest(&one);
                    rested.push(one);
                }
            }
            let is_done = match wait_for {
                WaitFor::All => rested.len() >= count,
                WaitFor::Any => !rested.is_empty(),
            };
            if is_done {
                return Ok(Waited {
                    rested,
                    is_time_over: false,
                });
            }
        }
        if timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
            return Ok(Waited {
                rested,
                is_time_over: true,
            });
        }
        // A database with many runs has other things to do than to list them.
        sleep(INTERVAL.max(LIST_TIMES * list_time));
    }
}

/// Returns why a run rests, if nobody goes on with it by himself.
fn rest_of(run: &FoundRun) -> Option<RestCause> {
    if let Some(damage) = &run.damage {
        return Some(RestCause::Unreadable(damage.clone()));
    }
    let status = run.listing.overview.as_ref()?.status;
    let queued = run.listing.queued.as_ref();
    match run.listing.state {
        LifecycleState::Running | LifecycleState::Queued => None,
        LifecycleState::Refused => {
            let problem = queued.and_then(|queued| queued.problem.clone());
            Some(RestCause::Refused(problem.unwrap_or_default()))
        }
        // A server takes it again by itself after a failure.
        LifecycleState::Resting if queued.is_some() && status == Status::Running => None,
        LifecycleState::Resting if queued.is_some() && status == Status::Interrupted => None,
        LifecycleState::Resting | LifecycleState::Ended | LifecycleState::Detached => {
            Some(RestCause::Status(status))
        }
    }
}
